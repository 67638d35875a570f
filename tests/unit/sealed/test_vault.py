"""Vaults: one order of writing, one writer, and nothing served from another time."""

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from amends.contracts.errors import AmendsError, Unavailable
from amends.contracts.persistence import content_digest
from amends.sealed.anchors import FIRST, Floor, Protection
from amends.sealed.envelopes import Place
from amends.sealed.sqlite_anchor import SqliteAnchor
from amends.sealed.vault import Storage, Vault
from amends.testing.faulty_disk import FaultyDisk
from amends.testing.faulty_files import FaultyFiles
from amends.testing.refusals import refused_with
from tests.unit.sealed.stage import (
    KEYS,
    PLACE,
    SECRET,
    anchor_in,
    folder_in,
    record_of,
    storage_in,
)


def begun(path: Path, *payloads: bytes) -> Storage:
    """A record that was initialised and then saved so often."""
    storage = storage_in(path)
    Vault.initialise(storage, b"first")
    for payload in payloads:
        Vault.open(storage).save(payload)
    return storage


@pytest.mark.rule("ST-1", "ST-2")
def test_what_was_saved_is_opened_again(tmp_path: Path) -> None:
    storage = begun(tmp_path)
    vault = Vault.open(storage)
    assert (vault.payload, vault.revision, vault.fence) == (b"first", 1, 2)
    receipt = vault.save(SECRET)
    assert receipt == vault.receipt
    assert (receipt.revision, receipt.fence) == (2, 2)
    assert receipt.digest == content_digest(SECRET)
    again = Vault.open(storage)
    assert (again.payload, again.fence, again.finished_a_crash) == (SECRET, 3, False)
    assert "nobody" not in repr(again)


@pytest.mark.rule("ST-5")
def test_an_encrypted_record_shows_nothing_on_disk(tmp_path: Path) -> None:
    storage = storage_in(tmp_path, encrypted=True)
    Vault.initialise(storage, SECRET)
    assert b"nobody" not in record_of(tmp_path).read_bytes()
    assert Vault.open(storage).payload == SECRET


@pytest.mark.rule("ST-4")
def test_keys_are_rotated_between_two_saves(tmp_path: Path) -> None:
    vault = Vault.open(begun(tmp_path))
    both = KEYS.adding("storage-v2", b"\x08" * 32)
    vault.rotate(both.sealing_with("storage-v2"))
    vault.save(SECRET)
    with refused_with("sealed.key_unknown"):
        Vault.open(storage_in(tmp_path))
    assert Vault.open(storage_in(tmp_path, keys=both)).payload == SECRET


# ── from another time, or another place ──────────────────────────────────────────────────────────


def copy_of(path: Path) -> Path:
    return Path(shutil.copy2(record_of(path), path / "copy"))


def put_back(path: Path, copy: Path) -> None:
    shutil.copy2(copy, record_of(path))


@pytest.mark.rule("ST-2")
def test_neither_record_nor_anchor_asks_for_an_explicit_beginning(tmp_path: Path) -> None:
    storage = storage_in(tmp_path)
    with refused_with("sealed.not_initialised"):
        Vault.open(storage)
    with refused_with("sealed.not_initialised"):
        Vault.reseat(storage, who="olga", why="it is gone")
    assert storage.anchor.floor(PLACE) is None
    Vault.initialise(storage, b"first")
    with refused_with("sealed.initialised"):
        Vault.initialise(storage, b"first")


@pytest.mark.rule("ST-2", "ST-3")
def test_a_record_without_its_anchor_is_anchored_by_a_person_only(tmp_path: Path) -> None:
    lost = begun(tmp_path, b"second")
    old_writer = Vault.open(lost)
    (tmp_path / "anchor.db").unlink()
    storage = storage_in(tmp_path)
    with refused_with("sealed.unanchored"):
        Vault.open(storage)
    with refused_with("sealed.unanchored"):
        Vault.initialise(storage, b"first")
    Vault.reseat(storage, who="olga", why="the anchor's disk is gone")
    vault = Vault.open(storage)
    assert vault.payload == b"second"
    assert vault.fence > old_writer.fence + 1_000_000


