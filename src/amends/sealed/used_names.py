"""Names that may be used once, for ever: one empty file each, named by a hash (WS-4).

A name is used up when its file is durable. The file is made exclusively, so of two who take a name
one is refused, in whatever processes they are. Nothing is ever taken back.
"""

import os
from pathlib import Path
from typing import Final

from amends.contracts.codes import coded
from amends.contracts.persistence import content_digest
from amends.sealed.disk import Disk

_OTHERS: Final = 0o077


class UsedNames:
    """The names of one folder, which must exist and be private."""

    def __init__(self, directory: Path, *, disk: Disk | None = None) -> None:
        self._directory = directory
        self._disk = disk or Disk()

    def take(self, session_id: str) -> None:
        """Use a session's name up; durable when it returns.

        Raises `Refused` (`worker.session_used`), and `Unavailable` (`sealed.write_failed`,
        `sealed.file_unsafe`), after which the name is best not used either.
        """
        disk = self._disk
        try:
            folder = disk.open_directory(self._directory)
        except OSError:
            raise coded("sealed.file_unsafe", {"file": self._directory.name}) from None
        try:
            found = disk.stat(folder)
            if found.st_uid != os.geteuid() or found.st_mode & _OTHERS:
                raise coded("sealed.file_unsafe", {"file": self._directory.name})
            self._take_in(folder, content_digest(session_id.encode()))
        except FileExistsError:
            raise coded("worker.session_used") from None
        except OSError:
            raise coded("sealed.write_failed", {"file": self._directory.name}) from None
        finally:
            disk.close(folder)

    def _take_in(self, folder: int, name: str) -> None:
        descriptor = self._disk.create(name, folder)
        try:
            self._disk.flush(descriptor)
        finally:
            self._disk.close(descriptor)
        self._disk.flush(folder)
