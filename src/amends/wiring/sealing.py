"""A folder of sealed records: its key ring, its anchor, and a place for each record.

    <folder>/keys.json        the key ring; keep a copy elsewhere
    <folder>/anchor.db        the anchor, unless it is a file elsewhere or on a server
    <folder>/<namespace>/<name>

Everything is private to its user. Making a folder is explicit, and nothing that is missing is ever
made anew: what is lost has to be put back.
"""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from amends.contracts.codes import coded
from amends.contracts.errors import AmendsError
from amends.sealed.anchors import Protection
from amends.sealed.envelopes import Place
from amends.sealed.files import LOCK_SUFFIX, NEW_SUFFIX, SealedFile, check_private
from amends.sealed.keys import KEY_BYTES, KeyRing
from amends.sealed.vault import Storage
from amends.wiring.anchors import AnchorPlace, OpenAnchor, make_anchor, open_anchor

KEYS: Final = "keys.json"
ANCHOR: Final = "anchor.db"
_FIRST_KEY: Final = "key-1"


class _KeyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The ring as it lies in the folder; keys are in hex."""

    active: str
    keys: dict[str, str]


class SealedFolder:
    """An open folder. Close it when done."""

    def __init__(self, directory: Path, keys: KeyRing, anchor: OpenAnchor) -> None:
        self.directory: Final = directory
        self._keys = keys
        self._anchor = anchor

    @classmethod
    def make(cls, directory: Path, *, anchor: AnchorPlace | None = None) -> "SealedFolder":
        """Make a folder with a new key and an empty anchor.

        Put the anchor where whoever restores or loses the folder does not do the same to it.
        Raises `Conflict` (`sealed.initialised`), `Unavailable` (`sealed.file_unsafe`), and as
        `make_anchor`.
        """
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            _flush(directory.parent)
            _write_keys(directory / KEYS)
            _flush(directory)
        except FileExistsError:
            raise coded("sealed.initialised") from None
        except OSError:
            raise coded("sealed.file_unsafe", {"file": directory.name}) from None
        make_anchor(anchor or directory / ANCHOR)
        return cls.open(directory, anchor=anchor)

    @classmethod
    def open(cls, directory: Path, *, anchor: AnchorPlace | None = None) -> "SealedFolder":
        """Open a folder that is there.

        Raises `Unavailable` (`sealed.keys_unavailable`, `sealed.file_unsafe` for keys that others
        can touch), `Corrupt` (`sealed.keys_malformed`), and as `open_anchor`.
        """
        keys = _read_keys(directory / KEYS)
        return cls(directory, keys, open_anchor(anchor or directory / ANCHOR))

    def storage(self, place: Place, *, max_bytes: int, encrypted: bool = False) -> Storage:
        """Everything that the record of this place is kept with. `max_bytes` are of the payload."""
        folder = self.private(place.namespace)
        file = SealedFile(folder, place.name, max_bytes=_sealed_size(max_bytes))
        return Storage(place, file, self._anchor, self._keys, encrypted)

    def names(self, namespace: str) -> list[str]:
        """The records of a namespace, by name."""
        beside = (NEW_SUFFIX, LOCK_SUFFIX)
        found = (one.name for one in self.private(namespace).iterdir())
        return sorted(name for name in found if not name.endswith(beside))

    def private(self, name: str) -> Path:
        """A folder in this one, durably made if it is missing."""
        folder = self.directory / name
        try:
            with suppress(FileExistsError):
                folder.mkdir(mode=0o700)
                _flush(self.directory)
        except OSError:
            raise coded("sealed.file_unsafe", {"file": name}) from None
        return folder

    @property
    def protection(self) -> Protection:
        """Against what the anchor protects what lies here."""
        return self._anchor.protects(self.directory)

    def close(self) -> None:
        """Give the anchor back."""
        self._anchor.close()


def _sealed_size(payload: int) -> int:
    """What a payload of this size takes in base64, with its envelope and encryption."""
    return 4 * (payload // 3 + 1) + 4096


def _write_keys(path: Path) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(
            msgspec.json.encode(
                _KeyFile(_FIRST_KEY, {_FIRST_KEY: secrets.token_bytes(KEY_BYTES).hex()})
            )
        )
        file.flush()
        os.fsync(file.fileno())


def _flush(folder: Path) -> None:
    """Make durable what is listed in a folder: what lies in it is lost with its name."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _private_bytes(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        check_private(os.fstat(descriptor), path.name)
        return file.read()


def _read_keys(path: Path) -> KeyRing:
    try:
        data = _private_bytes(path)
    except OSError:
        raise coded("sealed.keys_unavailable", {"file": path.name}) from None
    try:
        found = msgspec.json.decode(data, type=_KeyFile)
        keys = {key_id: bytes.fromhex(key) for key_id, key in found.keys.items()}
        return KeyRing(found.active, keys)
    except (msgspec.MsgspecError, ValueError, AmendsError):
        raise coded("sealed.keys_malformed", {"file": path.name}) from None