@pytest.mark.rule("ST-2", "ST-3")
@pytest.mark.fault(36)
def test_a_restored_record_is_reseated_by_a_person_who_says_why(tmp_path: Path) -> None:
    storage = begun(tmp_path)
    copy = copy_of(tmp_path)
    writer = Vault.open(storage)
    writer.save(b"second")
    put_back(tmp_path, copy)
    for who, why in (("", "restored"), ("olga", " ")):
        with refused_with("sealed.reason_required"):
            Vault.reseat(storage, who=who, why=why)
    with refused_with("sealed.rolled_back"):
        Vault.open(storage)
    Vault.reseat(storage, who="olga", why="restored from yesterday")
    with refused_with("sealed.fenced"):
        writer.save(b"third")
    assert Vault.open(storage).payload == b"first"
    rows = apsw.Connection(str(tmp_path / "anchor.db")).execute("SELECT who, why FROM reseatings")
    assert rows.fetchall() == [("olga", "restored from yesterday")]


@pytest.mark.rule("ST-2")
def test_a_record_that_is_gone_is_reseated_with_what_a_person_brings(tmp_path: Path) -> None:
    storage = begun(tmp_path, b"second")
    record_of(tmp_path).unlink()
    Vault.reseat(
        storage,
        who="olga",
        why="the disk is gone",
        payload=lambda found: b"frozen" if found is None else found,
    )
    vault = Vault.open(storage)
    assert (vault.payload, vault.revision) == (b"frozen", 3)


# ── crashes ──────────────────────────────────────────────────────────────────────────────────────


class Deaf:
    """An anchor that does not answer one of its methods, before or after doing it."""

    def __init__(self, inner: SqliteAnchor, method: str, *, after: bool) -> None:
        self.inner, self.method, self.after = inner, method, after

    def _call(self, name: str, step: Callable[[], object]) -> object:
        if name != self.method:
            return step()
        if self.after:
            step()
        raise OSError(errno.EIO, "the anchor was not heard")

    def floor(self, place: Place) -> Floor | None:
        self._call("floor", lambda: None)
        return self.inner.floor(place)

    def create(self, place: Place, floor: Floor) -> None:
        self._call("create", lambda: self.inner.create(place, floor))

    def reserve(self, place: Place) -> Floor:
        self._call("reserve", lambda: None)
        return self.inner.reserve(place)

    def reseat(self, place: Place, floor: Floor, *, who: str, why: str) -> None:
        self._call("reseat", lambda: self.inner.reseat(place, floor, who=who, why=why))

    def advance(self, place: Place, before: Floor, after: Floor) -> None:
        self._call("advance", lambda: self.inner.advance(place, before, after))


@pytest.mark.rule("ST-2")
@pytest.mark.parametrize("after", [False, True], ids=["anchor not moved", "anchor moved"])
def test_a_reseating_that_the_anchor_did_not_answer_is_never_open_with_what_waits_left_out(
    tmp_path: Path, after: bool
) -> None:
    begun(tmp_path)
    copy = copy_of(tmp_path)
    Vault.open(storage_in(tmp_path)).save(b"second")
    put_back(tmp_path, copy)

    def reseat(storage: Storage) -> None:
        Vault.reseat(storage, who="olga", why="restored", payload=lambda found: b"waits")

    with pytest.raises(OSError, match="not heard"):
        reseat(storage_in(tmp_path, anchor=Deaf(anchor_in(tmp_path), "reseat", after=after)))
    if not after:
        with refused_with("sealed.forked"):
            Vault.open(storage_in(tmp_path))
    reseat(storage_in(tmp_path))
    assert Vault.open(storage_in(tmp_path)).payload == b"waits"


@pytest.mark.fault(39)
@pytest.mark.rule("ST-2")
@pytest.mark.parametrize("after", [False, True], ids=["anchor not moved", "anchor moved"])
def test_a_crash_between_snapshot_and_anchor_is_finished_on_opening(
    tmp_path: Path, after: bool
) -> None:
    begun(tmp_path)
    deaf = Deaf(anchor_in(tmp_path), "advance", after=after)
    vault = Vault.open(storage_in(tmp_path, anchor=deaf))
    with pytest.raises(OSError, match="not heard"):
        vault.save(b"second")
    assert vault.payload == b"first"
    with refused_with("sealed.poisoned"):
        vault.save(b"third")
    disk = FaultyDisk()
    again = Vault.open(storage_in(tmp_path, disk=disk))
    assert (again.payload, again.revision) == (b"second", 2)
    assert again.finished_a_crash is not after
    assert ("replace" in disk.calls) is again.finished_a_crash
    again.save(b"third")
    assert Vault.open(storage_in(tmp_path)).payload == b"third"


