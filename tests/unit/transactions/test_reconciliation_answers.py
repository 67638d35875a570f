"""What answers prove: look-ups, re-drives, late words, back-off and escalation."""

from datetime import datetime, timedelta
from itertools import product

import pytest
from msgspec.structs import replace

from amends.contracts.declarations import Capability, RecoveryContract
from amends.contracts.documents import Evidence, TransactionRecord
from amends.contracts.enums import ResultStatus, Status, Verdict
from amends.contracts.outcomes import (
    Applied,
    Failure,
    NotApplied,
    NotFound,
    Outcome,
    Partial,
    Pending,
    Uncertain,
)
from amends.testing.builders import DECLINED, FENCE, NOW, OPERATION, OTHER_OPERATION, record_in
from amends.testing.refusals import refused_with
from amends.transactions.contradictions import (
    LATE_APPLIED,
    LATE_NOT_APPLIED,
    LATE_PARTIAL,
    TWO_EFFECTS,
)
from amends.transactions.reconciliation import (
    EXHAUSTED,
    Answered,
    absence_is_proven,
    next_delay_ms,
    settle_reconciliation,
)
from amends.transactions.settlement import NO_OUTPUT, Certainty, Reading, Settled, StoredOutput
from amends.transactions.table import Event
from tests.unit.transactions.providers import (
    HAS_HORIZON,
    HORIZON,
    LATER,
    LEASE_END,
    LOOKING,
    LOOKS_UP,
    OUTPUT,
    REDRIVING,
    SECOND,
    UNKNOWN,
    serving,
)

# ── proofs of absence ────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("TX-RECON-3")
@pytest.mark.parametrize(
    ("declared", "looked_from", "voided", "proven"),
    [
        (LOOKS_UP, LATER, False, False),
        (LOOKS_UP, NOW, True, True),
        (HAS_HORIZON, NOW, False, False),
        (HAS_HORIZON, LEASE_END, False, False),
        (HAS_HORIZON, LEASE_END + timedelta(seconds=50), False, False),
        (HAS_HORIZON, LEASE_END + timedelta(seconds=51), False, False),
        (HAS_HORIZON, HORIZON, False, False),
        (HAS_HORIZON, HORIZON + timedelta(microseconds=1), False, True),
        (HAS_HORIZON, NOW, True, True),
        (serving(in_flight_horizon_ms=0), LEASE_END, False, False),
        (serving(in_flight_horizon_ms=0), LEASE_END + timedelta(microseconds=1), False, True),
    ],
)
def test_absence_is_proven_by_voiding_or_after_lease_horizon_and_delay(
    declared: Capability, looked_from: datetime, voided: bool, proven: bool
) -> None:
    assert absence_is_proven(UNKNOWN, declared, looked_from, voided=voided) is proven


def test_without_a_known_lease_end_no_horizon_ever_passes() -> None:
    lost = replace(UNKNOWN, last_effect_lease_end=None)
    assert not absence_is_proven(lost, HAS_HORIZON, LATER, voided=False)


def answered(outcome: Outcome, **changes: object) -> Answered:
    answer = Answered(
        outcome=outcome,
        output=NO_OUTPUT,
        looked_from=LATER,
        redrive=False,
        jitter=0.0,
        now=LATER,
        lease_ended_at=LATER,
    )
    return replace(answer, **changes)


def look_up(
    outcome: Outcome,
    declared: Capability = HAS_HORIZON,
    before: TransactionRecord = LOOKING,
    **changes: object,
) -> Settled:
    return settle_reconciliation(before, answered(outcome, **changes), declared)


def redrive(outcome: Outcome, declared: Capability = HAS_HORIZON, **changes: object) -> Settled:
    return look_up(outcome, declared, REDRIVING, redrive=True, **changes)


TOO_EARLY: dict[str, object] = {"looked_from": HORIZON}
FAILED = Failure(error=DECLINED)
NOT_APPLIED = NotApplied(error=DECLINED)
FOUND_DECLINED = NotApplied(error=DECLINED, operation=OPERATION)
NAMED_DECLINED = NotApplied(
    error=replace(
        DECLINED,
        details={"provider_operation": {"provider": "stripe", "operation_id": "ch_1"}},
    )
)
UNCERTAIN = Uncertain(error=DECLINED)

