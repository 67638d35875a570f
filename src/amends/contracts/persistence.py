"""What a sealed store answers when bytes are durable: a receipt that names exactly these bytes.

The pure rooms ask for it before they license an effect (PM-4), and the sealed room alone gives it.
Deliberately not here: how bytes become durable.
"""

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


def content_digest(payload: bytes) -> Fingerprint:
    """BLAKE3 of bytes that are stored, in lower-case hex."""
    return Fingerprint(blake3(payload).hexdigest())
