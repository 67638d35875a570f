"""Having something carried out that may wait for people first, from the question to the answer.

Invariants: the action's id is known before anything is asked of the engine, so a process that dies
leaves something to look for; who waits for an approval claims nothing meanwhile.
"""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec

from amends.cli.answers import Answer
from amends.cli.asking import Deed, confirm
from amends.cli.results import Wanted
from amends.cli.session import Session
from amends.contracts.declarations import Capability
from amends.contracts.documents import TransactionPlan
from amends.contracts.enums import Mode, WireStatus
from amends.contracts.errors import Refused
from amends.contracts.ids import CapabilityId
from amends.contracts.json_types import Json
from amends.contracts.results import Result

Ask: TypeAlias = Callable[[], Coroutine[object, object, Result]]


@dataclass(frozen=True, kw_only=True)
class Carrying:
    """What is to be carried out.

    `wait_s` is how long people may take; `input` may be unset. `moot` says that nothing can be
    claimed any more, so that nobody has to be asked; the engine says the same in its own words.
    """

    deed: Deed
    action_id: str
    capability_id: str
    input: object = msgspec.UNSET
    plan: TransactionPlan | None = None
    transaction_id: str | None = None
    wait_s: float = 0.0
    yes: bool = False
    moot: bool = False

    @property
    def ids(self) -> dict[str, Json]:
        """By what it can be found again."""
        known: dict[str, Json] = {"action_id": self.action_id}
        if self.transaction_id is not None:
            known["transaction_id"] = self.transaction_id
        return known


async def carry_out(session: Session, carrying: Carrying, ask: Ask) -> Answer:
    """Ask the person at the terminal, then the engine, then wait for an approval if told to."""
    declared = session.capability(carrying.capability_id)
    if not carrying.moot:
        describe(session, declared)
        confirm(carrying.deed, session.stop, session.notes, yes=carrying.yes)
    at_most_ms = serving(session, declared, carrying.deed).service_level.timeout_ms
    result = await session.carry(ask(), carrying.ids, at_most_ms=at_most_ms)
    if carrying.wait_s > 0 and await approved(session, result, carrying.wait_s):
        resumed = session.amends.resume(result.action_id, carrying.input)
        result = await session.carry(resumed, carrying.ids, at_most_ms=at_most_ms)
    return session.results.answer(result, Wanted.EFFECT, carrying.plan)


async def approved(session: Session, result: Result, wait_s: float) -> bool:
    """Whether people have decided on a result that waits for them, after so many seconds."""
    if result.status is not WireStatus.REQUIRES_HUMAN or result.approval_id is None:
        return False
    session.notes.line(f"Waiting for somebody to type: amends approve {result.approval_id}")
    return await session.decided(result.approval_id, wait_s)


def describe(session: Session, declared: Capability) -> None:
    """Say what a capability does, before anybody says yes to it."""
    effects = ", ".join(declared.side_effects)
    name = "" if declared.title == declared.id else f" ({declared.id})"
    session.notes.line((declared.title, "bold"), f"{name}: {effects}; risk {declared.risk}.")


def serving(session: Session, declared: Capability, deed: Deed) -> Capability:
    """The capability whose connector is entered: for a compensation it may be another one."""
    if deed is not Deed.COMPENSATE:
        return declared
    registry = session.engine.environment.registry
    try:
        return registry.serving(registry.get(CapabilityId(declared.id))).capability
    except Refused:
        return declared


async def continued(
    session: Session, action_id: str, value: object, *, wait_s: float, yes: bool
) -> Carrying:
    """What an accepted action is to carry out when it is gone on with.

    Raises `Refused` (`transaction.not_found`). Nobody is asked about what has ended.
    """
    view = await session.amends.get(action_id=action_id)
    result = view.result
    return Carrying(
        deed=_DEEDS.get(result.mode, Deed.EXECUTE),
        action_id=action_id,
        capability_id=result.capability_id,
        input=value,
        plan=view.plan,
        transaction_id=result.transaction_id,
        wait_s=wait_s,
        yes=yes,
        moot=result.effect_is_there,
    )


_DEEDS: Final[Mapping[Mode, Deed]] = MappingProxyType(
    {Mode.COMMIT: Deed.COMMIT, Mode.COMPENSATE: Deed.COMPENSATE}
)
