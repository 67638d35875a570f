"""`amends doctor` and `amends migrate`: how a store is, and bringing its schema up to date."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from amends.cli.operations.place import HERE, Place
from amends.cli.options import APP, POLICY, PRINCIPALS, SETTINGS, Flag

if TYPE_CHECKING:
    from amends.cli.paper import Paper
    from amends.contracts.json_types import JsonObject
    from amends.wiring.contents import Check


def doctor(
    *,
    app: Annotated[
        str | None, Parameter(env_var=APP, help="Check this app's declarations too.")
    ] = None,
    settings: Annotated[
        str | None, Parameter(env_var=SETTINGS, help="Check that these settings can be loaded.")
    ] = None,
    principals: Annotated[
        Path | None, Parameter(env_var=PRINCIPALS, help="Check this file of principals.")
    ] = None,
    policy: Annotated[
        Path | None, Parameter(env_var=POLICY, help="Check this file of rules.")
    ] = None,
    quick: Annotated[Flag, Parameter(help="Check the file less thoroughly.")] = False,
    place: Place = HERE,
) -> int:
    """Check a store, and take in settlements that it had refused."""
    import sys

    from amends.cli import exits
    from amends.cli.answers import Answer, give
    from amends.cli.operations.configured import configured
    from amends.cli.operations.progress import phases
    from amends.contracts.errors import Corrupt
    from amends.wiring.contents import Level
    from amends.wiring.health import examine
    from amends.wiring.places import existing_place

    database = existing_place(place.store)
    with phases() as phase:
        checks = [*configured(app, settings, principals, policy)]
        checks += examine(database, quick=quick, told=phase("Examining"))
    faults = [one for one in checks if one.level is Level.FAULT]
    error = None
    if faults:
        error = Corrupt(
            "doctor.faults",
            f"{len(faults)} of {len(checks)} checks found a fault.",
            details={"faults": [one.name for one in faults]},
            next_step="Do what stands beside each.",
        )
    answer = Answer(
        data={"checks": [_document(one) for one in checks]},
        tell=lambda paper: _tell(paper, checks),
        error=error,
        exit_code=exits.FAILED if faults else exits.OK,
    )
    return give(answer, sys.stdout, as_json=place.json, utc=False, interrupted=False)


def _document(check: "Check") -> "JsonObject":
    import msgspec

    document: JsonObject = msgspec.to_builtins(check)
    return document


def _tell(paper: "Paper", checks: "list[Check]") -> None:
    from amends.cli.paper import clean
    from amends.wiring.contents import Level

    styles = {Level.OK: "green", Level.WARN: "yellow", Level.FAULT: "bold red"}
    for one in checks:
        paper.line((f"{one.level:<6}", styles[one.level]), f"{one.name:<12}", clean(one.says))
        for named in one.named:
            paper.line(" " * 18, clean(named))
        if one.todo:
            paper.line(" " * 18, (clean(one.todo), "dim"))


def migrate(
    *,
    dry_run: Annotated[Flag, Parameter(help="Only say what would be done.")] = False,
    place: Place = HERE,
) -> int:
    """Bring a store up to this program's schema. A backup beforehand is the way back."""
    import sys

    from amends.cli.answers import Answer, give
    from amends.wiring.migrating import schema_steps, take_steps
    from amends.wiring.places import existing_place

    database = existing_place(place.store)
    steps = schema_steps(database)
    missing = [one for one in steps if not one.taken]
    if missing and not dry_run:
        take_steps(database)

    def tell(paper: "Paper") -> None:
        for one in steps:
            said = "there" if one.taken else ("missing" if dry_run else "taken")
            paper.line(f"{one.number:>4}  {said:<8}  {one.name}")
        if not missing:
            paper.line("The schema is this program's own; nothing was to be done.")

    data: JsonObject = {
        "steps": [{"number": one.number, "name": one.name} for one in steps],
        "missing": [one.number for one in missing],
        "taken": [] if dry_run else [one.number for one in missing],
    }
    answer = Answer(data=data, tell=tell)
    return give(answer, sys.stdout, as_json=place.json, utc=False, interrupted=False)
