"""The keys of an embedded store: made at first open, beside the database, changed by rotation.

One file holds the private key in use and all public keys that ever were, so that one rename is the
whole of every change: whoever is killed in between leaves the old file or the new one, and each of
them can sign and knows every key that signed. It is a JWK Set with mode 0600; a file of an earlier
version, 64 hex digits, is read too. A private key that is out of use is gone with the rename.

Many processes may open a new store at once; the first to link its key wins, and all of them use
that one. Those that are running notice a rotation at their next signature. A store that has
receipts and no key gets another only from `add_keys`.

Deliberately not here: when to rotate, which is for people.
"""

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol

import msgspec

from amends.contracts.errors import Corrupt, Refused, Unavailable
from amends.receipts.keyset import Jwk, from_base64url, jwk_of, key_of, to_base64url
from amends.receipts.signing import KEY_LENGTH, Ed25519Signer, KeyRing, PublishedKey, Signer
from amends.wiring.places import is_file

KEY_SUFFIX: Final = ".key"
_NEXT_STEP: Final = "Put the key back from a backup; a new key cannot sign for the old one."


class _OwnJwk(Jwk, frozen=True, kw_only=True, omit_defaults=True):
    """A key of the file; the one in use has its private part in `d`."""

    d: str | None = None


class _OwnSet(msgspec.Struct, frozen=True, kw_only=True):
    keys: tuple[_OwnJwk, ...]


class StoreKeys(msgspec.Struct, frozen=True, kw_only=True):
    """What a key file holds: the key in use, and all public keys, the one in use last."""

    signer: Ed25519Signer
    published: tuple[PublishedKey, ...]

    @property
    def ring(self) -> KeyRing:
        """All public keys."""
        return KeyRing(self.published)

    @property
    def private_key(self) -> bytes:
        """The raw private key in use. Whoever has it can sign for this store."""
        return self.signer.private_bytes()


