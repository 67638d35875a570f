"""The file rules: private, plain, written durably, and never trusted after a failure."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from amends.sealed.files import SealedFile
from amends.testing.faulty_disk import FaultyDisk
from amends.testing.refusals import refused_with
from tests.unit.sealed.stage import MAX_BYTES, folder_in

OLD, NEW = b"old" * 100, b"new" * 100

pytestmark = pytest.mark.rule("ST-6")


def file_in(path: Path, disk: FaultyDisk | None = None, *, wait_s: float = 5.0) -> SealedFile:
    return SealedFile(
        folder_in(path), "journal", max_bytes=MAX_BYTES, disk=disk, lock_wait_s=wait_s
    )


def written(path: Path) -> SealedFile:
    file = file_in(path)
    with file.locked():
        file.write(OLD)
    return file


def test_what_was_written_is_read_and_private(tmp_path: Path) -> None:
    file = file_in(tmp_path)
    assert file.read() is None
    written(tmp_path)
    assert file.read() == OLD
    assert (folder_in(tmp_path) / "journal").stat().st_mode & 0o777 == 0o600
    assert sorted(one.name for one in folder_in(tmp_path).iterdir()) == ["journal", "journal.lock"]


def test_file_and_folder_are_flushed_in_their_order(tmp_path: Path) -> None:
    disk = FaultyDisk()
    file_in(tmp_path, disk).write(NEW)
    assert disk.calls == ("open_directory stat remove create write flush replace flush".split())


def test_a_disk_that_takes_little_at_a_time_is_given_the_rest(tmp_path: Path) -> None:
    disk = FaultyDisk()
    disk.short = True
    file_in(tmp_path, disk).write(NEW)
    assert file_in(tmp_path).read() == NEW


def test_a_disk_that_takes_nothing_fails_the_write(tmp_path: Path) -> None:
    class Full(FaultyDisk):
        def write(self, descriptor: int, data: bytes) -> int:
            return 0

    written(tmp_path)
    with refused_with("sealed.write_failed"):
        file_in(tmp_path, Full()).write(NEW)
    assert file_in(tmp_path).read() == OLD


CALLS = 8


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
@pytest.mark.parametrize("after", [False, True], ids=["not done", "done"])
@pytest.mark.parametrize("number", range(1, CALLS + 1))
def test_whichever_call_fails_the_file_is_the_old_or_the_new_one(
    tmp_path: Path, number: int, after: bool, error: int
) -> None:
    written(tmp_path)
    disk = FaultyDisk()
    disk.fail_at(number, error=error, after=after)
    code = "sealed.file_unsafe" if number == 1 else "sealed.write_failed"
    with refused_with(code):
        file_in(tmp_path, disk).write(NEW)
    assert file_in(tmp_path).read() in ((OLD, NEW) if number >= 7 else (OLD,))
    file_in(tmp_path).write(NEW)
    assert file_in(tmp_path).read() == NEW


@pytest.mark.parametrize("number", range(1, 7))
def test_whichever_call_fails_nothing_is_read(tmp_path: Path, number: int) -> None:
    written(tmp_path)
    disk = FaultyDisk()
    disk.fail_at(number)
    code = "sealed.file_unsafe" if number in (1, 3) else "sealed.read_failed"
    with refused_with(code):
        file_in(tmp_path, disk).read()
    disk.heal()
    assert file_in(tmp_path, disk).read() == OLD


@pytest.mark.parametrize("number", range(1, 6))
def test_whichever_call_fails_nothing_is_locked(tmp_path: Path, number: int) -> None:
    written(tmp_path)
    disk = FaultyDisk()
    disk.fail_at(number)
    code = "sealed.file_unsafe" if number == 1 else "sealed.read_failed"
    with refused_with(code):
        take(file_in(tmp_path, disk))


def test_too_much_is_refused_before_the_disk_is_touched(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with refused_with("sealed.too_large"):
        file_in(tmp_path, disk).write(b"x" * (MAX_BYTES + 1))
    assert disk.calls == []
    (folder_in(tmp_path) / "journal").write_bytes(b"x" * (MAX_BYTES + 1))
    (folder_in(tmp_path) / "journal").chmod(0o600)
    with refused_with("sealed.malformed"):
        file_in(tmp_path).read()


def open_to_others(record: Path) -> None:
    record.chmod(0o640)


def linked(record: Path) -> None:
    os.link(record, record.with_name("other"))


def a_symbolic_link(record: Path) -> None:
    record.rename(record.with_name("other"))
    record.symlink_to(record.with_name("other"))


def a_folder(record: Path) -> None:
    record.unlink()
    record.mkdir(mode=0o600)


def a_pipe(record: Path) -> None:
    record.unlink()
    os.mkfifo(record, 0o600)


def a_folder_open_to_others(record: Path) -> None:
    record.parent.chmod(0o750)


def a_folder_behind_a_link(record: Path) -> None:
    folder = record.parent
    folder.rename(folder.with_name("other"))
    folder.symlink_to(folder.with_name("other"))


UNSAFE: list[Callable[[Path], None]] = [
    open_to_others,
    linked,
    a_symbolic_link,
    a_folder,
    a_pipe,
    a_folder_open_to_others,
    a_folder_behind_a_link,
]


@pytest.mark.parametrize("spoil", UNSAFE)
def test_what_is_not_private_and_plain_is_not_read(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    file = written(tmp_path)
    spoil(file.directory / "journal")
    with refused_with("sealed.file_unsafe"):
        file.read()


def test_a_file_of_another_user_is_not_read(tmp_path: Path) -> None:
    class OfAnotherUser(FaultyDisk):
        def stat(self, descriptor: int) -> os.stat_result:
            found = list(super().stat(descriptor))
            found[4] = os.geteuid() + 1
            return os.stat_result(found)

    written(tmp_path)
    with refused_with("sealed.file_unsafe"):
        file_in(tmp_path, OfAnotherUser()).read()


def test_a_lock_that_is_a_link_is_not_taken(tmp_path: Path) -> None:
    file = written(tmp_path)
    lock = file.directory / "journal.lock"
    lock.unlink()
    lock.symlink_to(file.directory / "journal")
    with refused_with("sealed.read_failed"):
        take(file)


def test_a_link_in_the_place_of_the_new_file_is_taken_away_and_not_followed(tmp_path: Path) -> None:
    file = written(tmp_path)
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    (file.directory / "journal.new").symlink_to(victim)
    file.write(NEW)
    assert victim.read_bytes() == b"mine"
    assert file.read() == NEW


def test_a_second_writer_waits_and_then_gives_up(tmp_path: Path) -> None:
    other = file_in(tmp_path, wait_s=0.02)
    with written(tmp_path).locked(), refused_with("sealed.locked"):
        take(other)
    take(other)


def take(file: SealedFile) -> None:
    with file.locked():
        pass
