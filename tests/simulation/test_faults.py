"""Numbered faults, one at a time: what a provider, a handler or a recovery can do to a record."""

import asyncio
import contextlib
from datetime import timedelta
from itertools import pairwise
from typing import Final

import pytest

from amends.connectors.function import FunctionConnector
from amends.connectors.handlers import HandlerFunction
from amends.connectors.port import Attempt
from amends.connectors.signals import NotFound
from amends.contracts.declarations import (
    Capability,
    ExecutionContract,
    RecoveryContract,
    ServiceLevelContract,
    TransactionContract,
)
from amends.contracts.enums import Handler, Mode, SideEffect, Status, Verdict
from amends.contracts.errors import Conflict
from amends.runtime.registry import Registry
from amends.simulation import ProcessDied, current_process
from amends.simulation.capabilities import CHARGE
from amends.simulation.hosts import Host
from amends.simulation.promises import HOUR_MS
from amends.simulation.town import Town
from amends.testing import faults
from amends.testing.faults import Answer, Fault
from amends.testing.provider import PROVIDER, Charge
from amends.transactions.contradictions import TWO_EFFECTS
from amends.transactions.reconciliation import EXHAUSTED
from tests.simulation.drama import execute, perform, play, promise, record_of

HOUR: Final = timedelta(hours=1)
NOBODY_ASKED: Final = "nobody was asked"
"""What the laws say of a look-up that never reaches the bank, as some here never do."""

LOOK_UPS: Final = 4
"""How many look-ups a record gets before a person is called."""


async def ask(town: Town, host: Host, *names: str) -> None:
    for name in names:
        await town.ask(name, perform(execute(name)), host=host)


def registry_of(handlers: dict[Handler, HandlerFunction]) -> Registry:
    """The charge capability with handlers of a test's own."""
    connector, registry = FunctionConnector(handlers), Registry()
    capability = Capability(
        id=CHARGE,
        side_effects=(SideEffect.FINANCIAL,),
        input_schema=connector.inputs[Handler.EXECUTE].schema,
        transaction=TransactionContract(supported_modes=(Mode.EXECUTE, Mode.RECONCILE)),
        execution=ExecutionContract(lookup_by_key=True, in_flight_horizon_ms=8_000),
        service_level=ServiceLevelContract(timeout_ms=10_000),
        recovery=RecoveryContract(
            initial_delay_ms=5_000, max_delay_ms=60_000, max_attempts=LOOK_UPS
        ),
        handlers=connector.handlers,
    )
    registry.register(capability, connector)
    return registry


async def loses_its_answer(_order: Charge, _attempt: Attempt) -> None:
    raise ConnectionResetError("gone")


@pytest.mark.fault(8)
@pytest.mark.parametrize(
    ("fault", "verdict"),
    [
        (faults.duplicate(), Verdict.NOT_COMMITTED),
        (Fault(answer=Answer.CONFLICT), Verdict.COMMITTED),
    ],
)
def test_a_duplicate_key_answer_is_uncertain_until_a_look_up_knows(
    fault: Fault, verdict: Verdict
) -> None:
    async def acts(town: Town) -> None:
        host = town.start_host(fated=False)
        town.weather.foretell(fault)
        await ask(town, host, "a1")
        assert record_of(town, "t-a1").status is Status.OUTCOME_UNKNOWN

    assert record_of(play(acts), "t-a1").verdict is verdict


@pytest.mark.fault(9)
def test_the_answer_to_another_request_is_not_taken_for_ours() -> None:
    """The reference of somebody else's operation is not kept; ours is found by key."""

    async def acts(town: Town) -> None:
        host = town.start_host(fated=False)
        town.weather.foretell(faults.stranger())
        await ask(town, host, "a1")
        record = record_of(town, "t-a1")
        assert (record.status, record.provider_operation) == (Status.OUTCOME_UNKNOWN, None)

    town = play(acts)
    record = record_of(town, "t-a1")
    assert record.verdict is Verdict.COMMITTED
    assert record.provider_operation is not None
    assert record.provider_operation.operation_id == town.bank.effects()[0].operation_id


