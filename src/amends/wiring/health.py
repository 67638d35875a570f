"""How a store's file is: each thing that can be wrong with it, what was found, and what to do.

The checks only look, but for the one that takes in what the store had refused. They are made one
after the other, from the file up to what lies in it, and go on after a fault as far as they can.

Deliberately not here: receipts, which `amends verify` checks, and repairs.
"""

import asyncio
import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from amends.contracts.errors import AmendsError
from amends.contracts.times import format_instant
from amends.receipts.signing import KeyRing
from amends.runtime.spilled import Became
from amends.stores.rows import system_clock
from amends.stores.sqlite.connection import check_sqlite, connect, let_go
from amends.stores.sqlite.survey import Survey, library_version
from amends.wiring.contents import NAMED, Check, Level, Told, look_into
from amends.wiring.keys import FileSigner, StoreSigner, key_path, leftovers
from amends.wiring.places import OnServer, Place, beside, is_file
from amends.wiring.surveying import survey_of
from amends.wiring.taking_in import Looked, take_in

_OTHERS_WRITE: Final = 0o022
_OTHERS_READ: Final = 0o055
_STALE: Final = timedelta(days=2)
"""A running program makes a checkpoint each day."""


def examine(place: Place, *, quick: bool, told: Told) -> Iterator[Check]:
    """Check a store that is there, thing by thing. `told` hears how far the long checks are.

    Not to be called from an event loop.
    """
    if isinstance(place, OnServer):
        yield from _on_server(place, quick=quick, told=told)
    else:
        yield from _in_a_file(place, quick=quick, told=told)


def _on_server(place: OnServer, *, quick: bool, told: Told) -> Iterator[Check]:
    """What can be checked on a server, as far as it can be used at all."""
    from amends.wiring.server_upkeep import examine_server

    checks = tuple(examine_server(place))
    yield from checks
    schema = [check.level for check in checks if check.name == "schema"]
    if schema == [Level.OK] and all(check.level is not Level.FAULT for check in checks):
        yield from _keys_and_rows(place, quick=quick, told=told)


def _keys_and_rows(place: Place, *, quick: bool, told: Told) -> Iterator[Check]:
    signer = None
    if isinstance(place, OnServer):
        folder = beside(place).parent
        says = f"The key, and settlements that the server had refused, lie in {folder}."
        yield Check(name="folder", level=Level.OK, says=says)
    for check, found in _key(place):
        signer = found or signer
        yield check
    if signer is not None:
        yield from _spilled(place, signer)
    try:
        yield _checkpoint(place, system_clock())
    except AmendsError as error:
        yield _refused("checkpoint", error)
    yield from look_into(place, quick=quick, told=told)


def _in_a_file(database: Path, *, quick: bool, told: Told) -> Iterator[Check]:
    yield from _files(database)
    yield _library()
    try:
        with Survey(database) as survey:
            yield _schema(survey)
            yield _integrity(survey, quick=quick)
    except AmendsError as error:
        yield _refused("file", error)
        return
    if survey.missing:
        return
    yield _durability(database)
    yield from _keys_and_rows(database, quick=quick, told=told)


# ── the files ────────────────────────────────────────────────────────────────────────────────────


def _files(database: Path) -> Iterator[Check]:
    yield _mode("file", database)
    if os.access(database.parent, os.W_OK):
        yield Check(name="folder", level=Level.OK, says="The folder can be written.")
    else:
        yield Check(
            name="folder",
            level=Level.FAULT,
            says="The folder cannot be written, so SQLite cannot keep its log there.",
            todo="Give this user write access to the folder.",
        )


def _mode(name: str, path: Path) -> Check:
    bits = path.stat().st_mode
    todo = f"Run: chmod 600 {path.name}"
    if bits & _OTHERS_WRITE:
        says = f"Other users can write {path.name}."
        return Check(name=name, level=Level.FAULT, says=says, todo=todo)
    if bits & _OTHERS_READ:
        says = f"Other users can read {path.name}."
        return Check(name=name, level=Level.WARN, says=says, todo=todo)
    return Check(name=name, level=Level.OK, says=f"Only its owner can read {path.name}.")


def _library() -> Check:
    version = library_version()
    try:
        check_sqlite(version)
    except AmendsError as error:
        return _refused("sqlite", error)
    return Check(name="sqlite", level=Level.OK, says=f"SQLite is {version}.")


def _refused(name: str, error: AmendsError) -> Check:
    says = f"{error.message} [{error.code}]"
    return Check(name=name, level=Level.FAULT, says=says, todo=error.next_step)


def _schema(survey: Survey) -> Check:
    if survey.is_empty:
        return Check(name="schema", level=Level.OK, says="The file is empty: nothing was stored.")
    if not survey.missing:
        return Check(name="schema", level=Level.OK, says="The schema is this program's own.")
    steps = ", ".join(f"{step.number} ({step.name})" for step in survey.missing)
    return Check(
        name="schema",
        level=Level.WARN,
        says=f"Steps of the schema are missing: {steps}.",
        todo="Make a backup, then run amends migrate.",
    )


