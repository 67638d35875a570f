"""A channel that a peer broke, and what may still be sent on it (FR-6)."""

from typing import Final

from amends.contracts.codes import CODES, coded
from amends.contracts.errors import PeerViolation
from amends.contracts.json_types import Json


class ChannelBroken(PeerViolation):
    """The peer broke a rule of the channel, which is poisoned from here on.

    `farewell` is what to send before closing; most often nothing.
    """

    def __init__(
        self, code: str, details: dict[str, Json] | None = None, *, farewell: bytes = b""
    ) -> None:
        entry = CODES[code]
        super().__init__(code, entry.message, details=details, next_step=entry.next_step)
        self.farewell: Final = farewell


def poisoned() -> PeerViolation:
    """What every call on a poisoned session is answered with."""
    error = coded("channel.poisoned")
    assert isinstance(error, PeerViolation)
    return error
