"""Two tenants in one store: the same ids do not meet, and nobody learns that the other is there.

Every public method is walked with another tenant's ids, and again with ids that do not exist. The
answers have to be the same byte for byte, errors with all that they say included, once the id that
was typed is taken out. Methods that a program adds later fail here until they are in the table.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

import msgspec
import pytest
from msgspec.structs import replace

from amends.app.amends import Amends
from amends.contracts.actions import Action, TransactionContext, TransactionRequest
from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.documents import Correction
from amends.contracts.enums import Mode, PrincipalKind
from amends.contracts.errors import AmendsError
from amends.contracts.events import ProviderEvent, Said
from amends.contracts.ids import ActionId, CapabilityId, PlanId, PrincipalId, TransactionId
from amends.contracts.json_types import Json
from amends.contracts.principals import Principal
from amends.contracts.results import Result
from amends.stores.port import Stored
from amends.testing.workbench import ALICE, CHARGE, EVE, TENANT, Workbench
from tests.unit.runtime.desk import DONE, UNSURE, Desk

ELSEWHERE: Final = EVE.tenant
ORDER: Final[Json] = {"amount": 500}
EVENT: Final = ProviderEvent(provider="desk", event_id="evt_1", said=Said.APPLIED)


class Ids(msgspec.Struct, frozen=True):
    """Ids of one transaction: as they are at the other tenant, or as they are nowhere."""

    transaction: str
    plan: str
    action: str
    approval: str
    correction: str
    provider_key: str
    operation: str
    key: str
    delegation: str


Call = Callable[[Amends, Ids], Awaitable[object]]


async def _transact(who: Amends, ids: Ids) -> object:
    context = TransactionContext(mode=Mode.COMMIT, plan_id=PlanId(ids.plan))
    asked = Action(capability_id=CapabilityId(CHARGE), input=ORDER, transaction=context)
    request = TransactionRequest(
        transaction_id=TransactionId(ids.transaction),
        action=asked,
        requested_by=who._caller.principal.ref,
    )
    return await who.transact(request)


async def _compensating_request(who: Amends, ids: Ids) -> object:
    context = TransactionContext(mode=Mode.COMPENSATE, compensation_for=ActionId(ids.action))
    asked = Action(capability_id=CapabilityId(CHARGE), input=None, transaction=context)
    request = TransactionRequest(
        transaction_id=TransactionId("txn_own"),
        action=asked,
        requested_by=who._caller.principal.ref,
    )
    return await who.transact(request)


async def _by_key(who: Amends, ids: Ids) -> object:
    return await who.evidence(replace(EVENT, provider_key=ids.provider_key))


async def _by_operation(who: Amends, ids: Ids) -> object:
    return await who.evidence(replace(EVENT, operation_id=ids.operation))


CALLS: Final[dict[str, tuple[Call, ...]]] = {
    "commit": (lambda who, ids: who.commit(ids.plan, ORDER),),
    "compensate": (lambda who, ids: who.compensate(ids.action),),
    "reconcile": (
        lambda who, ids: who.reconcile(ids.transaction),
        lambda who, ids: who.reconcile(ids.transaction, insist=True, cursor="c"),
    ),
    "transact": (_transact, _compensating_request),
    "wait_for_approval": (lambda who, ids: who.wait_for_approval(ids.action, timeout_s=0.01),),
    "resume": (lambda who, ids: who.resume(ids.action),),
    "approve": (
        lambda who, ids: who.approve(ids.approval, seen_revision=1),
        lambda who, ids: who.approve("apr_none", under=ids.delegation),
    ),
    "revoke_delegation": (lambda who, ids: who.revoke_delegation(ids.delegation),),
    "delegations": (lambda who, _: who.delegations(),),
    "deny": (lambda who, ids: who.deny(ids.approval),),
    "revoke": (lambda who, ids: who.revoke(ids.approval),),
    "cancel": (lambda who, ids: who.cancel(ids.action),),
    "withdraw": (lambda who, ids: who.withdraw(ids.transaction),),
    "settle": (lambda who, ids: who.settle(ids.transaction, "committed", reference="r", note="n"),),
    "evidence": (_by_key, _by_operation),
    "rule": (lambda who, ids: who.rule(ids.correction, "r", allow_compensation=True),),
    "release": (lambda who, ids: who.release(ids.transaction),),
    "place_hold": (lambda who, ids: who.place_hold(ids.transaction, reason="r"),),
    "lift_hold": (lambda who, ids: who.lift_hold(ids.transaction, reason="r"),),
    "holds": (lambda who, _: who.holds(lifted=True),),
    "retain": (lambda who, _: who.retain(dry_run=True),),
    "get": (
        lambda who, ids: who.get(ids.transaction, include_result=True, include_receipts=True),
        lambda who, ids: who.get(plan_id=ids.plan),
        lambda who, ids: who.get(action_id=ids.action),
    ),
    "list": (
        lambda who, _: who.list(),
        lambda who, ids: who.list(where={"action_id": ids.action}),
    ),
    "approvals": (
        lambda who, _: who.approvals(),
        lambda who, ids: who.approvals(where={"transaction_id": ids.transaction}),
    ),
    "approval": (lambda who, ids: who.approval(ids.approval),),
    "refusals": (lambda who, _: who.refusals(), lambda who, ids: who.refusals(ids.action)),
    "receipts": (lambda who, ids: who.receipts(ids.transaction),),
    "keys": (lambda who, _: who.keys(),),
    "verify": (lambda who, ids: who.verify(ids.transaction),),
}
"""Every method that takes an id or lists something, with each way to name one."""

MAKING: Final[dict[str, Call]] = {
    "execute": lambda who, ids: who.execute(
        CHARGE,
        ORDER,
        action_id=ids.action,
        transaction_id=ids.transaction,
        idempotency_key=ids.key,
    ),
    "dry_run": lambda who, ids: who.dry_run(
        CHARGE, ORDER, action_id=ids.action, transaction_id=ids.transaction
    ),
    "plan": lambda who, ids: who.plan(
        CHARGE,
        ORDER,
        plan_id=ids.plan,
        action_id=ids.action,
        transaction_id=ids.transaction,
    ),
}
"""Methods that make something under ids of the caller's choice."""

