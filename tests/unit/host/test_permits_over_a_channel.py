"""A permit and a real session: what is no longer the same is refused before a number is used."""

import asyncio
import copy
import pickle
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

import pytest
from msgspec.structs import replace

from amends.contracts.errors import Misuse, Refused
from amends.contracts.worker_messages import CompensateOperation, CompensationRequest
from amends.contracts.worker_payload import ToolPayload
from amends.host.channel import WorkerChannel
from amends.host.workflow import Workflow
from amends.ledger.operations import OperationIntent
from amends.ledger.permits import DispatchPermit
from amends.ledger.plans import make_plan
from amends.ledger.targets import Target
from tests.unit.worker.stage import DONE, GRANT, INPUT, INVERSE, NOW, WIDE, Both

Change = Callable[[Both, Workflow, Target], Awaitable[Target]]


def changed(**fields: object) -> Change:
    async def change(_: Both, __: Workflow, target: Target) -> Target:
        return replace(target, **fields)

    return change


async def more_was_recorded(_: Both, workflow: Workflow, target: Target) -> Target:
    again = OperationIntent(
        step_id="publish", tool=GRANT.tool, payload=INPUT, nonce=b"release-42:publish:2"
    )
    await workflow.record(again)
    return target


async def it_expired(both: Both, _: Workflow, target: Target) -> Target:
    both.now = NOW + timedelta(seconds=31)
    return target


OTHER_PLAN: Final = make_plan([("publish", "another source")])
CHANGES: Final[dict[str, tuple[Change, str]]] = {
    "plan": (changed(plan=OTHER_PLAN), "ledger.plan_mismatch"),
    "operation key": (changed(operation_key="op-" + "9" * 64), "ledger.operation_unknown"),
    "tenant": (changed(tenant_scope="tenant-of-others"), "ledger.compensation_drifted"),
    "input": (changed(payload=ToolPayload.json({"undo": "all"})), "ledger.compensation_drifted"),
    "grant": (changed(grant=WIDE), "ledger.compensation_drifted"),
    "grant without compensations": (
        changed(grant=GRANT.with_compensation_limit(0)),
        "ledger.compensation_not_granted",
    ),
    "ledger revision": (more_was_recorded, "permit.drifted"),
    "expiry": (it_expired, "permit.expired"),
}


async def refused(
    both: Both, workflow: Workflow, channel: WorkerChannel, target: Target, permit: DispatchPermit
) -> str:
    """The code of the refusal, after which the permit is used up and no frame was sent."""
    frames = len(both.wires[0].sent)
    with pytest.raises(Refused) as caught:
        await workflow.compensate(channel, target, permit)
    assert permit.is_spent
    assert len(both.wires[0].sent) == frames
    return caught.value.code


@pytest.mark.rule("PM-3", "PM-5")
@pytest.mark.fault(50, 54)
@pytest.mark.parametrize("field", CHANGES)
async def test_each_bound_field_that_changed_is_refused_and_no_number_is_used(field: str) -> None:
    both = Both()
    workflow, target = await both.intended()
    change, code = CHANGES[field]
    async with both.channel() as channel:
        permit = await workflow.permit(channel, target)
        other = await change(both, workflow, target)
        assert await refused(both, workflow, channel, other, permit) == code
        both.now = NOW
        assert await workflow.compensate(channel, target) == DONE


@pytest.mark.rule("PM-3")
@pytest.mark.fault(54)
async def test_a_permit_of_another_session_is_refused_and_used_up() -> None:
    both = Both()
    workflow, target = await both.intended()
    async with both.channel() as channel:
        permit = await workflow.permit(channel, target)
    async with both.channel() as channel:
        assert await refused(both, workflow, channel, target, permit) == "permit.elsewhere"
        assert await workflow.compensate(channel, target) == DONE


@pytest.mark.rule("PM-3")
async def test_a_permit_is_used_once() -> None:
    both = Both()
    workflow, target = await both.intended()
    async with both.channel() as channel:
        permit = await workflow.permit(channel, target)
        assert await workflow.compensate(channel, target, permit) == DONE
        with pytest.raises(Refused):
            await workflow.compensate(channel, target, permit)
        assert permit.is_spent
    assert both.provider.entered["compensate"] == 1


@pytest.mark.rule("PM-3")
@pytest.mark.parametrize("copies", [copy.copy, copy.deepcopy, pickle.dumps])
async def test_a_permit_cannot_be_copied_or_stored(copies: Callable[[object], object]) -> None:
    both = Both()
    workflow, target = await both.intended()
    async with both.channel() as channel:
        permit = await workflow.permit(channel, target)
        with pytest.raises(Misuse, match="permit_copied"):
            copies(permit)
        assert await workflow.compensate(channel, target, permit) == DONE


@pytest.mark.rule("PM-3")
async def test_a_permit_whose_use_is_cancelled_is_used_up() -> None:
    both = Both()
    workflow, target = await both.intended()

    async def hang(_: object) -> bool:
        await asyncio.sleep(60)
        return True

    async with both.channel() as channel:
        permit = await workflow.permit(channel, target)
        both.says["action"] = hang
        using = asyncio.ensure_future(workflow.compensate(channel, target, permit))
        await asyncio.sleep(0.01)
        using.cancel()
        with pytest.raises(asyncio.CancelledError):
            await using
        assert permit.is_spent


@pytest.mark.rule("PM-3")
async def test_a_permit_over_a_channel_that_ended_is_used_up() -> None:
    both = Both()
    workflow, target = await both.intended()
    async with both.channel() as channel:
        permit = await workflow.permit(channel, target)
    with pytest.raises(Exception, match=r"channel\.lost"):
        await workflow.compensate(channel, target, permit)
    assert permit.is_spent
    assert both.provider.entered["compensate"] == 0


@pytest.mark.rule("PM-5")
async def test_a_channel_sends_no_compensation_without_a_permit() -> None:
    both = Both()
    _, target = await both.intended()
    async with both.channel() as channel:
        request = CompensationRequest(
            **channel.names(),
            tool=GRANT.tool,
            operation_key=both.kept.records[0].operation_key,
            compensation_key="cmp-" + "1" * 64,  # type: ignore[arg-type]  # it is such a key
            tenant_scope=target.tenant_scope,
            grant_fingerprint="1" * 64,  # type: ignore[arg-type]  # it is one
            payload=INVERSE,
            head=both.kept.records[0].head,
        )
        frames = len(both.wires[0].sent)
        with pytest.raises(Misuse, match="permit_required"):
            await channel.ask(CompensateOperation(request))
        assert len(both.wires[0].sent) == frames


@pytest.mark.rule("PM-4")
async def test_what_has_ended_gets_no_permit() -> None:
    both = Both()
    workflow, target = await both.intended()
    async with both.channel() as channel:
        await workflow.compensate(channel, target)
        with pytest.raises(Refused, match=r"permit\.terminal"):
            await workflow.permit(channel, target)
