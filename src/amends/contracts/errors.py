"""The one error root and its families.

A family says what the caller must do next; a stable dotted code says why. The core knows no HTTP
status and no exit code: edges map families to those. Messages and details never carry input values
or secrets. Deliberately not here: the list of codes (`codes.py`).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Final

from amends.contracts.json_types import Json

_NO_DETAILS: Final[Mapping[str, Json]] = MappingProxyType({})


class AmendsError(Exception):
    """Root of every error that Amends raises on purpose.

    `code` is stable and dotted, `details` holds ids, statuses and times (never values of the
    input), and `next_step` tells the reader in one sentence what can be done now.
    """

    family: ClassVar[str] = "error"

    def __init__(
        self,
        code: str,
        message: str,
        *,
        details: Mapping[str, Json] | None = None,
        next_step: str = "",
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.details: Mapping[str, Json] = (
            MappingProxyType(dict(details)) if details else _NO_DETAILS
        )
        self.next_step = next_step

    def __str__(self) -> str:
        """One line a person can act on: code, what happened, what to do."""
        hint = f" {self.next_step}" if self.next_step else ""
        return f"[{self.code}] {self.message}{hint}"


class Refused(AmendsError):
    """A gate or rule said no. Nothing was changed; change the request, or ask someone else."""

    family = "refused"


class Conflict(AmendsError):
    """Somebody else holds or changed the thing. Read it again, then decide."""

    family = "conflict"


class OutcomeUnknown(AmendsError):
    """The effect may have happened. Never repeat it: reconcile."""

    family = "outcome_unknown"


class ProviderFailed(AmendsError):
    """The provider gave a definite failure."""

    family = "provider_failed"


class PeerViolation(AmendsError):
    """The other side of a channel broke its rules."""

    family = "peer_violation"


class Unavailable(AmendsError):
    """Something Amends depends on cannot be reached or trusted just now."""

    family = "unavailable"


class Corrupt(AmendsError):
    """Stored bytes are not what was written."""

    family = "corrupt"


class Misuse(AmendsError):
    """The program uses the library wrongly; no input can mend that."""

    family = "misuse"


FAMILIES: Final[Mapping[str, type[AmendsError]]] = MappingProxyType(
    {
        kind.family: kind
        for kind in (
            Refused,
            Conflict,
            OutcomeUnknown,
            ProviderFailed,
            PeerViolation,
            Unavailable,
            Corrupt,
            Misuse,
        )
    }
)
