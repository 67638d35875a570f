"""Compensation: which targets are eligible, for how long, and how many slots there are."""

from datetime import UTC, datetime, timedelta
from itertools import product
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from amends.contracts.actions import ActionResult
from amends.contracts.declarations import Capability, CompensationContract
from amends.contracts.documents import (
    ActionDocument,
    CompensationSlots,
    SlotHolder,
    TransactionRecord,
)
from amends.contracts.enums import CompensationMode, Mode, ResultStatus, Status, Verdict
from amends.contracts.ids import ActionId, CapabilityId, ProviderOperationId, TransactionId
from amends.contracts.json_types import Json
from amends.contracts.outcomes import ErrorInfo, ProviderOperation
from amends.contracts.times import format_instant
from amends.testing.builders import (
    ACTION,
    DECLINED,
    NOW,
    PLANNING,
    action,
    capability,
    record_in,
    result,
    slots,
)
from amends.testing.refusals import refused_with
from amends.transactions.compensation import (
    Target,
    check_slots,
    check_target,
    freeze_slots,
    release_slot,
    take_slot,
)

HOUR = 3600 * 1000
DAY = 24 * HOUR
LATER = NOW + timedelta(hours=1)
COMMITTED = record_in(Status.COMMITTED)
EFFECT = (Verdict.COMMITTED, Verdict.PARTIAL)


def supporting(**changes: object) -> Capability:
    contract = replace(CompensationContract(mode=CompensationMode.SUPPORTED), **changes)
    return capability(compensation=contract)


WITHIN_A_DAY = supporting(window_ms=DAY)


def target(
    record: TransactionRecord | None = COMMITTED,
    of: ActionDocument | None = None,
    held: CompensationSlots | None = None,
) -> Target:
    return Target(action=of or action(), record=record, slots=held)


def check(
    aimed_at: Target,
    declared: Capability | None = None,
    metadata: dict[str, Json] | None = None,
    now: datetime = LATER,
) -> ActionDocument:
    return check_target(declared or supporting(), aimed_at, metadata or {}, now)


def partial_error(**details: Json) -> ErrorInfo:
    flags: dict[str, Json] = {"side_effects_committed": True, "compensation_required": True}
    return ErrorInfo(code="half_done", details={**flags, **details})


def failed_with(error: ErrorInfo | None, verdict: Verdict = Verdict.PARTIAL) -> TransactionRecord:
    ending = result(ResultStatus.FAILED, error=error)
    return record_in(Status.FAILED, result=ending, error=error, verdict=verdict)


# ── eligibility ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("TX-COMP-1")
@pytest.mark.parametrize("mode", CompensationMode)
def test_only_supported_and_best_effort_admit_compensation(mode: CompensationMode) -> None:
    declared = supporting(mode=mode)
    if mode in (CompensationMode.SUPPORTED, CompensationMode.BEST_EFFORT):
        assert check(target(), declared) == action()
        return
    with refused_with("transaction.compensation_not_supported"):
        check(target(), declared)


@pytest.mark.rule("TX-COMP-1")
@pytest.mark.case("CMP-09")
@pytest.mark.parametrize("status", Status)
def test_only_a_known_effect_can_be_offset(status: Status) -> None:
    aimed_at = record_in(status)
    if status in (Status.COMMITTED, Status.RECONCILED):
        assert check(target(aimed_at)) == action()
        return
    done = {Status.DRY_RUN_COMPLETED, Status.PLANNED, Status.COMPENSATED}
    lacking = "committed" if status in done else "completed"
    of = action(action_id=aimed_at.action_id)
    with refused_with(f"transaction.compensation_target_not_{lacking}", aimed_at) as caught:
        check(target(aimed_at, of))
    assert caught.error.details["target_status"] == status.value


@pytest.mark.rule("TX-COMP-1")
@pytest.mark.parametrize(
    ("verdict", "error"),
    list(product(Verdict, [None, DECLINED, ErrorInfo(code="busy", retryable=True)])),
)
def test_a_reconciled_effect_whole_or_partial_meets_every_test(
    verdict: Verdict, error: ErrorInfo | None
) -> None:
    """Also one that was settled by hand and carries no evidence in its error."""
    status = ResultStatus.COMPLETED if verdict is Verdict.COMMITTED else ResultStatus.FAILED
    ending = result(status, error=error)
    found = record_in(Status.RECONCILED, verdict=verdict, result=ending, error=error)
    if verdict in EFFECT:
        assert check(target(found)) == action()
        return
    with refused_with("transaction.compensation_target_not_committed", found):
        check(target(found))


