"""`amends backup` and `amends restore`: a store's file as one copy, and a copy as a store again."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from amends.cli.operations.place import HERE, Place
from amends.cli.options import Flag, Yes

if TYPE_CHECKING:
    from amends.cli.paper import Paper
    from amends.contracts.json_types import JsonObject
    from amends.recovery.freezing import Frozen
    from amends.wiring.backups import BackedUp
    from amends.wiring.restored import Restored


def backup(
    file: Annotated[Path, Parameter(help="A new file.")],
    /,
    *,
    no_key: Annotated[
        Flag, Parameter(help="Leave the key out; then keep a copy of it elsewhere.")
    ] = False,
    place: Place = HERE,
) -> int:
    """Copy a store while it is in use, with the key that signs its receipts."""
    import sys

    from amends.cli.answers import Answer, give
    from amends.cli.operations.progress import phases
    from amends.wiring.backups import make_backup
    from amends.wiring.places import existing_database

    database = existing_database(place.store)
    with phases() as phase:
        made = make_backup(database, file.absolute(), with_key=not no_key, phase=phase)
    data: JsonObject = {
        "file": made.file,
        "size": made.size,
        "key": made.key,
        "store": made.lineage,
    }
    answer = Answer(data=data, tell=lambda paper: _tell_backup(paper, made))
    return give(answer, sys.stdout, as_json=place.json, utc=False, interrupted=False)


def _tell_backup(paper: "Paper", made: "BackedUp") -> None:
    from amends.cli.paper import clean

    paper.line(clean(f"The store is copied to {made.file}: {made.size} bytes, found whole."))
    if made.key is not None:
        paper.line(clean(f"Its key is copied to {made.key}. Keep both as you keep the key:"))
        paper.line("whoever has them can read the store and sign receipts in its name.")
    else:
        paper.line("The key was left out. Without it a restored store signs with another one.")
    paper.line("Settlements that wait beside the store are not in it: run amends doctor first.")


def restore(
    file: Annotated[
        Path | None,
        Parameter(help="A file that amends backup has written; none for a store on a server."),
    ] = None,
    /,
    *,
    yes: Yes = False,
    place: Place = HERE,
) -> int:
    """Make a store of a backup. All that was open in it is frozen until an operator releases it."""
    import sys

    from amends.cli.answers import Answer, give
    from amends.cli.operations.progress import phases
    from amends.wiring import backups
    from amends.wiring.places import OnServer, file_of, is_file, is_on_a_server

    if file is None and is_on_a_server(place.store):
        from amends.wiring.server_upkeep import go_on_after_restore

        _ask(exists=True, yes=yes)
        with phases() as phase:
            done = go_on_after_restore(OnServer(place.store), phase)
    else:
        database, source = file_of(place.store), _named(file)
        _ask(exists=is_file(database), yes=yes)
        with phases() as phase:
            done = backups.restore(source, database, replace=True, phase=phase)
    answer = Answer(data=_document(done), tell=lambda paper: _tell(paper, done))
    return give(answer, sys.stdout, as_json=place.json, utc=False, interrupted=False)


def _named(file: Path | None) -> Path:
    from amends.contracts.errors import Misuse

    if file is None:
        raise Misuse(
            "cli.backup_required",
            "No backup was named.",
            next_step="Name a file that amends backup has written.",
        )
    return file.absolute()


def _ask(*, exists: bool, yes: bool) -> None:
    """Say what a restore does not guarantee; ask where it takes the place of something."""
    import asyncio

    from amends.cli.asking import Deed, confirm
    from amends.cli.paper import notes
    from amends.cli.stopping import Stop

    async def ask() -> None:
        confirm(Deed.RESTORE, Stop(as_json=False), notes(), yes=yes or not exists)

    asyncio.run(ask())


def _document(done: "Restored") -> "JsonObject":
    import msgspec

    document: JsonObject = msgspec.to_builtins(done)
    document["went_on"] = [dict(one._asdict()) for one in done.went_on]
    return document


def _tell(paper: "Paper", done: "Restored") -> None:
    from amends.cli.paper import clean

    paper.line(clean(f"The store is restored. It is another store now: lineage {done.lineage},"))
    paper.line(clean(f"from a backup of {done.from_lineage}."))
    if done.kept is not None:
        paper.line(clean(f"What was there before is kept as {done.kept}."))
    if done.key_made:
        paper.line("The backup came without a key, so a new one was made: older receipts need the")
        paper.line("public key of the old one to be checked.")
    paper.line()
    _tell_frozen(paper, done.frozen)
    if done.went_on:
        paper.line()
        paper.line(("The store that was there knew more of these; look at the provider:", "bold"))
        paper.rows([(clean(one.transaction_id), clean(one.status)) for one in done.went_on])
    paper.line()
    paper.line("Effects of transactions that the backup has never heard of are not protected:")
    paper.line("nothing here knows of them, and the same request would be carried out again.")


def _tell_frozen(paper: "Paper", frozen: "Frozen") -> None:
    from amends.cli.paper import clean

    records = [(one.transaction_id, one.status, one.tenant) for one in frozen.records]
    requests = [
        (one.transaction_id, f"approval {one.status}", one.tenant) for one in frozen.approvals
    ]
    if records or requests:
        paper.line(("Frozen until an operator releases it (amends release):", "bold"))
        rows = [tuple(map(clean, row)) for row in (*records, *requests)]
        paper.rows(rows, ("TRANSACTION", "STOOD AT", "TENANT"))
    else:
        paper.line("Nothing was open in it.")
    if frozen.delegations:
        paper.line(f"Delegations that lend nothing any more: {len(frozen.delegations)}.")
    for alone in frozen.left_alone:
        paper.line(clean(f"Not frozen, since nothing can be done with it: {alone.id}"))
