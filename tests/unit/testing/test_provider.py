"""The scripted provider: each fault, what the caller is told, and what really happened."""

import asyncio
import math
import multiprocessing
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from amends.connectors.function import FunctionConnector
from amends.connectors.port import OriginalEffect
from amends.contracts import outcomes
from amends.contracts.enums import Handler
from amends.contracts.ids import ActionId, CapabilityId, ProviderOperationId, TransactionId
from amends.contracts.json_types import Json, JsonObject
from amends.contracts.outcomes import Outcome, ProviderOperation
from amends.simulation import World, current_process
from amends.testing import faults
from amends.testing.connector_stage import a_call, an_attempt
from amends.testing.effects import FileLedger
from amends.testing.faults import Fault
from amends.testing.provider import AnswerMismatch, ScriptedProvider
from amends.testing.provider_api import Phase, ProviderError, Request

FIVE: JsonObject = {"amount": 5}


class Session:
    """Carries attempts to a provider as the runtime would, and keeps what was recorded."""

    def __init__(self, provider: ScriptedProvider) -> None:
        self.connector = FunctionConnector(provider.handlers)
        self.recorded: ProviderOperation | None = None

    async def _checkpoint(self, operation: ProviderOperation, _cursor: str | None) -> None:
        self.recorded = operation

    async def carry(
        self, kind: Handler = Handler.EXECUTE, input: Json = None, **facts: object
    ) -> Outcome:
        call = a_call(kind, input=FIVE if input is None else input)
        told = {"provider_operation": self.recorded, **facts}
        call = msgspec.structs.replace(call, **told)
        return await self.connector.carry_out(an_attempt(call, self._checkpoint))


def _run(scenario: Callable[[], Awaitable[object]]) -> None:
    """Run a scenario in virtual time, so that a minute costs nothing."""
    World(None).run(lambda _world: scenario())


def _original(operation_id: str = "", key: str = "key_1") -> OriginalEffect:
    return OriginalEffect(
        action_id=ActionId("act_0"),
        transaction_id=TransactionId("txn_0"),
        capability_id=CapabilityId("pay"),
        operation=_scripted(operation_id) if operation_id else None,
        provider_key=key,
    )


def _scripted(operation_id: str) -> ProviderOperation:
    return ProviderOperation("scripted", ProviderOperationId(operation_id))


def _applied(operation_id: str, amount: int = 5) -> Json:
    return {"operation_id": operation_id, "amount": amount, "currency": "eur"}


def _code(outcome: Outcome) -> str:
    assert isinstance(outcome, outcomes.NotApplied)
    return outcome.error.code


# ── charges ──────────────────────────────────────────────────────────────────────────────────────


async def test_without_faults_a_charge_is_made_recorded_and_told() -> None:
    provider = ScriptedProvider()
    session = Session(provider)
    assert await session.carry() == outcomes.Applied(output=_applied("charge_1"))
    assert session.recorded == _scripted("charge_1")
    assert (provider.charges, provider.refunds, provider.balance) == (1, 0, 5)
    assert (provider.effects_of("key_1"), provider.effects_of("key_2")) == (1, 0)
    assert provider.far_side.requests == [Request.CHARGE]


@pytest.mark.parametrize(
    ("fault", "charges", "error"),
    [
        (faults.headers(), 0, ConnectionResetError),
        (faults.body(effect=False), 0, ConnectionResetError),
        (faults.body(effect=True), 1, ConnectionResetError),
        (faults.acknowledgement(), 1, ConnectionResetError),
        (faults.server_error(), 0, ProviderError),
        (faults.server_error_after_commit(), 1, ProviderError),
        (faults.duplicate(), 0, ProviderError),
        (faults.stranger(), 1, AnswerMismatch),
    ],
)
async def test_a_fault_that_leaves_the_caller_in_doubt_is_not_called_definite(
    fault: Fault, charges: int, error: type[Exception]
) -> None:
    provider = ScriptedProvider([fault])
    session = Session(provider)
    with pytest.raises(error):
        await session.carry()
    assert provider.charges == charges
    assert session.recorded is None
    assert provider.far_side.requests == [Request.CHARGE]


