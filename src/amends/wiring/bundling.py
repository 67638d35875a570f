"""Receipts of a store, written into a bundle for people who have no access to the store.

A bundle is of one moment of the store, whatever is written meanwhile. Whoever can read the file, or
has the role that the store uses on a server, reads all tenants' receipts; that is for the
permissions of the file or the server.

Nothing here opens an engine, makes a key, or writes to the store.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from amends.contracts.codes import coded
from amends.contracts.ids import TenantId, TransactionId
from amends.contracts.principals import DEFAULT_TENANT
from amends.receipts.bundle import FORMAT, ChainLine, Header, write_lines
from amends.receipts.chain import chain_of
from amends.receipts.checkpoint import Note
from amends.receipts.keyset import jwk_of
from amends.stores.rows import corrupt_receipt
from amends.stores.sqlite.backup import fresh_beside, give_name
from amends.stores.sqlite.failures import unwritable
from amends.stores.surveys import ChainName, Logbook, Surveyed
from amends.wiring.keys import key_path, readable_keys
from amends.wiring.places import Place, beside
from amends.wiring.proving import ReadLog
from amends.wiring.surveying import survey_of


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """Which chains a bundle is to hold: some transactions of a tenant; or, without any, those of
    one tenant or of all, of a time or of always.
    """

    transactions: tuple[TransactionId, ...] = ()
    tenant: TenantId | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def whole(self) -> bool:
        """Whether that is everything that the store has."""
        return self == Chosen()


def bundle_of(store: Place, chosen: Chosen, given: Sequence[Note] = ()) -> Iterator[bytes]:
    """The lines of a bundle, all of one moment of the store; sealed if this user can read the key.

    Raises `Refused` (`transaction.not_found`), `Corrupt` (`store.receipt_corrupt`), and as
    `ReadLog`.
    """
    keys = readable_keys(key_path(beside(store)))
    with survey_of(store) as survey, survey.logbook() as book:
        log = ReadLog(book, given)
        names = _names(survey, book, chosen)
        header = Header(
            format=FORMAT,
            store=log.lineage,
            keys=() if keys is None else tuple(map(jwk_of, keys.published)),
            checkpoints=log.published(_sizes(log, names, chosen, given)),
            whole=chosen.whole,
        )
        lines = (_line(survey, log, name, whole=chosen.whole) for name in names)
        known = (line for line in lines if line.receipts)
        yield from write_lines(header, known, None if keys is None else keys.signer)


def count_chosen(store: Place, chosen: Chosen) -> int:
    """How many chains that is."""
    with survey_of(store) as survey, survey.logbook() as book:
        return len(_names(survey, book, chosen))


def _names(survey: Surveyed, book: Logbook, chosen: Chosen) -> Sequence[ChainName]:
    if chosen.transactions:
        owner = chosen.tenant or TenantId(DEFAULT_TENANT)
        return [ChainName(owner, chain_of(one)) for one in chosen.transactions]
    if chosen.since is None and chosen.until is None:
        return [one for one in survey.chains() if chosen.tenant in {None, one.tenant}]
    return book.chains_within(chosen.tenant, chosen.since, chosen.until)


def _sizes(
    log: ReadLog, names: Sequence[ChainName], chosen: Chosen, given: Sequence[Note]
) -> set[int]:
    """The checkpoints that a bundle has to bring, by size."""
    if chosen.whole:
        return set(log.notes)
    return {size for name in names for size in log.covering(name)} | {
        note.head.size for note in given
    }


def _line(survey: Surveyed, log: ReadLog, name: ChainName, *, whole: bool) -> ChainLine:
    """A chain as far as the log goes; it may have begun beyond its end."""
    read = survey.receipts(name)
    for number in read.unreadable:
        raise corrupt_receipt(name.chain, number)
    if not read.receipts:
        raise coded("transaction.not_found")
    places = log.places(name)
    receipts = tuple([one for one in read.receipts if one.number in places])
    return ChainLine(
        tenant=name.tenant,
        chain=name.chain,
        receipts=receipts,
        places=tuple([places[one.number] for one in receipts if whole]),
        proofs=() if whole else log.inclusions(name),
    )


def write_bundle(target: Path, lines: Iterable[bytes]) -> None:
    """Write a bundle to a new file; it is whole and survives a crash when this returns.

    Raises `Misuse` (`backup.target_exists`), `Unavailable` (`backup.target_unwritable`), and what
    making the lines raises.
    """
    with fresh_beside(target) as made:
        try:
            with made.open("wb") as file:
                file.writelines(lines)
        except OSError as error:
            raise unwritable(target, error) from error
        give_name(made, target)
