"""One sealed record as a file that survives power loss, and that only its owner can touch (ST-6).

Writing makes a new file beside the old one, writes and flushes it, puts it in the place of the old
one, and flushes the folder. Every result is checked; the first failure ends the write, and the
caller must not write through this opening again: after a failed flush the machine may hold pages
that it will never write, so trying again would prove nothing.

Reading takes a plain file with one name, of this user, mode 0600, in a folder of this user, mode
0700. Links are never followed. The lock is held while somebody writes, by no one in between.

Deliberately not here: what the bytes say.
"""

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from amends.contracts.codes import coded
from amends.contracts.errors import AmendsError
from amends.sealed.disk import Disk

NEW_SUFFIX: Final = ".new"
LOCK_SUFFIX: Final = ".lock"
_OTHERS: Final = 0o077
_PAUSE_S: Final = 0.005
_CHUNK: Final = 1024 * 1024


def check_private(found: os.stat_result, name: str) -> None:
    """Whether it is a plain file with one name, of this user and for nobody else.

    Raises `Unavailable` (`sealed.file_unsafe`).
    """
    is_plain = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
    if not is_plain or found.st_uid != os.geteuid() or found.st_mode & _OTHERS:
        raise coded("sealed.file_unsafe", {"file": name})


class SealedFile:
    """The file `<directory>/<name>`; the folder must exist.

    `max_bytes` bounds what is read and written. `lock_wait_s` bounds waiting for another writer.
    """

    def __init__(
        self,
        directory: Path,
        name: str,
        *,
        max_bytes: int,
        disk: Disk | None = None,
        lock_wait_s: float = 5.0,
    ) -> None:
        self.directory: Final = directory
        self.name: Final = name
        self.max_bytes: Final = max_bytes
        self._disk = disk or Disk()
        self._lock_wait_s = lock_wait_s

    def read(self) -> bytes | None:
        """The bytes, or None if there is no such file.

        Raises `Unavailable` (`sealed.file_unsafe`, `sealed.read_failed`), `Corrupt`
        (`sealed.malformed`) for more than `max_bytes`.
        """
        try:
            with self._folder() as folder:
                return self._read_in(folder)
        except OSError:
            raise coded("sealed.read_failed", self._named()) from None

    def write(self, data: bytes) -> None:
        """Replace the file durably; call it while `locked`.

        Raises `Refused` (`sealed.too_large`) before anything is touched, and `Unavailable`
        (`sealed.write_failed`, `sealed.file_unsafe`), after which the file may be the old or the
        new one.
        """
        if len(data) > self.max_bytes:
            raise coded("sealed.too_large", {"limit": self.max_bytes})
        try:
            with self._folder() as folder:
                self._write_in(folder, data)
        except OSError:
            raise coded("sealed.write_failed", self._named()) from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the record's lock, against every process of this machine.

        Raises `Unavailable`: `sealed.locked`, `sealed.file_unsafe`, `sealed.read_failed`.
        """
        try:
            with self._folder() as folder:
                descriptor = self._disk.open_lock(self.name + LOCK_SUFFIX, folder)
        except OSError:
            raise coded("sealed.read_failed", self._named()) from None
        try:
            self._take(descriptor)
            yield
        finally:
            self._disk.close(descriptor)

    def _take(self, descriptor: int) -> None:
        until = time.monotonic() + self._lock_wait_s
        try:
            self._check_file(descriptor)
            while not self._is_taken(descriptor):
                if time.monotonic() >= until:
                    raise coded("sealed.locked", self._named())
                time.sleep(_PAUSE_S)
        except OSError:
            raise coded("sealed.read_failed", self._named()) from None

    def _is_taken(self, descriptor: int) -> bool:
        try:
            self._disk.lock(descriptor)
        except BlockingIOError:
            return False
        return True

    def _read_in(self, folder: int) -> bytes | None:
        try:
            descriptor = self._disk.open_to_read(self.name, folder)
        except FileNotFoundError:
            return None
        except OSError:
            raise self._unsafe() from None
        try:
            if self._check_file(descriptor).st_size > self.max_bytes:
                raise coded("sealed.malformed")
            return b"".join(iter(lambda: self._disk.read(descriptor, _CHUNK), b""))
        finally:
            self._disk.close(descriptor)

    def _write_in(self, folder: int, data: bytes) -> None:
        new = self.name + NEW_SUFFIX
        with contextlib.suppress(FileNotFoundError):
            self._disk.remove(new, folder)
        descriptor = self._disk.create(new, folder)
        try:
            self._write_all(descriptor, data)
            self._disk.flush(descriptor)
        finally:
            self._disk.close(descriptor)
        self._disk.replace(new, self.name, folder)
        self._disk.flush(folder)

    def _write_all(self, descriptor: int, data: bytes) -> None:
        left = memoryview(data)
        while left:
            taken = self._disk.write(descriptor, bytes(left))
            if taken <= 0:
                raise OSError("the disk takes no more")
            left = left[taken:]

    @contextmanager
    def _folder(self) -> Iterator[int]:
        try:
            descriptor = self._disk.open_directory(self.directory)
        except OSError:
            raise self._unsafe() from None
        try:
            found = self._disk.stat(descriptor)
            if found.st_uid != os.geteuid() or found.st_mode & _OTHERS:
                raise self._unsafe()
            yield descriptor
        finally:
            self._disk.close(descriptor)

    def _check_file(self, descriptor: int) -> os.stat_result:
        found = self._disk.stat(descriptor)
        check_private(found, self.name)
        return found

    def _unsafe(self) -> AmendsError:
        return coded("sealed.file_unsafe", self._named())

    def _named(self) -> dict[str, str]:
        return {"file": self.name}
