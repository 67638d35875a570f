"""Questions about a whole file: every tenant, every row, and nothing of it is changed."""

from pathlib import Path

import apsw
import pytest

from amends.contracts.documents import TransactionRecord, UnclaimedEffect
from amends.receipts.chain import seal
from amends.receipts.signing import Ed25519Signer
from amends.stores.port import Append, Insert, Replace, Stored, Unreadable
from amends.stores.sqlite import survey as surveying
from amends.stores.sqlite.connection import PAGE_BYTES
from amends.stores.sqlite.failures import damaged
from amends.stores.sqlite.migrations import MIGRATIONS
from amends.stores.sqlite.survey import Survey
from amends.stores.surveys import ChainName
from amends.testing.refusals import refused_with
from amends.testing.store_bench import SqliteBench
from amends.testing.store_contract_trial import commit
from amends.testing.store_documents import (
    OTHER_TENANT,
    TENANT,
    a_transaction,
    an_unclaimed_effect,
    chain_named,
    changed,
    links,
    one_of_each,
)


def bytes_of(path: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in sorted(path.parent.iterdir())}


async def test_what_several_tenants_have_is_found_and_nothing_is_changed() -> None:
    async with SqliteBench() as bench:
        store = await bench.open()
        await commit(store, *map(Insert, one_of_each()), links(3))
        await commit(store, Insert(a_transaction(tenant=OTHER_TENANT)), links(tenant=OTHER_TENANT))
        await commit(store, Insert(an_unclaimed_effect(tenant=OTHER_TENANT)))
        lineage = await store.lineage()
        await store.close()
        before = bytes_of(bench.path)
        with Survey(bench.path) as survey:
            assert survey.lineage == lineage
            assert (survey.missing, survey.is_empty) == ((), False)
            assert survey.tenants == (TENANT, OTHER_TENANT)
            assert survey.integrity(quick=True) == survey.integrity(quick=False) == ()
            assert survey.count(TransactionRecord) == 2
            assert survey.count_chains() == 2
            chains = list(survey.chains())
            assert chains == [
                ChainName(TENANT, chain_named("1")),
                ChainName(OTHER_TENANT, chain_named("1")),
            ]
            assert [len(survey.receipts(one).receipts) for one in chains] == [3, 1]
            found = survey.record(TransactionRecord, OTHER_TENANT, "txn_1")
            assert isinstance(found, Stored)
            assert survey.record(TransactionRecord, OTHER_TENANT, "txn_2") is None
            effects = list(survey.documents(UnclaimedEffect))
            assert len(effects) == 2
        assert bytes_of(bench.path) == before


async def test_long_answers_come_whole_however_they_are_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(surveying, "AT_ONCE", 2)
    async with SqliteBench() as bench:
        store = await bench.open()
        for name in "12345":
            await commit(store, Insert(a_transaction(name)), links(5, name=name))
        with Survey(bench.path) as survey:
            assert len(list(survey.documents(TransactionRecord))) == 5
            chains = list(survey.chains())
            assert [one.chain for one in chains] == [chain_named(name) for name in "12345"]
            assert [one.number for one in survey.receipts(chains[2]).receipts] == [1, 2, 3, 4, 5]


@pytest.mark.case("JRN-07")
async def test_a_receipt_that_cannot_be_read_is_counted_and_the_others_are_read() -> None:
    async with SqliteBench() as bench:
        store = await bench.open()
        await commit(store, links(4))
        bench.damage_receipt(chain_named("1"), 3, b"{")
        with Survey(bench.path) as survey:
            read = survey.receipts(ChainName(TENANT, chain_named("1")))
        assert [one.number for one in read.receipts] == [1, 2, 4]
        assert read.unreadable == (3,)


@pytest.mark.case("VER-01")
async def test_a_row_that_cannot_be_read_is_shown_among_the_others() -> None:
    async with SqliteBench() as bench:
        store = await bench.open()
        await commit(store, Insert(a_transaction("1")), Insert(a_transaction("2")))
        bench.relabel(TransactionRecord, "txn_1", "status", "half_committed")
        with Survey(bench.path) as survey:
            first, second = survey.documents(TransactionRecord)
            assert isinstance(first, Unreadable)
            assert isinstance(second, Stored)
            assert isinstance(survey.record(TransactionRecord, TENANT, "txn_1"), Unreadable)


async def test_records_without_receipts_are_named() -> None:
    async with SqliteBench() as bench:
        store = await bench.open()
        await commit(store, Insert(a_transaction("1")), links(name="1"))
        await commit(store, Insert(a_transaction("2")))
        with Survey(bench.path) as survey:
            assert list(survey.unchained()) == [(TENANT, "txn_2")]