@pytest.mark.rule("TX-CHECKPOINT-2")
@pytest.mark.fault(10)
def test_a_second_operation_does_not_replace_the_first_and_calls_a_person() -> None:
    async def names_two(_order: Charge, attempt: Attempt) -> dict[str, str]:
        await attempt.checkpoint(PROVIDER, "op_1")
        with pytest.raises(Conflict, match="provider_operation_conflict"):
            await attempt.checkpoint(PROVIDER, "op_2")
        return {"operation_id": "op_2"}

    async def acts(town: Town) -> None:
        await ask(town, town.start_host(fated=False), "a1")

    town = play(
        acts, registry=registry_of({Handler.EXECUTE: names_two, Handler.RECONCILE: names_two})
    )
    record = record_of(town, "t-a1")
    assert (record.status, record.attention) == (Status.OUTCOME_UNKNOWN, TWO_EFFECTS)
    assert record.provider_operation is not None
    assert record.provider_operation.operation_id == "op_1"
    assert {one.operation.operation_id for one in record.evidence if one.operation} == {"op_2"}


@pytest.mark.rule("TX-RECON-4")
@pytest.mark.fault(24)
def test_a_look_up_that_kills_its_process_each_time_is_given_up_after_a_few() -> None:
    """The waits between them grow, and outlive every one of these processes."""
    entered: list[float] = []

    async def kills(_order: Charge, _attempt: Attempt) -> None:
        entered.append(asyncio.get_running_loop().time())
        process = current_process()
        assert process is not None
        process.kill()

    async def acts(town: Town) -> None:
        await ask(town, town.start_host(fated=False), "a1")
        for _ in range(LOOK_UPS + 2):
            host = town.start_host(fated=False, sweeps_every_s=1.0)
            with contextlib.suppress(ProcessDied):
                await host.process.run(asyncio.sleep(200))

    handlers: dict[Handler, HandlerFunction] = {
        Handler.EXECUTE: loses_its_answer,
        Handler.RECONCILE: kills,
    }
    town = play(acts, registry=registry_of(handlers), but=NOBODY_ASKED)
    assert len(entered) == LOOK_UPS
    waits = [later - before for before, later in pairwise(entered)]
    assert waits == sorted(waits)
    assert waits[-1] > 1.5 * waits[0]
    record = record_of(town, "t-a1")
    assert (record.status, record.attention) == (Status.OUTCOME_UNKNOWN, EXHAUSTED)


@pytest.mark.rule("TX-RECON-4")
@pytest.mark.fault(26)
def test_a_record_whose_look_up_always_fails_does_not_stop_the_others() -> None:
    async def finds_nothing(_order: Charge, attempt: Attempt) -> None:
        if attempt.transaction_id == "t-a1":
            raise MemoryError("again")
        raise NotFound

    async def acts(town: Town) -> None:
        await ask(town, town.start_host(fated=False), "a1", "a2", "a3")

    handlers: dict[Handler, HandlerFunction] = {
        Handler.EXECUTE: loses_its_answer,
        Handler.RECONCILE: finds_nothing,
    }
    town = play(acts, registry=registry_of(handlers), but=NOBODY_ASKED)
    poisoned = record_of(town, "t-a1")
    assert (poisoned.status, poisoned.attention) == (Status.OUTCOME_UNKNOWN, EXHAUSTED)
    assert poisoned.reconcile_attempts == LOOK_UPS
    assert record_of(town, "t-a2").verdict is Verdict.NOT_COMMITTED
    assert record_of(town, "t-a3").verdict is Verdict.NOT_COMMITTED


@pytest.mark.case("STK-06")
@pytest.mark.rule("TX-LEASE-2")
@pytest.mark.fault(21)
@pytest.mark.parametrize("seed", range(50))
def test_recovery_adopts_nothing_that_its_own_process_has_just_begun(seed: int) -> None:
    """Twenty executions each, while the sweeper of the very same process runs all the time and the
    store's clock jumps ahead, so that every lease is over long before its attempt.
    """
    names = [f"a{number}" for number in range(20)]

    async def acts(town: Town) -> None:
        host = town.start_host(fated=False, sweeps_every_s=0.25)
        town.weather.foretell(*(faults.late(9 * town.lot.random()) for _ in names))
        town.world.loop.call_later(3 * town.lot.random(), town.world.clock.step, HOUR)
        await asyncio.gather(*(later(town, host, name) for name in names))
        for name in names:
            assert record_of(town, f"t-{name}").status is Status.COMMITTED

    async def later(town: Town, host: Host, name: str) -> None:
        await asyncio.sleep(4 * town.lot.random())
        await ask(town, host, name)

    town = play(acts, promise(skew_ms=HOUR_MS), seed=seed)
    keys = [one.arrival.key for one in town.bank.effects()]
    assert len(keys) == len(set(keys)) == len(names)
    assert town.chronicle.seen["lapsed"] == 0