ABSENCES: list[tuple[Outcome, dict[str, object], Verdict | None]] = [
    (Applied(), TOO_EARLY, Verdict.COMMITTED),
    (Partial(error=DECLINED), TOO_EARLY, Verdict.PARTIAL),
    (NotFound(), TOO_EARLY, None),
    (NotFound(), {}, Verdict.NOT_COMMITTED),
    (NotFound(voided=True), TOO_EARLY, Verdict.NOT_COMMITTED),
    (NOT_APPLIED, TOO_EARLY, None),
    (NOT_APPLIED, {}, Verdict.NOT_COMMITTED),
    (FOUND_DECLINED, TOO_EARLY, Verdict.NOT_COMMITTED),
    (NAMED_DECLINED, TOO_EARLY, Verdict.NOT_COMMITTED),
    (FAILED, {}, None),
    (replace(FAILED, operation=OPERATION), {}, None),
    (UNCERTAIN, {}, None),
    (Pending(), {}, None),
]


@pytest.mark.rule("TX-RECON-2", "TX-RECON-3")
@pytest.mark.parametrize(("outcome", "when", "verdict"), ABSENCES)
def test_what_a_look_up_proves(
    outcome: Outcome, when: dict[str, object], verdict: Verdict | None
) -> None:
    """A failure that a look-up returns is a failure of the look-up, not of the effect."""
    settled = settle_reconciliation(LOOKING, answered(outcome, **when), HAS_HORIZON)
    assert settled.record.verdict is verdict
    expected = Status.OUTCOME_UNKNOWN if verdict is None else Status.RECONCILED
    assert settled.record.status is expected
    assert settled.record.revision == LOOKING.revision + 1


@pytest.mark.rule("TX-RECON-3")
@pytest.mark.parametrize(
    ("outcome", "when", "verdict"),
    [
        (Applied(), TOO_EARLY, Verdict.COMMITTED),
        (Partial(error=DECLINED), TOO_EARLY, Verdict.PARTIAL),
        (NOT_APPLIED, {}, None),
        (FOUND_DECLINED, TOO_EARLY, None),
        (FOUND_DECLINED, {}, Verdict.NOT_COMMITTED),
        (FAILED, {}, None),
        (NotFound(), {}, None),
        (NotFound(voided=True), {}, None),
        (UNCERTAIN, {}, None),
        (Pending(), {}, None),
    ],
)
def test_what_a_redrive_proves(
    outcome: Outcome, when: dict[str, object], verdict: Verdict | None
) -> None:
    """A re-drive that was not applied says nothing of the attempt before it."""
    again = answered(outcome, redrive=True, **when)
    assert settle_reconciliation(REDRIVING, again, HAS_HORIZON).record.verdict is verdict


@pytest.mark.rule("TX-RECON-3")
@pytest.mark.parametrize("outcome", [NotFound(), NOT_APPLIED])
def test_without_a_declared_horizon_no_amount_of_looking_proves_absence(outcome: Outcome) -> None:
    centuries = NOW + timedelta(days=100 * 365)
    settled = look_up(outcome, LOOKS_UP, looked_from=centuries, now=centuries)
    assert settled.record.status is Status.OUTCOME_UNKNOWN
    assert settled.record.negative_lookup_at == centuries


@pytest.mark.rule("TX-RECON-3")
@pytest.mark.parametrize(
    ("outcome", "negative"),
    [
        (NotFound(), True),
        (NOT_APPLIED, True),
        (FAILED, False),
        (UNCERTAIN, False),
        (Pending(), False),
    ],
)
def test_a_negative_look_up_is_remembered_with_its_beginning(
    outcome: Outcome, negative: bool
) -> None:
    after = look_up(outcome, LOOKS_UP, looked_from=NOW).record
    assert after.negative_lookup_at == (NOW if negative else None)


@pytest.mark.rule("TX-RECON-2")
def test_a_found_effect_is_reconciled_with_verdict_output_and_reference() -> None:
    settled = look_up(Applied(operation=OPERATION), output=OUTPUT)
    after = settled.record
    assert (settled.event, after.status) == (Event.RECONCILED, Status.RECONCILED)
    assert settled.result == after.result
    assert after.result is not None
    assert (after.result.status, after.result.output) == (ResultStatus.COMPLETED, OUTPUT.output)
    assert (after.provider_operation, after.error, after.settled_at) == (OPERATION, None, LATER)
    assert (after.reconcile_after, after.attention) == (None, None)


