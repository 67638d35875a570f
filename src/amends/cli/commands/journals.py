"""What operators rule: `amends worker resolve`, `release`, `supersede`, `reseat` and others."""

from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

from cyclopts import Parameter

from amends.cli.commands.serving import Journal
from amends.cli.options import Flag

if TYPE_CHECKING:
    from amends.contracts.worker_payload import Terminal

Ending: TypeAlias = Literal["succeeded", "failed", "cancelled"]
_WHO: Final = Parameter(help="Who rules.")
_WHY: Final = Parameter(help="Why, in words.")
_EVIDENCE: Final = Parameter(help="Where the evidence lies.")


def resolve(
    operation_key: Annotated[str, Parameter(help="The key of the original.")],
    ending: Annotated[Ending, Parameter(help="What was found.")],
    /,
    *,
    who: Annotated[str, _WHO],
    why: Annotated[str, _WHY],
    evidence: Annotated[str, _EVIDENCE],
    compensation: Annotated[
        str | None, Parameter(help="The key of the inverse, if that is what is ended.")
    ] = None,
    output: Annotated[str, Parameter(help="What came of it, as JSON, if it succeeded.")] = "{}",
    tool: Annotated[
        str | None, Parameter(help="Its tool, to close it for good even if it never came.")
    ] = None,
    grant: Annotated[
        str | None, Parameter(help="The grant's fingerprint, for an inverse that never came.")
    ] = None,
    journal: Journal,
) -> None:
    """End an open entry by hand, while no worker serves the journal."""
    from amends.host.link import EntryRuling
    from amends.journal.records import Ruling
    from amends.wiring.workers import close_by_hand, resolve_by_hand

    ended = _ended(ending, why, output)
    if tool is None:
        ruling = Ruling(who=who, why=why, evidence=evidence)
        resolve_by_hand(journal.place(), operation_key, compensation, ended, ruling)
        return
    close_by_hand(
        journal.place(),
        EntryRuling(
            tool=tool,
            operation_key=operation_key,
            compensation_key=compensation,
            grant=grant,
            ending=ended,
            who=who,
            why=why,
            evidence=evidence,
        ),
    )


def release(
    *,
    who: Annotated[str, _WHO],
    why: Annotated[str, _WHY],
    evidence: Annotated[str, _EVIDENCE],
    journal: Journal,
) -> None:
    """Let a frozen journal admit again, after both sides were compared."""
    from amends.journal.records import Ruling
    from amends.wiring.workers import release_by_hand

    release_by_hand(journal.place(), Ruling(who=who, why=why, evidence=evidence))


def reseat(
    *,
    journal_is_gone: Annotated[
        Flag, Parameter(help="The journal is lost for good: begin an empty one.")
    ] = False,
    anchor_is_gone: Annotated[
        Flag, Parameter(help="The anchor is lost for good: make a new one at its place.")
    ] = False,
    who: Annotated[str, _WHO],
    why: Annotated[str, _WHY],
    evidence: Annotated[str, _EVIDENCE],
    journal: Journal,
) -> None:
    """Go on from a journal that was restored, or whose anchor was. It is frozen until released."""
    from amends.journal.records import Ruling
    from amends.wiring.workers import reseat_by_hand

    reseat_by_hand(
        journal.place(),
        Ruling(who=who, why=why, evidence=evidence),
        journal_is_gone=journal_is_gone,
        anchor_is_gone=anchor_is_gone,
    )


def supersede(
    operation_key: Annotated[str, Parameter(help="The key of the original.")],
    compensation_key: Annotated[str, Parameter(help="The key of its inverse.")],
    grant: Annotated[str, Parameter(help="The fingerprint of the grant that holds from now on.")],
    /,
    *,
    who: Annotated[str, _WHO],
    why: Annotated[str, _WHY],
    evidence: Annotated[str, _EVIDENCE],
    journal: Journal,
) -> None:
    """Let an open inverse be looked up under another grant. It is never run under it."""
    from amends.journal.records import Ruling
    from amends.wiring.workers import supersede_by_hand

    ruling = Ruling(who=who, why=why, evidence=evidence)
    supersede_by_hand(journal.place(), operation_key, compensation_key, grant, ruling)


def accept_anchor(
    anchor: Annotated[str, Parameter(help="The URL of the anchor.")],
    /,
    *,
    who: Annotated[str, _WHO],
    why: Annotated[str, _WHY],
) -> None:
    """Go on with an anchor's server that was restored or failed over."""
    from amends.wiring.anchors import accept_server

    accept_server(anchor, who=who, why=why)


def _ended(ending: Ending, why: str, output: str) -> "Terminal":
    from amends.contracts.worker_json import read_json
    from amends.contracts.worker_payload import Cancelled, Failed, Succeeded, ToolPayload

    match ending:
        case "succeeded":
            return Succeeded(ToolPayload.json(read_json(output.encode())))
        case "failed":
            return Failed(why)
        case "cancelled":
            return Cancelled()