async def test_a_refused_connection_has_certainly_sent_nothing() -> None:
    provider = ScriptedProvider([faults.connect()])
    outcome = await Session(provider).carry()
    assert _code(outcome) == "provider.unreachable"
    assert isinstance(outcome, outcomes.NotApplied)
    assert outcome.error.retryable
    assert (provider.charges, provider.far_side.requests) == (0, [])


async def test_a_declined_charge_is_definite_and_remembered() -> None:
    provider = ScriptedProvider([faults.decline()])
    session = Session(provider)
    assert _code(await session.carry()) == "provider.card_declined"
    assert _code(await session.carry(Handler.RECONCILE)) == "provider.card_declined"
    assert provider.charges == 0


async def test_an_amount_beyond_the_limit_is_declined_by_preview_and_charge_alike() -> None:
    provider = ScriptedProvider(limit=4)
    session = Session(provider)
    assert _code(await session.carry(Handler.PREVIEW)) == "provider.amount_refused"
    assert _code(await session.carry()) == "provider.amount_refused"
    assert provider.charges == 0


async def test_a_preview_has_no_effect() -> None:
    provider = ScriptedProvider()
    outcome = await Session(provider).carry(Handler.PREVIEW)
    assert outcome == outcomes.Applied(output={"would_charge": 5, "currency": "eur"})
    assert provider.far_side.effects() == ()


def test_a_late_answer_comes_after_its_time_although_the_effect_is_there_at_once() -> None:
    async def scenario() -> None:
        provider = ScriptedProvider([faults.late(60)])
        running = asyncio.create_task(Session(provider).carry())
        await asyncio.sleep(59)
        assert (provider.charges, running.done()) == (1, False)
        await asyncio.sleep(2)
        assert running.result() == outcomes.Applied(output=_applied("charge_1"))

    _run(scenario)


@pytest.mark.parametrize("effect", [True, False])
def test_an_answer_that_never_comes_is_waited_for_until_somebody_gives_up(effect: bool) -> None:
    async def scenario() -> None:
        provider = ScriptedProvider([faults.never(effect=effect)])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(Session(provider).carry(), 3600)
        assert provider.charges == int(effect)

    _run(scenario)


def test_an_accepted_charge_is_pending_until_it_is_ready() -> None:
    async def scenario() -> None:
        provider = ScriptedProvider([faults.accepted(60)])
        session = Session(provider)
        pending = outcomes.Pending(operation=_scripted("charge_1"))
        assert await session.carry() == pending
        assert session.recorded == _scripted("charge_1")
        assert await session.carry(Handler.RECONCILE) == pending
        await asyncio.sleep(60)
        assert isinstance(await session.carry(Handler.RECONCILE), outcomes.Applied)
        assert provider.charges == 1

    _run(scenario)


async def test_a_provider_that_deduplicates_answers_a_re_drive_with_the_first_effect() -> None:
    provider = ScriptedProvider([faults.acknowledgement()], dedup_window_s=60)
    session = Session(provider)
    with pytest.raises(ConnectionResetError):
        await session.carry()
    assert await session.carry() == outcomes.Applied(output=_applied("charge_1"))
    assert provider.charges == 1
    assert len(provider.far_side.requests) == 2


async def test_a_provider_that_does_not_deduplicate_charges_twice_and_counts_both() -> None:
    provider = ScriptedProvider([faults.acknowledgement()])
    session = Session(provider)
    with pytest.raises(ConnectionResetError):
        await session.carry()
    await session.carry()
    assert (provider.charges, provider.effects_of("key_1"), provider.balance) == (2, 2, 10)


# ── look-ups ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_look_up_finds_by_key_what_was_lost_on_the_way() -> None:
    provider = ScriptedProvider([faults.acknowledgement()])
    session = Session(provider)
    with pytest.raises(ConnectionResetError):
        await session.carry()
    outcome = await session.carry(Handler.RECONCILE)
    assert outcome == outcomes.Applied(output=_applied("charge_1"), operation=_scripted("charge_1"))


async def test_a_look_up_goes_by_the_recorded_operation_where_there_is_one() -> None:
    provider = ScriptedProvider()
    session = Session(provider)
    await session.carry()
    outcome = await session.carry(Handler.RECONCILE, provider_key="another")
    assert isinstance(outcome, outcomes.Applied)


async def test_a_look_up_that_finds_another_amount_leaves_the_outcome_open() -> None:
    session = Session(ScriptedProvider())
    await session.carry()
    with pytest.raises(AnswerMismatch):
        await session.carry(Handler.RECONCILE, input={"amount": 6})


