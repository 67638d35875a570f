"""The rules against the truth: an honest provider, a lossy network, and what the record says of it.

The provider knows whether the effect is there; the record hears of it through answers that may be
lost, late or uncertain, but never false, and that keep what the capability declares: when requests
are dead, how long reads lag, for how long the provider key is deduplicated. Under these terms a
verdict is true for ever, and there is never a second effect.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amends.contracts.declarations import Capability, ExecutionContract
from amends.contracts.enums import Handler, PrincipalKind, RetrySafety, Status, Verdict
from amends.contracts.errors import AmendsError
from amends.contracts.ids import Fence
from amends.contracts.outcomes import (
    Applied,
    ErrorInfo,
    Failure,
    NotApplied,
    NotFound,
    Outcome,
    Pending,
    Uncertain,
)
from amends.testing.builders import (
    CAPABILITY,
    KEY,
    NOW,
    OPERATION,
    attempt,
    capability,
    principal,
    record_in,
)
from amends.transactions.late import take_late
from amends.transactions.leases import holds_lease, lapse
from amends.transactions.reconciliation import (
    Answered,
    Ask,
    Way,
    admit,
    settle_reconciliation,
    way_to_ask,
)
from amends.transactions.replay import Answer, AskedAgain, replay_execution
from amends.transactions.settlement import NO_OUTPUT, read_outcome, settle_attempt
from amends.transactions.table import Event, move

OPERATOR = principal("olga", kind=PrincipalKind.OPERATOR)
LEASE = timedelta(seconds=35)
LIMIT = timedelta(seconds=30)
LOST = Uncertain(error=ErrorInfo(code="connection_reset"))
TIMED_OUT = Failure(error=ErrorInfo(code="sla.timeout_exceeded"))
REFUSED = ErrorInfo(code="card_declined")
BUSY = ErrorInfo(code="provider_busy", retryable=True)


class Chance(NamedTuple):
    """What chance decides in one step: a number, whether it is heard, and one more yes or no."""

    number: int
    heard: bool
    flag: bool
    lost: Outcome


@dataclass
class Sent:
    """One request on its way: until when it can still arrive, and what became of it."""

    fence: Fence
    dies_at: datetime | None
    redrive: bool
    applied: bool = False
    refused: bool = False

    def arrives(self, now: datetime) -> bool:
        alive = self.dies_at is None or now <= self.dies_at
        return alive and not self.applied and not self.refused


class World:
    """One execution, its requests, and the provider that receives them."""

    def __init__(self, execution: ExecutionContract) -> None:
        self.now = NOW
        self.lease_end = NOW
        self.sent: list[Sent] = []
        self.applied_at: list[datetime] = []
        self.voided = False
        self.declared: Capability = capability(execution=execution)
        self.record = record_in(Status.PREPARED, attempt=None, effect_attempts=0, attempts=0)
        self._send(Event.EXECUTION_RESUMED)

    def _send(self, event: Event, *, redrive: bool = False, **changes: object) -> None:
        """A claim, and the request that it licenses."""
        known = self.record
        fence = Fence(f"fen_{known.attempts + 1}")
        running = attempt(fence=fence, started_at=self.now, redrive=redrive)
        self.lease_end = self.now + LEASE
        self.record = move(
            event,
            known,
            self.now,
            attempt=running,
            attempts=known.attempts + 1,
            effect_attempts=known.effect_attempts + 1,
            first_attempt_at=known.first_attempt_at or self.now,
            **changes,
        )
        horizon = self.declared.execution.in_flight_horizon_ms
        dies_at = None if horizon is None else self.lease_end + timedelta(milliseconds=horizon)
        self.sent.append(Sent(fence, self.now + LIMIT if redrive else dies_at, redrive))

    # ── the provider ─────────────────────────────────────────────────────────────────────────────

    def _deduplicated(self) -> bool:
        window = self.declared.execution.provider_dedup_window_ms
        first = self.record.first_attempt_at or self.now
        return (
            window is not None
            and bool(self.applied_at)
            and self.now <= first + timedelta(milliseconds=window)
        )

    def a_request_arrives(self, chance: Chance) -> None:
        waiting = [one for one in self.sent if one.arrives(self.now)]
        if not waiting:
            return
        request = waiting[chance.number % len(waiting)]
        if self._deduplicated():
            request.applied = True
        elif chance.flag and not self.voided:
            request.applied = True
            self.applied_at.append(self.now)
        else:
            request.refused = True

    def time_passes(self, chance: Chance) -> None:
        self.now += timedelta(seconds=(1, 5, 20, 40, 130)[chance.number % 5])

    def _honest(self, request: Sent, chance: Chance) -> Outcome:
        """What the connector reports of a request: the truth, or that it does not know."""
        if chance.heard and request.applied:
            return Applied(operation=OPERATION)
        if chance.heard and request.refused:
            return NotApplied(error=BUSY) if chance.flag else Failure(error=REFUSED)
        return chance.lost

    # ── attempts ─────────────────────────────────────────────────────────────────────────────────

    def the_attempt_ends(self, chance: Chance) -> None:
        if self.record.status is not Status.PREPARED:
            return
        reading = read_outcome(self._honest(self.sent[-1], chance))
        self.record = settle_attempt(
            self.record, reading, NO_OUTPUT, self.now, lease_ended_at=self.lease_end
        ).record

    def the_lease_lapses(self, _chance: Chance) -> None:
        if holds_lease(self.record) and self.now >= self.lease_end:
            self.record = lapse(self.record, self.now, self.lease_end, self.declared.recovery)

    def an_answer_comes_late(self, chance: Chance) -> None:
        """Of a request whose attempt is not the record's own any more."""
        running = self.record.attempt if holds_lease(self.record) else None
        given_up = [one for one in self.sent if running is None or one.fence != running.fence]
        if not given_up:
            return
        request = given_up[chance.number % len(given_up)]
        reading = read_outcome(self._honest(request, chance))
        late = take_late(self.record, reading, NO_OUTPUT, request.fence, self.now)
        self.record = late.record or self.record

    def the_caller_executes_again(self, _chance: Chance) -> None:
        known = self.record
        again = AskedAgain(
            action_id=known.action_id,
            capability_id=known.capability_id,
            context=known.context,
            principal=known.principal,
            identity=known.identity,
            input_hash=known.input_hash,
            idempotency_key=KEY,
        )
        lapsed = self.now >= self.lease_end
        safety = self.declared.execution.retry_safety
        try:
            answer = replay_execution(again, known, lapsed=lapsed, safety=safety)
        except AmendsError:
            return
        if answer is Answer.REOPEN:
            self._send(Event.EXECUTION_REOPENED, error=None)

    # ── finding out ──────────────────────────────────────────────────────────────────────────────

    def somebody_asks_the_provider(self, _chance: Chance) -> None:
        ask = Ask(capability_id=CAPABILITY, principal=OPERATOR, insist=True)
        try:
            known = admit(ask, self.record, self.declared, self.now)
        except AmendsError:
            return
        counted = known.reconcile_attempts + 1
        if way_to_ask(known, self.declared, self.now) is Way.REDRIVE:
            self._send(Event.RECONCILIATION_STARTED, redrive=True, reconcile_attempts=counted)
            return
        looking = attempt(
            fence=Fence(f"fen_{known.attempts + 1}"),
            handler=Handler.RECONCILE,
            started_at=self.now,
        )
        self.lease_end = self.now + LEASE
        self.record = move(
            Event.RECONCILIATION_STARTED,
            known,
            self.now,
            attempt=looking,
            attempts=known.attempts + 1,
            reconcile_attempts=counted,
        )

    def the_provider_answers(self, chance: Chance) -> None:
        running = self.record.attempt
        if self.record.status is not Status.RECONCILING or running is None:
            return
        outcome = (
            self._honest(self.sent[-1], chance)
            if running.redrive
            else self._found(running.started_at, chance)
        )
        answered = Answered(
            outcome=outcome,
            output=NO_OUTPUT,
            looked_from=running.started_at,
            redrive=running.redrive,
            jitter=0.0,
            now=self.now,
            lease_ended_at=self.lease_end,
        )
        self.record = settle_reconciliation(self.record, answered, self.declared).record

    def _found(self, looked_from: datetime, chance: Chance) -> Outcome:
        """An honest look-up, whose reads lag as far behind as was declared."""
        delay = timedelta(milliseconds=self.declared.execution.consistency_delay_ms)
        if not chance.heard:
            return chance.lost
        if any(at + delay <= looked_from for at in self.applied_at):
            return Applied(operation=OPERATION)
        if chance.number == 0 and not self.applied_at:
            self.voided = True
            return NotFound(voided=True)
        return NotFound()

    # ── the truth ────────────────────────────────────────────────────────────────────────────────

    def check(self) -> None:
        """A verdict is true and stays true, and there is never a second effect."""
        if self.record.verdict is Verdict.COMMITTED:
            assert self.applied_at
        if self.record.verdict is Verdict.NOT_COMMITTED:
            assert not self.applied_at
        assert len(self.applied_at) <= 1


