"""Checking a chain: every fault with its kind and its exact place (RC-1, RC-2).

The kinds are kept apart, since they ask for different answers: a gap is looked for in a backup, a
fork is two writers, an altered receipt is somebody's doing. So one change gives one finding: a
receipt that does not have its own hash is reported as such, holds its place, and is asked nothing
more. Order, links and signatures are then read from the others.

What a chain cannot tell: that its last receipts were cut off where a change set ended. For that, a
head which somebody kept is compared (`expected_head`). Nor that the signature of an earlier head
was taken away, which takes nothing from what the last one proves. The start of an attempt stands
unsigned at the end until the attempt is settled, so it is no fault there.

What others could have signed too is not believed, whatever date it bears, unless a checkpoint shows
that it was there before they could (`pins`).

Pure: no clock, no IO. Deliberately not here: reading bundles, and an exit code for each kind.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from typing import Final

import msgspec

from amends.contracts.errors import Refused
from amends.contracts.evidence import Receipt, ReceiptType, Tail
from amends.receipts.chain import GENESIS, chain_of, receipt_hash
from amends.receipts.signing import KeyRing, PublishedKey, signed_bytes

UNDER_WAY: Final = frozenset(
    {
        ReceiptType.EXECUTION_STARTED,
        ReceiptType.COMMIT_STARTED,
        ReceiptType.COMPENSATION_STARTED,
        ReceiptType.RECONCILIATION_STARTED,
        ReceiptType.PROVIDER_ACCEPTED,
    }
)
"""Steps of an attempt that has not ended; its settlement signs the head, they do not (RC-2)."""


class FaultCode(StrEnum):
    """The kinds of fault that a chain can have."""

    EMPTY = "receipt.empty"
    HASH_MISMATCH = "receipt.hash_mismatch"
    FOREIGN = "receipt.foreign"
    GAP = "receipt.gap"
    REORDERED = "receipt.reordered"
    DUPLICATE = "receipt.duplicate"
    FORK = "receipt.fork"
    BROKEN_LINK = "receipt.broken_link"
    KEY_UNKNOWN = "receipt.key_unknown"
    SIGNATURE_INVALID = "receipt.signature_invalid"
    SIGNATURE_MISSING = "receipt.signature_missing"
    KEY_COMPROMISED = "receipt.key_compromised"
    KEY_OUT_OF_SPAN = "receipt.key_out_of_span"
    CUT_TAIL = "receipt.cut_tail"


class Fault(msgspec.Struct, frozen=True):
    """One fault. `position` counts from 0 in the sequence given, its end meaning what is not there.

    A gap is where the first receipt after it stands.
    """

    code: FaultCode
    position: int


class Pin(msgspec.Struct, frozen=True):
    """A checkpoint shows that receipts up to this number were there at this instant."""

    number: int
    at: datetime


class Verification(msgspec.Struct, frozen=True):
    """What was found, by position. `head` is the end of the chain, known only if nothing was."""

    findings: tuple[Fault, ...]
    head: Tail | None = None

    @property
    def ok(self) -> bool:
        """Whether the chain is whole, in order, unaltered, and signed by known keys."""
        return not self.findings


_Address = tuple[str, str]


class _View(msgspec.Struct, frozen=True):
    """The receipts with what is known of each: its true hash, and its place in this chain.

    A foreign receipt has no place; an altered one has the place after the one before it, unless
    another one claims that.
    """

    receipts: Sequence[Receipt]
    hashes: Sequence[str | None]
    places: Sequence[int | None]

    def is_altered(self, position: int) -> bool:
        return self.receipts[position].hash != self.hashes[position]

    def own(self) -> Iterator[tuple[int, int]]:
        """Position and place of each receipt that belongs to the chain."""
        return ((at, place) for at, place in enumerate(self.places) if place is not None)

    def believed(self) -> Iterator[tuple[int, int, Receipt]]:
        """The same without altered ones, and with the receipt."""
        return ((at, n, self.receipts[at]) for at, n in self.own() if not self.is_altered(at))

    def first_at(self) -> dict[int, int]:
        """For each place, the position of the first receipt that takes it."""
        first: dict[int, int] = {}
        for at, place in self.own():
            first.setdefault(place, at)
        return first


def verify_chain(
    receipts: Sequence[Receipt],
    keys: KeyRing,
    *,
    expected_head: Tail | None = None,
    chain: str | None = None,
    pins: Sequence[Pin] = (),
) -> Verification:
    """Check a whole chain, from its first receipt on.

    With an empty ring an unsigned chain passes, but a signature that nobody can check does not;
    otherwise the last receipt must be signed. `expected_head` may be older than the chain's end.
    Without `chain`, the one that most receipts belong to is meant.
    """
    if not receipts:
        return Verification((Fault(FaultCode.EMPTY, 0),))
    if is_sound(receipts, keys, expected_head=expected_head, chain=chain, pins=pins):
        return Verification((), Tail(receipts[-1].number, receipts[-1].hash))
    return examine(receipts, keys, expected_head=expected_head, chain=chain, pins=pins)


def is_sound(
    receipts: Sequence[Receipt],
    keys: KeyRing,
    *,
    expected_head: Tail | None,
    chain: str | None,
    pins: Sequence[Pin],
) -> bool:
    """Whether nothing is wrong, found out in one pass; what `examine` says of a sound chain.

    Most chains are sound, and most of the time then goes into their signatures.
    """
    try:
        holds = _hangs_together(receipts, keys, chain, pins)
    except Refused:  # a receipt that has no canonical form, and so no hash at all
        return False
    return holds and _ends_well(receipts, keys, expected_head)


def _hangs_together(
    receipts: Sequence[Receipt], keys: KeyRing, chain: str | None, pins: Sequence[Pin]
) -> bool:
    first = receipts[0]
    tenant, transaction_id, home = first.step.tenant, first.step.transaction_id, first.chain
    if home != chain_of(transaction_id) or chain not in {None, home}:
        return False
    previous = GENESIS
    for number, receipt in enumerate(receipts, start=1):
        step = receipt.step
        if receipt.number != number or receipt.previous != previous or receipt.chain != home:
            return False
        if step.transaction_id != transaction_id or step.tenant != tenant:
            return False
        if receipt.hash != receipt_hash(receipt):
            return False
        is_signed = receipt.signature is not None or receipt.key_id is not None
        if is_signed and not _is_believed(receipt, keys, pins):
            return False
        previous = receipt.hash
    return True


def _is_believed(receipt: Receipt, keys: KeyRing, pins: Sequence[Pin]) -> bool:
    key_id, signature = receipt.key_id, receipt.signature
    if key_id is None or signature is None:
        return False
    if not keys.confirms(key_id, signed_bytes(receipt.hash), signature):
        return False
    return _disbelief(receipt, keys.get(key_id), pins) is None


def _ends_well(receipts: Sequence[Receipt], keys: KeyRing, expected: Tail | None) -> bool:
    """Whether the end is signed where it has to be, and lies behind the head that was kept."""
    last = receipts[-1]
    if last.signature is None and len(keys) and last.step.type not in UNDER_WAY:
        return False
    if expected is None:
        return True
    at = expected.number
    return 0 < at <= len(receipts) and receipts[at - 1].hash == expected.hash


def examine(
    receipts: Sequence[Receipt],
    keys: KeyRing,
    *,
    expected_head: Tail | None,
    chain: str | None,
    pins: Sequence[Pin],
) -> Verification:
    """Every fault of a chain that has receipts; see `verify_chain`."""
    view = _view(receipts, chain)
    findings = sorted(
        [
            *_strangers(view),
            *_disorder(view),
            *_broken_links(view),
            *_unsigned(view, keys, pins),
            *_against_head(view, expected_head),
        ],
        key=lambda fault: fault.position,
    )
    if findings:
        return Verification(tuple(findings))
    return Verification((), Tail(receipts[-1].number, receipts[-1].hash))


def _view(receipts: Sequence[Receipt], chain: str | None) -> _View:
    hashes = [_true_hash(receipt) for receipt in receipts]
    believed = [
        receipt
        for receipt, true_hash in zip(receipts, hashes, strict=True)
        if receipt.hash == true_hash
    ]
    home = _home(believed, chain)
    taken = {receipt.number for receipt in believed if _address(receipt) == home}
    places: list[int | None] = []
    last = 0
    for receipt, true_hash in zip(receipts, hashes, strict=True):
        if receipt.hash != true_hash:
            place = None if last + 1 in taken else last + 1
        else:
            place = receipt.number if _address(receipt) == home else None
        places.append(place)
        last = last if place is None else place
    return _View(receipts, hashes, places)


def _home(believed: Sequence[Receipt], chain: str | None) -> _Address:
    """Where most receipts belong; that is the chain, and the others came from elsewhere."""
    addresses = Counter(filter(None, map(_address, believed)))
    candidates = [address for address, _ in addresses.most_common() if chain in {None, address[0]}]
    return candidates[0] if candidates else ("", "")


def _address(receipt: Receipt) -> _Address | None:
    """The chain and tenant of a receipt; none if it stands on the chain of another transaction."""
    is_at_home = receipt.chain == chain_of(receipt.step.transaction_id)
    return (receipt.chain, receipt.step.tenant) if is_at_home else None


def _true_hash(receipt: Receipt) -> str | None:
    """None for a receipt that has no canonical form, and so no hash at all."""
    try:
        return receipt_hash(receipt)
    except Refused:
        return None


def _strangers(view: _View) -> Iterator[Fault]:
    for at, place in enumerate(view.places):
        if view.is_altered(at):
            yield Fault(FaultCode.HASH_MISMATCH, at)
        elif place is None:
            yield Fault(FaultCode.FOREIGN, at)


def _disorder(view: _View) -> Iterator[Fault]:
    """Numbers that are missing, late, or taken twice."""
    first_at = view.first_at()
    after_gap = {n for before, n in pairwise([0, *sorted(first_at)]) if n - before > 1}
    highest = 0
    for at, place in view.own():
        if first_at[place] != at:
            is_same = view.receipts[at].hash == view.receipts[first_at[place]].hash
            yield Fault(FaultCode.DUPLICATE if is_same else FaultCode.FORK, at)
        elif place <= highest:
            yield Fault(FaultCode.REORDERED, at)
        elif place in after_gap:
            yield Fault(FaultCode.GAP, at)
        highest = max(highest, place)


def _broken_links(view: _View) -> Iterator[Fault]:
    """Links to a receipt that is there; its stated and its true hash both count as its hash."""
    first_at = view.first_at()
    for at, place, receipt in view.believed():
        before = first_at.get(place - 1)
        if place == 1:
            holds = receipt.previous == GENESIS
        else:
            holds = before is None or receipt.previous in {
                view.receipts[before].hash,
                view.hashes[before],
            }
        if not holds:
            yield Fault(FaultCode.BROKEN_LINK, at)


def _unsigned(view: _View, keys: KeyRing, pins: Sequence[Pin]) -> Iterator[Fault]:
    head = max((place for _, place in view.own()), default=0)
    for at, place, receipt in view.believed():
        if receipt.signature is None:
            needed = len(keys) and place == head and receipt.step.type not in UNDER_WAY
            if receipt.key_id is not None or needed:
                yield Fault(FaultCode.SIGNATURE_MISSING, at)
        elif receipt.key_id is None or receipt.key_id not in keys:
            yield Fault(FaultCode.KEY_UNKNOWN, at)
        elif not keys.confirms(receipt.key_id, signed_bytes(receipt.hash), receipt.signature):
            yield Fault(FaultCode.SIGNATURE_INVALID, at)
        elif (fault := _disbelief(receipt, keys.get(receipt.key_id), pins)) is not None:
            yield Fault(fault, at)


def _disbelief(receipt: Receipt, key: PublishedKey | None, pins: Sequence[Pin]) -> FaultCode | None:
    """Why a genuine signature does not count, if so."""
    if key is None or (key.since is key.until is key.compromised is None):
        return None
    if key.compromised is not None:
        was_there = any(pin.number >= receipt.number and pin.at < key.compromised for pin in pins)
        if receipt.step.at >= key.compromised or not was_there:
            return FaultCode.KEY_COMPROMISED
    return None if key.spans(receipt.step.at) else FaultCode.KEY_OUT_OF_SPAN


def _against_head(view: _View, expected: Tail | None) -> Iterator[Fault]:
    """A chain may have grown past a head that was kept, but it must lead through it."""
    if expected is None:
        return
    first_at = view.first_at()
    if expected.number > max(first_at, default=0):
        yield Fault(FaultCode.CUT_TAIL, len(view.receipts))
    at = first_at.get(expected.number)
    if at is not None and not view.is_altered(at) and view.receipts[at].hash != expected.hash:
        yield Fault(FaultCode.FORK, at)
