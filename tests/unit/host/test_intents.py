"""Whose intent it is that a ledger has, and what its verifiers are asked about."""

import pytest
from msgspec.structs import replace

from amends.connectors.port import OriginalEffect
from amends.contracts.enums import Status, WireStatus
from amends.contracts.ids import TenantId
from amends.contracts.worker_identity import host_input_fingerprint
from amends.contracts.worker_payload import ToolPayload
from amends.host.identities import tenant_scope
from amends.host.tools import Judges, WorkerTool
from amends.ledger.records import LedgerCompensation, with_operation
from amends.ledger.targets import Question
from amends.testing.connector_stage import a_call
from amends.testing.durable import Moment
from amends.testing.workbench import TENANT
from tests.unit.host.loop_worker import WITHDRAWAL, World
from tests.unit.host.test_connector import LATER_S, executed, hangs_up
from tests.unit.host.test_ruling import another_host, dies_writing, operation, write

EXISTS = "ledger.compensation_exists"


def put(world: World, intent: LedgerCompensation) -> None:
    """Let the ledger have another intent."""
    found = replace(operation(world), compensation=intent)
    write(world, with_operation(world.worker.ledger_of_all, found))


def intent_of(world: World) -> LedgerCompensation:
    intent = operation(world).compensation
    assert intent is not None
    return intent


@pytest.mark.rule("INT-3")
async def test_an_intent_under_another_key_than_the_records_is_not_looked_up_for_it() -> None:
    world = World()
    async with world.bench() as bench:
        done = await executed(bench)
        world.worker.provider.after = hangs_up(world)
        undone = await bench.alice.compensate(done, WITHDRAWAL)
        world.worker.provider.after = None
        put(world, replace(intent_of(world), compensation_key="cmp-" + "0" * 64))
        bench.wait(LATER_S)
        await bench.sweep()
        record = await bench.record(undone)
    assert (record.status, record.attention) == (Status.OUTCOME_UNKNOWN, EXISTS)


@pytest.mark.rule("INT-3")
@pytest.mark.parametrize("whose", ["its own", "of another input", "of an input that is not kept"])
async def test_an_intent_whose_key_was_not_noted_is_known_by_its_input(whose: str) -> None:
    """The host died between the ledger and the record."""
    world = World(redacted=whose == "of an input that is not kept")
    async with world.bench() as bench:
        done = await executed(bench)
        dies_writing(world, Moment.AFTER)
        undone = await bench.alice.compensate(done, WITHDRAWAL)
        assert undone.status is WireStatus.OUTCOME_UNKNOWN
        another_host(world)
        if whose == "of another input":
            canonical = ToolPayload.json({"undo": "something else"}).canonical
            fingerprint = host_input_fingerprint(canonical)
            put(world, replace(intent_of(world), input_fingerprint=fingerprint))
        await bench.restart()
        bench.wait(LATER_S)
        await bench.alice.reconcile(undone)
        record = await bench.record(undone)
    if whose == "its own":
        assert (record.status, world.effects) == (Status.RECONCILED, [1, 1])
    else:
        assert (record.status, record.attention) == (Status.OUTCOME_UNKNOWN, EXISTS)
        assert world.effects == [1]


@pytest.mark.rule("INT-4")
async def test_a_grant_is_said_to_stand_for_this_very_tool_and_tenant_only() -> None:
    world = World()
    async with world.bench() as bench:
        await bench.alice.compensate(await executed(bench), WITHDRAWAL)
    question = world.asked[0]

    async def says(question: Question, *, tenant: str = TENANT) -> object:
        tool = WorkerTool(grant=world.asked[0].grant, verify=right, granted=lambda *_: True)
        judges = Judges(tool)
        try:
            return await judges.verifiers(a_call(tenant=tenant)).grant(question)  # type: ignore[misc]  # it is a coroutine function
        finally:
            judges.close()

    assert await says(question) is True
    other = replace(question.grant, max_input_bytes=question.grant.max_input_bytes - 1)
    assert await says(replace(question, grant=other)) is False
    assert await says(replace(question, tenant_scope=tenant_scope(TenantId("other")))) is False
    assert await says(question, tenant="other") is False


def right(_: Question, __: OriginalEffect) -> bool:
    return True
