"""Settlements that the store refused, kept as files beside the database until they can be stored.

One file for each thing that an attempt said, under the attempt's own fence, so that writing it
again writes the same file. It is flushed to the disk before anybody hears of it, readable by its
owner alone, and signed with a key of the store: what anybody else put there is never taken in.

What is in it is as it would lie in the store: redacted where the capability asks for that.

Deliberately not here: what becomes of a settlement that is taken in (`runtime.spilled`).
"""

import asyncio
import contextlib
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from amends.contracts.errors import Corrupt, Unavailable
from amends.receipts.signing import KeyRing, Signer
from amends.runtime.heard import Heard

SPILL_SUFFIX: Final = ".spill"
SPILL_TAG: Final = b"amends-spill-v1\n"
FORMAT: Final = "amends-spill-1"
_LARGEST: Final = 16 * 1024 * 1024
_ENDING: Final = ".json"


class Sealed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a file holds. The signature covers the tag and the very bytes of `heard`."""

    format: str
    heard: msgspec.Raw
    key_id: str
    signature: str


def spill_path(database: Path) -> Path:
    """Where the spilled settlements of a database file lie."""
    return database.with_name(database.name + SPILL_SUFFIX)


class FileSpill:
    """A folder of spilled settlements, made when the first one has to be kept."""

    def __init__(self, folder: Path, signer: Signer) -> None:
        self._folder = folder
        self._signer = signer

    async def keep(self, heard: Heard) -> str:
        """See `Spill.keep`. The answer is the file's name below the database's folder."""
        return await asyncio.to_thread(self._keep, heard)

    def _keep(self, heard: Heard) -> str:
        name = f"{heard.event or heard.fence}".replace(":", "-") + _ENDING
        said = msgspec.json.encode(heard)
        signer = self._signer.held()
        sealed = Sealed(
            format=FORMAT,
            heard=msgspec.Raw(said),
            key_id=signer.key_id,
            signature=signer.sign(SPILL_TAG + said).hex(),
        )
        try:
            self._write(name, msgspec.json.encode(sealed))
        except OSError as error:
            raise Unavailable(
                "spill.unavailable",
                "A settlement that the store refused cannot be kept in a file either.",
                details={"folder": self._folder.name},
                next_step="Make room on the disk and the folder of the store writable.",
            ) from error
        return f"{self._folder.name}/{name}"

    def _write(self, name: str, content: bytes) -> None:
        """All of it or nothing, and on the disk when this returns."""
        if not self._folder.exists():
            self._folder.mkdir(mode=0o700, exist_ok=True)
            flush_folder(self._folder.parent)
        own = self._folder / f".{name}.{os.getpid()}.{secrets.token_hex(4)}"
        handle = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            own.replace(self._folder / name)
        except OSError:
            with contextlib.suppress(OSError):
                own.unlink()
            raise
        flush_folder(self._folder)


def waiting(database: Path) -> Sequence[Path]:
    """The files that wait beside a database, oldest first."""
    found = spill_path(database).glob(f"[!.]*{_ENDING}")
    return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name))


def read_spilled(path: Path, keys: KeyRing) -> Heard:
    """What a file keeps.

    Raises `Corrupt`: `spill.damaged` for anything that is no such file, `spill.not_ours` where none
    of the keys has signed it.
    """
    try:
        sealed = msgspec.json.decode(_content(path), type=Sealed)
        heard = msgspec.json.decode(sealed.heard, type=Heard)
    except (OSError, ValueError) as error:
        raise _corrupt("spill.damaged", "It is no spilled settlement, or damaged.", path) from error
    if sealed.format != FORMAT:
        raise _corrupt("spill.damaged", "It has a format that this version does not know.", path)
    if not keys.confirms(sealed.key_id, SPILL_TAG + bytes(sealed.heard), sealed.signature):
        raise _corrupt("spill.not_ours", "It was not signed with this store's key.", path)
    return heard


def forget(path: Path) -> None:
    """Remove a file whose settlement is stored; a crash before that only means doing it again."""
    path.unlink()
    flush_folder(path.parent)


def flush_folder(folder: Path) -> None:
    """Make what was created, renamed or removed in a folder survive a crash."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _content(path: Path) -> bytes:
    if path.stat().st_size > _LARGEST:
        raise ValueError("too large")
    return path.read_bytes()


def _corrupt(code: str, message: str, path: Path) -> Corrupt:
    return Corrupt(
        code,
        message,
        details={"file": path.name},
        next_step="Keep the file, take nothing from it, and find out who wrote it.",
    )