def _integrity(survey: Survey, *, quick: bool) -> Check:
    found = survey.integrity(quick=quick)
    if not found:
        return Check(name="integrity", level=Level.OK, says="SQLite finds the file whole.")
    return Check(
        name="integrity",
        level=Level.FAULT,
        says=f"SQLite finds the file damaged: {found[0]}",
        todo="Stop whatever uses it, keep the files as they are, and restore a backup.",
        named=found[:NAMED],
    )


def _durability(database: Path) -> Check:
    """Open it as every program does, which reads each setting back."""
    try:
        let_go(connect(database, system_clock).connection)
    except AmendsError as error:
        return _refused("durability", error)
    says = "What is accepted is flushed (WAL, synchronous=FULL, read back)."
    return Check(name="durability", level=Level.OK, says=says)


def _key(place: Place) -> Iterator[tuple[Check, StoreSigner | None]]:
    path = key_path(beside(place))
    if not is_file(path):
        yield _no_key(place, path), None
        return
    yield _mode("key file", path), None
    if left := leftovers(path):
        says = "A process that was killed left private keys in files beside the key."
        todo = "Remove these files while nobody makes or rotates a key."
        yield Check(name="key file", level=Level.WARN, says=says, todo=todo, named=left), None
    try:
        signer = FileSigner(path)
    except AmendsError as error:
        yield _refused("key", error), None
        return
    yield _signers(place, signer), signer
    yield _ring(signer.ring), None


def _no_key(place: Place, path: Path) -> Check:
    says = f"The key file {path.name} is not there."
    if isinstance(place, OnServer):
        with survey_of(place) as survey:
            level = Level.FAULT if survey.signers() else Level.WARN
        return Check(
            name="key",
            level=level,
            says=f"{says} No program can use the store here once another one has signed for it.",
            todo="Copy it from a replica, or name the folder that has it in the URL: folder=.",
        )
    todo = "Put it back from a backup. If it is lost for good: amends keys add."
    return Check(name="key", level=Level.FAULT, says=says, todo=todo)


def _signers(place: Place, signer: FileSigner) -> Check:
    with survey_of(place) as survey:
        foreign = survey.signers() - {key.key_id for key in signer.ring.published}
    if foreign:
        says = "Some of the latest receipts were signed with another key than those beside."
        todo = "Find out whose key it is; check those receipts with its public key."
        return Check(name="key", level=Level.WARN, says=says, todo=todo)
    says = f"The key {signer.key_id} is there; its public key is {signer.public_key.hex()}."
    return Check(name="key", level=Level.OK, says=says)


def _ring(ring: KeyRing) -> Check:
    """What is said of the keys that are out of use."""
    compromised = [key.key_id for key in ring.published if key.compromised is not None]
    if compromised:
        return Check(
            name="old keys",
            level=Level.WARN,
            says=f"Keys that may have been in other hands: {len(compromised)}.",
            todo="Hand out amends keys export anew to everybody who pinned the keys.",
            named=tuple(compromised),
        )
    says = f"Keys that were in use before: {len(ring) - 1}; all of them are published."
    return Check(name="old keys", level=Level.OK, says=says)


def _checkpoint(place: Place, now: datetime) -> Check:
    """Whether the log was checkpointed lately, so that its past is fixed."""
    with survey_of(place) as survey, survey.logbook() as book:
        last = next(reversed(book.checkpoints()), None)
        added = book.count() - (0 if last is None else last.size)
        since = book.began() if last is None else last.created_at
    if last is None:
        said = "There is no checkpoint of the log yet"
    else:
        said = f"The last checkpoint of the log is of {format_instant(last.created_at)}"
    says = f"{said}; receipts since: {added}."
    if added and since is not None and now - since > _STALE:
        todo = "Run amends checkpoint, and hand out what it prints."
        return Check(name="checkpoint", level=Level.WARN, says=says, todo=todo)
    return Check(name="checkpoint", level=Level.OK, says=says)


# ── what the store had refused ───────────────────────────────────────────────────────────────────


def _spilled(place: Place, signer: StoreSigner) -> Iterator[Check]:
    try:
        looked = asyncio.run(take_in(place, signer))
    except AmendsError as error:
        yield _refused("spill", error)
        return
    if not looked:
        yield Check(name="spill", level=Level.OK, says="No settlement waits beside the store.")
    for one in looked:
        yield _one_spilled(one)


def _one_spilled(looked: Looked) -> Check:
    if looked.error is not None:
        error = looked.error
        says = f"{looked.file}: {error.message} [{error.code}]"
        return Check(name="spill", level=Level.FAULT, says=says, todo=error.next_step)
    match looked.became:
        case Became.TAKEN:
            says = f"{looked.file} was taken in; look at {looked.transaction_id}."
            return Check(name="spill", level=Level.OK, says=says)
        case Became.KNOWN:
            says = f"{looked.file} was known already, and is removed."
            return Check(name="spill", level=Level.OK, says=says)
        case _:
            return Check(
                name="spill",
                level=Level.FAULT,
                says=f"{looked.file} is of {looked.transaction_id}, which is not in this store.",
                todo="An effect may be there that nobody claims: a person has to look.",
            )