@pytest.mark.rule("TX-RECON-2")
def test_an_open_look_up_keeps_what_it_learnt_and_when_to_look_again() -> None:
    told = Pending(operation=OPERATION, cursor="page-3", retry_after_ms=90 * SECOND)
    settled = look_up(told)
    after = settled.record
    assert (settled.event, after.status) == (Event.RECONCILIATION_OPEN, Status.OUTCOME_UNKNOWN)
    assert (after.provider_operation, after.cursor) == (OPERATION, "page-3")
    assert after.reconcile_after == LATER + timedelta(seconds=90)
    assert after.result is None
    assert settled.result is not None
    assert settled.result.status is ResultStatus.FAILED
    assert after.attempt is not None
    assert after.attempt.lease_ended_at == LATER


def test_an_uncertain_answer_without_words_leaves_the_last_error_standing() -> None:
    opened = look_up(Pending()).record
    assert opened.error is not None
    assert opened.error.code == "transaction.outcome_unknown"


@pytest.mark.rule("TX-RECON-3")
def test_a_redrive_moves_the_lease_end_that_absence_is_counted_from_and_a_look_up_does_not() -> (
    None
):
    assert look_up(UNCERTAIN).record.last_effect_lease_end == LEASE_END
    assert redrive(UNCERTAIN).record.last_effect_lease_end == LATER
    assert redrive(UNCERTAIN, lease_ended_at=None).record.last_effect_lease_end is None


def test_a_proven_absence_says_so_instead_of_unknown() -> None:
    settled = look_up(NotFound())
    assert settled.result is not None
    assert settled.result.error == settled.record.error
    assert settled.record.error is not None
    assert settled.record.error.code == "transaction.effect_absent"
    assert not settled.record.error.retryable
    assert look_up(FOUND_DECLINED).record.error == DECLINED


def test_a_voided_key_stays_voided() -> None:
    doubted = replace(LOOKING, attention=TWO_EFFECTS)
    opened = look_up(NotFound(voided=True), LOOKS_UP, doubted).record
    assert (opened.status, opened.voided) == (Status.OUTCOME_UNKNOWN, True)
    again = replace(opened, status=Status.RECONCILING, attention=None)
    assert look_up(NotFound(), LOOKS_UP, again).record.verdict is Verdict.NOT_COMMITTED


# ── late answers that came during the look-up ────────────────────────────────────────────────────


def told_late(kind: str, **changes: object) -> TransactionRecord:
    seen = Evidence(kind=kind, at=NOW, fence=FENCE, operation=OPERATION)
    return replace(LOOKING, evidence=(seen,), **changes)


INCONCLUSIVE: list[Outcome] = [NotFound(), NOT_APPLIED, FAILED, UNCERTAIN, Pending()]


@pytest.mark.rule("TX-SETTLE-6")
@pytest.mark.parametrize(
    ("kind", "verdict"),
    [(LATE_APPLIED, Verdict.COMMITTED), (LATE_PARTIAL, Verdict.PARTIAL)],
)
def test_a_late_effect_decides_where_the_look_up_does_not(kind: str, verdict: Verdict) -> None:
    for outcome in INCONCLUSIVE:
        after = look_up(outcome, before=told_late(kind)).record
        assert (after.status, after.verdict) == (Status.RECONCILED, verdict)
    partial = look_up(NotFound(), before=told_late(LATE_PARTIAL))
    assert partial.result is not None
    assert partial.result.error is not None
    assert partial.result.error.code == "transaction.effect_partial"


@pytest.mark.rule("TX-SETTLE-6")
@pytest.mark.parametrize(
    ("outcome", "changes", "verdict"),
    [
        (NotFound(), {}, Verdict.NOT_COMMITTED),
        (UNCERTAIN, {}, Verdict.NOT_COMMITTED),
        (FAILED, {}, Verdict.NOT_COMMITTED),
        (Pending(), {}, None),
        (Applied(), {}, Verdict.COMMITTED),
        (NotFound(), {"effect_attempts": 2}, None),
        (NotFound(), {"attention": TWO_EFFECTS}, None),
    ],
)
def test_a_late_absence_decides_only_for_the_sole_attempt_and_against_no_other_word(
    outcome: Outcome, changes: dict[str, object], verdict: Verdict | None
) -> None:
    before = told_late(LATE_NOT_APPLIED, **changes)
    assert look_up(outcome, LOOKS_UP, before, looked_from=NOW).record.verdict is verdict


