"""A record with everything that it is kept with, for the tests; no test in here."""

from pathlib import Path
from typing import Final

from amends.sealed.anchors import Anchor
from amends.sealed.disk import Disk
from amends.sealed.envelopes import Place
from amends.sealed.files import SealedFile
from amends.sealed.keys import KeyRing
from amends.sealed.sqlite_anchor import SqliteAnchor
from amends.sealed.vault import Storage

PLACE: Final = Place("worker-journal", "tenant-release")
KEYS: Final = KeyRing("storage-v1", {"storage-v1": b"\x07" * 32})
MAX_BYTES: Final = 100_000
SECRET: Final = b"the payload is nobody's business"


def folder_in(path: Path) -> Path:
    """A private folder for records."""
    folder = path / "records"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def anchor_in(path: Path) -> SqliteAnchor:
    """The anchor file of these tests, opened; made at first."""
    file = path / "anchor.db"
    if not file.exists():
        SqliteAnchor.create_file(file)
    return SqliteAnchor.open_file(file)


def storage_in(
    path: Path,
    *,
    anchor: Anchor | None = None,
    disk: Disk | None = None,
    keys: KeyRing = KEYS,
    encrypted: bool = False,
    lock_wait_s: float = 5.0,
) -> Storage:
    """A place in this folder."""
    file = SealedFile(
        folder_in(path), "journal", max_bytes=MAX_BYTES, disk=disk, lock_wait_s=lock_wait_s
    )
    return Storage(PLACE, file, anchor or anchor_in(path), keys, encrypted)


def record_of(path: Path) -> Path:
    """The file of the record."""
    return folder_in(path) / "journal"
