"""Chaining: what one receipt commits to, and how steps become the next links (RC-1, RC-2).

A receipt's hash is SHA-256 over the tag, a line feed and the RFC 8785 form of the receipt. Left out
are `hash`, `key_id` and `signature`, and every member that is null or an empty object: a later
version may add members without touching the hashes of receipts that do not have them.

One link per step, and nothing but hashes, ids, actors, times and codes in it (RC-4). A `Step` has
no place for an input; the two places that take free text are held to their alphabets here.

Deliberately not here: the compare-and-set on the tail, which is the store's, and keys.
"""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from amends.contracts.canonical import record_digest
from amends.contracts.errors import Misuse
from amends.contracts.evidence import Receipt, Step, Tail
from amends.contracts.ids import TransactionId
from amends.contracts.times import require_instant
from amends.receipts.signing import Signer, signed_bytes

RECEIPT_TAG: Final = "amends-receipt-v1"
CHAIN_PREFIX: Final = "transaction:"
GENESIS: Final = "0" * 64
"""The `previous` of a chain's first receipt."""

CODE_WITHHELD: Final = "code.withheld"
"""Stands for a provider's code that is no code but a text."""

_CODE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_HASH_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")


def chain_of(transaction_id: TransactionId) -> str:
    """The chain on which every receipt of a transaction stands."""
    return CHAIN_PREFIX + transaction_id


def receipt_hash(receipt: Receipt) -> str:
    """What `hash` must be, in lower-case hex, given everything else in the receipt."""
    covered = _Covered(receipt.chain, receipt.number, receipt.previous, receipt.step)
    return record_digest(RECEIPT_TAG, covered)


def seal(tail: Tail | None, steps: Sequence[Step], signer: Signer | None) -> tuple[Receipt, ...]:
    """The next receipts of a transaction's chain, one for each step, after `tail`.

    Only the last one is signed: its hash commits to all before it. Times are brought to UTC, and a
    code that is not made of letters, digits and `_.:-` is withheld. Durable only once appended.

    Raises `Misuse` (`misuse.receipt_steps_mixed`, `misuse.receipt_hashes`), and `Refused`
    (`input.invalid_time`) for a naive time.
    """
    if not steps:
        return ()
    _require_one_transaction(steps)
    chain = chain_of(steps[0].transaction_id)
    number, previous = (tail.number, tail.hash) if tail else (0, GENESIS)
    receipts: list[Receipt] = []
    for step in map(_admitted, steps):
        number += 1
        digest = _hash_of(chain, number, previous, step)
        receipts.append(
            Receipt(chain=chain, number=number, previous=previous, hash=digest, step=step)
        )
        previous = digest
    if signer is not None:
        receipts[-1] = _signed(receipts[-1], signer)
    return tuple(receipts)


class _Covered(msgspec.Struct, frozen=True, gc=False):
    """What a hash covers. Steps leave their defaults out, so absent members need no removing."""

    chain: str
    number: int
    previous: str
    step: Step


def _hash_of(chain: str, number: int, previous: str, step: Step) -> str:
    return record_digest(RECEIPT_TAG, _Covered(chain, number, previous, step))


def _signed(receipt: Receipt, signer: Signer) -> Receipt:
    held = signer.held()
    signature = held.sign(signed_bytes(receipt.hash)).hex()
    return msgspec.structs.replace(receipt, key_id=held.key_id, signature=signature)


def _admitted(step: Step) -> Step:
    """The step as a receipt may hold it (RC-4)."""
    for name, digest in step.hashes.items():
        if not (_HASH_NAME.fullmatch(name) and _HASH.fullmatch(digest)):
            raise Misuse(
                "misuse.receipt_hashes",
                "A step's hashes hold something that is no SHA-256 in lower-case hex.",
                next_step="Put only digests there, under lower-case names.",
            )
    at = require_instant(step.at, "at")
    code = step.code if step.code is None or _CODE.fullmatch(step.code) else CODE_WITHHELD
    if at is step.at and code is step.code:
        return step
    return msgspec.structs.replace(step, at=at, code=code)


def _require_one_transaction(steps: Sequence[Step]) -> None:
    for step in steps[1:]:
        if step.transaction_id != steps[0].transaction_id or step.tenant != steps[0].tenant:
            raise Misuse(
                "misuse.receipt_steps_mixed",
                "Steps of several transactions cannot stand on one chain.",
                next_step="Seal the steps of each transaction on their own.",
            )
