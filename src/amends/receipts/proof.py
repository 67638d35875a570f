"""Proofs in a file: that receipts of one transaction are in a store's log, for whoever kept a
checkpoint of it (RC-3).

One line of JSON, as `amends prove --out` writes it: the hashes of the receipts that are proved, the
paths from them to checkpoints, and from each checkpoint to the next. There are no receipts in it;
whoever has them compares their hashes. Like a bundle it brings the store's public keys, which show
only that it agrees with itself, and the reader takes nothing that the writer would not have made.

Pure: bytes in, findings out. Deliberately not here: how paths are followed (`log`).
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from amends.contracts.errors import Corrupt
from amends.contracts.evidence import Tail
from amends.contracts.ids import TenantId, TransactionId
from amends.receipts.audit import CheckedLog, Heads, checked_log
from amends.receipts.bundle import Inclusion, Published
from amends.receipts.checkpoint import Note
from amends.receipts.keyset import Jwk, key_of
from amends.receipts.log import follow_paths, open_books, read_published, unproven
from amends.receipts.signing import KeyRing

PROOF_FORMAT: Final = "amends-proof-1"
PROOF_BEGINS: Final = b'{"format":"amends-proof-'
"""How a proof is told from a bundle, of whatever version."""

LARGEST_PROOF: Final = 16 * 1024 * 1024


class HeadFault(StrEnum):
    """What can be wrong with the end of a chain that somebody kept, beside a proof."""

    UNMATCHED = "bundle.head_unmatched"
    DIFFERS = "receipt.fork"
    UNCOVERED = "proof.head_uncovered"


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """What shows that receipts of one transaction are in a log: their hashes by number, paths, and
    checkpoints, the earliest first.
    """

    format: str
    store: str
    keys: tuple[Jwk, ...]
    tenant: TenantId
    transaction_id: TransactionId
    receipts: tuple[Tail, ...]
    checkpoints: tuple[Published, ...]
    inclusions: tuple[Inclusion, ...]

    @property
    def hashes(self) -> Mapping[int, str]:
        """The hash of each receipt that is proved, by its number."""
        return {one.number: one.hash for one in self.receipts}


class CheckedProof(msgspec.Struct, frozen=True, kw_only=True):
    """What a proof came to: the checkpoints that hold, and what was found of them and of heads."""

    log: CheckedLog
    heads: tuple[HeadFault, ...]


def write_proof(proof: Proof) -> bytes:
    """The proof as it is handed over."""
    return msgspec.json.encode(proof) + b"\n"


def read_proof(raw: bytes) -> Proof:
    """A proof that somebody handed over.

    Raises `Corrupt` (`proof.malformed`, `proof.unknown_format`).
    """
    try:
        proof = _PROOF.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise _malformed() from None
    if proof.format != PROOF_FORMAT:
        raise Corrupt(
            "proof.unknown_format",
            "This proof has a format that this version does not know.",
            next_step="Check it with the version that wrote it, or have it made anew.",
        )
    proved = {one.number for one in proof.inclusions}
    if write_proof(proof) != raw or not proved or proved != proof.hashes.keys():
        raise _malformed()
    return proof


def keys_of(proof: Proof) -> KeyRing:
    """The keys that came with it. Raises `Corrupt` (`proof.malformed`)."""
    try:
        return KeyRing(map(key_of, proof.keys))
    except Corrupt:
        raise _malformed() from None


def check_proof(proof: Proof, keys: KeyRing, heads: Heads, kept: Sequence[Note]) -> CheckedProof:
    """Follow every path, and hold the proof against heads and checkpoints that somebody kept.

    Raises `Corrupt` (`checkpoint.malformed`).
    """
    came = read_published(proof.checkpoints)
    books = open_books(proof.store, came, kept, keys)
    _, lost = follow_paths(proof.inclusions, proof.hashes, books)
    findings = [*books.findings, *lost, *unproven(books, came, kept)]
    found = [_of_head(proof, name, head) for name, head in heads.items()]
    return CheckedProof(
        log=checked_log(books, findings), heads=tuple([one for one in found if one is not None])
    )


def _of_head(proof: Proof, transaction_id: TransactionId, head: Tail) -> HeadFault | None:
    if transaction_id != proof.transaction_id:
        return HeadFault.UNMATCHED
    proved = proof.hashes.get(head.number)
    if proved is None:
        return HeadFault.UNCOVERED
    return None if proved == head.hash else HeadFault.DIFFERS


def _malformed() -> Corrupt:
    return Corrupt(
        "proof.malformed",
        "The proof is not as amends prove writes it.",
        next_step="Take nothing from it; have it made anew with amends prove --out.",
    )


_PROOF: Final = msgspec.json.Decoder(Proof)
