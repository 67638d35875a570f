"""What `amends check` finds in an app: faults that keep it from starting, risks, and notes.

Invariants: everything is found at once; a fault cannot be silenced; a silenced risk is still told,
as accepted, so that nobody forgets it.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from amends.app.amends import Registrable
from amends.app.capabilities import Buildable
from amends.cli import exits
from amends.cli.answers import Answer
from amends.cli.paper import Paper, clean
from amends.contracts.declarations import Capability
from amends.contracts.enums import Handler
from amends.contracts.errors import AmendsError, Misuse, Refused
from amends.contracts.ids import CapabilityId
from amends.contracts.json_types import JsonObject
from amends.transactions.registration import find_faults, well_typed
from amends.transactions.risks import CODES, UNKNOWN_ACCEPTED, risks_of, unknown_accepted

FAULT: Final = "fault"
_STYLES: Final = {"fault": "bold red", "risk": "yellow", "note": "dim", "accepted": "dim"}


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One finding: `weight` is fault, risk or note; `accepted` says that it was silenced."""

    capability_id: CapabilityId
    weight: str
    code: str
    why: str
    todo: str = ""
    accepted: bool = False


def examined(app: Sequence[Registrable], silenced: Sequence[str]) -> Answer:
    """Everything that is wrong or risky in an app.

    Raises `Misuse` (`cli.risk_unknown`) for a code that there is not.
    """
    _check_silenced(silenced)
    found: list[Found] = []
    sound: list[Capability] = []
    for one in app:
        capability, faults = _declared(one)
        found += faults
        if capability is not None:
            sound.append(capability)
    found += [*_together(sound), *_risky(sound, silenced)]
    return _answer(len(app), found)


def _check_silenced(silenced: Sequence[str]) -> None:
    unknown = [one for one in silenced if one.rpartition(":")[2] not in CODES]
    if unknown:
        raise Misuse(
            "cli.risk_unknown",
            "There is no such risk to be silenced.",
            next_step=f"Name a code, or capability:code. The codes: {', '.join(sorted(CODES))}.",
        )


def _declared(one: Registrable) -> tuple[Capability | None, list[Found]]:
    """A declaration as it would be registered, and its own faults."""
    named = one.id if isinstance(one, Buildable) else one[0].id
    try:
        declared, _ = one.build() if isinstance(one, Buildable) else one
        capability = well_typed(declared)
    except AmendsError as error:
        listed = error.details.get("faults")
        texts = [str(text) for text in listed] if isinstance(listed, list) else [error.message]
        return None, [_fault(named, error.code, text) for text in texts]
    faults = [_fault(named, one.code, one.text) for one in find_faults(capability)]
    return capability, faults


def _together(capabilities: Sequence[Capability]) -> Iterator[Found]:
    """Faults that only show beside the others: an id twice, and nobody to compensate."""
    by_id: dict[CapabilityId, Capability] = {}
    for one in capabilities:
        if one.id in by_id:
            yield _fault(one.id, "id_twice", "another capability has this id")
        by_id[one.id] = one
    for one in by_id.values():
        named = one.compensation.compensation_capability_id
        serving = None if named is None else by_id.get(named)
        ways = {Handler.COMPENSATE, Handler.EXECUTE}
        if named is not None and (serving is None or not ways & set(serving.handlers)):
            text = "the capability that is to compensate is not there, or cannot"
            yield _fault(one.id, "compensation_unavailable", text)


def _risky(capabilities: Sequence[Capability], silenced: Sequence[str]) -> Iterator[Found]:
    for one in capabilities:
        for code in unknown_accepted(one):
            why = "The declaration accepts a risk that there is not."
            todo = "Write the code as it is told."
            yield Found(
                capability_id=one.id,
                weight="risk",
                code=UNKNOWN_ACCEPTED,
                why=f"{why} ({clean(code)})",
                todo=todo,
            )
        for risk in risks_of(one):
            yield Found(
                capability_id=one.id,
                weight=risk.weight.value,
                code=risk.code,
                why=risk.why,
                todo=risk.todo,
                accepted=risk.code in one.accepted_risks
                or risk.code in silenced
                or f"{one.id}:{risk.code}" in silenced,
            )


def _fault(capability_id: CapabilityId, code: str, text: str) -> Found:
    return Found(
        capability_id=capability_id,
        weight=FAULT,
        code=code,
        why=text,
        todo="Mend the declaration: it cannot be registered as it is.",
    )


def _answer(capabilities: int, found: Sequence[Found]) -> Answer:
    faults = [one for one in found if one.weight == FAULT]
    risks = [one for one in found if one.weight == "risk" and not one.accepted]
    data: JsonObject = {
        "capabilities": capabilities,
        "findings": msgspec.to_builtins(found),
        "faults": len(faults),
        "risks": len(risks),
    }
    return Answer(
        data=data,
        tell=lambda paper: _tell(paper, capabilities, found),
        error=_error(len(faults), len(risks)),
        exit_code=exits.FAILED if risks and not faults else None,
    )


def _error(faults: int, risks: int) -> AmendsError | None:
    if faults:
        return Misuse(
            "check.faults",
            f"There are {faults} faults, and the app cannot start.",
            next_step="Mend each; see what stands beside it.",
        )
    if risks:
        return Refused(
            "check.risks",
            f"There are {risks} risky choices that nobody has accepted.",
            next_step="Change each, or accept it: --silence CODE, or accepted_risks.",
        )
    return None


def _tell(paper: Paper, capabilities: int, found: Sequence[Found]) -> None:
    for one in found:
        said = "accepted" if one.accepted else one.weight
        where = f"{one.capability_id}  {one.code}"
        paper.line((f"{said:<9}", _STYLES[said]), (clean(where), "bold"))
        paper.line(" " * 9, clean(one.why))
        if one.todo and not one.accepted:
            paper.line(" " * 9, (clean(one.todo), "dim"))
    if not found:
        paper.line(f"Capabilities: {capabilities}. Nothing is wrong or risky in them.")
