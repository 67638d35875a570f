"""Checking what came from elsewhere: every chain of a bundle, its checkpoints, its seal (RC-3).

Each kind of fault is told once and by the name that says most: a seal that does not fit is told
only where nothing else explains it, and what a chain lacks at its end is not told twice.

Pure: no clock, no IO. Deliberately not here: a store that lies still, which is checked further
(`wiring.auditing`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias

import msgspec

from amends.contracts.evidence import Receipt, Tail
from amends.contracts.ids import TenantId, TransactionId
from amends.receipts.bundle import Bundle, ChainLine, SealFault
from amends.receipts.chain import CHAIN_PREFIX
from amends.receipts.checkpoint import LogFault, Note
from amends.receipts.log import (
    Books,
    LogFinding,
    check_paths,
    check_whole,
    in_order,
    leaf_or_none,
    open_books,
    pins_by_place,
    read_published,
    unproven,
)
from amends.receipts.merkle import Hash
from amends.receipts.signing import KeyRing
from amends.receipts.verify import Fault, FaultCode, Pin, verify_chain

Heads: TypeAlias = Mapping[TransactionId, Tail]
"""Ends of chains that somebody kept outside."""


class Finding(NamedTuple):
    """What is wrong, and where; `position` counts receipts from 0, `number` is the receipt's."""

    code: str
    position: int
    number: int | None


class CheckedChain(msgspec.Struct, frozen=True, kw_only=True):
    """One chain, with what was found. `head` is known only where nothing was."""

    tenant: TenantId
    transaction_id: TransactionId
    receipts: int
    head: Tail | None
    findings: tuple[Finding, ...]


class CheckedLog(msgspec.Struct, frozen=True, kw_only=True):
    """What the checkpoints say: those that hold, by size with their times, and what was found."""

    checkpoints: tuple[tuple[int, datetime], ...] = ()
    findings: tuple[LogFinding, ...] = ()


class BundleAudit:
    """The check of one bundle, by keys that are believed, and by heads and checkpoints kept before.

    The chains first, to their end; then the log and the seal. Raises `Corrupt`
    (`checkpoint.malformed`) for a bundle whose checkpoints are none, and as `Bundle.chains`.
    """

    def __init__(
        self, bundle: Bundle, keys: KeyRing, heads: Heads, kept: Sequence[Note] = ()
    ) -> None:
        self._bundle = bundle
        self._keys = keys
        self._heads = heads
        self._kept = kept
        self._asks_for_pins = any(key.compromised is not None for key in keys.published)
        self._came = read_published(bundle.header.checkpoints)
        self._books = open_books(bundle.header.store, self._came, kept, keys)
        self._found: list[LogFinding] = list(self._books.findings)
        self._leaves: dict[int, Hash] = {}
        self._receipts = 0

    def chains(self) -> Iterator[CheckedChain]:
        """Each chain, in the order of the bundle."""
        for line in self._bundle.chains():
            self._receipts += len(line.receipts)
            yield self._checked(line)

    def log(self) -> CheckedLog:
        """What the checkpoints say of the receipts."""
        if self._bundle.header.whole:
            self._found += check_whole(in_order(self._leaves), self._books, self._receipts)
        else:
            self._found += unproven(self._books, self._came, self._kept)
        return checked_log(self._books, self._found)

    def seal(self) -> SealFault | None:
        """What is wrong with the seal."""
        return self._bundle.seal_fault(self._keys)

    def _checked(self, line: ChainLine) -> CheckedChain:
        transaction_id = TransactionId(line.chain.removeprefix(CHAIN_PREFIX))
        verified = verify_chain(
            line.receipts,
            self._keys,
            chain=line.chain,
            expected_head=self._heads.get(transaction_id),
            pins=self._pins(line),
        )
        found = verified.findings
        return CheckedChain(
            tenant=line.tenant,
            transaction_id=transaction_id,
            receipts=len(line.receipts),
            head=verified.head,
            findings=explained(located(found, line.receipts)) if found else (),
        )

    def _pins(self, line: ChainLine) -> tuple[Pin, ...]:
        if self._bundle.header.whole:
            self._remember(line)
            return pins_by_place(line, self._books) if self._asks_for_pins else ()
        pins, found = check_paths(line, self._books)
        self._found += found
        return pins

    def _remember(self, line: ChainLine) -> None:
        """Keep the leaves of a bundle of everything, until all of them are there."""
        leaves = self._leaves
        for receipt, place in zip(line.receipts, line.places, strict=False):
            if (leaf := leaf_or_none(receipt.hash)) is not None:
                leaves[place] = leaf


def checked_log(books: Books, found: Iterable[LogFinding]) -> CheckedLog:
    """The checkpoints that hold after all."""
    findings = tuple(dict.fromkeys(found))
    wrong = {one.size for one in findings if one.code is not LogFault.UNPROVEN}
    holding = [(size, note.head.at) for size, note in sorted(books.notes.items())]
    return CheckedLog(
        checkpoints=tuple([one for one in holding if one[0] not in wrong]), findings=findings
    )


def located(faults: Iterable[Fault], receipts: Sequence[Receipt]) -> Iterator[Finding]:
    """The faults of a chain with the numbers of the receipts they are at."""
    for fault in faults:
        there = fault.position < len(receipts)
        yield Finding(
            fault.code.value, fault.position, receipts[fault.position].number if there else None
        )


def explained(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings without what a cut end explains: the signature went with it."""
    kept = tuple(found)
    if all(one.code != FaultCode.CUT_TAIL for one in kept):
        return kept
    return tuple([one for one in kept if one.code != FaultCode.SIGNATURE_MISSING])
