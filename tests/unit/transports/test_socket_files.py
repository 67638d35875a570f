"""A socket's file is where only its user could have put it, or it is refused."""

import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from amends.contracts.errors import Conflict, Misuse, Unavailable
from amends.transports.socket_files import (
    LONGEST_PATH,
    SocketFile,
    check_folders,
    check_socket,
    check_socket_path,
)

US: Final = os.geteuid()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name, since the paths of sockets are short."""
    made = Path(tempfile.mkdtemp(prefix="a-"))
    yield made
    shutil.rmtree(made)


def code_of_bind(path: Path) -> str:
    with pytest.raises((Unavailable, Conflict, Misuse)) as caught:
        SocketFile.bind(str(path))
    return caught.value.code


@pytest.mark.parametrize(
    "path",
    [
        "", "a.sock", "./a.sock", "@abstract", "\0abstract", "/a\0b", "//a", "/a/", "/a/../b",
        "/" + "a" * LONGEST_PATH, "/" + "ä" * (LONGEST_PATH // 2),
    ],
)  # fmt: skip
def test_a_path_that_is_relative_abstract_or_too_long_is_refused(path: str) -> None:
    with pytest.raises(Misuse) as caught:
        check_socket_path(path)
    assert caught.value.code == "misuse.socket_path"
    with pytest.raises(Misuse):
        SocketFile.bind(path)


def test_the_longest_path_is_taken() -> None:
    path = "/" + "a" * (LONGEST_PATH - 1)
    assert check_socket_path(path) == Path(path)


def test_a_socket_is_its_users_own_from_the_start(folder: Path) -> None:
    path = folder / "a.sock"
    earlier = os.umask(0)
    try:
        with closing(SocketFile.bind(str(path))):
            found = path.lstat()
            assert stat.S_ISSOCK(found.st_mode)
            assert stat.S_IMODE(found.st_mode) == 0o600
            assert stat.S_IMODE((folder / "a.sock.lock").lstat().st_mode) == 0o600
            check_socket(path, US)
    finally:
        os.umask(earlier)
    assert not path.exists()


def test_a_group_may_be_let_in_and_nobody_else(folder: Path) -> None:
    path = folder / "a.sock"
    with closing(SocketFile.bind(str(path), group=os.getegid())):
        assert stat.S_IMODE(path.lstat().st_mode) == 0o660
        assert path.lstat().st_gid == os.getegid()
        check_socket(path, US)


def test_a_second_listener_is_refused_while_the_first_listens(folder: Path) -> None:
    path = folder / "a.sock"
    with closing(SocketFile.bind(str(path))):
        assert code_of_bind(path) == "channel.socket_taken"
        with closing(socket.socket(socket.AF_UNIX)) as end:
            end.connect(str(path))
    with closing(SocketFile.bind(str(path))):
        assert path.exists()


def test_what_a_dead_listener_left_is_replaced(folder: Path) -> None:
    path = folder / "a.sock"
    with closing(socket.socket(socket.AF_UNIX)) as dead:
        dead.bind(str(path))
    with closing(SocketFile.bind(str(path))) as file, closing(socket.socket(socket.AF_UNIX)) as end:
        end.connect(str(path))
        assert file.path == path


def plain(path: Path) -> None:
    path.write_text("precious")


def linked(path: Path) -> None:
    plain(path.with_name("target"))
    path.symlink_to(path.with_name("target"))


def dangling(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


@pytest.mark.parametrize("put", [plain, linked, dangling, Path.mkdir])
def test_anything_else_at_the_path_is_left_alone(
    folder: Path, put: Callable[[Path], object]
) -> None:
    path = folder / "a.sock"
    put(path)
    before = path.lstat()
    assert code_of_bind(path) == "channel.socket_unsafe"
    assert path.lstat().st_ino == before.st_ino
    with pytest.raises(Unavailable) as caught:
        check_socket(path, US)
    assert caught.value.code == "channel.socket_unsafe"


def test_a_lock_that_is_a_link_is_not_followed(folder: Path) -> None:
    (folder / "a.sock.lock").symlink_to(folder / "elsewhere")
    assert code_of_bind(folder / "a.sock") == "channel.socket_unsafe"
    assert not (folder / "elsewhere").exists()


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o707, 0o1777])
def test_a_folder_that_others_can_write_is_refused(folder: Path, mode: int) -> None:
    inner = folder / "inner"
    inner.mkdir()
    inner.chmod(mode)
    assert code_of_bind(inner / "a.sock") == "channel.socket_unsafe"
    with pytest.raises(Unavailable):
        check_folders(inner / "a.sock", {US})


@pytest.mark.parametrize(("mode", "taken"), [(0o777, False), (0o1777, True), (0o755, True)])
def test_a_folder_further_up_needs_the_sticky_bit_if_others_can_write_it(
    folder: Path, mode: int, taken: bool
) -> None:
    upper = folder / "upper"
    (upper / "inner").mkdir(parents=True)
    upper.chmod(mode)
    path = upper / "inner" / "a.sock"
    if taken:
        SocketFile.bind(str(path)).close()
    else:
        assert code_of_bind(path) == "channel.socket_unsafe"


def test_a_link_on_the_way_is_refused(folder: Path) -> None:
    (folder / "real").mkdir()
    (folder / "link").symlink_to(folder / "real")
    assert code_of_bind(folder / "link" / "a.sock") == "channel.socket_unsafe"


def test_a_folder_that_is_missing_or_no_folder_is_refused(folder: Path) -> None:
    assert code_of_bind(folder / "none" / "a.sock") == "channel.socket_unsafe"
    (folder / "file").touch()
    assert code_of_bind(folder / "file" / "a.sock") == "channel.socket_unsafe"


def test_a_folder_of_a_stranger_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = folder / "inner"
    inner.mkdir()
    ours = inner.lstat()
    real = Path.lstat

    def of_a_stranger(path: Path) -> os.stat_result:
        found = real(path)
        theirs = (*found[:4], ours.st_uid + 7, *found[5:])
        return os.stat_result(theirs) if path == inner else found

    monkeypatch.setattr(Path, "lstat", of_a_stranger)
    with pytest.raises(Unavailable):
        check_folders(inner / "a.sock", set())
    check_folders(inner / "a.sock", {ours.st_uid + 7})


def test_a_socket_of_another_user_or_open_to_all_is_not_connected_to(folder: Path) -> None:
    path = folder / "a.sock"
    with closing(SocketFile.bind(str(path))):
        with pytest.raises(Unavailable) as caught:
            check_socket(path, US + 7)
        assert caught.value.code == "channel.socket_unsafe"
        path.chmod(0o666)
        with pytest.raises(Unavailable) as caught:
            check_socket(path, US)
        assert caught.value.code == "channel.socket_unsafe"


def test_a_socket_that_is_not_there_is_a_lost_channel(folder: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        check_socket(folder / "a.sock", US)
    assert caught.value.code == "channel.lost"


def test_a_bind_that_fails_lets_the_lock_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "a.sock"
    with monkeypatch.context() as patched:
        patched.setattr("os.fchmod", _refuse)
        assert code_of_bind(path) == "channel.socket_unsafe"
    SocketFile.bind(str(path)).close()


def _refuse(*_: object) -> None:
    raise PermissionError