# ── two effects ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("TX-CHECKPOINT-2")
@pytest.mark.parametrize(
    "outcome",
    [
        Applied(operation=OTHER_OPERATION),
        NotApplied(error=DECLINED, operation=OTHER_OPERATION),
        Pending(operation=OTHER_OPERATION),
    ],
)
def test_a_look_up_that_finds_another_operation_decides_nothing_and_keeps_it(
    outcome: Outcome,
) -> None:
    after = look_up(outcome, before=replace(LOOKING, provider_operation=OPERATION)).record
    assert (after.status, after.provider_operation) == (Status.OUTCOME_UNKNOWN, OPERATION)
    assert after.attention == TWO_EFFECTS
    assert [kept.operation for kept in after.evidence] == [OTHER_OPERATION]


@pytest.mark.parametrize(
    "outcome", [NotFound(), NotFound(voided=True), NOT_APPLIED, FOUND_DECLINED]
)
def test_with_signs_of_two_effects_nothing_proves_absence(outcome: Outcome) -> None:
    doubted = replace(LOOKING, attention=TWO_EFFECTS)
    assert look_up(outcome, before=doubted).record.status is Status.OUTCOME_UNKNOWN


def test_finding_the_effect_does_not_silence_the_call_for_a_person() -> None:
    doubted = replace(LOOKING, attention=TWO_EFFECTS)
    assert look_up(Applied(), before=doubted).record.attention == TWO_EFFECTS
    exhausted = replace(LOOKING, attention=EXHAUSTED)
    assert look_up(Applied(), before=exhausted).record.attention is None
    bad = StoredOutput(invalid="output.not_storable")
    assert look_up(Applied(), output=bad).record.attention == "output_invalid"


# ── back-off and escalation ──────────────────────────────────────────────────────────────────────

QUICK = RecoveryContract(initial_delay_ms=1000, max_delay_ms=8000, max_attempts=3)


@pytest.mark.rule("TX-RECON-4")
@pytest.mark.parametrize(
    ("attempts", "jitter", "delay"),
    [
        (0, 0.0, 500),
        (0, 0.5, 750),
        (1, 0.0, 1000),
        (2, 0.0, 2000),
        (3, 0.0, 4000),
        (9, 0.0, 4000),
        (10**9, 0.0, 4000),
        (3, 0.999, 7996),
    ],
)
def test_the_delay_doubles_up_to_its_limit_and_is_spread_over_its_upper_half(
    attempts: int, jitter: float, delay: int
) -> None:
    tried = replace(LOOKING, reconcile_attempts=attempts)
    assert next_delay_ms(tried, QUICK, Reading(certainty=Certainty.UNCERTAIN), jitter) == delay


@pytest.mark.parametrize(("told", "delay"), [(1, 1000), (5000, 5000), (10**12, 86_400_000)])
def test_the_providers_word_may_make_the_delay_longer_but_not_endless(
    told: int, delay: int
) -> None:
    reading = Reading(certainty=Certainty.UNCERTAIN, retry_after_ms=told)
    assert next_delay_ms(LOOKING, QUICK, reading, 0.0) == delay


@pytest.mark.rule("TX-RECON-4")
@pytest.mark.parametrize(("attempts", "attention"), [(2, None), (3, EXHAUSTED), (4, EXHAUSTED)])
def test_after_so_many_look_ups_a_person_is_called_and_the_status_stays(
    attempts: int, attention: str | None
) -> None:
    tried = replace(LOOKING, reconcile_attempts=attempts)
    after = look_up(UNCERTAIN, replace(LOOKS_UP, recovery=QUICK), tried).record
    assert (after.status, after.attention) == (Status.OUTCOME_UNKNOWN, attention)
    doubted = replace(tried, attention=TWO_EFFECTS)
    kept = look_up(UNCERTAIN, replace(LOOKS_UP, recovery=QUICK), doubted).record
    assert kept.attention == TWO_EFFECTS


def test_every_outcome_from_every_other_status_is_refused() -> None:
    for status, outcome in product(Status, INCONCLUSIVE):
        if status is not Status.RECONCILING:
            before = record_in(status)
            with refused_with("transaction.transition_refused", before):
                look_up(outcome, before=before)
