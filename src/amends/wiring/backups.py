"""Backups of a store's file with its key, and putting one back as a store of its own.

A restored store is another store: it gets a lineage of its own, and everything that was open in it
is frozen before anybody can open it under its name. All of that happens in a file beside, which
then takes the place of the store in one step; until that step nothing is changed, and what stood
there before is kept under a name of its own.

The key that signs receipts lies in a file of its own beside the backup (mode 0600). Whoever has it
can sign receipts of this store.

Deliberately not here: effects that the lost store knew of and the restored one does not; they can
be named only where the lost store is still at hand. Nor can anything here tell that a store's file
was merely copied back by hand.
"""

import asyncio
import contextlib
import os
from datetime import datetime
from pathlib import Path

import msgspec

from amends.contracts.errors import Conflict, Corrupt, Misuse, Unavailable
from amends.receipts.signing import Ed25519Signer
from amends.recovery.freezing import Freezer, Frozen
from amends.stores.rows import system_clock
from amends.stores.sqlite.backup import (
    Held,
    Told,
    back_up,
    check_whole,
    copy_into,
    flush,
    fresh_beside,
    give_name,
    make_plain,
    occupied,
    orphans,
    renew_lineage,
)
from amends.stores.sqlite.failures import unwritable
from amends.stores.sqlite.survey import BeyondIt, Survey
from amends.wiring.keys import key_path, load_or_make_key, read_keys, unavailable
from amends.wiring.places import is_file
from amends.wiring.quiet import open_quietly
from amends.wiring.restored import RESTORED, Phase, Restored


class BackedUp(msgspec.Struct, frozen=True, kw_only=True):
    """A backup that was made."""

    lineage: str
    file: str
    size: int
    key: str | None


def make_backup(database: Path, target: Path, *, with_key: bool, phase: Phase) -> BackedUp:
    """Copy a store, while it is in use, to a new file, and its key to one beside it.

    Both survive a crash when this returns, and neither is there when it fails. Raises as `back_up`,
    and `Unavailable` (`backup.key_missing`, `key.unavailable`).
    """
    key, beside = key_path(database), key_path(target)
    with contextlib.ExitStack() as undo:
        if with_key:  # first, so that no backup is ever there which lacks it
            _write_key(_key_to_copy(key), beside)
            undo.callback(beside.unlink, missing_ok=True)
        back_up(database, target, phase("Copying"))
        undo.pop_all()
    return BackedUp(
        lineage=check_whole(target),
        file=str(target),
        size=target.stat().st_size,
        key=str(beside) if with_key else None,
    )


def _key_to_copy(key: Path) -> bytes:
    if not is_file(key):
        raise Unavailable(
            "backup.key_missing",
            f"The key file {key.name} is not there, so it cannot be backed up.",
            next_step="Put the key back, or make a backup without it.",
        )
    try:
        return key.read_bytes()
    except OSError as error:
        raise unavailable(key) from error


def restore(source: Path, database: Path, *, replace: bool, phase: Phase) -> Restored:
    """Put a backup in the place of a store, frozen and under a new lineage. Not from an event loop.

    Raises, with nothing changed: `Conflict` (`restore.store_exists` unless `replace`,
    `restore.store_in_use`, `restore.key_differs`), `Misuse` (`restore.side_files`,
    `restore.same_file`), and what is wrong with either file.
    """
    from_lineage = _check_source(source, database)
    key = _choose_key(source, database)
    if not is_file(database):
        _refuse_orphans(database)
        return _restore_into(source, database, None, key, from_lineage, phase)
    if not replace:
        raise Conflict(
            "restore.store_exists",
            f"There is a store {database.name} already, and it was left as it is.",
            next_step="Give another store URL, or say --yes to have this one replaced and kept.",
        )
    with _held(database) as held:
        return _restore_into(source, database, held, key, from_lineage, phase)


def _check_source(source: Path, database: Path) -> str:
    if not is_file(source):
        raise Unavailable(
            "restore.no_backup",
            f"There is no backup {source.name} in that folder that this user can see.",
            next_step="Name a file that amends backup has written.",
        )
    if is_file(database) and source.samefile(database):
        raise Misuse(
            "restore.same_file",
            "The backup and the store are the same file.",
            next_step="Name a file that amends backup has written.",
        )
    return check_whole(source)


def _refuse_orphans(database: Path) -> None:
    try:
        left = orphans(database)
    except OSError as error:
        raise unwritable(database, error) from error
    if left:
        raise Misuse(
            "restore.side_files",
            f"There is no store {database.name}, but something of it is left: {', '.join(left)}.",
            next_step="Stop whatever used it, and move these files elsewhere.",
        )