async def test_the_keys_of_the_latest_receipts_are_told() -> None:
    async with SqliteBench() as bench:
        store = await bench.open()
        signers = [Ed25519Signer(bytes([number]) * 32) for number in (1, 2)]
        for name, signer in zip("12", signers, strict=True):
            link = links(name=name)
            signed = seal(None, [link.receipts[0].step], signer)
            await commit(store, Append(TENANT, link.chain, 0, signed))
        await commit(store, links(name="3"))
        with Survey(bench.path) as survey:
            assert survey.signers() == {signer.key_id for signer in signers}
            assert survey.signers(latest=2) == {signers[1].key_id}
            assert survey.signers(latest=1) == frozenset()


async def test_what_another_file_does_not_know_is_told() -> None:
    async with SqliteBench() as here, SqliteBench() as there:
        newer, older = await here.open(), await there.open()
        for store in (newer, older):
            for name in "123":
                await commit(store, Insert(a_transaction(name)))
        await commit(newer, Insert(a_transaction("new")))
        await commit(newer, Replace(changed(a_transaction("2"))))
        await commit(older, Replace(changed(a_transaction("3"))))
        with Survey(here.path) as survey:
            for _ in range(2):
                beyond = survey.beyond(there.path)
                assert [one.transaction_id for one in beyond] == ["txn_2", "txn_new"]
            assert survey.beyond(here.path) == ()


async def test_a_snapshot_does_not_see_what_is_written_meanwhile() -> None:
    async with SqliteBench() as bench:
        store = await bench.open()
        await commit(store, Insert(a_transaction("1")))
        with Survey(bench.path) as survey:
            with survey.snapshot():
                await commit(store, Insert(a_transaction("2")))
                assert survey.count(TransactionRecord) == 1
            assert survey.count(TransactionRecord) == 2


# ── files that are no store ──────────────────────────────────────────────────────────────────────


def test_an_empty_file_has_gone_through_no_step(tmp_path: Path) -> None:
    path = tmp_path / "amends.db"
    path.touch()
    with Survey(path) as survey:
        assert survey.is_empty
        assert survey.missing == MIGRATIONS
    assert path.read_bytes() == b""


@pytest.mark.parametrize("content", [b"not a database" * 100, None])
def test_what_is_no_database_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "amends.db"
    if content is not None:
        path.write_bytes(content)
    with refused_with("store.unavailable"):
        Survey(path)


def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "amends.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    with refused_with("store.foreign_file"):
        Survey(path)


@pytest.mark.case("VER-01")
async def test_a_file_of_a_later_version_is_refused() -> None:
    async with SqliteBench() as bench:
        await bench.open()
        connection = apsw.Connection(str(bench.path))
        connection.execute("INSERT INTO migrations VALUES (99, 'later', 'x', 0)")
        connection.close()
        with refused_with("store.schema_too_new"):
            Survey(bench.path)


def torn(path: Path, pages: int) -> None:
    """Overwrite everything behind so many pages."""
    content, kept = path.read_bytes(), pages * PAGE_BYTES
    assert len(content) > kept
    path.write_bytes(content[:kept] + b"\xff" * (len(content) - kept))


async def test_a_damaged_page_is_named_as_damage_and_the_check_says_so() -> None:
    async with SqliteBench() as bench:
        store = await bench.open()
        for number in range(200):
            await commit(store, Insert(a_transaction(str(number))), links(name=str(number)))
        await store.close()
        torn(bench.path, pages=60)
        with Survey(bench.path) as survey:
            assert survey.integrity(quick=True)
            assert survey.integrity(quick=False)
            with refused_with("store.file_damaged") as caught:
                list(survey.documents(TransactionRecord))
            assert caught.error.details == {"file": "amends.db"}


async def test_a_file_that_is_damaged_from_its_beginning_is_refused_as_that() -> None:
    async with SqliteBench() as bench:
        store = await bench.open()
        await store.close()
        torn(bench.path, pages=1)
        with refused_with("store.file_damaged"):
            Survey(bench.path)


async def test_a_question_that_sqlite_cannot_answer_is_unavailable() -> None:
    async with SqliteBench() as bench:
        await bench.open()
        with Survey(bench.path) as survey, refused_with("store.unavailable"):
            survey.beyond(bench.path.parent / "none" / "there.db")


def test_damage_is_told_without_what_lies_there(tmp_path: Path) -> None:
    error = damaged(tmp_path / "amends.db", "CorruptError")
    assert "CorruptError" in error.message
    assert str(tmp_path) not in repr((error, error.details))


def test_a_survey_closes_its_connection(tmp_path: Path) -> None:
    path = tmp_path / "amends.db"
    path.touch()
    with Survey(path) as survey:
        connection = survey._connection
    with pytest.raises(apsw.ConnectionClosedError):
        connection.execute("SELECT 1")
