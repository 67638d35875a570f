"""What a sealed store answers when bytes are durable: a receipt that names exactly these bytes.

The pure rooms ask for it before they license an effect (PM-4), and the sealed room alone gives it.
Deliberately not here: how bytes become durable.
"""

from typing import Protocol

import msgspec
from blake3 import blake3

from amends.contracts.worker_identity import Fingerprint


class PersistReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """One durable, anchored write. `revision` counts writes of this name, from 1.

    `digest` is `content_digest` of the plain payload; `fence` is the one that wrote it.
    """

    namespace: str
    name: str
    revision: int
    digest: Fingerprint
    fence: int


class DurableRecord(Protocol):
    """One opening of one sealed record, as host and worker use it; `sealed.vault.Vault` is one."""

    @property
    def payload(self) -> bytes:
        """What is durable."""
        ...

    @property
    def revision(self) -> int:
        """How often the record was written."""
        ...

    @property
    def fence(self) -> int:
        """The fence of this opening."""
        ...

    @property
    def receipt(self) -> PersistReceipt:
        """The receipt of what is durable."""
        ...

    def save(self, payload: bytes) -> PersistReceipt:
        """Make this the record; durable and anchored when it returns.

        Waits for the disk. Whatever it raises, this opening saves nothing more.
        """
        ...


def content_digest(payload: bytes) -> Fingerprint:
    """BLAKE3 of bytes that are stored, in lower-case hex."""
    return Fingerprint(blake3(payload).hexdigest())