async def test_a_look_up_prefers_the_effect_of_a_key_to_its_refusal() -> None:
    session = Session(ScriptedProvider([faults.none(), faults.decline()]))
    await session.carry()
    await session.carry()
    session.recorded = None
    assert isinstance(await session.carry(Handler.RECONCILE), outcomes.Applied)


@pytest.mark.parametrize("fault", [faults.headers(), faults.server_error(), faults.duplicate()])
async def test_a_look_up_that_fails_knows_nothing(fault: Fault) -> None:
    session = Session(ScriptedProvider(lookups=[fault]))
    with pytest.raises((ConnectionResetError, ProviderError)):
        await session.carry(Handler.RECONCILE)


async def test_a_look_up_that_finds_nothing_voids_the_key_only_if_it_may() -> None:
    provider = ScriptedProvider()
    assert await Session(provider).carry(Handler.RECONCILE) == outcomes.NotFound()
    assert isinstance(await Session(provider).carry(), outcomes.Applied)
    provider = ScriptedProvider(voids=True)
    assert await Session(provider).carry(Handler.RECONCILE) == outcomes.NotFound(voided=True)
    assert _code(await Session(provider).carry()) == "provider.key_voided"


def test_a_request_in_flight_takes_effect_after_a_look_up_that_found_nothing() -> None:
    async def scenario() -> None:
        provider = ScriptedProvider([faults.body(effect=True, after_s=30)])
        session = Session(provider)
        with pytest.raises(ConnectionResetError):
            await session.carry()
        assert await session.carry(Handler.RECONCILE) == outcomes.NotFound()
        assert provider.charges == 0
        await asyncio.sleep(30)
        assert provider.charges == 1
        assert isinstance(await session.carry(Handler.RECONCILE), outcomes.Applied)

    _run(scenario)


def test_a_request_in_flight_has_no_effect_once_its_key_is_voided() -> None:
    async def scenario() -> None:
        provider = ScriptedProvider([faults.body(effect=True, after_s=30)], voids=True)
        session = Session(provider)
        with pytest.raises(ConnectionResetError):
            await session.carry()
        assert await session.carry(Handler.RECONCILE) == outcomes.NotFound(voided=True)
        await asyncio.sleep(60)
        assert provider.charges == 0

    _run(scenario)


def test_a_look_up_by_key_lags_behind_and_one_by_operation_does_not() -> None:
    async def scenario() -> None:
        provider = ScriptedProvider(consistency_delay_s=10)
        session = Session(provider)
        await session.carry()
        assert isinstance(await session.carry(Handler.RECONCILE), outcomes.Applied)
        session.recorded = None
        assert await session.carry(Handler.RECONCILE) == outcomes.NotFound()
        await asyncio.sleep(10)
        assert isinstance(await session.carry(Handler.RECONCILE), outcomes.Applied)

    _run(scenario)


# ── refunds ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_refund_gives_everything_back_once_and_a_second_is_definitely_refused() -> None:
    provider = ScriptedProvider()
    await Session(provider).carry()
    for key, expected in (("r1", 1), ("r2", 1)):
        session = Session(provider)
        outcome = await session.carry(
            Handler.COMPENSATE, input={}, provider_key=key, original=_original("charge_1")
        )
        assert provider.refunds == expected
    assert _code(outcome) == "provider.already_refunded"
    assert (provider.charges, provider.refunds, provider.balance) == (1, 1, 0)


async def test_a_part_is_refunded_from_the_key_of_the_charge_alone() -> None:
    provider = ScriptedProvider()
    await Session(provider).carry()
    outcome = await Session(provider).carry(
        Handler.COMPENSATE, input={"amount": 2}, provider_key="r1", original=_original()
    )
    assert outcome == outcomes.Applied(output=_applied("refund_2", 2))
    assert provider.balance == 3


async def test_a_refund_of_what_was_never_charged_is_definitely_refused() -> None:
    session = Session(ScriptedProvider([faults.decline()]))
    await session.carry()
    for original in (_original(), _original("charge_9"), None):
        outcome = await session.carry(Handler.COMPENSATE, input={}, original=original)
        assert _code(outcome) == "provider.no_such_charge"