@pytest.mark.rule("TX-COMP-1")
@pytest.mark.parametrize(
    ("error", "eligible"),
    [
        (partial_error(), True),
        (replace(partial_error(), retryable=True), False),
        (partial_error(side_effects_committed=False), False),
        (partial_error(compensation_required=False), False),
        (partial_error(side_effects_committed="true"), False),
        (partial_error(compensation_required=1), False),
        (DECLINED, False),
        (None, False),
    ],
)
def test_a_failure_is_a_target_only_with_both_flags_and_without_a_retry(
    error: ErrorInfo | None, eligible: bool
) -> None:
    aimed_at = target(failed_with(error))
    if eligible:
        assert check(aimed_at) == action()
        return
    with refused_with("transaction.compensation_target_not_completed"):
        check(aimed_at)


@pytest.mark.rule("TX-COMP-1")
@pytest.mark.parametrize("mode", Mode)
def test_only_executions_plans_and_commits_are_targets(mode: Mode) -> None:
    aimed_at = target(of=action(mode=mode))
    if mode in (Mode.EXECUTE, Mode.PLAN, Mode.COMMIT):
        assert check(aimed_at).mode is mode
        return
    with refused_with("transaction.compensation_target_invalid"):
        check(aimed_at)


def test_a_target_that_is_not_there_says_nothing_else() -> None:
    with refused_with("transaction.compensation_target_not_found") as caught:
        check(Target(action=None, record=None, slots=None))
    assert dict(caught.error.details) == {}


def test_a_target_of_another_capability_is_refused() -> None:
    with refused_with("transaction.compensation_target_mismatch"):
        check(target(of=action(capability_id=CapabilityId("other"))))


def test_the_planning_action_of_a_committed_plan_names_the_same_effect() -> None:
    planner = action(action_id=PLANNING, mode=Mode.PLAN)
    assert check(target(of=planner)) == planner


@pytest.mark.parametrize("status", [Status.COMMITTED, Status.RECONCILED])
def test_an_action_that_merely_named_the_transaction_is_no_way_to_its_effect(
    status: Status,
) -> None:
    """It was refused, but kept; its input is not the one that had the effect."""
    loser = action(action_id=ActionId("act_loser"), attempted=False, result=result())
    with refused_with("transaction.compensation_target_not_completed"):
        check(target(record_in(status), loser))


@pytest.mark.parametrize(
    ("ending", "eligible"),
    [
        (result(), True),
        (result(ResultStatus.FAILED, error=partial_error()), True),
        (result(ResultStatus.FAILED, error=DECLINED), False),
        (result(ResultStatus.CANCELLED), False),
        (None, False),
    ],
)
def test_without_a_record_the_actions_own_result_decides(
    ending: ActionResult | None, eligible: bool
) -> None:
    aimed_at = target(None, action(result=ending))
    if eligible:
        assert check(aimed_at).result == ending
        return
    with refused_with("transaction.compensation_target_not_completed") as caught:
        check(aimed_at)
    assert caught.error.details["target_status"] is None


@pytest.mark.rule("TX-COMP-1")
def test_the_conditions_are_checked_in_order() -> None:
    """Everything is wrong at once, and is mended one by one."""
    comp = "transaction.compensation"
    expired = supporting(window_ms=1)
    frozen = slots("a", frozen="late_not_applied")
    strange = action(mode=Mode.COMPENSATE, capability_id=CapabilityId("other"))
    nothing = Target(action=None, record=record_in(Status.OUTCOME_UNKNOWN), slots=frozen)
    unknown = replace(nothing, action=strange)
    steps: list[tuple[str, Target, Capability]] = [
        ("_not_supported", nothing, supporting(mode=CompensationMode.NOT_REQUIRED)),
        ("_target_not_found", nothing, expired),
        ("_target_invalid", unknown, expired),
        ("_target_mismatch", replace(unknown, action=replace(strange, mode=Mode.COMMIT)), expired),
        ("_target_not_completed", replace(unknown, action=action()), expired),
        (
            "_target_not_committed",
            target(record_in(Status.COMPENSATED), held=frozen),
            expired,
        ),
        ("_window_expired", target(held=frozen), expired),
        ("_frozen", target(held=frozen), supporting()),
        ("_exists", target(held=slots("a")), supporting()),
    ]
    for code, aimed_at, declared in steps:
        with refused_with(comp + code):
            check(aimed_at, declared)


