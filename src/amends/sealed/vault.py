"""A vault: one record that is opened, saved, and never served from a wrong time (ST-1 to ST-3).

    vault = Vault.open(place, file, anchor, keys)     # takes a fresh fence
    receipt = vault.save(payload)                     # durable and anchored when it returns

Saving keeps one order: the snapshot is durable and chained to the one before; the anchor moves by
compare-and-set under this vault's fence; then the caller may act. A vault whose write failed, or
that was fenced out, is poisoned for ever: open another one, which reads one snapshot under a fresh
fence. Calls wait for the disk; a vault is used by one thread at a time.

Deliberately not here: what the payload means.
"""

import os
from collections.abc import Callable
from typing import Final, NamedTuple

from amends.contracts.codes import coded
from amends.contracts.errors import Corrupt
from amends.contracts.persistence import PersistReceipt, content_digest
from amends.sealed.anchors import FENCES_LOST, FIRST, Anchor, Floor, check_held
from amends.sealed.envelopes import NONCE_BYTES, Place, Snapshot, seal, unseal
from amends.sealed.files import SealedFile
from amends.sealed.keys import KeyRing
from amends.sealed.opening import Standing, judge, require_both


class Storage(NamedTuple):
    """Everything that a record is kept with."""

    place: Place
    file: SealedFile
    anchor: Anchor
    keys: KeyRing
    encrypted: bool = False

    def local(self) -> Snapshot | None:
        """The record as the file has it, authenticated; nothing says that it is the latest.

        A record that cannot be trusted is named by its file, and left as it is.
        """
        data = self.file.read()
        try:
            return None if data is None else unseal(self.place, self.keys, data)
        except Corrupt as error:
            raise coded(error.code, {"file": self.file.name}) from None

    def look(self) -> bytes:
        """What is durable, held against its floor: to be shown, and never acted upon.

        No fence is taken, so whoever has the record open goes on. Raises as `require_both`,
        `judge`, the file and the anchor.
        """
        with self.file.locked():
            local, floor = require_both(self.local(), self.anchor.floor(self.place))
            judge(local, floor)
        return local.payload

    def sealed(self, payload: bytes, before: Floor) -> bytes:
        """The next record after `before`."""
        return seal(
            self.place,
            self.keys,
            payload,
            revision=before.revision + 1,
            previous=before.commitment,
            fence=before.fence,
            nonce=os.urandom(NONCE_BYTES) if self.encrypted else None,
        )


def as_it_lies(found: bytes | None) -> bytes:
    """The record itself. Raises `Refused` (`sealed.not_initialised`) where there is none."""
    if found is None:
        raise coded("sealed.not_initialised")
    return found


