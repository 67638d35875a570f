"""A disk that fails when told to, for sealed records.

    disk = FaultyDisk()
    disk.fail_at(3)                      # the third call from now raises, and every one after it
    disk.fail_at(3, only_once=True)

A call that fails has not happened, unless `after` says that it has, as when an answer is lost. Each
call is noted in `calls`, so that a sweep can fail every one of them in turn. `short` makes writes
take one byte at a time. Giving back a descriptor never fails, so that tests leak none.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from amends.sealed.disk import Disk


class FaultyDisk(Disk):
    """The machine's own file system, watched."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        """The names of all calls so far."""
        self.short = False
        self._left: int | None = None
        self._error = errno.EIO
        self._after = self._only_once = False

    def fail_at(
        self, number: int, *, error: int = errno.EIO, after: bool = False, only_once: bool = False
    ) -> None:
        """Fail the call of this number from now on, which counts from 1, and all later ones."""
        self._left, self._error = number, error
        self._after, self._only_once = after, only_once

    def heal(self) -> None:
        """Fail no more."""
        self._left = None

    @contextmanager
    def _call(self, name: str) -> Iterator[None]:
        self.calls.append(name)
        fails = False
        if self._left is not None:
            self._left -= 1
            fails = self._left <= 0
            if fails and self._only_once:
                self._left = None
        failure = OSError(self._error, os.strerror(self._error))
        if fails and not self._after:
            raise failure
        with suppress(OSError) if fails else nullcontext():
            yield
        if fails:
            raise failure

    def open_directory(self, path: Path) -> int:
        """See `Disk`."""
        with self._call("open_directory"):
            return super().open_directory(path)

    def open_to_read(self, name: str, directory: int) -> int:
        """See `Disk`."""
        with self._call("open_to_read"):
            return super().open_to_read(name, directory)

    def create(self, name: str, directory: int) -> int:
        """See `Disk`."""
        with self._call("create"):
            return super().create(name, directory)

    def open_lock(self, name: str, directory: int) -> int:
        """See `Disk`."""
        with self._call("open_lock"):
            return super().open_lock(name, directory)

    def lock(self, descriptor: int) -> None:
        """See `Disk`."""
        with self._call("lock"):
            super().lock(descriptor)

    def stat(self, descriptor: int) -> os.stat_result:
        """See `Disk`."""
        with self._call("stat"):
            return super().stat(descriptor)

    def read(self, descriptor: int, size: int) -> bytes:
        """See `Disk`."""
        with self._call("read"):
            return super().read(descriptor, size)

    def write(self, descriptor: int, data: bytes) -> int:
        """See `Disk`."""
        with self._call("write"):
            return super().write(descriptor, data[:1] if self.short else data)

    def flush(self, descriptor: int) -> None:
        """See `Disk`."""
        with self._call("flush"):
            super().flush(descriptor)

    def replace(self, name: str, onto: str, directory: int) -> None:
        """See `Disk`."""
        with self._call("replace"):
            super().replace(name, onto, directory)

    def remove(self, name: str, directory: int) -> None:
        """See `Disk`."""
        with self._call("remove"):
            super().remove(name, directory)
