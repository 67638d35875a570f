"""Files that fail when told to: a SQLite file layer over the machine's own.

    with FaultyFiles() as files:
        store = await open_sqlite(path, vfs=files.name)
        files.fail("sync", code=apsw.SQLITE_IOERR_FSYNC)

Every write, flush, read and truncation counts, so that a sweep can fail the first, the second, and
so on to the last. What fails has not happened, as with a real disk that is full or gone.

Deliberately not here: power loss in the middle of a write, which SQLite's own tests cover.
"""

from typing import Final, Literal, Self, TypeAlias

import apsw

Operation: TypeAlias = Literal["write", "sync", "read", "truncate"]

ANY_FILE: Final = ""
WAL: Final = "-wal"


class FaultyFiles(apsw.VFS):
    """A file layer under a name that SQLite knows while the block lasts."""

    def __init__(self, name: str = "amends-faulty") -> None:
        self.name = name
        self.counts: dict[str, int] = {}
        """How many operations there were of each kind."""
        self._operations: frozenset[str] = frozenset()
        self._suffix = ANY_FILE
        self._code = 0
        self._spare = 0
        self._left = 0
        super().__init__(name, "")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.unregister()

    def fail(
        self,
        *operations: Operation,
        code: int,
        suffix: str = ANY_FILE,
        after: int = 0,
        times: int = 2**31,
    ) -> None:
        """Let so many of these operations pass, and fail so many after them.

        `suffix` picks the files by the end of their names.
        """
        self._operations = frozenset(operations)
        self._suffix, self._code, self._spare, self._left = suffix, code, after, times

    def heal(self) -> None:
        """Fail no more."""
        self._operations = frozenset()

    def pass_or_fail(self, operation: Operation, filename: str) -> None:
        """Called before each operation. Raises the SQLite error that was asked for."""
        self.counts[operation] = self.counts.get(operation, 0) + 1
        if operation not in self._operations or not filename.endswith(self._suffix):
            return
        if self._spare:
            self._spare -= 1
        elif self._left:
            self._left -= 1
            raise apsw.exception_for(self._code)

    def xOpen(  # noqa: N802  # SQLite's name for it
        self, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> apsw.VFSFile:
        """Open a file of the machine's own, watched."""
        return _File(self, name, flags)


class _File(apsw.VFSFile):
    """One file, failing as its layer says. The methods are SQLite's."""

    def __init__(
        self, files: FaultyFiles, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        self._files = files
        self._name = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        super().__init__("", name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802  # SQLite's name for it
        self._files.pass_or_fail("read", self._name)
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802  # SQLite's name for it
        self._files.pass_or_fail("write", self._name)
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802  # SQLite's name for it
        self._files.pass_or_fail("sync", self._name)
        super().xSync(flags)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802  # SQLite's name for it
        self._files.pass_or_fail("truncate", self._name)
        super().xTruncate(newsize)
