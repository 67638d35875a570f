"""The receipt-signing key of an embedded store: made at first open, beside the database.

Mode 0600, 32 random bytes in hex. Many processes may open a new store at once; the first to link
its key wins, and all of them use that one.
"""

import contextlib
import os
import secrets
from pathlib import Path
from typing import Final

from amends.contracts.errors import Corrupt, Unavailable
from amends.receipts.signing import Ed25519Signer

KEY_SUFFIX: Final = ".key"
_KEY_BYTES: Final = 32
_NEXT_STEP: Final = "Put the key back from a backup; a new key cannot sign for the old one."


def key_path(database: Path) -> Path:
    """Where the key of a database file lies."""
    return database.with_name(database.name + KEY_SUFFIX)


def load_or_make_key(path: Path) -> Ed25519Signer:
    """The signer of this store.

    Raises `Unavailable` (`key.unavailable`) when the file cannot be read or made, and `Corrupt`
    (`key.corrupt`) when it holds no key.
    """
    try:
        if not path.exists():
            _make(path)
        content = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Unavailable(
            "key.unavailable",
            "The key that signs receipts cannot be read or made.",
            details={"file": path.name},
            next_step="Make the folder writable and the key readable for this user.",
        ) from error
    return _signer(content, path)


def ephemeral_key() -> Ed25519Signer:
    """A key for a store that forgets everything anyway."""
    return Ed25519Signer(secrets.token_bytes(_KEY_BYTES))


def _signer(content: str, path: Path) -> Ed25519Signer:
    try:
        raw = bytes.fromhex(content)
    except ValueError:
        raw = b""
    if len(raw) != _KEY_BYTES:
        raise Corrupt(
            "key.corrupt",
            "The key file holds no key.",
            details={"file": path.name},
            next_step=_NEXT_STEP,
        )
    return Ed25519Signer(raw)


def _make(path: Path) -> None:
    """Write a key beside its place and link it there, so that nobody ever sees half a key."""
    own = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    handle = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_hex(_KEY_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(own, path)
    finally:
        own.unlink()