async def test_what_was_given_back_by_hand_is_not_given_back_again() -> None:
    provider = ScriptedProvider()
    await Session(provider).carry(input={"amount": 100})
    provider.far_side.reverse("charge_1", 40)
    refund = Session(provider)
    whole = await refund.carry(Handler.COMPENSATE, input={}, original=_original("charge_1"))
    assert _code(whole) == "provider.already_refunded"
    rest = await refund.carry(
        Handler.COMPENSATE, input={"amount": 60}, original=_original("charge_1")
    )
    assert isinstance(rest, outcomes.Applied)
    assert provider.balance == 0


@pytest.mark.parametrize(
    ("fault", "error"),
    [(faults.stranger(), AnswerMismatch), (faults.acknowledgement(), ConnectionResetError)],
)
async def test_a_refund_in_doubt_is_found_again_by_its_own_key(
    fault: Fault, error: type[Exception]
) -> None:
    provider = ScriptedProvider([faults.none(), fault])
    await Session(provider).carry()
    refund = Session(provider)
    facts: dict[str, object] = {"provider_key": "r1", "original": _original("charge_1")}
    with pytest.raises(error):
        await refund.carry(Handler.COMPENSATE, input={}, **facts)
    found = await refund.carry(Handler.RECONCILE, input={}, **facts)
    assert found == outcomes.Applied(output=_applied("refund_2"), operation=_scripted("refund_2"))
    assert provider.refunds == 1


# ── crashes ──────────────────────────────────────────────────────────────────────────────────────


async def test_every_phase_of_a_request_can_be_waited_for() -> None:
    reached: list[tuple[Phase, Request, int]] = []

    async def on(phase: Phase, request: Request) -> None:
        await asyncio.sleep(0)
        reached.append((phase, request, provider.charges))

    provider = ScriptedProvider(on=on)
    await Session(provider).carry()
    assert reached == [
        (Phase.CONNECT, Request.CHARGE, 0),
        (Phase.SENT, Request.CHARGE, 0),
        (Phase.EFFECT, Request.CHARGE, 1),
        (Phase.ANSWER, Request.CHARGE, 1),
    ]


def _charge_and_die(path: Path, at: Phase) -> None:
    def on(phase: Phase, _request: Request) -> None:
        if phase is at:
            os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(Session(ScriptedProvider(ledger=FileLedger(path), on=on)).carry())


@pytest.mark.parametrize(("phase", "charges"), [(Phase.SENT, 0), (Phase.EFFECT, 1)])
def test_the_effect_of_a_killed_process_is_found_by_the_next_one(
    tmp_path: Path, phase: Phase, charges: int
) -> None:
    path = tmp_path / "effects"
    victim = multiprocessing.get_context("spawn").Process(
        target=_charge_and_die, args=(path, phase)
    )
    victim.start()
    victim.join()
    assert victim.exitcode == -signal.SIGKILL
    provider = ScriptedProvider(ledger=FileLedger(path))
    found = asyncio.run(Session(provider).carry(Handler.RECONCILE))
    assert isinstance(found, outcomes.Applied if charges else outcomes.NotFound)
    assert provider.charges == charges


def test_a_simulated_process_that_dies_in_the_call_leaves_the_effect_at_the_provider() -> None:
    async def scenario(world: World) -> None:
        def on(phase: Phase, _request: Request) -> None:
            assert current_process() is None
            if phase is Phase.EFFECT:
                process.kill()

        provider = ScriptedProvider(on=on)
        process = world.process("host")
        with pytest.raises(BaseException, match="host died"):
            await process.run(Session(provider.through(process.through)).carry())
        assert provider.charges == 1

    World(7).run(scenario)


def test_when_all_is_over_what_was_still_in_flight_counts() -> None:
    provider = ScriptedProvider([faults.body(effect=True, after_s=3600)])

    async def charge() -> None:
        with pytest.raises(ConnectionResetError):
            await Session(provider).carry()
        assert provider.charges == 0

    asyncio.run(charge())
    assert provider.charges == 1


async def test_a_clock_can_be_given() -> None:
    now = 0.0
    provider = ScriptedProvider(dedup_window_s=10, clock=lambda: now)
    await Session(provider).carry()
    now = 11.0
    await Session(provider).carry()
    now = math.inf
    assert provider.charges == 2