@pytest.mark.rule("ST-2")
@pytest.mark.parametrize("method", ["create", "reserve", "advance"])
@pytest.mark.parametrize("after", [False, True])
def test_a_beginning_that_was_cut_off_is_begun_again_or_opened(
    tmp_path: Path, method: str, after: bool
) -> None:
    deaf = Deaf(anchor_in(tmp_path), method, after=after)
    with pytest.raises(OSError, match="not heard"):
        Vault.initialise(storage_in(tmp_path, anchor=deaf), b"first")
    storage = storage_in(tmp_path)
    if method != "advance":
        Vault.initialise(storage, b"first")
    assert Vault.open(storage).payload == b"first"


@pytest.mark.fault(34)
def test_a_flipped_bit_stops_at_the_record_which_is_named_and_left_alone(tmp_path: Path) -> None:
    begun(tmp_path, b"first")
    whole = record_of(tmp_path).read_bytes()
    spoilt = whole.replace(b'"fence":', b'"fence":1')
    record_of(tmp_path).write_bytes(spoilt)
    with refused_with("sealed.tampered") as caught:
        Vault.open(storage_in(tmp_path))
    assert caught.error is not None
    assert caught.error.details == {"file": "journal"}
    assert record_of(tmp_path).read_bytes() == spoilt


@pytest.mark.rule("ST-2", "ST-6")
@pytest.mark.fault(32, 33)
@pytest.mark.parametrize("after", [False, True], ids=["not done", "done"])
@pytest.mark.parametrize("only_once", [False, True], ids=["for good", "only once"])
def test_whichever_call_of_a_save_fails_the_vault_is_poisoned_and_the_record_whole(
    tmp_path: Path, after: bool, only_once: bool
) -> None:
    begun(tmp_path)
    disk = FaultyDisk()
    Vault.open(storage_in(tmp_path, disk=disk))
    opened = len(disk.calls)
    Vault.open(storage_in(tmp_path, disk=disk)).save(b"first")
    for number in range(1, len(disk.calls) - 2 * opened + 1):
        disk = FaultyDisk()
        vault = Vault.open(storage_in(tmp_path, disk=disk))
        disk.fail_at(number, error=errno.ENOSPC, after=after, only_once=only_once)
        with pytest.raises(AmendsError, match=r"sealed\."):
            vault.save(b"second")
        disk.heal()
        with refused_with("sealed.poisoned"):
            vault.save(b"third")
        again = Vault.open(storage_in(tmp_path))
        assert again.payload in (b"first", b"second")
        again.save(b"first")


@pytest.mark.rule("ST-2")
def test_an_anchor_that_fails_poisons_both_and_loses_nothing(tmp_path: Path) -> None:
    begun(tmp_path)
    with FaultyFiles() as files:
        for number in range(20):
            anchor = SqliteAnchor.open_file(tmp_path / "anchor.db", vfs=files.name)
            vault = Vault.open(storage_in(tmp_path, anchor=anchor))
            files.fail("write", "sync", code=apsw.SQLITE_IOERR_FSYNC, after=number)
            is_saved = saves(vault, anchor, files)
            anchor.close()
            assert Vault.open(storage_in(tmp_path)).payload in (b"first", b"second")
            if is_saved:
                break
    assert number > 1
    assert Vault.open(storage_in(tmp_path)).payload == b"second"


def saves(vault: Vault, anchor: SqliteAnchor, files: FaultyFiles) -> bool:
    """Whether a save goes through. If not, neither vault nor anchor may answer any more, though
    nothing fails any longer.
    """
    try:
        vault.save(b"second")
    except Unavailable:
        files.heal()
        with refused_with("sealed.poisoned"):
            vault.save(b"third")
        with refused_with("sealed.anchor_unreachable"):
            anchor.floor(PLACE)
        return False
    return True