# ── the window ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("TX-COMP-2")
@pytest.mark.parametrize(
    ("after", "open_"),
    [
        (timedelta(0), True),
        (timedelta(days=1) - timedelta(microseconds=1), True),
        (timedelta(days=1), False),
        (timedelta(days=1, seconds=1), False),
    ],
)
def test_the_window_closes_at_the_very_instant_of_its_end(after: timedelta, open_: bool) -> None:
    if open_:
        assert check(target(), WITHIN_A_DAY, now=NOW + after) == action()
        return
    with refused_with("transaction.compensation_window_expired") as caught:
        check(target(), WITHIN_A_DAY, now=NOW + after)
    assert caught.error.details == {"happened_at": "2026-03-01T12:00:00Z", "window_ms": DAY}


PARIS = ZoneInfo("Europe/Paris")
AFTER_SUMMER_TIME = [("2026-10-25T11:30:00+01:00", False), ("2026-10-25T10:59:00+01:00", True)]


@pytest.mark.rule("TX-COMP-2")
@pytest.mark.case("TIM-04")
@pytest.mark.usefixtures("local_zone")
@pytest.mark.parametrize(("asked_at", "open_"), AFTER_SUMMER_TIME)
def test_a_window_over_the_end_of_summer_time_counts_elapsed_hours(
    asked_at: str, open_: bool
) -> None:
    """Committed at noon of the day before: 24.5 hours are too many, 23 h 59 min are not."""
    settled = datetime.fromisoformat("2026-10-24T12:00:00+02:00")
    aimed_at = target(replace(COMMITTED, settled_at=settled))
    now = datetime.fromisoformat(asked_at)
    for instant in (now, now.astimezone(UTC), now.astimezone(PARIS)):
        if open_:
            assert check(aimed_at, WITHIN_A_DAY, now=instant) == action()
        else:
            with refused_with("transaction.compensation_window_expired"):
                check(aimed_at, WITHIN_A_DAY, now=instant)


@pytest.mark.rule("TX-COMP-2")
@pytest.mark.case("CMP-11")
def test_the_window_counts_from_the_settlement_and_no_later_touch_moves_it() -> None:
    """Neither a later change of the record, nor what the caller claims, nor the result's time."""
    touched = replace(
        COMMITTED,
        updated_at=NOW + timedelta(hours=20),
        result=result(completed_at=NOW + timedelta(hours=20)),
    )
    claimed: dict[str, Json] = {"original_completed_at": format_instant(NOW + timedelta(hours=20))}
    assert check(target(touched), WITHIN_A_DAY, claimed, NOW + timedelta(hours=23)) == action()
    with refused_with("transaction.compensation_window_expired", touched):
        check(target(touched), WITHIN_A_DAY, claimed, NOW + timedelta(hours=25))


@pytest.mark.rule("TX-COMP-2")
def test_without_a_settlement_the_durable_result_tells_the_time() -> None:
    aimed_at = target(None, action(result=result()))
    claimed: dict[str, Json] = {"original_completed_at": format_instant(NOW + timedelta(days=9))}
    assert check(aimed_at, WITHIN_A_DAY, claimed) == action(result=result())
    with refused_with("transaction.compensation_window_expired"):
        check(aimed_at, WITHIN_A_DAY, claimed, NOW + timedelta(days=1))


TIMELESS = target(None, action(result=result(completed_at=None)))


@pytest.mark.rule("TX-COMP-2")
@pytest.mark.case("CMP-11")
@pytest.mark.parametrize(
    ("claimed", "code"),
    [
        ("2026-03-01T12:00:00Z", None),
        ("2026-03-01T13:00:00+00:00", None),
        ("2026-03-01T18:30:00+05:30", None),
        ("2026-02-28T13:00:00Z", "transaction.compensation_window_expired"),
        ("2026-03-01T13:00:00.000001Z", "transaction.compensation_time_unknown"),
        ("2027-03-01T12:00:00Z", "transaction.compensation_time_unknown"),
        (None, "transaction.compensation_time_unknown"),
        ("2026-03-01T12:00:00", "input.invalid_time"),
        ("yesterday", "input.invalid_time"),
        ("", "input.invalid_time"),
        (1772366400, "input.invalid_time"),
        (True, "input.invalid_time"),
        (["2026-03-01T12:00:00Z"], "input.invalid_time"),
    ],
)
def test_a_claimed_time_counts_only_where_nothing_durable_does(
    claimed: Json, code: str | None
) -> None:
    metadata: dict[str, Json] = {} if claimed is None else {"original_completed_at": claimed}
    if code is None:
        assert check(TIMELESS, WITHIN_A_DAY, metadata) == TIMELESS.action
        return
    with refused_with(code):
        check(TIMELESS, WITHIN_A_DAY, metadata)


def test_without_a_window_no_time_is_asked_for() -> None:
    assert check(TIMELESS) == TIMELESS.action
    assert check(target(), now=NOW + timedelta(days=36_500)) == action()


