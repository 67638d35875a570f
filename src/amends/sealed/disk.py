"""The few things that sealed records ask of the machine's file system, in one place.

Each is one system call with its result checked by the caller, so that a test can let any of them
fail (`amends.testing.faulty_disk`). Deliberately not here: what follows a failure (`files`).
"""

import fcntl
import os
from pathlib import Path
from typing import Final

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PRIVATE: Final = 0o600


class Disk:
    """The machine's own file system. Everything raises `OSError`."""

    def open_directory(self, path: Path) -> int:
        """A descriptor of a folder that is no link."""
        return os.open(path, _DIRECTORY)

    def open_to_read(self, name: str, directory: int) -> int:
        """A descriptor of an existing file that is no link; never waits."""
        return os.open(name, _READ, dir_fd=directory)

    def create(self, name: str, directory: int) -> int:
        """A descriptor of a new, private file."""
        return os.open(name, _CREATE, _PRIVATE, dir_fd=directory)

    def open_lock(self, name: str, directory: int) -> int:
        """A descriptor of the lock file, made if it is missing."""
        return os.open(name, _LOCK, _PRIVATE, dir_fd=directory)

    def lock(self, descriptor: int) -> None:
        """Take the lock, or raise `BlockingIOError` at once. Closing gives it back."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def stat(self, descriptor: int) -> os.stat_result:
        """What the descriptor is."""
        return os.fstat(descriptor)

    def read(self, descriptor: int, size: int) -> bytes:
        """At most so many bytes; none at the end."""
        return os.read(descriptor, size)

    def write(self, descriptor: int, data: bytes) -> int:
        """How many bytes were taken, which may be fewer."""
        return os.write(descriptor, data)

    def flush(self, descriptor: int) -> None:
        """Make a file or folder durable."""
        os.fsync(descriptor)

    def replace(self, name: str, onto: str, directory: int) -> None:
        """Put one file in the place of another, atomically."""
        os.replace(name, onto, src_dir_fd=directory, dst_dir_fd=directory)

    def remove(self, name: str, directory: int) -> None:
        """Take a file away."""
        os.unlink(name, dir_fd=directory)

    def close(self, descriptor: int) -> None:
        """Give a descriptor back."""
        os.close(descriptor)