# ── fences ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("ST-3")
def test_a_writer_that_is_fenced_out_in_mid_save_has_written_nothing_that_counts(
    tmp_path: Path,
) -> None:
    begun(tmp_path)

    class Overtaken(Deaf):
        def advance(self, place: Place, before: Floor, after: Floor) -> None:
            self.inner.reserve(place)
            self.inner.advance(place, before, after)

    storage = storage_in(tmp_path, anchor=Overtaken(anchor_in(tmp_path), "", after=False))
    vault = Vault.open(storage)
    with refused_with("sealed.fenced"):
        vault.save(b"second")
    again = Vault.open(storage_in(tmp_path))
    assert (again.payload, again.finished_a_crash) == (b"second", True)


@pytest.mark.rule("ST-3")
def test_an_opening_that_is_overtaken_while_it_waits_serves_nothing(tmp_path: Path) -> None:
    begun(tmp_path)

    class Overtaken(Deaf):
        def reserve(self, place: Place) -> Floor:
            floor = self.inner.reserve(place)
            self.inner.reserve(place)
            return floor

    with refused_with("sealed.fenced"):
        Vault.open(storage_in(tmp_path, anchor=Overtaken(anchor_in(tmp_path), "", after=False)))


# ── the anchor itself ────────────────────────────────────────────────────────────────────────────


def test_an_anchor_that_another_process_holds_for_too_long_is_asked_again(tmp_path: Path) -> None:
    anchor = anchor_in(tmp_path)
    anchor._connection.set_busy_timeout(1)
    other = apsw.Connection(str(tmp_path / "anchor.db"))
    other.execute("BEGIN IMMEDIATE")
    with refused_with("sealed.anchor_unreachable"):
        anchor.create(PLACE, FIRST)
    other.execute("ROLLBACK")
    anchor.create(PLACE, FIRST)
    assert anchor.floor(PLACE) == FIRST


def test_a_missing_or_foreign_anchor_is_never_made_anew(tmp_path: Path) -> None:
    with refused_with("sealed.anchor_unreachable"):
        SqliteAnchor.open_file(tmp_path / "anchor.db")
    assert not (tmp_path / "anchor.db").exists()
    (tmp_path / "text.db").write_text("no database at all, but long enough to be one" * 20)
    (tmp_path / "text.db").chmod(0o600)
    with refused_with("sealed.anchor_unreachable"):
        SqliteAnchor.open_file(tmp_path / "text.db")
    apsw.Connection(str(tmp_path / "other.db")).execute("CREATE TABLE floors (a)")
    (tmp_path / "other.db").chmod(0o600)
    with refused_with("sealed.anchor_unreachable"):
        SqliteAnchor.open_file(tmp_path / "other.db")


@pytest.mark.rule("ST-6")
def test_an_anchor_that_others_can_touch_is_not_opened(tmp_path: Path) -> None:
    SqliteAnchor.create_file(tmp_path / "anchor.db")
    (tmp_path / "link.db").symlink_to(tmp_path / "anchor.db")
    with refused_with("sealed.file_unsafe"):
        SqliteAnchor.open_file(tmp_path / "link.db")
    (tmp_path / "anchor.db").chmod(0o660)
    with refused_with("sealed.file_unsafe"):
        SqliteAnchor.open_file(tmp_path / "anchor.db")


def test_an_anchor_file_is_made_once_and_private(tmp_path: Path) -> None:
    SqliteAnchor.create_file(tmp_path / "anchor.db")
    assert (tmp_path / "anchor.db").stat().st_mode & 0o777 == 0o600
    with refused_with("sealed.initialised"):
        SqliteAnchor.create_file(tmp_path / "anchor.db")
    with refused_with("sealed.anchor_unreachable"):
        SqliteAnchor.create_file(tmp_path / "no folder" / "anchor.db")


@pytest.mark.rule("ST-2")
def test_an_anchor_on_the_same_volume_says_what_it_protects_against(tmp_path: Path) -> None:
    anchor = anchor_in(tmp_path)
    assert anchor.protects(folder_in(tmp_path)) is Protection.SINGLE_FILES
    assert anchor.protects(Path("/proc")) is Protection.RESTORED_DISK