def _held(database: Path) -> Held:
    try:
        return Held(database)
    except (Unavailable, Corrupt) as error:
        raise type(error)(
            error.code,
            error.message,
            details=error.details,
            next_step=(
                "Stop whatever uses this store, move it and the files beside it (-wal, -shm, "
                "-journal) elsewhere, and restore again."
            ),
        ) from error


def _restore_into(
    source: Path,
    database: Path,
    held: Held | None,
    key: Path | None,
    from_lineage: str,
    phase: Phase,
) -> Restored:
    with fresh_beside(database) as staging, contextlib.ExitStack() as undo:
        copy_into(source, staging, phase("Copying"))
        lineage = renew_lineage(staging, system_clock())
        own = _content_of(key_path(database))
        if own is None:
            undo.callback(key_path(database).unlink, missing_ok=True)
        signer = _put_key(key, database)
        frozen = asyncio.run(_freeze(staging, signer, phase("Freezing")))
        make_plain(staging)
        kept = _keep(database, held, own, phase)
        if held is None:
            give_name(staging, database)
        else:
            held.replace_by(staging, phase("Restoring"))
        undo.pop_all()
    return Restored(
        lineage=lineage,
        from_lineage=from_lineage,
        replaced_lineage=held.lineage if held else None,
        kept=kept.name if kept else None,
        went_on=_went_on(kept, source),
        key_made=key is None,
        frozen=frozen,
    )


async def _freeze(staging: Path, signer: Ed25519Signer, told: Told) -> Frozen:
    async with open_quietly(staging, signer) as engine:
        with Survey(staging) as survey:
            tenants = survey.tenants
        return await Freezer(engine, lambda count: told(count, count)).freeze(tenants, RESTORED)


def _went_on(kept: Path | None, source: Path) -> tuple[BeyondIt, ...]:
    if kept is None:
        return ()
    with Survey(kept) as survey:
        return survey.beyond(source)


def _keep(database: Path, held: Held | None, own: bytes | None, phase: Phase) -> Path | None:
    """Keep what stands there under a name of its own, with the key that signed in it, so that it
    can be looked into; an empty file is nothing to keep.
    """
    if held is None or held.is_empty:
        return None
    kept = _free_name(database, system_clock())
    held.keep_as(kept, phase("Keeping the store that was there"))
    if own is not None:
        _write_key(own, key_path(kept))
    return kept


def _content_of(key: Path) -> bytes | None:
    return _key_to_copy(key) if is_file(key) else None


def _free_name(database: Path, now: datetime) -> Path:
    return database.with_name(f"{database.name}.replaced-{now:%Y%m%dT%H%M%S%fZ}")


def _choose_key(source: Path, database: Path) -> Path | None:
    """The key file to use, or none where a key has to be made.

    Of two that were one before a rotation it is the later one, which knows both. Raises `Conflict`
    (`restore.key_differs`) where backup and store have each their own.
    """
    came, there = key_path(source), key_path(database)
    if is_file(came) and is_file(there):
        ours, theirs = read_keys(there), read_keys(came)
        if theirs.signer.key_id not in ours.ring:
            if ours.signer.key_id in theirs.ring:
                return came
            raise Conflict(
                "restore.key_differs",
                "The key beside the backup is not the key beside the store.",
                details={"backup_key": came.name, "store_key": there.name},
                next_step="Move the key that is not to be used elsewhere, then try again.",
            )
        return there
    if is_file(there):
        return there
    return came if is_file(came) else None


def _put_key(key: Path | None, database: Path) -> Ed25519Signer:
    there = key_path(database)
    if key is not None and key != there:
        if there.exists():
            there.rename(_free_name(there, system_clock()))
        _copy_key(key, there)
    return load_or_make_key(there)


def _copy_key(key: Path, target: Path) -> None:
    """Copy a key to a file that only its owner can read. Raises as its two halves."""
    _write_key(_key_to_copy(key), target)


def _write_key(content: bytes, target: Path) -> None:
    """Raises `Misuse` (`backup.target_exists`) and `Unavailable` (`backup.target_unwritable`)."""
    try:
        _write_new(content, target)
    except FileExistsError:
        raise occupied(target) from None
    except OSError as error:
        raise unwritable(target, error) from error


def _write_new(content: bytes, target: Path) -> None:
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        target.unlink(missing_ok=True)  # a part of a key is none
        raise
    flush(target.parent)
