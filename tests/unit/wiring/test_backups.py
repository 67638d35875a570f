"""Backups and what becomes of one: another store, frozen, with nothing of the old one lost."""

import errno
import os
import stat
from pathlib import Path

import apsw
import pytest

from amends.app.amends import Amends
from amends.contracts.enums import Status
from amends.contracts.ids import TransactionId
from amends.receipts.verify import FaultCode
from amends.runtime.reading import View
from amends.stores.port import Stored
from amends.stores.rows import system_clock
from amends.stores.sqlite.backup import Told
from amends.testing.refusals import refused_with
from amends.testing.workbench import CHARGE
from amends.wiring import backups
from amends.wiring.auditing import check_store, public_keys
from amends.wiring.backups import make_backup, restore
from amends.wiring.keys import key_path, read_keys, rotate_key
from amends.wiring.restored import Restored
from tests.unit.wiring.store_files import BOB, OLGA, ORDER, TENANT, change, fill, try_again, work


def quiet(_title: str) -> Told:
    return lambda _done, _total: None


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "live"
    folder.mkdir()
    path = folder / "amends.db"
    fill(path)
    return path


@pytest.fixture
def backup(store: Path, tmp_path: Path) -> Path:
    path = tmp_path / "b.db"
    make_backup(store, path, with_key=True, phase=quiet)
    return path


def view(path: Path, transaction_id: str) -> View:
    async def look(amends: Amends) -> View:
        return await amends.get(transaction_id)

    return work(path, look)


def faults(path: Path) -> list[str]:
    checked = check_store(path, public_keys(path), {}, (), TENANT)
    return [one.code for chain in checked for one in chain.findings]


def names(folder: Path) -> set[str]:
    return {one.name for one in folder.iterdir()}


# ── backups ──────────────────────────────────────────────────────────────────────────────────────


