"""Where the demonstration plays: who acts, on which database, with which provider, how long.

Everything a second process needs travels in `Stage`, which is plain data.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from amends import Principal, Settings
from amends.cli.demo import stripe_calls
from amends.cli.demo.provider import API_KEY
from amends.contracts.errors import Unavailable
from amends.contracts.principals import APPROVE_SCOPE

if TYPE_CHECKING:
    import stripe

ALICE: Final = Principal.named("alice")
BOB: Final = Principal.named("bob", scopes=[APPROVE_SCOPE])

GRACE_MS: Final = 1_000
POLL_S: Final = 0.1
CALL_TIMEOUT_S: Final = 4.0
"""Less than the capability's time limit: a call that hangs ends by itself first."""

PATIENCE_S: Final = 120.0
"""How long the whole demonstration may take on a slow machine."""


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """What all processes of one demonstration share. `folder` holds all its files."""

    folder: str
    provider_address: str

    def file(self, name: str) -> Path:
        """A file of the demonstration."""
        return Path(self.folder, name)

    @property
    def database(self) -> Path:
        """The database file; the key that signs its receipts lies beside it."""
        return self.file("amends.db")

    @property
    def url(self) -> str:
        """The database as a store URL."""
        return f"sqlite:///{self.database}"

    def client(
        self, transport: "type[stripe.RequestsClient] | None" = None
    ) -> "stripe.StripeClient":
        """A new client of the provider."""
        return stripe_calls.connect(
            self.provider_address, API_KEY, timeout_s=CALL_TIMEOUT_S, transport=transport
        )


def settings(*, recover: bool) -> Settings:
    """Short waits, so that the demonstration is one; the defaults are longer."""
    return Settings(recover=recover, grace_ms=GRACE_MS, poll_s=POLL_S)


class Patience:
    """One deadline for everything that is waited for."""

    def __init__(self, seconds: float = PATIENCE_S) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        """How long may still be waited; at least a moment, so that a last look is possible."""
        return max(self._end - time.monotonic(), POLL_S)

    def check(self, awaited: str) -> None:
        """Pass while there is time left.

        Raises `Unavailable` (`demo.too_slow`), naming what was awaited.
        """
        if time.monotonic() >= self._end:
            raise Unavailable(
                "demo.too_slow",
                f"The demonstration took too long. It was waiting: {awaited}",
                next_step="Run it again when the machine is less busy.",
            )

    def until(self, holds: Callable[[], bool], *, awaited: str) -> None:
        """Look again and again until it holds. Raises as `check`."""
        while not holds():
            self.check(awaited)
            time.sleep(POLL_S / 4)