class FileSigner:
    """Signs with the key that the file of a store holds at that moment.

    A file that cannot be read any more, or holds no key, is passed over: what runs goes on with the
    key that it has. Raises as `load_or_make_key` when it is made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        load_or_make_key(path)
        self._name = str(path)
        """Looked at for every signature: a path makes its text anew each time."""
        self._seen = _mark(self._name)
        self._keys = read_keys(path)

    @property
    def key_id(self) -> str:
        """The id of the key in use."""
        return self.held().key_id

    @property
    def public_key(self) -> bytes:
        """The raw public key in use."""
        return self.held().public_key

    @property
    def ring(self) -> KeyRing:
        """All public keys of the store."""
        self._look()
        return self._keys.ring

    def held(self) -> Ed25519Signer:
        """See `Signer`."""
        self._look()
        return self._keys.signer

    def sign(self, data: bytes) -> bytes:
        """See `Signer`."""
        return self.held().sign(data)

    def _look(self) -> None:
        """Read the file again if it is another one than before."""
        mark = _mark(self._name)
        if mark != self._seen:
            with contextlib.suppress(Unavailable, Corrupt):
                self._keys = read_keys(self._path)
                self._seen = mark


class StoreSigner(Signer, Protocol):
    """What signs for a store, and knows all its public keys."""

    @property
    def ring(self) -> KeyRing:
        """All public keys of the store."""
        ...


def key_path(database: Path) -> Path:
    """Where the keys of a database file lie."""
    return database.with_name(database.name + KEY_SUFFIX)


def load_or_make_key(path: Path) -> Ed25519Signer:
    """The signer of this store.

    Raises `Unavailable` (`key.unavailable`) when the file cannot be read or made, and `Corrupt`
    (`key.corrupt`) when it holds no key.
    """
    try:
        if not path.exists():
            _make(path)
    except OSError as error:
        raise unavailable(path) from error
    return read_keys(path).signer


def read_keys(path: Path) -> StoreKeys:
    """The keys of a store. Raises as `load_or_make_key`, also where there is no file."""
    try:
        content = path.read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise unavailable(path) from error
    with contextlib.suppress(ValueError, Corrupt, msgspec.MsgspecError):
        return _parsed(content)
    raise Corrupt(
        "key.corrupt",
        "The key file holds no key.",
        details={"file": path.name},
        next_step=_NEXT_STEP,
    )


def readable_keys(path: Path) -> StoreKeys | None:
    """The keys of a store, for what can do without: none where this user may not read them.

    Raises `Corrupt` (`key.corrupt`).
    """
    effective = os.access in os.supports_effective_ids
    return read_keys(path) if os.access(path, os.R_OK, effective_ids=effective) else None


def rotate_key(path: Path, now: datetime) -> StoreKeys:
    """Make a new key the one in use; the old one's public part stays, with the end of its span.

    Durable when it returns. Raises as `read_keys`.
    """
    with _held(path):
        keys = _rotated(read_keys(path), now)
        _replace(path, keys)
    return keys


def compromise_key(path: Path, key_id: str, since: datetime, now: datetime) -> StoreKeys:
    """Say that from `since` on somebody else may have had a key, and use it no more.

    An earlier instant that was said before stands. Durable when it returns. Raises `Refused`
    (`key.unknown`) for a key that this store never had, and as `read_keys`.
    """
    with _held(path):
        keys = read_keys(path)
        if key_id not in keys.ring:
            raise Refused(
                "key.unknown",
                "This store never had a key of that id.",
                next_step="Take an id that amends keys list shows.",
            )
        if key_id == keys.signer.key_id:
            keys = _rotated(keys, now)
        marked = [_marked(one, since) if one.key_id == key_id else one for one in keys.published]
        keys = msgspec.structs.replace(keys, published=tuple(marked))
        _replace(path, keys)
    return keys


def add_keys(path: Path, given: KeyRing, now: datetime) -> StoreKeys:
    """Take public keys into the ring of this machine, whose own key signs on.

    Where there is no file, one is made with a key that follows the given ones. What is said of a
    key that is in the ring already stands. Durable when it returns. Raises as `load_or_make_key`.
    """
    began = not is_file(path)
    load_or_make_key(path)
    with _held(path):
        keys = read_keys(path)
        *before, own = keys.published
        own = msgspec.structs.replace(own, since=now) if began else own
        new = [key for key in given.published if key.key_id not in keys.ring]
        keys = msgspec.structs.replace(keys, published=(*new, *before, own))
        _replace(path, keys)
    return keys


def ephemeral_key() -> Ed25519Signer:
    """A key for a store that forgets everything anyway."""
    return Ed25519Signer(secrets.token_bytes(KEY_LENGTH))


def leftovers(path: Path) -> tuple[str, ...]:
    """Files that a process left behind which was killed while it made a key or rotated one.

    They hold private keys that were never used, or that are in use.
    """
    return tuple(sorted(one.name for one in path.parent.glob(f"{path.name}.*.*")))


def _parsed(content: str) -> StoreKeys:
    """The content of a key file. Raises `ValueError` or what its parts raise."""
    if not content.startswith("{"):
        signer = Ed25519Signer(bytes.fromhex(content.strip()))
        return StoreKeys(signer=signer, published=(PublishedKey(public_key=signer.public_key),))
    read = msgspec.json.decode(content, type=_OwnSet)
    *_, own = read.keys
    signer = Ed25519Signer(from_base64url(own.d or ""))
    if from_base64url(own.x) != signer.public_key:
        raise ValueError("the two halves of the key do not belong together")
    return StoreKeys(signer=signer, published=tuple(map(key_of, read.keys)))


def _rotated(keys: StoreKeys, now: datetime) -> StoreKeys:
    signer = ephemeral_key()
    *before, last = keys.published
    ended = msgspec.structs.replace(last, until=now)
    begun = PublishedKey(public_key=signer.public_key, since=now)
    return StoreKeys(signer=signer, published=(*before, ended, begun))


def _marked(key: PublishedKey, since: datetime) -> PublishedKey:
    return msgspec.structs.replace(key, compromised=min(since, key.compromised or since))


def _content(keys: StoreKeys) -> bytes:
    private = to_base64url(keys.private_key)
    *before, own = [msgspec.structs.asdict(jwk_of(key)) for key in keys.published]
    written = _OwnSet(
        keys=(*(_OwnJwk(**one) for one in before), _OwnJwk(**own, d=private)),
    )
    return msgspec.json.format(msgspec.json.encode(written), indent=2) + b"\n"


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Let nobody else change the keys meanwhile. The lock is on the file itself, so that whoever
    waited for one that was replaced meanwhile waits again, for the new one.
    """
    while True:
        try:
            handle = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise unavailable(path) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if (mark := _mark(path)) is not None and os.fstat(handle).st_ino == mark[0]:
                yield
                return
        finally:
            os.close(handle)


def _make(path: Path) -> None:
    """Link the first key to its place, so that nobody ever sees half a key."""
    signer = ephemeral_key()
    keys = StoreKeys(signer=signer, published=(PublishedKey(public_key=signer.public_key),))
    with _beside(path, _content(keys)) as own, contextlib.suppress(FileExistsError):
        path.hardlink_to(own)
    _flush(path.parent)


def _replace(path: Path, keys: StoreKeys) -> None:
    try:
        with _beside(path, _content(keys)) as own:
            own.replace(path)
        _flush(path.parent)
    except OSError as error:
        raise unavailable(path) from error


@contextmanager
def _beside(path: Path, content: bytes) -> Iterator[Path]:
    """A flushed file that only its owner can read; gone with the block, unless it was renamed."""
    own = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    handle = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield own
    finally:
        own.unlink(missing_ok=True)


def _flush(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _mark(path: Path | str) -> tuple[int, int, int] | None:
    """What changes with every replacement of a file."""
    try:
        found = os.stat(path)  # noqa: PTH116  # a path takes longer, for every signature
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def unavailable(path: Path) -> Unavailable:
    """What a key file gets that cannot be read or made."""
    return Unavailable(
        "key.unavailable",
        "The keys that sign receipts cannot be read or made.",
        details={"file": path.name},
        next_step="Make the folder writable and the key readable for this user.",
    )
