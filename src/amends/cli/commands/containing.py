"""`amends worker containment`: whether this machine can contain a worker, property by property."""

from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from amends.cli.options import Flag

if TYPE_CHECKING:
    from amends.cli.paper import Paper
    from amends.containment.findings import ContainmentReport

_NOT: Final = "Workers cannot be contained here."


def containment(
    *, json: Annotated[Flag, Parameter(help="Print one JSON document.")] = False
) -> int:
    """Run a container that has nothing but Python, try to get out of it, and say what held."""
    import asyncio
    import sys

    from amends.cli.answers import Answer, give
    from amends.containment.description import describe
    from amends.containment.probing import probe
    from amends.containment.this_python import this_python
    from amends.contracts.codes import coded

    report = asyncio.run(probe(describe(this_python(), (), {})))
    answer = Answer(
        data=report.document(),
        tell=lambda paper: _tell(paper, report),
        error=None if report.contained else coded("containment.unavailable", message=_NOT),
    )
    return give(answer, sys.stdout, as_json=json, utc=False, interrupted=False)


def _tell(paper: "Paper", report: "ContainmentReport") -> None:
    from amends.cli.paper import clean
    from amends.containment.findings import MEANING, State

    styles = {State.HELD: "green", State.OPEN: "yellow", State.BROKEN: "bold red"}
    for one in report.findings:
        said = (f"{one.state:<8}", styles[one.state])
        paper.line(said, f"{one.property:<20}", MEANING[one.property])
    paper.line(clean(report.summary))
