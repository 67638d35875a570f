"""`amends worker compare`: a journal beside the ledgers, and what nobody claims."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from amends.cli.commands.serving import Journal
from amends.cli.options import Flag

if TYPE_CHECKING:
    from amends.cli.paper import Paper
    from amends.contracts.json_types import Json
    from amends.wiring.comparing import Compared

_LEDGERS: Final = Parameter(help="The folder of the ledgers: host in the state of a worker.")
_ANCHOR: Final = Parameter(help="The anchor of the ledgers, if it is not in their folder.")


def compare(
    ledgers: Annotated[Path, _LEDGERS],
    /,
    *,
    ledgers_anchor: Annotated[str | None, _ANCHOR] = None,
    json: Annotated[Flag, Parameter(help="Print one JSON document.")] = False,
    journal: Journal,
) -> int:
    """Show every entry of a journal that the ledgers do not have just so."""
    import sys

    import msgspec

    from amends.cli import exits
    from amends.cli.answers import Answer, give
    from amends.wiring.anchors import anchor_place
    from amends.wiring.comparing import Standing, compare

    theirs = None if ledgers_anchor is None else anchor_place(ledgers_anchor)
    found = compare(journal.place(), ledgers, anchor=theirs)
    other = [one for one in found if one.standing is not Standing.AGREED]
    alarming = any(one.standing is not Standing.AHEAD for one in other)
    entries: list[Json] = [
        {**msgspec.to_builtins(one), "standing": one.standing.value} for one in found
    ]
    answer = Answer(
        data={"entries": entries},
        tell=lambda paper: _tell(paper, other, len(found)),
        exit_code=exits.FAILED if alarming else exits.OK,
    )
    return give(answer, sys.stdout, as_json=json, utc=False, interrupted=False)


def _tell(paper: "Paper", other: "list[Compared]", count: int) -> None:
    for one in other:
        key = one.compensation_key or one.operation_key
        told = "none" if one.ledger is None else one.ledger.value
        paper.line((f"{one.standing:<13}", "yellow"), f"{one.tool}  {key}")
        paper.line(f"{'':<13}journal {one.journal}, ledger {told}")
    paper.line(f"{count - len(other)} of {count} entries agree.")