WITHOUT_IDS: Final = frozenset({"open", "acting_as", "delegate"})
CAROL: Final = replace(ALICE, id=PrincipalId("carol"))
NOWHERE: Final = Ids(
    transaction="txn_none",
    plan="plan:txn_none",
    action="act_none",
    approval="apr_none",
    correction="cor_none",
    provider_key="amends-txn_none-0123456789abcdef",
    operation="op_none",
    key="key-none",
    delegation="del_none",
)
STRANGERS: Final = (
    EVE,
    replace(EVE, kind=PrincipalKind.USER),
    replace(ALICE, tenant=ELSEWHERE),
    replace(EVE, scopes=()),
)


def bench() -> Workbench:
    desk = Desk([DONE, UNSURE], preview=[DONE], reconcile=[DONE], compensate=[DONE])
    return Workbench(served=[desk.served(approval=ApprovalPolicy())])


async def fill(made: Workbench) -> Ids:
    """The other tenant's: an effect that was contradicted and is held, a plan that waits."""
    who = made.alice
    plan = await who.plan(CHARGE, ORDER, transaction_id="txn_a", action_id="act_plan")
    waiting = await who.commit(plan, action_id="act_a", idempotency_key="key-a")
    await made.bob.approve(waiting)
    done = await who.resume(waiting)
    record = await made.record(done)
    said = replace(EVENT, said=Said.NOT_APPLIED, provider_key=record.provider_key)
    await made.olga.evidence(said)
    page = await made.store.list(Correction, TENANT)
    [correction] = [one.document for one in page.items if isinstance(one, Stored)]
    await made.olga.place_hold(done, reason="case 7")
    until = made.clock() + timedelta(days=1)
    lent = await made.bob.delegate(CAROL.ref, ends_at=until)
    assert plan.plan_id is not None
    assert waiting.approval_id is not None
    return Ids(
        transaction="txn_a",
        plan=plan.plan_id,
        action="act_a",
        approval=waiting.approval_id,
        correction=correction.correction_id,
        provider_key=record.provider_key,
        operation="op_1",
        key="key-a",
        delegation=lent.delegation_id,
    )


