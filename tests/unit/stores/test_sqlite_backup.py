"""Copies of a file, and putting one back: whole or not at all, and nothing is replaced unasked."""

import errno
import stat
from pathlib import Path

import apsw
import pytest

from amends.contracts.documents import TransactionRecord
from amends.contracts.errors import Unavailable
from amends.stores.port import Insert
from amends.stores.rows import system_clock
from amends.stores.sqlite import backup as backups
from amends.stores.sqlite import open_sqlite
from amends.stores.sqlite.backup import (
    Held,
    back_up,
    check_whole,
    copy_into,
    fresh_beside,
    give_name,
    make_plain,
    orphans,
    renew_lineage,
)
from amends.stores.sqlite.connection import PAGE_BYTES
from amends.testing.refusals import refused_with
from amends.testing.store_contract_trial import commit
from amends.testing.store_documents import TENANT, a_transaction, links


def untold(_done: int, _total: int) -> None:
    """Nobody asks."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store in a folder of its own."""
    folder = tmp_path / "store"
    folder.mkdir()
    return folder / "amends.db"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """An empty folder for what is made of it."""
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


async def fill(path: Path, *names: str) -> str:
    """Store some transactions; the lineage of the store, which is closed again."""
    store = await open_sqlite(path)
    for name in names:
        await commit(store, Insert(a_transaction(name)), links(3, name=name))
    lineage = await store.lineage()
    await store.close()
    return lineage


async def names_in(path: Path) -> set[str]:
    store = await open_sqlite(path)
    try:
        page = await store.list(TransactionRecord, TENANT)
        return {one.document.transaction_id for one in page.items}  # type: ignore[union-attr]  # all can be read
    finally:
        await store.close()


def torn(path: Path) -> None:
    """Overwrite the end of a file."""
    content = path.read_bytes()
    path.write_bytes(content[: -60 * PAGE_BYTES] + b"\xff" * (60 * PAGE_BYTES))


def beside(path: Path) -> set[str]:
    return {one.name for one in path.parent.iterdir()}


# ── backing up ───────────────────────────────────────────────────────────────────────────────────


async def test_a_backup_is_one_whole_private_file_of_the_store_as_it_was(
    path: Path, out: Path
) -> None:
    lineage = await fill(path, "1", "2")
    told: list[tuple[int, int]] = []
    target = out / "b.db"
    back_up(path, target, lambda done, total: told.append((done, total)))
    await fill(path, "3")
    assert beside(target) == {"b.db"}
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert check_whole(target) == lineage
    assert await names_in(target) == {"txn_1", "txn_2"}
    assert told[-1][0] == told[-1][1] > 0


async def test_what_is_written_during_a_backup_is_not_in_it_and_does_not_disturb_it(
    path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backups, "_PAGES_AT_ONCE", 1)
    await fill(path, *map(str, range(30)))
    other = apsw.Connection(str(path))
    written: list[int] = []

    def busy(done: int, _total: int) -> None:
        if done < 10:
            other.execute("UPDATE transactions SET updated_at = updated_at + 1")
            other.execute("DELETE FROM receipts WHERE position = ?", (done,))
            written.append(done)

    back_up(path, out / "b.db", busy)
    other.close()
    assert written
    assert len(await names_in(out / "b.db")) == 30
    copy = apsw.Connection(str(out / "b.db"))
    assert copy.execute("SELECT count(*) FROM receipts").get == 90
    copy.close()


async def test_a_backup_never_takes_the_place_of_anything(path: Path, out: Path) -> None:
    await fill(path, "1")
    target = out / "b.db"
    target.write_text("mine")
    with refused_with("backup.target_exists"):
        back_up(path, target, untold)
    with refused_with("backup.target_exists"), fresh_beside(target) as made:
        give_name(made, target)
    assert target.read_text() == "mine"
    assert beside(target) == {"b.db"}


async def test_a_backup_of_a_damaged_store_is_refused_and_leaves_nothing(
    path: Path, out: Path
) -> None:
    await fill(path, *map(str, range(200)))
    torn(path)
    with refused_with("store.file_damaged"):
        back_up(path, out / "b.db", untold)
    assert beside(out / "b.db") == set()
    with refused_with("store.file_damaged"):
        check_whole(path)


async def test_a_backup_into_a_folder_that_is_not_there_is_refused(path: Path, out: Path) -> None:
    await fill(path, "1")
    for name in ("none/b.db", "b" * 300):
        with refused_with("backup.target_unwritable"):
            back_up(path, out / name, untold)