# ── slots ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("TX-COMP-4")
@pytest.mark.parametrize(("limit", "held"), list(product((1, 2, 3), range(4))))
def test_a_target_has_as_many_slots_as_declared(limit: int, held: int) -> None:
    declared = supporting(max_compensations=limit)
    taken = slots(*"abc"[:held])
    if held < limit:
        check_slots(declared, taken)
        return
    with refused_with("transaction.compensation_exists", taken) as caught:
        check_slots(declared, taken)
    assert caught.error.details["held_by"] == [f"act_{name}" for name in "abc"[:held]]


@pytest.mark.rule("TX-REV-3")
def test_contradicting_evidence_closes_even_free_slots() -> None:
    check_slots(supporting(), None)
    with refused_with("transaction.compensation_frozen") as caught:
        check_slots(supporting(), slots(frozen="late_not_applied"))
    assert caught.error.details["reason"] == "late_not_applied"


HOLDER = SlotHolder(action_id=ActionId("act_new"), transaction_id=TransactionId("txn_new"))


@pytest.mark.rule("TX-COMP-4")
def test_taking_a_slot_adds_one_holder_and_one_revision() -> None:
    first = take_slot(action(), None, HOLDER, 2, LATER)
    assert (first.revision, first.target, first.limit, first.holders) == (1, ACTION, 2, (HOLDER,))
    assert first.transaction_id == action().transaction_id
    second = take_slot(action(), slots("a"), HOLDER, 2, LATER)
    assert (second.revision, second.updated_at) == (slots().revision + 1, LATER)
    assert second.holders == (*slots("a").holders, HOLDER)


def compensation(status: Status, verdict: Verdict | None) -> TransactionRecord:
    return record_in(
        status, verdict=verdict, mode=Mode.COMPENSATE, transaction_id=TransactionId("txn_a")
    )


@pytest.mark.rule("TX-COMP-4")
@pytest.mark.parametrize(
    ("status", "verdict", "released"),
    [
        (Status.COMPENSATING, None, False),
        (Status.OUTCOME_UNKNOWN, None, False),
        (Status.RECONCILING, None, False),
        (Status.COMPENSATED, Verdict.COMMITTED, False),
        (Status.RECONCILED, Verdict.COMMITTED, False),
        (Status.RECONCILED, Verdict.PARTIAL, False),
        (Status.RECONCILED, Verdict.NOT_COMMITTED, True),
        (Status.FAILED, Verdict.PARTIAL, False),
        (Status.FAILED, Verdict.NOT_COMMITTED, True),
    ],
)
def test_a_slot_is_given_back_by_not_committed_alone(
    status: Status, verdict: Verdict | None, released: bool
) -> None:
    held = slots("a", "b")
    left = release_slot(held, compensation(status, verdict), LATER)
    if not released:
        assert left is None
        return
    assert left is not None
    assert left.holders == slots("b").holders
    assert left.revision == held.revision + 1


@pytest.mark.rule("INT-3a")
def test_a_worker_that_has_the_intent_keeps_the_slot_for_good_whatever_came_of_it() -> None:
    named = ProviderOperation("worker", ProviderOperationId("cmp-1"))
    ended = replace(compensation(Status.FAILED, Verdict.NOT_COMMITTED), provider_operation=named)
    left = release_slot(slots("a", "b"), ended, LATER, for_good=True)
    assert left is not None
    assert [holder.ended for holder in left.holders] == [False, True]
    assert release_slot(left, ended, LATER, for_good=True) is None
    with refused_with("transaction.compensation_recovery_required"):
        check_slots(supporting(), left)
    bare = replace(ended, provider_operation=None)
    freed = release_slot(slots("a", "b"), bare, LATER, for_good=True)
    assert freed is not None
    assert freed.holders == slots("b").holders


def test_a_slot_that_was_never_held_is_not_given_back() -> None:
    ended = compensation(Status.FAILED, Verdict.NOT_COMMITTED)
    assert release_slot(slots("b"), ended, LATER) is None


@pytest.mark.rule("TX-REV-3")
def test_freezing_keeps_the_holders_and_works_before_there_are_any() -> None:
    frozen = freeze_slots(action(), slots("a"), "late_partial", LATER)
    assert (frozen.frozen, frozen.holders) == ("late_partial", slots("a").holders)
    assert frozen.revision == slots().revision + 1
    fresh = freeze_slots(action(), None, "late_partial", LATER)
    assert (fresh.revision, fresh.holders, fresh.frozen) == (1, (), "late_partial")
    with refused_with("transaction.compensation_frozen"):
        check_slots(supporting(), fresh)