def test_a_backup_holds_store_and_key_in_two_private_files(store: Path, tmp_path: Path) -> None:
    titles: list[str] = []

    def phase(title: str) -> Told:
        titles.append(title)
        return quiet(title)

    made = make_backup(store, tmp_path / "b.db", with_key=True, phase=phase)
    key = tmp_path / "b.db.key"
    assert (made.file, made.key) == (str(tmp_path / "b.db"), str(key))
    assert made.size == (tmp_path / "b.db").stat().st_size > 0
    assert key.read_bytes() == store.with_name("amends.db.key").read_bytes()
    for file in (key, tmp_path / "b.db"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert titles == ["Copying"]


def test_a_backup_can_leave_the_key_out(store: Path, tmp_path: Path) -> None:
    made = make_backup(store, tmp_path / "b.db", with_key=False, phase=quiet)
    assert made.key is None
    assert not (tmp_path / "b.db.key").exists()


def test_a_backup_without_the_key_it_should_hold_is_not_made(store: Path, tmp_path: Path) -> None:
    store.with_name("amends.db.key").unlink()
    with refused_with("backup.key_missing"):
        make_backup(store, tmp_path / "b.db", with_key=True, phase=quiet)
    assert not (tmp_path / "b.db").exists()


def test_a_key_that_lies_there_is_not_written_over(store: Path, tmp_path: Path) -> None:
    (tmp_path / "b.db.key").write_text("mine")
    with refused_with("backup.target_exists"):
        make_backup(store, tmp_path / "b.db", with_key=True, phase=quiet)
    assert (tmp_path / "b.db.key").read_text() == "mine"
    assert not (tmp_path / "b.db").exists()


def test_a_key_whose_store_cannot_be_copied_is_not_left_behind(store: Path, tmp_path: Path) -> None:
    (tmp_path / "b.db").write_text("mine")
    with refused_with("backup.target_exists"):
        make_backup(store, tmp_path / "b.db", with_key=True, phase=quiet)
    assert not (tmp_path / "b.db.key").exists()


def test_a_key_that_the_disk_takes_in_part_only_is_not_left_behind(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with refused_with("backup.target_unwritable"):
        make_backup(store, tmp_path / "b.db", with_key=True, phase=quiet)
    assert not (tmp_path / "b.db").exists()
    assert not (tmp_path / "b.db.key").exists()


# ── restoring ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("TX-LEASE-3")
@pytest.mark.case("RST-02", "SQL-04")
def test_a_restored_store_is_another_one_and_all_that_was_open_in_it_is_frozen(
    store: Path, backup: Path
) -> None:
    done = restore(backup, store, replace=True, phase=quiet)
    assert done.lineage not in (done.from_lineage, None)
    assert done.from_lineage == done.replaced_lineage
    assert {one.transaction_id: one.status for one in done.frozen.records} == {
        "txn_plan": "planned",
        "txn_lost": "outcome_unknown",
        "txn_again": "failed",
    }
    assert [one.transaction_id for one in done.frozen.approvals] == ["txn_asks"]
    assert (done.frozen.left_alone, done.went_on, done.key_made) == ((), (), False)
    assert view(store, "txn_lost").frozen == "restored"
    assert view(store, "txn_done").frozen is None
    assert faults(store) == []
    assert not names(store.parent) & {"amends.db-wal", "amends.db-shm", "amends.db-journal"}


@pytest.mark.rule("TX-LEASE-3")
@pytest.mark.case("RST-02")
def test_nothing_that_is_frozen_is_done_until_an_operator_releases_it(
    store: Path, backup: Path
) -> None:
    restore(backup, store, replace=True, phase=quiet)

    async def try_all(amends: Amends) -> list[str]:
        refused = []
        for ask in (
            lambda: amends.commit("plan:txn_plan"),
            lambda: amends.withdraw("txn_plan"),
            lambda: amends.reconcile("txn_lost"),
            lambda: try_again(amends),
            lambda: amends.acting_as(BOB).approve(approval),
            lambda: amends.cancel("act_asks"),
        ):
            with pytest.raises(Exception) as caught:  # noqa: PT011  # each code is compared below
                await ask()
            refused.append(getattr(caught.value, "code", repr(caught.value)))
        return refused

    approval = str(view(store, "txn_asks").result.approval_id)
    assert work(store, try_all) == [
        "transaction.frozen",
        "transaction.frozen",
        "transaction.frozen",
        "transaction.frozen",
        "approval.frozen",
        "approval.frozen",
    ]

    async def release(amends: Amends) -> list[str]:
        olga = amends.acting_as(OLGA)
        for id_ in ("txn_plan", "txn_lost", "txn_again", "txn_asks"):
            await olga.release(id_)
        await amends.acting_as(BOB).approve(approval)
        done = [
            await amends.commit("plan:txn_plan"),
            await amends.resume("act_asks"),
            await try_again(amends),
            await olga.reconcile("txn_lost", insist=True),
        ]
        return [one.status.value for one in done]

    assert work(store, release) == ["committed", "committed", "committed", "reconciled"]
    assert faults(store) == []


@pytest.mark.case("REP-02")
def test_what_stood_there_is_kept_whole_and_what_it_knew_more_is_told(
    store: Path, backup: Path
) -> None:
    """Never merged: the old store stays what it was, with its references, under its own lineage."""

    async def go_on(amends: Amends) -> None:
        await amends.commit("plan:txn_plan", action_id="act_commit")
        await amends.execute(CHARGE, ORDER, transaction_id="txn_new")

    work(store, go_on)
    before = view(store, "txn_plan")
    done = restore(backup, store, replace=True, phase=quiet)
    assert [(one.transaction_id, one.status) for one in done.went_on] == [
        ("txn_plan", "committed"),
        ("txn_new", "committed"),
    ]
    assert done.kept is not None
    kept = store.with_name(done.kept)
    assert view(kept, "txn_plan") == before
    assert view(store, "txn_plan").result.status == "planned"
    with refused_with("transaction.not_found"):
        view(store, "txn_new")


@pytest.mark.case("REP-02")
def test_two_stores_that_went_apart_are_told_by_their_lineages_and_heads(
    store: Path, backup: Path, tmp_path: Path
) -> None:
    """A committed the plan; B, restored from before, has it claimed by another action."""
    other = tmp_path / "other.db"
    done = restore(backup, other, replace=False, phase=quiet)

    async def commit(amends: Amends) -> None:
        await amends.commit("plan:txn_plan")

    async def release_and_commit(amends: Amends) -> None:
        await amends.acting_as(OLGA).release("txn_plan")
        await amends.commit("plan:txn_plan")

    work(store, commit)
    work(other, release_and_commit)
    assert done.lineage != done.from_lineage
    keys = public_keys(store)
    id_ = TransactionId("txn_plan")
    (here,) = check_store(store, keys, {}, (id_,), TENANT)
    assert here.head is not None
    (there,) = check_store(other, keys, {id_: here.head}, (id_,), TENANT)
    assert FaultCode.FORK in [one.code for one in there.findings]


def test_a_backup_becomes_a_store_where_none_was(backup: Path, tmp_path: Path) -> None:
    database = tmp_path / "new" / "amends.db"
    database.parent.mkdir()
    done = restore(backup, database, replace=False, phase=quiet)
    assert (done.kept, done.replaced_lineage) == (None, None)
    assert names(database.parent) == {"amends.db", "amends.db.key"}
    assert stat.S_IMODE(database.stat().st_mode) == 0o600
    assert faults(database) == []


def test_a_backup_is_restored_as_often_as_one_likes(backup: Path, tmp_path: Path) -> None:
    before = backup.read_bytes()
    lineages = {
        restore(backup, tmp_path / f"{number}.db", replace=False, phase=quiet).lineage
        for number in range(3)
    }
    assert len(lineages) == 3
    assert backup.read_bytes() == before


def test_a_store_that_is_there_is_not_replaced_unasked(store: Path, backup: Path) -> None:
    before = store.read_bytes()
    with refused_with("restore.store_exists"):
        restore(backup, store, replace=False, phase=quiet)
    assert store.read_bytes() == before
    assert names(store.parent) == {"amends.db", "amends.db.key"}


@pytest.mark.case("SQL-04")
def test_a_store_that_is_open_is_not_replaced(store: Path, backup: Path) -> None:
    async def meanwhile(amends: Amends) -> None:
        with refused_with("restore.store_in_use"):
            backups._held(store)
        await amends.execute(CHARGE, ORDER, transaction_id="txn_new")

    work(store, meanwhile)
    assert view(store, "txn_new").result.status == "committed"
    assert faults(store) == []


def test_an_empty_file_is_replaced_and_nothing_of_it_is_kept(backup: Path, tmp_path: Path) -> None:
    database = tmp_path / "empty.db"
    database.touch()
    done = restore(backup, database, replace=True, phase=quiet)
    assert (done.kept, done.replaced_lineage) == (None, None)
    assert faults(database) == []


@pytest.mark.case("SQL-04")
def test_side_files_without_their_store_are_not_played_into_a_new_one(
    backup: Path, tmp_path: Path
) -> None:
    database = tmp_path / "gone.db"
    wal = tmp_path / "gone.db-wal"
    wal.write_bytes(b"stale")
    with refused_with("restore.side_files") as caught:
        restore(backup, database, replace=True, phase=quiet)
    assert "gone.db-wal" in caught.error.message
    assert wal.read_bytes() == b"stale"
    assert not database.exists()


def test_a_store_that_is_damaged_has_to_be_moved_away(backup: Path, tmp_path: Path) -> None:
    database = tmp_path / "damaged.db"
    database.write_bytes(b"no database" * 1000)
    with refused_with("store.unavailable") as caught:
        restore(backup, database, replace=True, phase=quiet)
    assert "elsewhere" in caught.error.next_step
    assert database.read_bytes().startswith(b"no database")


@pytest.mark.parametrize("content", [None, b"", b"no database" * 1000])
def test_what_is_no_backup_is_refused_and_nothing_is_changed(
    store: Path, tmp_path: Path, content: bytes | None
) -> None:
    source = tmp_path / "b.db"
    if content is not None:
        source.write_bytes(content)
    expected = {None: "restore.no_backup", b"": "backup.empty"}.get(content, "store.unavailable")
    before = store.read_bytes()
    with refused_with(expected):
        restore(source, store, replace=True, phase=quiet)
    assert store.read_bytes() == before


def test_a_store_is_not_restored_from_itself(store: Path) -> None:
    with refused_with("restore.same_file"):
        restore(store, store, replace=True, phase=quiet)


def test_a_backup_of_a_later_version_is_refused(store: Path, backup: Path) -> None:
    change(backup, "INSERT INTO migrations VALUES (99, 'later', 'x', 0)")
    with refused_with("store.schema_too_new"):
        restore(backup, store, replace=True, phase=quiet)


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_key_of_the_store_stays_where_the_backup_has_none(store: Path, backup: Path) -> None:
    backup.with_name("b.db.key").unlink()
    assert not restore(backup, store, replace=True, phase=quiet).key_made
    assert faults(store) == []


def test_two_different_keys_have_to_be_chosen_from(store: Path, backup: Path) -> None:
    backup.with_name("b.db.key").write_text("00" * 32)
    before = store.read_bytes()
    with refused_with("restore.key_differs"):
        restore(backup, store, replace=True, phase=quiet)
    assert store.read_bytes() == before


@pytest.mark.rule("RC-2")
@pytest.mark.parametrize("there", [True, False])
def test_of_two_keys_the_one_that_was_rotated_later_knows_both(
    store: Path, backup: Path, there: bool
) -> None:
    later = rotate_key(key_path(store if there else backup), system_clock())
    assert not restore(backup, store, replace=True, phase=quiet).key_made
    assert read_keys(key_path(store)).signer.key_id == later.signer.key_id
    assert faults(store) == []


def test_without_any_key_a_new_one_is_made_and_said_so(backup: Path, tmp_path: Path) -> None:
    backup.with_name("b.db.key").unlink()
    database = tmp_path / "new.db"
    assert restore(backup, database, replace=False, phase=quiet).key_made
    assert (tmp_path / "new.db.key").exists()
    assert FaultCode.KEY_UNKNOWN in faults(database)


def test_a_restore_that_fails_leaves_no_key_of_its_own(
    backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(backups, "give_name", breaks)
    database = tmp_path / "new" / "amends.db"
    database.parent.mkdir()
    with pytest.raises(OSError, match="gone"):
        restore(backup, database, replace=False, phase=quiet)
    assert names(database.parent) == set()


# ── what cannot be frozen ────────────────────────────────────────────────────────────────────────


@pytest.mark.case("STK-09", "VER-01")
def test_rows_that_nobody_can_act_on_are_left_alone_and_named(store: Path, backup: Path) -> None:
    unreadable = "UPDATE transactions SET body = '{' WHERE id = 'txn_lost'"
    change(backup, unreadable)
    connection = apsw.Connection(str(backup))
    body = connection.execute("SELECT body FROM transactions WHERE id = 'txn_plan'").get
    connection.close()
    contradictory = str(body).replace(
        '"provider_key"', '"provider_operation":{"provider":"x","operation_id":"y"},"provider_key"'
    )
    set_both = "UPDATE transactions SET body = ?, operation_id = 'y' WHERE id = 'txn_plan'"
    change(backup, set_both, contradictory)
    done: Restored = restore(backup, store, replace=True, phase=quiet)
    assert {one.id: one.reason for one in done.frozen.left_alone} == {
        "txn_lost": "the body is not a document that this version knows",
        "txn_plan": "transaction.record_contradictory",
    }
    assert [one.transaction_id for one in done.frozen.records] == ["txn_again"]

    async def look(amends: Amends) -> tuple[int, str]:
        page = await amends.list()
        readable = [one for one in page.items if isinstance(one, Stored)]
        with refused_with("transaction.record_contradictory"):
            await amends.commit("plan:txn_plan")
        return len(readable), (await amends.get("txn_done")).result.status.value

    assert work(store, look) == (3, Status.COMMITTED.value)
