"""The two versions of the protocol, and how a bootstrap pins one of them (FR-3, FR-4).

The byte in the bootstrap decides. There is no negotiation, no fall-back on silence, and one key
serves one version: a session of version 6 offers nothing else in its greeting.
"""

from enum import IntEnum, StrEnum
from typing import Final


class Version(IntEnum):
    """`LINES` is JSON in lines with a keyed hash; `SEALED` is length-prefixed AEAD records."""

    LINES = 5
    SEALED = 6


class Role(StrEnum):
    """The two sides. The name is part of what version 5 authenticates."""

    HOST = "host"
    WORKER = "worker"

    @property
    def other(self) -> "Role":
        """The peer's role."""
        return Role.WORKER if self is Role.HOST else Role.HOST


MAX_FRAME: Final = 1024 * 1024
"""The longest frame of either version, without its line feed or header."""