STEPS: tuple[Callable[[World, Chance], None], ...] = (
    World.a_request_arrives,
    World.time_passes,
    World.the_attempt_ends,
    World.the_lease_lapses,
    World.an_answer_comes_late,
    World.the_caller_executes_again,
    World.somebody_asks_the_provider,
    World.the_provider_answers,
)

executions = st.builds(
    ExecutionContract,
    in_flight_horizon_ms=st.sampled_from([None, 0, 20_000, 60_000]),
    consistency_delay_ms=st.sampled_from([0, 10_000]),
    provider_dedup_window_ms=st.sampled_from([None, 60_000, 300_000]),
    lookup_by_key=st.booleans(),
    retry_safety=st.sampled_from(RetrySafety),
)
chances = st.builds(
    Chance,
    number=st.integers(0, 4),
    heard=st.booleans(),
    flag=st.booleans(),
    lost=st.sampled_from([LOST, TIMED_OUT, Pending()]),
)
histories = st.lists(st.tuples(st.sampled_from(STEPS), chances), min_size=10, max_size=40)


@pytest.mark.rule("TX-RECON-3", "TX-SETTLE-4", "TX-SETTLE-6", "TX-LEASE-2", "TX-EXEC-2")
@settings(max_examples=4 * settings().max_examples)
@given(executions, histories)
def test_a_verdict_is_true_for_ever_and_there_is_never_a_second_effect(
    execution: ExecutionContract, history: list[tuple[Callable[[World, Chance], None], Chance]]
) -> None:
    world = World(execution)
    for step, chance in history:
        step(world, chance)
        world.check()
