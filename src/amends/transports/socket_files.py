"""The file of a Unix socket: nobody but its user could have put it there (INT-5).

A socket in the file system has an owner and a mode, and folders above it that have them too. One in
the abstract namespace has nothing of that: whoever is first has the name. So those are refused.

What is checked is every folder from the root down: no links, each of root or of a user that is
trusted, none that others can write, but for those where the sticky bit keeps each from touching
what is not his, and never the last. After that nobody who is not trusted can change what the path
means, so looking first and opening then is safe.
"""

import fcntl
import os
import posixpath
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from amends.contracts.codes import coded

LONGEST_PATH: Final = 100
LOCK_SUFFIX: Final = ".lock"
_ROOT: Final = 0
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


def check_socket_path(path: str) -> Path:
    """The path, if it can be that of a socket file. Raises `Misuse` (`misuse.socket_path`)."""
    plain = path.startswith("/") and posixpath.normpath(path) == path and path[:2] != "//"
    if not plain or "\0" in path or len(os.fsencode(path)) > LONGEST_PATH:
        raise coded("misuse.socket_path")
    return Path(path)


def check_socket(path: Path, owner: int) -> None:
    """That what lies there is a socket of this user, and that nobody could have replaced it.

    Raises `Unavailable`: `channel.socket_unsafe`, or `channel.lost` when nothing lies there.
    """
    check_folders(path, {owner})
    try:
        found = path.lstat()
    except FileNotFoundError:
        raise coded("channel.lost") from None
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != owner or found.st_mode & stat.S_IWOTH:
        raise coded("channel.socket_unsafe")


def check_folders(path: Path, owners: set[int]) -> None:
    """Every folder above a path. Raises `Unavailable` (`channel.socket_unsafe`)."""
    trusted = {*owners, _ROOT, os.geteuid()}
    for folder in path.parents:
        try:
            found = folder.lstat()
        except OSError:
            raise coded("channel.socket_unsafe") from None
        kept = folder != path.parent and found.st_mode & stat.S_ISVTX
        open_to_others = found.st_mode & _OTHERS_WRITE and not kept
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in trusted or open_to_others:
            raise coded("channel.socket_unsafe")


class SocketFile:
    """A socket that listens at a path, and the lock that says so. Close it when done.

    Mode 0600, or 0660 for a group. What an earlier process left is removed; a process that still
    listens has the lock. The lock's file stays.
    """

    def __init__(self, path: Path, lock: int, end: socket.socket) -> None:
        self.path: Final = path
        self.end: Final = end
        self._lock = lock

    @classmethod
    def bind(cls, path: str, *, group: int | None = None) -> "SocketFile":
        """Listen there.

        Raises `Misuse` (`misuse.socket_path`), `Unavailable` (`channel.socket_unsafe`), `Conflict`
        (`channel.socket_taken`).
        """
        place = check_socket_path(path)
        check_folders(place, set())
        lock = _locked(place)
        try:
            _clear(place)
            return cls(place, lock, _bound(place, group))
        except OSError:
            os.close(lock)
            raise coded("channel.socket_unsafe") from None
        except BaseException:
            os.close(lock)
            raise

    def close(self) -> None:
        """Listen no more, and take the file away."""
        self.end.close()
        with suppress(OSError):
            self.path.unlink()
        os.close(self._lock)


def _locked(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(f"{path}{LOCK_SUFFIX}", flags, 0o600)
    except OSError:
        raise coded("channel.socket_unsafe") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise coded("channel.socket_taken") from None
    return descriptor


def _clear(path: Path) -> None:
    """Remove the socket of a process that has ended; anything else is not ours to remove."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.geteuid():
        raise coded("channel.socket_unsafe")
    path.unlink()


def _bound(path: Path, group: int | None) -> socket.socket:
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Before it has a name, so that it never has another mode under it.
        os.fchmod(end.fileno(), 0o600)
        end.bind(str(path))
        if group is not None:
            os.chown(path, -1, group, follow_symlinks=False)
            path.chmod(0o660)
        end.listen()
    except BaseException:
        end.close()
        raise
    return end