async def answer(who: Amends, call: Call, ids: Ids) -> str:
    """Everything that a caller is told, without the ids that the caller has typed itself."""
    try:
        told: object = await call(who, ids)
        text = msgspec.json.encode(told).decode()
    except AmendsError as error:
        said = (type(error).__name__, error.code, error.message, error.next_step)
        text = repr((*said, dict(error.details), str(error.__cause__)))
    for field in sorted(msgspec.structs.asdict(ids).values(), key=len, reverse=True):
        text = text.replace(field, "…")
    return text


def test_every_public_method_is_walked() -> None:
    """A new method has to say here how another tenant's ids are named to it."""
    public = {
        name
        for name, _ in inspect.getmembers(Amends, inspect.isfunction)
        if not name.startswith("_")
    }
    assert public == CALLS.keys() | MAKING.keys() | WITHOUT_IDS


@pytest.mark.case("TEN-03", "TEN-04")
@pytest.mark.parametrize("method", CALLS)
async def test_another_tenants_id_is_answered_like_one_that_does_not_exist(method: str) -> None:
    for call in CALLS[method]:
        for stranger in STRANGERS:
            async with bench() as one, bench() as other:
                theirs = await fill(one)
                await fill(other)
                before = await one.snapshot()
                told = await answer(one.acting_as(stranger), call, theirs)
                untold = await answer(other.acting_as(stranger), call, NOWHERE)
                assert told == untold, (method, stranger)
                assert TENANT not in told
                after = await one.snapshot()
                mine = [named for named in after.documents if named[1] == ELSEWHERE]
                ours = {k: v for k, v in after.documents.items() if k not in mine}
                assert ours == before.documents
                assert [e for e in after.feed if e.tenant == TENANT] == list(before.feed)


@pytest.mark.case("TEN-01")
@pytest.mark.parametrize("method", MAKING)
async def test_the_same_ids_plan_ids_and_keys_in_two_tenants_do_not_collide(method: str) -> None:
    stranger = replace(ALICE, tenant=ELSEWHERE)
    async with bench() as one, bench() as alone:
        theirs = await fill(one)
        before = await one.snapshot()
        told = await answer(one.acting_as(stranger), MAKING[method], theirs)
        untold = await answer(alone.acting_as(stranger), MAKING[method], theirs)
        assert _without_made_ids(told) == _without_made_ids(untold)
        after = await one.snapshot()
        ours = {k: v for k, v in after.documents.items() if k[1] == TENANT}
        assert ours == before.documents


def _without_made_ids(text: str) -> str:
    """Approval ids count in each bench, so they differ by what the other tenant made before."""
    import re

    return re.sub(r"apr_\w+", "apr", text)


@pytest.mark.case("TEN-01")
async def test_a_key_of_another_tenant_neither_answers_nor_blocks_whoever_comes_first() -> None:
    desk = Desk([DONE])
    async with Workbench(served=[desk.served()]) as made:
        squatter = made.acting_as(replace(ALICE, tenant=ELSEWHERE))
        first = await squatter.execute(CHARGE, ORDER, idempotency_key="k", action_id="act_1")
        own = await made.alice.execute(CHARGE, ORDER, idempotency_key="k", action_id="act_1")
        assert (first.replayed, own.replayed) == (False, False)
        keys = {one.call.provider_key for one in desk.seen}
        assert len(keys) == 2
        again = await made.alice.execute(CHARGE, ORDER, idempotency_key="k")
        assert (again.replayed, again.transaction_id) == (True, own.transaction_id)
        assert await shown_to(made, made.alice) == [own.transaction_id]


async def shown_to(made: Workbench, who: Amends) -> list[str]:
    page = await who.list()
    return [one.document.transaction_id for one in page.items if isinstance(one, Stored)]


async def test_two_tenants_may_do_the_same_at_the_same_time() -> None:
    async with Workbench(served=[Desk([DONE]).served()]) as made:
        principals: list[Principal] = [replace(ALICE, tenant=t) for t in (TENANT, ELSEWHERE)]
        done: list[Result] = await asyncio.gather(
            *(
                made.acting_as(one).execute(CHARGE, ORDER, transaction_id="t", idempotency_key="k")
                for one in principals
            )
        )
        assert [one.status for one in done] == ["committed", "committed"]
        assert not any(one.replayed for one in done)
