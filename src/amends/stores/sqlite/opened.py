"""The files that this process has open, each once, however many stores stand on it.

This is the one place that remembers something for the whole process, because the thing it guards is
the process's own: POSIX file locks belong to a process, and a child that was forked while a file
was open inherits SQLite's belief in locks that it does not hold. A file is therefore known by
device and inode, opened once, shared by all who ask for it, and refused in a forked child.

Deliberately not here: what is read and written.
"""

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

import apsw
import msgspec

from amends.stores.sqlite.connection import check_sqlite, connect, create
from amends.stores.sqlite.failures import Health, forked, unopenable
from amends.stores.sqlite.looking import NoWriter, look_at_store
from amends.stores.sqlite.reader import Reader
from amends.stores.sqlite.session import Session
from amends.stores.sqlite.writer import Writer


class Identity(NamedTuple):
    """Which file it is, whatever its path; who only looks shares nothing with who writes."""

    device: int
    inode: int
    looks: bool


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """How a file is opened; see `open_sqlite`."""

    clock: Callable[[], datetime]
    threads: bool
    busy_ms: int
    vfs: str | None
    looks: bool = False


class OpenFile:
    """One file with the connections that this process has to it."""

    def __init__(self, path: Path, terms: Terms) -> None:
        self.users = 0
        self.terms = terms
        self.health = Health()
        self._pid = os.getpid()
        self.writer: Writer | NoWriter
        reading = self._look(path) if terms.looks else self._connect(path, terms)
        self.reader = Reader(reading, self.health, terms.clock)

    def _look(self, path: Path) -> apsw.Connection:
        looking = look_at_store(path)
        self.lineage, self.writer = looking.lineage, NoWriter()
        return looking.connection

    def _connect(self, path: Path, terms: Terms) -> apsw.Connection:
        writing = connect(path, terms.clock, terms.vfs)
        self.lineage = writing.lineage
        session = Session(writing.connection, self.health, terms.clock)
        self.writer = Writer(session, threads=terms.threads, busy_ms=terms.busy_ms)
        try:
            reading = connect(path, terms.clock, terms.vfs).connection
            reading.pragma("query_only", True)
        except BaseException:
            self.writer.shut_down()
            raise
        return reading

    @property
    def inherited(self) -> bool:
        """Whether this process was forked from the one that opened the file."""
        return self._pid != os.getpid()

    def check(self) -> None:
        """Raises `Misuse` (`store.forked`) and `Unavailable` (`store.poisoned`)."""
        if self._pid != os.getpid():
            raise forked()
        if self.health.poison is not None:
            raise self.health.poison.exception()

    def close(self) -> None:
        """Release the file."""
        self.writer.shut_down()
        self.reader.close()


class OpenFiles:
    """All of them. Safe to call from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._files: dict[Identity, OpenFile] = {}

    def open(self, path: Path, terms: Terms) -> OpenFile:
        """The file, opened now or by somebody before.

        Who comes later shares the terms of who came first. A file that was poisoned is opened anew.
        Raises `Unavailable` and `Misuse` (`store.forked`).
        """
        check_sqlite(apsw.sqlite_lib_version())
        with self._lock:
            identity = _identify(path, looks=terms.looks)
            file = self._files.get(identity)
            if file is not None and file.inherited:
                raise forked()
            if file is None or file.health.poison is not None:
                file = OpenFile(path, terms)
                self._files[identity] = file
            file.users += 1
            return file

    def release(self, file: OpenFile) -> None:
        """Close the file when its last user has gone."""
        with self._lock:
            file.users -= 1
            if file.users:
                return
            for identity in [key for key, value in self._files.items() if value is file]:
                del self._files[identity]
            file.close()


OPEN_FILES: Final = OpenFiles()


def _identify(path: Path, *, looks: bool) -> Identity:
    try:
        if not looks:
            create(path)
        found = path.stat()
    except OSError as error:
        raise unopenable(path, error) from error
    return Identity(found.st_dev, found.st_ino, looks)
