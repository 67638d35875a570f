"""One record through any history: events, outcomes, late answers, look-ups, lapses, rulings.

The machine plays the runtime and a connector that may say anything at any time, true or not. What
it checks after each step is what no history may break.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from amends.contracts.declarations import (
    Capability,
    CompensationContract,
    ExecutionContract,
    RecoveryContract,
)
from amends.contracts.documents import (
    CompensationSlots,
    OperatorRuling,
    SlotHolder,
    TransactionRecord,
)
from amends.contracts.enums import (
    IN_FLIGHT,
    CompensationMode,
    Freeze,
    Handler,
    Mode,
    PrincipalKind,
    RetrySafety,
    Status,
    Verdict,
)
from amends.contracts.errors import AmendsError
from amends.contracts.ids import Fence, ProviderOperationId
from amends.contracts.outcomes import (
    Applied,
    ErrorInfo,
    Failure,
    NotApplied,
    NotFound,
    Outcome,
    Partial,
    Pending,
    ProviderOperation,
    Uncertain,
)
from amends.testing.builders import (
    ACTION,
    CAPABILITY,
    INPUT_HASH,
    KEY,
    NOW,
    PLAN,
    action,
    attempt,
    capability,
    identity,
    plan,
    principal,
    record_in,
)
from amends.transactions.binding import CommitFacts, check_commit
from amends.transactions.cancellation import expire_plan, withdraw
from amends.transactions.compensation import release_slot, take_slot
from amends.transactions.contradictions import TWO_EFFECTS, same_operation
from amends.transactions.late import take_late
from amends.transactions.leases import freeze, holds_lease, lapse, release
from amends.transactions.projection import project
from amends.transactions.reconciliation import (
    Answered,
    Ask,
    Way,
    admit,
    settle_by_hand,
    settle_reconciliation,
    way_to_ask,
)
from amends.transactions.replay import Answer, AskedAgain, reopenable, replay_execution
from amends.transactions.settlement import NO_OUTPUT, read_outcome, settle_attempt
from amends.transactions.table import Event, admits, begin, move

OPERATOR = principal("olga", kind=PrincipalKind.OPERATOR)
OPERATIONS = [ProviderOperation("stripe", ProviderOperationId(f"ch_{n}")) for n in (1, 2)]
IN_EFFECT = {Status.PREPARED, Status.COMMITTING, Status.COMPENSATING}
OPEN = IN_FLIGHT | {Status.OUTCOME_UNKNOWN}
SETTLED = {Status.COMMITTED, Status.COMPENSATED, Status.RECONCILED, Status.FAILED}
FINAL = SETTLED | {Status.DRY_RUN_COMPLETED, Status.ROLLBACK_NOT_SUPPORTED}

flags = st.booleans()
operations = st.none() | st.sampled_from(OPERATIONS)
errors = st.builds(
    ErrorInfo,
    code=st.sampled_from(["declined", "busy", "sla.timeout_exceeded"]),
    retryable=flags,
    details=st.fixed_dictionaries(
        {}, optional={"uncertain_outcome": flags, "side_effects_committed": flags}
    ),
)
outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Applied, operation=operations),
    st.builds(NotApplied, error=errors, operation=operations),
    st.builds(Partial, error=errors, operation=operations),
    st.builds(Failure, error=errors, operation=operations),
    st.builds(Uncertain, error=errors, operation=operations),
    st.builds(Pending, operation=operations, cursor=st.none() | st.just("page-2")),
    st.builds(NotFound, voided=flags),
)


class OneRecord(RuleBasedStateMachine):
    """The life of one record, and of the slots it holds if it is a compensation."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.fences = 0
        self.lease_end = NOW
        self.record = record_in(Status.PLANNED)
        self.slots: CompensationSlots | None = None
        self.declared: Capability = capability()

    # ── how it begins ────────────────────────────────────────────────────────────────────────────

    @initialize(
        mode=st.sampled_from([Mode.EXECUTE, Mode.PLAN, Mode.COMMIT, Mode.COMPENSATE]),
        keyed=flags,
        execution=st.builds(
            ExecutionContract,
            retry_safety=st.sampled_from(RetrySafety),
            lookup_by_key=flags,
            in_flight_horizon_ms=st.sampled_from([None, 0, 30_000]),
            provider_dedup_window_ms=st.sampled_from([None, 120_000]),
        ),
    )
    def begin(self, mode: Mode, keyed: bool, execution: ExecutionContract) -> None:
        self.declared = capability(
            execution=execution,
            recovery=RecoveryContract(max_attempts=3),
            compensation=CompensationContract(mode=CompensationMode.SUPPORTED),
        )
        if mode is Mode.PLAN:
            self.record = replace(begin(Event.PLAN_STORED, record_in(Status.PLANNED)), plan=plan())
            return
        event, status = {
            Mode.EXECUTE: (Event.EXECUTION_PREPARED, Status.PREPARED),
            Mode.COMMIT: (Event.DIRECT_COMMIT_CLAIMED, Status.COMMITTING),
            Mode.COMPENSATE: (Event.COMPENSATION_CLAIMED, Status.COMPENSATING),
        }[mode]
        fresh = record_in(status, plan=None, idempotency_key=KEY if keyed else None)
        self.record = replace(begin(event, fresh), attempt=self._licence())
        if mode is Mode.COMPENSATE:
            holder = SlotHolder(action_id=ACTION, transaction_id=self.record.transaction_id)
            self.slots = take_slot(action(), None, holder, 1, self.now)

    def _licence(self, *, redrive: bool = False, looking: bool = False) -> msgspec.Struct:
        self.fences += 1
        self.lease_end = self.now + timedelta(seconds=35)
        return attempt(
            number=self.fences,
            fence=Fence(f"fen_{self.fences}"),
            handler=Handler.RECONCILE if looking else Handler.EXECUTE,
            redrive=redrive,
            started_at=self.now,
        )

    # ── what every change has to keep ────────────────────────────────────────────────────────────

    def _become(self, after: TransactionRecord) -> None:
        before = self.record
        assert after.revision == before.revision + 1
        assert before.status not in FINAL or reopenable(before)
        assert after.updated_at >= before.updated_at
        if before.provider_operation is not None:
            assert after.provider_operation is not None
            assert same_operation(before.provider_operation, after.provider_operation)
        if before.settled_at is not None and after.status is not Status.PREPARED:
            assert after.settled_at == before.settled_at
        if before.attention == TWO_EFFECTS and after.ruling is None:
            assert after.attention == TWO_EFFECTS
        if before.frozen is not None:
            assert after.frozen is None or after.status is before.status
        assert after.evidence[: len(before.evidence)] == before.evidence
        assert after.attempts >= before.attempts
        self.record = after
        self._give_back_slot()

    def _give_back_slot(self) -> None:
        if self.slots is None:
            return
        left = release_slot(self.slots, self.record, self.now)
        assert (left is not None) == (
            self.record.verdict is Verdict.NOT_COMMITTED and bool(self.slots.holders)
        )
        self.slots = left or self.slots

    def _try(self, change: Callable[[], TransactionRecord]) -> None:
        """Make a change, or be refused and find the record untouched."""
        before = msgspec.json.encode(self.record)
        after = None
        with suppress(AmendsError):
            after = change()
        if after is None:
            assert msgspec.json.encode(self.record) == before
        else:
            self._become(after)

    # ── time ─────────────────────────────────────────────────────────────────────────────────────

    @rule(seconds=st.sampled_from([-30, 1, 5, 40, 100, 1000]))
    def time_passes_and_may_go_back(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @precondition(lambda self: holds_lease(self.record))
    @rule()
    def the_lease_lapses(self) -> None:
        self._become(lapse(self.record, self.now, self.lease_end))

    @rule()
    def a_restore_freezes(self) -> None:
        frozen = freeze(self.record, self.now, "restored")
        if frozen is not None:
            self._become(frozen)

    @rule()
    def an_operator_releases(self) -> None:
        self._try(lambda: release(self.record, self.now))

    # ── plans and retries ────────────────────────────────────────────────────────────────────────

    @rule()
    def somebody_commits_the_plan(self) -> None:
        facts = CommitFacts(
            plan_id=PLAN,
            capability_id=CAPABILITY,
            principal=principal().ref,
            transaction_id=None,
            input_hash=INPUT_HASH,
            identity=identity(),
            governance_digest="governance",
            freeze=Freeze.NOTHING,
            record=self.record,
            now=self.now,
        )
        self._try(lambda: self._claim(Event.PLAN_CLAIMED, check_commit(facts), mode=Mode.COMMIT))

    def _claim(
        self, event: Event, known: TransactionRecord, **changes: object
    ) -> TransactionRecord:
        assert admits(event, known.status)
        return move(
            event,
            known,
            self.now,
            attempt=self._licence(),
            attempts=known.attempts + 1,
            effect_attempts=known.effect_attempts + 1,
            first_attempt_at=known.first_attempt_at or self.now,
            **changes,
        )

    @rule(withdrawing=flags)
    def the_plan_ends(self, withdrawing: bool) -> None:
        if withdrawing:
            self._try(lambda: withdraw(self.record, OPERATOR, self.now))
        else:
            self._try(lambda: expire_plan(self.record, self.now))

    @rule(lapsed=flags, key=st.sampled_from([KEY, None, "fresh"]))
    def the_caller_executes_again(self, lapsed: bool, key: str | None) -> None:
        known = self.record
        again = AskedAgain(
            action_id=known.action_id,
            capability_id=known.capability_id,
            context=known.context,
            principal=known.principal,
            identity=known.identity,
            input_hash=known.input_hash,
            idempotency_key=key,
        )
        safety = self.declared.execution.retry_safety
        try:
            answer = replay_execution(again, known, lapsed=lapsed, safety=safety)
        except AmendsError:
            return
        if answer in (Answer.GO_ON, Answer.REOPEN):
            assert known.status not in {Status.COMMITTING, *OPEN - {Status.PREPARED}}
            assert known.frozen is None
        if answer is Answer.REOPEN:
            assert (known.status, known.verdict) == (Status.FAILED, Verdict.NOT_COMMITTED)
            self._become(self._claim(Event.EXECUTION_REOPENED, known, error=None))
        if answer is Answer.GO_ON:
            assert known.attempt is None
            self._become(self._claim(Event.EXECUTION_RESUMED, known))

    # ── attempts ─────────────────────────────────────────────────────────────────────────────────

    def _running(self) -> bool:
        return holds_lease(self.record)

    @precondition(_running)
    @rule(operation=st.sampled_from(OPERATIONS))
    def the_attempt_records_a_reference(self, operation: ProviderOperation) -> None:
        known = self.record.provider_operation
        if known is None or same_operation(known, operation):
            changes = {"provider_operation": known or operation}
            self._become(move(Event.CHECKPOINTED, self.record, self.now, **changes))
            return
        fence = self.record.attempt.fence if self.record.attempt else Fence("none")
        reading = read_outcome(Pending(operation=operation))
        kept = take_late(self.record, reading, NO_OUTPUT, fence, self.now)
        assert kept.record is not None
        self._become(kept.record)

    @precondition(lambda self: holds_lease(self.record) and self.record.status in IN_EFFECT)
    @rule(outcome=outcomes, cancelled=flags)
    def the_attempt_ends(self, outcome: Outcome, cancelled: bool) -> None:
        settled = settle_attempt(
            self.record,
            read_outcome(outcome),
            NO_OUTPUT,
            self.now,
            lease_ended_at=self.lease_end,
            cancelled=cancelled,
        )
        self._become(settled.record)

    @rule(outcome=outcomes, fence=st.integers(0, 5))
    def an_answer_comes_late(self, outcome: Outcome, fence: int) -> None:
        before = self.record
        old = Fence(f"fen_{fence}")
        late = take_late(before, read_outcome(outcome), NO_OUTPUT, old, self.now)
        assert (late.record is None) == (late.event is None)
        if before.status in FINAL and not reopenable(before):
            assert late.record is None
        if late.record is not None:
            self._become(late.record)

    # ── finding out ──────────────────────────────────────────────────────────────────────────────

    @rule(insist=flags)
    def somebody_asks_the_provider(self, insist: bool) -> None:
        ask = Ask(capability_id=CAPABILITY, principal=OPERATOR, insist=insist)
        self._try(lambda: self._look(ask))

    def _look(self, ask: Ask) -> TransactionRecord:
        known = admit(ask, self.record, self.declared, self.now)
        way = way_to_ask(known, self.declared, self.now)
        redrive = way is Way.REDRIVE
        assert not (redrive and known.mode is Mode.COMPENSATE)
        return move(
            Event.RECONCILIATION_STARTED,
            known,
            self.now,
            attempt=self._licence(redrive=redrive, looking=not redrive),
            attempts=known.attempts + 1,
            effect_attempts=known.effect_attempts + redrive,
            reconcile_attempts=known.reconcile_attempts + 1,
        )

    @precondition(lambda self: holds_lease(self.record) and self.record.status not in IN_EFFECT)
    @rule(outcome=outcomes, jitter=st.floats(0, 0.999))
    def the_provider_answers(self, outcome: Outcome, jitter: float) -> None:
        running = self.record.attempt
        assert running is not None
        answered = Answered(
            outcome=outcome,
            output=NO_OUTPUT,
            looked_from=running.started_at,
            redrive=running.redrive,
            jitter=jitter,
            now=self.now,
            lease_ended_at=self.lease_end,
        )
        self._become(settle_reconciliation(self.record, answered, self.declared).record)

    @rule(verdict=st.sampled_from(Verdict), accepted=flags)
    def an_operator_rules(self, verdict: Verdict, accepted: bool) -> None:
        ruling = OperatorRuling(
            verdict=verdict,
            reference="ticket",
            note="seen",
            by=OPERATOR.ref,
            at=self.now,
            risk_accepted=accepted,
        )
        revision = self.record.revision
        self._try(
            lambda: (
                settle_by_hand(
                    self.record, ruling, self.declared, OPERATOR, seen_revision=revision
                ).record
            )
        )

    @rule(event=st.sampled_from(Event))
    def an_event_comes_out_of_turn(self, event: Event) -> None:
        if not admits(event, self.record.status):
            self._try(lambda: move(event, self.record, self.now, attention="never"))
            assert self.record.attention != "never"

    # ── what always holds ────────────────────────────────────────────────────────────────────────

    @invariant()
    def a_verdict_is_there_exactly_when_the_effect_is_known(self) -> None:
        known = self.record
        assert (known.verdict is not None) == (known.status in SETTLED)
        assert (known.settled_at is not None) == (known.status in SETTLED)
        if known.status in OPEN:
            assert known.result is None
        if known.status in {Status.COMMITTED, Status.COMPENSATED}:
            assert known.verdict is Verdict.COMMITTED

    @invariant()
    def nothing_possible_is_masked(self) -> None:
        shown = project(action(), self.record, waiting=False)
        if self.record.status in OPEN:
            assert shown.status.value == self.record.status.value
            assert not shown.effect_is_there

    @invariant()
    def an_open_or_partial_compensation_holds_its_slot(self) -> None:
        if self.slots is not None:
            held = self.record.verdict is not Verdict.NOT_COMMITTED
            assert bool(self.slots.holders) is held

    @invariant()
    def the_record_can_be_stored(self) -> None:
        text = msgspec.json.encode(self.record)
        assert msgspec.json.decode(text, type=TransactionRecord) == self.record


TestOneRecord = OneRecord.TestCase
TestOneRecord.settings = settings(stateful_step_count=30, max_examples=2 * settings().max_examples)
TestOneRecord.pytestmark = [  # type: ignore[attr-defined]  # made by Hypothesis
    pytest.mark.rule(
        "TX-REV-1", "TX-REV-3", "TX-EXEC-2", "TX-CHECKPOINT-1", "TX-COMP-4", "TX-SETTLE-6"
    )
]