async def test_a_disk_without_hard_links_is_named(
    path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(Path, "hardlink_to", refuses)
    await fill(path, "1")
    with refused_with("backup.target_unwritable"):
        back_up(path, out / "b.db", untold)
    assert beside(out / "b.db") == set()


@pytest.mark.parametrize("content", [b"", b"x" * 5000, None])
def test_only_a_store_is_taken_for_a_backup(out: Path, content: bytes | None) -> None:
    path = out / "b.db"
    if content is not None:
        path.write_bytes(content)
    with refused_with("backup.empty" if content == b"" else "store.unavailable"):
        check_whole(path)


# ── putting back ─────────────────────────────────────────────────────────────────────────────────


async def staged(path: Path, folder: Path) -> Path:
    """A plain copy of a store."""
    copy = folder / "staged.db"
    copy.touch()
    copy_into(path, copy, untold)
    make_plain(copy)
    return copy


@pytest.mark.case("SQL-04")
async def test_a_content_takes_the_place_of_another_and_no_side_file_is_left(
    path: Path, tmp_path: Path
) -> None:
    await fill(path, *map(str, range(20)))
    await fill(tmp_path / "new.db", "new")
    source = await staged(tmp_path / "new.db", tmp_path)
    left = path.with_name(path.name + "-shm")
    left.touch()
    told: list[tuple[int, int]] = []
    with Held(path) as held:
        held.replace_by(source, lambda done, total: told.append((done, total)))
    assert beside(path) == {path.name}
    assert told[-1][0] == told[-1][1]
    assert check_whole(path) == check_whole(source)
    assert await names_in(path) == {"txn_new"}


@pytest.mark.case("SQL-04")
async def test_a_store_that_is_open_is_not_held(path: Path) -> None:
    store = await open_sqlite(path)
    await commit(store, Insert(a_transaction("1")))
    with refused_with("restore.store_in_use"):
        Held(path)
    await commit(store, Insert(a_transaction("2")))
    await store.close()
    assert await names_in(path) == {"txn_1", "txn_2"}


@pytest.mark.case("SQL-04")
async def test_a_store_that_is_held_opens_for_nobody_else(path: Path) -> None:
    await fill(path, "1")
    with Held(path):
        other = apsw.Connection(str(path))
        with pytest.raises(apsw.BusyError):
            other.execute("SELECT count(*) FROM transactions")
        other.close()
    assert await names_in(path) == {"txn_1"}


async def test_what_stood_there_is_kept_before(path: Path, tmp_path: Path) -> None:
    lineage = await fill(path, "1")
    kept = tmp_path / "kept.db"
    with Held(path) as held:
        assert (held.lineage, held.is_empty) == (lineage, False)
        held.keep_as(kept, untold)
        with refused_with("backup.target_exists"):
            held.keep_as(kept, untold)
    assert await names_in(kept) == {"txn_1"}


async def test_a_copy_that_fails_half_way_leaves_the_old_content(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backups, "_PAGES_AT_ONCE", 1)
    await fill(path, *map(str, range(20)))
    await fill(tmp_path / "new.db", "new")
    source = await staged(tmp_path / "new.db", tmp_path)

    def breaks(done: int, _total: int) -> None:
        if done > 5:
            raise apsw.FullError("no room")

    with refused_with("store.unavailable"), Held(path) as held:
        held.replace_by(source, breaks)
    assert len(await names_in(path)) == 20


def test_an_empty_file_can_be_held(tmp_path: Path) -> None:
    path = tmp_path / "amends.db"
    path.touch()
    with Held(path) as held:
        assert (held.is_empty, held.lineage) == (True, None)


def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "amends.db"
    path.touch()

    def refuses(*_: object) -> object:
        raise apsw.CantOpenError("no")

    monkeypatch.setattr(apsw, "Connection", refuses)
    with refused_with("store.unavailable"):
        make_plain(path)


async def test_a_file_whose_settings_cannot_be_changed_is_not_held(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await fill(path, "1")

    class Stubborn(apsw.Connection):
        def pragma(self, name: str, *value: object, **more: object) -> object:
            if name == "journal_mode":
                raise apsw.ReadOnlyError("read only")
            return super().pragma(name, *value, **more)  # type: ignore[arg-type]  # as given

    monkeypatch.setattr(apsw, "Connection", Stubborn)
    with refused_with("store.unavailable"):
        Held(path)


async def test_a_renewed_lineage_is_another_one(path: Path, tmp_path: Path) -> None:
    first = await fill(path, "1")
    source = await staged(path, tmp_path)
    lineage = renew_lineage(source, system_clock())
    assert check_whole(source) == lineage != first


def test_files_beside_a_store_that_is_gone_are_found(tmp_path: Path) -> None:
    path = tmp_path / "amends.db"
    assert orphans(path) == ()
    for suffix in ("-wal", "-journal"):
        path.with_name(path.name + suffix).touch()
    assert orphans(path) == ("amends.db-wal", "amends.db-journal")
    path.touch()
    assert orphans(path) == ()


def breaks() -> None:
    raise Unavailable("some.code", "Something else.")


def test_what_is_made_beside_is_gone_with_the_block(tmp_path: Path) -> None:
    target = tmp_path / "amends.db"
    with refused_with("some.code"), fresh_beside(target) as made:
        made.with_name(made.name + "-wal").touch()
        assert stat.S_IMODE(made.stat().st_mode) == 0o600
        breaks()
    assert list(tmp_path.iterdir()) == []
