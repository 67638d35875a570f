"""What a till can be told to do, and what it answers: the words between a test and its processes.

Each errand is one call of the library under ids that the test chose, so that the test can ask about
it even when the process that did it is gone. A refusal is an answer like any other.

Deliberately not here: transport (`victim`).
"""

from typing import Final, TypeAlias, assert_never

import msgspec

from amends.app.amends import LOCAL
from amends.contracts.actions import Action, TransactionContext, TransactionRequest
from amends.contracts.enums import Mode, Verdict
from amends.contracts.errors import AmendsError
from amends.contracts.ids import ActionId, CapabilityId, TransactionId
from amends.contracts.results import Result
from amends.recovery.sweeper import Swept
from amends.testing.provider import Charge, Refund
from amends.testing.provider_api import Request
from amends.testing.till import Till
from amends.testing.workbench import CHARGE

AMOUNT: Final = 500
"""What every charge is, in minor units."""


class Errand(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One thing to do."""


class Plan(Errand, frozen=True, kw_only=True):
    """Plan a charge; the plan's id is `plan:` and the transaction's."""

    action_id: str
    transaction_id: str


class Execute(Errand, frozen=True, kw_only=True):
    """Charge without a plan, under a transaction id that is made up unless it is given."""

    action_id: str
    transaction_id: str | None = None
    key: str | None = None


class Commit(Errand, frozen=True, kw_only=True):
    """Commit a plan."""

    action_id: str
    plan_id: str
    key: str | None = None


class Compensate(Errand, frozen=True, kw_only=True):
    """Refund what the target charged."""

    action_id: str
    transaction_id: str
    target: str
    key: str | None = None


class Reconcile(Errand, frozen=True, kw_only=True):
    """Look up what became of a transaction."""

    action_id: str
    transaction_id: str


class Step(Errand, frozen=True, kw_only=True):
    """Move the clock on."""

    milliseconds: int


class Sweep(Errand, frozen=True, kw_only=True):
    """Do one round of recovery."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller heard: a result, or the code of a refusal with the status it names.

    `look_ups` counts what this process has asked the provider to find so far.
    """

    code: str | None = None
    action_id: str | None = None
    transaction_id: str | None = None
    status: str | None = None
    verdict: Verdict | None = None
    revision: int | None = None
    replayed: bool = False
    swept: Swept | None = None
    look_ups: int = 0

    @property
    def heard(self) -> str | None:
        """The code where it was refused, else the status."""
        return self.code or self.status


AnyErrand: TypeAlias = Plan | Execute | Commit | Compensate | Reconcile | Step | Sweep


async def run_errand(till: Till, errand: AnyErrand) -> Answer:
    """Do it and answer. Whatever is no refusal of ours is raised."""
    match errand:
        case Step():
            till.clock.step(errand.milliseconds)
            return Answer()
        case Sweep():
            swept = await till.sweeper.sweep()
            asked = till.provider.far_side.requests.count(Request.FIND)
            return Answer(swept=swept, look_ups=asked)
        case _:
            return await _asked(till, errand)


async def _asked(till: Till, errand: Plan | Execute | Commit | Compensate | Reconcile) -> Answer:
    try:
        result = await _called(till, errand)
    except AmendsError as error:
        status = error.details.get("status")
        return Answer(
            code=error.code,
            action_id=errand.action_id,
            status=status if isinstance(status, str) else None,
        )
    return Answer(
        action_id=result.action_id,
        transaction_id=result.transaction_id,
        status=result.status.value,
        verdict=result.verdict,
        revision=result.revision,
        replayed=result.replayed,
    )


async def _called(till: Till, errand: Plan | Execute | Commit | Compensate | Reconcile) -> Result:
    amends = till.amends
    match errand:
        case Plan(action_id=action_id, transaction_id=id_):
            return await amends.plan(
                CHARGE, Charge(AMOUNT), action_id=action_id, transaction_id=id_
            )
        case Execute(action_id=action_id, transaction_id=id_, key=key):
            return await amends.execute(
                CHARGE,
                Charge(AMOUNT),
                action_id=action_id,
                transaction_id=id_,
                idempotency_key=key,
            )
        case Commit(action_id=action_id, plan_id=plan_id, key=key):
            return await amends.commit(plan_id, action_id=action_id, idempotency_key=key)
        case Compensate(action_id=action_id, transaction_id=id_, target=target, key=key):
            return await amends.compensate(
                target,
                Refund(),
                action_id=action_id,
                transaction_id=id_,
                idempotency_key=key,
            )
        case Reconcile():
            return await _reconciled(till, errand)
        case _:
            assert_never(errand)


async def _reconciled(till: Till, errand: Reconcile) -> Result:
    """As a first-class request, which is how a reconciliation gets an action id of its own."""
    id_ = TransactionId(errand.transaction_id)
    action = Action(
        capability_id=CapabilityId(CHARGE),
        action_id=ActionId(errand.action_id),
        transaction=TransactionContext(mode=Mode.RECONCILE, transaction_id=id_),
    )
    request = TransactionRequest(transaction_id=id_, action=action, requested_by=LOCAL.ref)
    return (await till.amends.transact(request)).result