class Vault:
    """One opening of one record, under one fence."""

    __slots__ = ("_digest", "_floor", "_payload", "_poisoned", "_storage", "finished_a_crash")

    def __init__(self, storage: Storage, floor: Floor, payload: bytes, *, ahead: bool) -> None:
        self._storage = storage
        self._floor = floor
        self._payload = payload
        self._digest = content_digest(payload)
        self._poisoned = False
        self.finished_a_crash: Final = ahead
        """Whether opening moved the anchor onto a snapshot that its writer never acted upon."""

    @classmethod
    def initialise(cls, storage: Storage, payload: bytes) -> None:
        """Create a record where there is none, the anchor first. Explicit, never by itself.

        May be repeated after a crash. Raises `Conflict` (`sealed.initialised`), `Refused`
        (`sealed.unanchored`), and as `open` for what lies there.
        """
        with storage.file.locked():
            local, floor = storage.local(), storage.anchor.floor(storage.place)
            if local is not None:
                raise coded("sealed.unanchored" if floor is None else "sealed.initialised")
            if floor is None:
                storage.anchor.create(storage.place, FIRST)
            elif floor.revision:
                raise coded("sealed.local_lost")
            before = storage.anchor.reserve(storage.place)
            data = storage.sealed(payload, before)
            storage.file.write(data)
            storage.anchor.advance(storage.place, before, _after(before, data))

    @classmethod
    def reseat(
        cls,
        storage: Storage,
        *,
        who: str,
        why: str,
        payload: Callable[[bytes | None], bytes] = as_it_lies,
    ) -> None:
        """Have a person vouch for what to go on from.

        For a record whose anchor is lost or restored, and for a record that was itself lost or
        restored. What `payload` makes of the record as it lies there, or of none, is written as the
        next one before the anchor moves, so that what has to wait for a comparison with the other
        side waits from the first moment: a journal has `rulings.reseated` for that. The anchor
        keeps who and why, and ends every fence before. May be repeated after a crash.

        Raises `Refused` (`sealed.reason_required`, `sealed.not_initialised`), what `payload` does,
        and as `open`.
        """
        if not who.strip() or not why.strip():
            raise coded("sealed.reason_required")
        with storage.file.locked():
            found, floor = storage.local(), storage.anchor.floor(storage.place) or FIRST
            before = (
                floor if found is None else Floor(found.revision, found.commitment, found.fence)
            )
            data = storage.sealed(payload(None if found is None else found.payload), before)
            storage.file.write(data)
            fence = max(before.fence, floor.fence) + FENCES_LOST
            seat = Floor(before.revision + 1, content_digest(data), fence)
            storage.anchor.reseat(storage.place, seat, who=who, why=why)

    @classmethod
    def open(cls, storage: Storage) -> "Vault":
        """Take the next fence, then read one snapshot and hold it against its floor.

        Whoever had the record open before can save no more. Call it only for a host that is
        authenticated. Raises as `require_both`, `judge`, `unseal`, the file and the
        anchor.
        """
        floor = storage.anchor.floor(storage.place)
        if floor is not None:
            floor = storage.anchor.reserve(storage.place)
        with storage.file.locked():
            local, reserved = require_both(storage.local(), floor)
            floor = _still(storage, reserved)
            ahead = judge(local, floor) is Standing.ONE_AHEAD
            if ahead:
                floor = _finish(storage, local, floor)
        return cls(storage, floor, local.payload, ahead=ahead)

    @property
    def payload(self) -> bytes:
        """What is durable, as this vault last read or saved it."""
        return self._payload

    @property
    def revision(self) -> int:
        """How often the record was written."""
        return self._floor.revision

    @property
    def fence(self) -> int:
        """The fence of this opening."""
        return self._floor.fence

    @property
    def receipt(self) -> PersistReceipt:
        """The receipt of what is durable."""
        return PersistReceipt(
            namespace=self._storage.place.namespace,
            name=self._storage.place.name,
            revision=self._floor.revision,
            digest=self._digest,
            fence=self._floor.fence,
        )

    def save(self, payload: bytes) -> PersistReceipt:
        """Make this the record; it is durable and anchored when this returns.

        Raises `Unavailable` (`sealed.poisoned`, `sealed.write_failed`,
        `sealed.anchor_unreachable`, `sealed.locked`, `sealed.file_unsafe`), `Conflict`
        (`sealed.fenced`, `sealed.anchor_moved`) and `Refused` (`sealed.too_large`). After any of
        them this vault saves nothing more; what it holds is the last that it knows to be durable.
        """
        if self._poisoned:
            raise coded("sealed.poisoned")
        self._poisoned = True
        storage = self._storage
        data = storage.sealed(payload, self._floor)
        with storage.file.locked():
            check_held(storage.anchor.floor(storage.place), self._floor)
            storage.file.write(data)
            after = _after(self._floor, data)
            storage.anchor.advance(storage.place, self._floor, after)
        self._floor, self._payload, self._digest = after, payload, content_digest(payload)
        self._poisoned = False
        return self.receipt

    def rotate(self, keys: KeyRing) -> None:
        """Seal with this ring's active key from the next save on (ST-4)."""
        self._storage = self._storage._replace(keys=keys)

    def __repr__(self) -> str:
        return f"Vault({self._storage.place!r}, revision={self.revision}, fence={self.fence})"


def _still(storage: Storage, reserved: Floor) -> Floor:
    """The floor after the lock was taken: a writer that held it may just have moved on."""
    found = storage.anchor.floor(storage.place)
    if found is None or found.fence != reserved.fence:
        raise coded("sealed.fenced")
    return found


def _finish(storage: Storage, local: Snapshot, floor: Floor) -> Floor:
    """Write the snapshot once more, since nobody knows whether it is durable; then anchor it."""
    data = storage.file.read()
    assert data is not None
    storage.file.write(data)
    after = Floor(local.revision, local.commitment, floor.fence)
    storage.anchor.advance(storage.place, floor, after)
    return after


def _after(before: Floor, data: bytes) -> Floor:
    return Floor(before.revision + 1, content_digest(data), before.fence)
