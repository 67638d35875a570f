"""Receipts of a store, checked where they lie.

Whoever can read the file, or has the role that the store uses on a server, reads all tenants'
receipts; that is for the permissions of the file or the server. A
store that lies still is checked further than an exported bundle can be: a record knows how often it
was changed, so the receipts of its last change have to be there. That finds a tail that was cut off
behind the back of the store, without a head that somebody had kept.

Checkpoints are held against the whole log where all of it is at hand: in a store, and in a bundle
of everything. A bundle of some transactions brings paths instead (`proving`).

Nothing here opens an engine, makes a key, or writes to the store.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from amends.contracts.codes import coded
from amends.contracts.documents import TransactionRecord
from amends.contracts.errors import Corrupt, Misuse
from amends.contracts.evidence import Receipt
from amends.contracts.ids import TenantId, TransactionId
from amends.receipts.audit import (
    CheckedChain,
    CheckedLog,
    Finding,
    Heads,
    checked_log,
    explained,
    located,
)
from amends.receipts.bundle import ChainLine
from amends.receipts.chain import CHAIN_PREFIX, chain_of
from amends.receipts.checkpoint import LogFault, Note, read_note
from amends.receipts.keyset import read_key_set
from amends.receipts.log import (
    Books,
    Came,
    LogFinding,
    check_whole,
    leaf_or_none,
    open_books,
    pins_by_place,
)
from amends.receipts.signing import KEY_LENGTH, KeyRing
from amends.receipts.verify import FaultCode, Pin, verify_chain
from amends.stores.port import Stored
from amends.stores.surveys import ChainName, Logbook, Surveyed
from amends.wiring.keys import KEY_SUFFIX, key_path, read_keys
from amends.wiring.places import Place, beside, is_file
from amends.wiring.proving import ReadLog
from amends.wiring.surveying import survey_of

UNREADABLE: Final = "store.receipt_corrupt"
BEHIND: Final = "store.record_behind"
CONTRADICTS: Final = "store.record_corrupt"

Pins: TypeAlias = Callable[[ChainName, Sequence[Receipt]], tuple[Pin, ...]]


def public_keys(store: Place) -> KeyRing:
    """The public keys of a store, as far as its key file is there."""
    path = key_path(beside(store))
    return read_keys(path).ring if is_file(path) else KeyRing()


def given_key(given: str) -> bytes:
    """A public key as somebody names it: in hex, or a file with it, or a store's own key file.

    Raises `Misuse` (`key.not_given`).
    """
    raw = _unhexed(given)
    if raw is not None:
        return raw
    path = Path(given)
    content = _content(path)
    if path.suffix == KEY_SUFFIX:
        return read_keys(path).signer.public_key
    raw = _unhexed(content.decode("ascii", "replace").strip())
    if raw is None:
        raise _not_given()
    return raw


def _content(path: Path) -> bytes:
    """What a file holds that somebody named. Raises `Misuse` (`key.not_given`)."""
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise _not_given() from error


def _not_given() -> Misuse:
    return Misuse(
        "key.not_given",
        "This is no public key, and no file that holds one and can be read.",
        next_step="Give 64 hex digits, a file with them, or one that amends keys export wrote.",
    )


def _unhexed(text: str) -> bytes | None:
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        return None
    return raw if len(raw) == KEY_LENGTH else None


def given_keys(path: Path) -> KeyRing:
    """The keys of a JWK Set, as `amends keys export` writes it.

    Raises `Misuse` (`key.not_given`) where no such file can be read, and `Corrupt`
    (`keys.malformed`).
    """
    return read_key_set(_content(path))


def identify(store: Place) -> tuple[str, int]:
    """The lineage of a store, and how many chains there are."""
    with survey_of(store) as survey:
        return survey.lineage, survey.count_chains()


def check_store(
    store: Place,
    keys: KeyRing,
    heads: Heads,
    transactions: Sequence[TransactionId],
    tenant: TenantId,
    kept: Sequence[Note] = (),
) -> Iterator[CheckedChain]:
    """Check the chains of some transactions of a tenant, or without any, all chains of all tenants.

    Raises `Refused` (`transaction.not_found`).
    """
    with survey_of(store) as survey:
        pins = _pins(survey, keys, kept)
        if not transactions:
            for name in survey.chains():
                yield _checked(survey, name, keys, heads, pins)
            yield from _without_chains(survey)
        for transaction_id in transactions:
            name = ChainName(tenant, chain_of(transaction_id))
            checked = _checked(survey, name, keys, heads, pins)
            if [one.code for one in checked.findings] == [FaultCode.EMPTY.value]:
                raise coded("transaction.not_found")
            yield checked


def check_log(store: Place, keys: KeyRing, kept: Sequence[Note]) -> CheckedLog:
    """Hold the whole log of a store against its own checkpoints and those that somebody kept."""
    with survey_of(store) as survey, survey.logbook() as book:
        books = _books(book, keys, kept)
        leaves = [leaf_or_none(row.hash) for row in book.entries()]
        whole = takewhile(lambda leaf: leaf is not None, leaves)
        found = check_whole((leaf for leaf in whole if leaf), books, len(leaves))
        return checked_log(books, [*books.findings, *found])


def _books(book: Logbook, keys: KeyRing, kept: Sequence[Note]) -> Books:
    """The checkpoints of a store; those that are no notes any more hold nothing."""
    notes: list[Note] = []
    findings: list[LogFinding] = []
    for one in book.checkpoints():
        try:
            notes.append(read_note(one.note))
        except Corrupt:
            findings.append(LogFinding(LogFault.SIGNATURE_INVALID, one.size))
    return open_books(book.lineage, Came(tuple(notes), tuple(findings)), kept, keys)


def _pins(survey: Surveyed, keys: KeyRing, kept: Sequence[Note]) -> Pins:
    """What the checkpoints pin of a chain; asked for only where a key was in other hands."""
    if all(key.compromised is None for key in keys.published):
        return lambda _name, _receipts: ()
    with survey.logbook() as book:
        log, books = ReadLog(book), _books(book, keys, kept)
    wrong = set(check_whole(log.leaves, books, log.size))
    books = msgspec.structs.replace(books, trusted=books.trusted - {one.size for one in wrong})

    def pins(name: ChainName, receipts: Sequence[Receipt]) -> tuple[Pin, ...]:
        places = log.places(name)
        known = tuple([one for one in receipts if one.number in places])
        line = ChainLine(
            tenant=name.tenant,
            chain=name.chain,
            receipts=known,
            places=tuple([places[one.number] for one in known]),
        )
        return pins_by_place(line, books)

    return pins


def _without_chains(survey: Surveyed) -> Iterator[CheckedChain]:
    """Records whose receipts have vanished altogether."""
    for tenant, id_ in survey.unchained():
        yield CheckedChain(
            tenant=tenant,
            transaction_id=TransactionId(id_),
            receipts=0,
            head=None,
            findings=(Finding(FaultCode.EMPTY.value, 0, None),),
        )


def _checked(
    survey: Surveyed, name: ChainName, keys: KeyRing, heads: Heads, pins: Pins
) -> CheckedChain:
    transaction_id = TransactionId(name.chain.removeprefix(CHAIN_PREFIX))
    with survey.snapshot():  # of one moment, since the store may be at work
        receipts, unreadable = survey.receipts(name)
        record = survey.record(TransactionRecord, name.tenant, transaction_id)
    found = [Finding(UNREADABLE, number - 1, number) for number in unreadable]
    head = heads.get(transaction_id)
    verified = verify_chain(
        receipts, keys, chain=name.chain, expected_head=head, pins=pins(name, receipts)
    )
    if not unreadable:
        found += located(verified.findings, receipts)
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
        findings=explained(found),
    )


def _against_record(receipts: Sequence[Receipt], record: TransactionRecord) -> Iterator[Finding]:
    """Whether the chain ends with the record's own last change."""
    told = [one.step.revision or 0 for one in receipts if one.step.status is not None]
    last = max(told, default=0)
    if last < record.revision:
        yield Finding(FaultCode.CUT_TAIL.value, len(receipts), None)
    elif last > record.revision:
        yield Finding(BEHIND, len(receipts), None)
