"""Receipts of a store's file: exported, and checked where they lie.

Whoever can read the file reads all tenants' receipts; that is for the permissions of the file. A
store that lies still is checked further than an exported bundle can be: a record knows how often it
was changed, so the receipts of its last change have to be there. That finds a tail that was cut off
behind the back of the store, without a head that somebody had kept.

Nothing here opens an engine, makes a key, or writes to the store.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import msgspec

from amends.contracts.codes import coded
from amends.contracts.documents import TransactionRecord
from amends.contracts.errors import Misuse
from amends.contracts.evidence import Receipt, Tail
from amends.contracts.ids import TenantId, TransactionId
from amends.receipts.bundle import Bundle, ChainLine, Header
from amends.receipts.chain import CHAIN_PREFIX, chain_of
from amends.receipts.signing import KEY_LENGTH, KeyRing
from amends.receipts.verify import Fault, FaultCode, verify_chain
from amends.stores.port import Stored
from amends.stores.rows import corrupt_receipt
from amends.stores.sqlite.backup import fresh_beside, give_name
from amends.stores.sqlite.survey import ChainName, Survey
from amends.wiring.keys import KEY_SUFFIX, key_path, load_or_make_key

UNREADABLE: Final = "store.receipt_corrupt"
BEHIND: Final = "store.record_behind"
CONTRADICTS: Final = "store.record_corrupt"


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


def header_of(database: Path) -> Header:
    """How a bundle of this store begins."""
    with Survey(database) as survey:
        return Header(store=survey.lineage, keys=tuple(key.hex() for key in public_keys(database)))


def public_keys(database: Path) -> KeyRing:
    """The public key of a store, as far as its key file is there."""
    path = key_path(database)
    return KeyRing([load_or_make_key(path).public_key] if path.exists() else [])


def given_key(given: str) -> bytes:
    """A public key as somebody names it: in hex, or a file with it, or a store's own key file.

    Raises `Misuse` (`key.not_given`).
    """
    raw = _unhexed(given)
    path = Path(given)
    if raw is None and path.is_file():
        if path.suffix == KEY_SUFFIX:
            return load_or_make_key(path).public_key
        raw = _unhexed(path.read_text("ascii", "replace").strip())
    if raw is None:
        raise Misuse(
            "key.not_given",
            "This is no public key, and no file that holds one.",
            next_step="Give 64 hex digits, or a file with them; see amends doctor.",
        )
    return raw


def _unhexed(text: str) -> bytes | None:
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        return None
    return raw if len(raw) == KEY_LENGTH else None


def read_chains(
    database: Path, transactions: Sequence[TransactionId], tenant: TenantId
) -> Iterator[ChainLine]:
    """The chains of one tenant's transactions.

    Raises `Refused` (`transaction.not_found`) and `Corrupt` (`store.receipt_corrupt`).
    """
    with Survey(database) as survey:
        for transaction_id in transactions:
            yield _line(survey, ChainName(tenant, chain_of(transaction_id)))


def read_all_chains(database: Path) -> Iterator[ChainLine]:
    """Every chain of every tenant. Raises as `read_chains`."""
    with Survey(database) as survey:
        for name in survey.chains():
            yield _line(survey, name)


def _line(survey: Survey, name: ChainName) -> ChainLine:
    read = survey.receipts(name)
    for number in read.unreadable:
        raise corrupt_receipt(name.chain, number)
    if not read.receipts:
        raise coded("transaction.not_found")
    return ChainLine(tenant=name.tenant, chain=name.chain, receipts=read.receipts)


def write_bundle(target: Path, lines: Iterable[bytes]) -> None:
    """Write a bundle to a new file; it is whole and survives a crash when this returns.

    Raises `Misuse` (`backup.target_exists`), `Unavailable`, and what making the lines raises.
    """
    with fresh_beside(target) as made:
        with made.open("wb") as file:
            file.writelines(lines)
        give_name(made, target)


def count_chains(database: Path) -> int:
    """How many chains there are."""
    with Survey(database) as survey:
        return survey.count_chains()


def check_bundle(bundle: Bundle, keys: KeyRing, heads: Heads) -> Iterator[CheckedChain]:
    """Check every chain of a bundle, also against `heads`. Raises as `Bundle.chains`."""
    for line in bundle.chains():
        transaction_id = TransactionId(line.chain.removeprefix(CHAIN_PREFIX))
        verified = verify_chain(
            line.receipts, keys, chain=line.chain, expected_head=heads.get(transaction_id)
        )
        yield CheckedChain(
            tenant=line.tenant,
            transaction_id=transaction_id,
            receipts=len(line.receipts),
            head=verified.head,
            findings=_explained(_findings(verified.findings, line.receipts)),
        )


def check_store(
    database: Path,
    keys: KeyRing,
    heads: Heads,
    transactions: Sequence[TransactionId],
    tenant: TenantId,
) -> Iterator[CheckedChain]:
    """Check the chains of some transactions of a tenant, or without any, all chains of all tenants.

    Raises `Refused` (`transaction.not_found`).
    """
    with Survey(database) as survey:
        if not transactions:
            for name in survey.chains():
                yield _checked(survey, name, keys, heads)
            yield from _without_chains(survey)
        for transaction_id in transactions:
            name = ChainName(tenant, chain_of(transaction_id))
            checked = _checked(survey, name, keys, heads)
            if [one.code for one in checked.findings] == [FaultCode.EMPTY.value]:
                raise coded("transaction.not_found")
            yield checked


def _without_chains(survey: Survey) -> Iterator[CheckedChain]:
    """Records whose receipts have vanished altogether."""
    for tenant, id_ in survey.unchained():
        yield CheckedChain(
            tenant=tenant,
            transaction_id=TransactionId(id_),
            receipts=0,
            head=None,
            findings=(Finding(FaultCode.EMPTY.value, 0, None),),
        )


def _checked(survey: Survey, name: ChainName, keys: KeyRing, heads: Heads) -> CheckedChain:
    transaction_id = TransactionId(name.chain.removeprefix(CHAIN_PREFIX))
    with survey.snapshot():  # of one moment, since the store may be at work
        receipts, unreadable = survey.receipts(name)
        record = survey.record(TransactionRecord, name.tenant, transaction_id)
    found = [Finding(UNREADABLE, number - 1, number) for number in unreadable]
    head = heads.get(transaction_id)
    verified = verify_chain(receipts, keys, chain=name.chain, expected_head=head)
    if not unreadable:
        found += _findings(verified.findings, receipts)
    if isinstance(record, Stored):
        against = _against_record(receipts, record.document)
        found += [one for one in against if one not in found]
    elif record is not None:
        found.append(Finding(CONTRADICTS, len(receipts), None))
    return CheckedChain(
        tenant=name.tenant,
        transaction_id=transaction_id,
        receipts=len(receipts),
        head=verified.head if not found else None,
        findings=_explained(found),
    )


def _explained(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings without what a cut end explains: the signature went with it."""
    kept = tuple(found)
    if all(one.code != FaultCode.CUT_TAIL for one in kept):
        return kept
    return tuple([one for one in kept if one.code != FaultCode.SIGNATURE_MISSING])


def _findings(faults: Iterable[Fault], receipts: Sequence[Receipt]) -> Iterator[Finding]:
    """The faults of a chain with the numbers of the receipts they are at."""
    for fault in faults:
        there = fault.position < len(receipts)
        yield Finding(
            fault.code.value, fault.position, receipts[fault.position].number if there else None
        )


def _against_record(receipts: Sequence[Receipt], record: TransactionRecord) -> Iterator[Finding]:
    """Whether the chain ends with the record's own last change."""
    told = [one.step.revision or 0 for one in receipts if one.step.status is not None]
    last = max(told, default=0)
    if last < record.revision:
        yield Finding(FaultCode.CUT_TAIL.value, len(receipts), None)
    elif last > record.revision:
        yield Finding(BEHIND, len(receipts), None)
