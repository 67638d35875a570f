"""What is asked again: known action ids, execute's replay gate, and what may be reopened."""

from itertools import product

import pytest
from msgspec.structs import replace

from amends.contracts.actions import TransactionContext
from amends.contracts.documents import TransactionRecord
from amends.contracts.enums import Mode, PrincipalKind, ResultStatus, RetrySafety, Status, Verdict
from amends.contracts.errors import OutcomeUnknown
from amends.contracts.ids import ActionId, CapabilityId, PlanId, PrincipalId, TransactionId
from amends.contracts.outcomes import ErrorInfo
from amends.contracts.principals import PrincipalRef
from amends.testing.builders import (
    ACTION,
    CAPABILITY,
    INPUT_HASH,
    KEY,
    NOW,
    OPERATION,
    PLANNING,
    TRANSACTION,
    action,
    identity,
    principal,
    record,
    record_in,
    result,
)
from amends.testing.refusals import refused_with
from amends.transactions.replay import (
    TERMINAL,
    Answer,
    AskedAgain,
    belongs_to,
    check_same_action,
    reconciliation_required,
    reenter_claimed,
    reopenable,
    replay_execution,
    safely_retryable,
)

EXECUTE = TransactionContext(mode=Mode.EXECUTE, transaction_id=TRANSACTION)
UNCERTAIN = {Status.COMMITTING, Status.OUTCOME_UNKNOWN, Status.RECONCILING}
BUSY = ErrorInfo(code="provider_busy", retryable=True)
SAFE = {RetrySafety.SAFE, RetrySafety.SAFE_WITH_IDEMPOTENCY_KEY}
STRANGER = PrincipalRef(PrincipalId("mallory"), PrincipalKind.USER)


def asked(**changes: object) -> AskedAgain:
    again = AskedAgain(
        action_id=ACTION,
        capability_id=CAPABILITY,
        context=EXECUTE,
        principal=principal().ref,
        identity=identity(),
        input_hash=INPUT_HASH,
        idempotency_key=KEY,
    )
    return replace(again, **changes)


def executed(status: Status, **changes: object) -> TransactionRecord:
    """A record that this very execution began, whatever became of it."""
    return record_in(status, mode=Mode.EXECUTE, context=EXECUTE, action_id=ACTION, **changes)


def failed(**changes: object) -> TransactionRecord:
    """A failure that may be reopened: busy, declared as not applied, under a key."""
    stopped = result(ResultStatus.FAILED, error=BUSY)
    defaults = {"error": BUSY, "result": stopped, "declared_not_applied": True, "attempts": 1}
    return executed(Status.FAILED, **{**defaults, **changes})


DIFFERENCES: list[dict[str, object]] = [
    {"capability_id": CapabilityId("other")},
    {"principal": STRANGER},
    {"principal": PrincipalRef(principal().id, PrincipalKind.SERVICE)},
    {"identity": None},
    {"identity": identity(external_account="acct_2")},
    {"input_hash": "other"},
    {"context": TransactionContext(mode=Mode.COMPENSATE, transaction_id=TRANSACTION)},
    {"context": TransactionContext(mode=Mode.RECONCILE, transaction_id=TRANSACTION)},
    {"context": replace(EXECUTE, transaction_id=TransactionId("txn_2"))},
    {"context": replace(EXECUTE, plan_id=PlanId("plan:txn_1"))},
    {"context": replace(EXECUTE, compensation_for=ActionId("act_other"))},
]


@pytest.mark.rule("TX-ACT-1")
@pytest.mark.parametrize("difference", DIFFERENCES)
def test_any_difference_under_a_known_action_id_is_a_conflict(
    difference: dict[str, object],
) -> None:
    with refused_with("action.id_conflict", known := action()):
        check_same_action(asked(**difference), known)


@pytest.mark.rule("TX-ACT-1")
@pytest.mark.parametrize("context", [EXECUTE, TransactionContext(mode=Mode.EXECUTE)])
def test_the_same_request_may_leave_out_the_transaction_that_it_was_given(
    context: TransactionContext,
) -> None:
    check_same_action(asked(context=context), action())


def test_a_plan_id_may_be_left_out_again_only_by_the_request_that_planned_it() -> None:
    chosen = PlanId("plan:mine")
    for mode, conflict in ((Mode.PLAN, False), (Mode.COMMIT, True)):
        stored = TransactionContext(mode=mode, transaction_id=TRANSACTION, plan_id=chosen)
        request = asked(context=replace(stored, plan_id=None))
        if conflict:
            with refused_with("action.id_conflict"):
                check_same_action(request, action(context=stored))
        else:
            check_same_action(request, action(context=stored))


def test_the_idempotency_key_is_no_part_of_what_makes_two_requests_the_same() -> None:
    check_same_action(asked(idempotency_key="other"), action())


# ── a claim that was made already ────────────────────────────────────────────────────────────────


@pytest.mark.rule("TX-ACT-1")
@pytest.mark.parametrize(("status", "lapsed"), list(product(Status, (False, True))))
def test_a_claimed_commit_or_compensation_never_goes_on_by_being_sent_again(
    status: Status, lapsed: bool
) -> None:
    claimed = record_in(status)
    if status in TERMINAL:
        assert reenter_claimed(claimed, lapsed=lapsed) is Answer.RETURN_STORED
    elif status in (Status.OUTCOME_UNKNOWN, Status.RECONCILING):
        with refused_with("transaction.reconciliation_required", claimed):
            reenter_claimed(claimed, lapsed=lapsed)
    elif lapsed:
        assert reenter_claimed(claimed, lapsed=lapsed) is Answer.LAPSED
    else:
        with refused_with("transaction.in_progress", claimed):
            reenter_claimed(claimed, lapsed=lapsed)


@pytest.mark.rule("TX-LEASE-3")
@pytest.mark.parametrize("status", [Status.COMMITTING, Status.COMPENSATING])
def test_a_frozen_claim_is_not_even_written_down_as_lapsed(status: Status) -> None:
    frozen = record_in(status, frozen="restored")
    with refused_with("transaction.frozen", frozen) as caught:
        reenter_claimed(frozen, lapsed=True)
    assert caught.error.details["frozen"] == "restored"


# ── execute's replay gate ────────────────────────────────────────────────────────────────────────

CASES = list(product(Status, (False, True), RetrySafety))


@pytest.mark.rule("TX-EXEC-1", "TX-EXEC-2")
@pytest.mark.case("DUP-01")
@pytest.mark.parametrize(("status", "lapsed", "safety"), CASES)
def test_the_replay_gate_over_every_status_lease_and_retry_safety(
    status: Status, lapsed: bool, safety: RetrySafety
) -> None:
    """Asked under a fresh key, which never makes a fresh attempt of it."""
    known = executed(status)

    def replay() -> Answer:
        return replay_execution(asked(idempotency_key="fresh"), known, lapsed=lapsed, safety=safety)

    match status:
        case Status.PREPARED if lapsed:
            assert replay() is Answer.LAPSED
        case Status.PREPARED:
            with refused_with("transaction.in_progress", known):
                replay()
        case Status.COMMITTED | Status.FAILED:
            assert replay() is Answer.RETURN_STORED
        case Status.COMMITTING | Status.OUTCOME_UNKNOWN | Status.RECONCILING:
            with refused_with("transaction.reconciliation_required", known) as caught:
                replay()
            assert caught.error.details["transaction_id"] == TRANSACTION
        case _:
            with refused_with("transaction.execute_state_invalid", known):
                replay()


@pytest.mark.rule("TX-EXEC-2")
@pytest.mark.parametrize(("status", "safety"), list(product(sorted(UNCERTAIN), RetrySafety)))
def test_a_lapsed_lease_is_never_permission_to_execute_again(
    status: Status, safety: RetrySafety
) -> None:
    for lapsed in (False, True):
        with refused_with("transaction.reconciliation_required"):
            replay_execution(asked(), executed(status), lapsed=lapsed, safety=safety)


@pytest.mark.parametrize("lapsed", [False, True])
def test_a_prepared_execution_that_was_never_attempted_goes_on(lapsed: bool) -> None:
    untried = executed(Status.PREPARED, attempt=None, attempts=0)
    answer = replay_execution(asked(), untried, lapsed=lapsed, safety=RetrySafety.UNKNOWN)
    assert answer is Answer.GO_ON


@pytest.mark.rule("TX-EXEC-1")
@pytest.mark.parametrize(
    ("status", "difference"),
    list(product(Status, [*DIFFERENCES, {"action_id": ActionId("act_2")}])),
)
def test_a_different_contract_under_a_known_transaction_is_refused_in_every_status(
    status: Status, difference: dict[str, object]
) -> None:
    known = executed(status)
    with refused_with("transaction.execution_contract_mismatch", known):
        replay_execution(asked(**difference), known, lapsed=True, safety=RetrySafety.SAFE)


@pytest.mark.rule("TX-LEASE-3")
@pytest.mark.parametrize(
    "known",
    [
        executed(Status.PREPARED, frozen="restored"),
        executed(Status.PREPARED, frozen="restored", attempt=None),
        failed(frozen="restored"),
    ],
)
def test_what_is_frozen_neither_goes_on_nor_is_reopened(known: TransactionRecord) -> None:
    with refused_with("transaction.frozen", known):
        replay_execution(asked(), known, lapsed=True, safety=RetrySafety.SAFE)


@pytest.mark.parametrize("status", sorted(UNCERTAIN))
def test_a_freeze_does_not_hide_that_the_effect_may_have_happened(status: Status) -> None:
    frozen = executed(status, frozen="restored")
    with refused_with("transaction.reconciliation_required", frozen) as caught:
        replay_execution(asked(), frozen, lapsed=False, safety=RetrySafety.SAFE)
    assert isinstance(caught.error, OutcomeUnknown)


def test_the_refusal_of_an_unknown_outcome_names_all_that_is_needed_to_find_out() -> None:
    known = executed(Status.OUTCOME_UNKNOWN, provider_operation=OPERATION, cursor="page-2")
    details = reconciliation_required(known).details
    assert details["status"] == "outcome_unknown"
    assert details["provider_operation_id"] == OPERATION.operation_id
    assert details["cursor"] == "page-2"
    assert details["reconcile_after"] == "2026-03-01T12:00:05Z"
    bare = executed(Status.OUTCOME_UNKNOWN, reconcile_after=None)
    assert reconciliation_required(bare).details["provider_operation_id"] is None
    assert reconciliation_required(bare).details["reconcile_after"] is None


# ── reopening ────────────────────────────────────────────────────────────────────────────────────

NOT_REOPENABLE: list[dict[str, object]] = [
    {"status": Status.COMMITTED},
    {"mode": Mode.COMMIT},
    {"mode": Mode.COMPENSATE},
    {"mode": Mode.PLAN},
    {"idempotency_key": None},
    {"error": None},
    {"error": replace(BUSY, retryable=False)},
    {"provider_operation": OPERATION},
    {"cursor": "page-2"},
    {"reconcile_after": NOW},
    {"verdict": Verdict.PARTIAL},
    {"verdict": Verdict.COMMITTED},
    {"verdict": None},
    {"result": result(ResultStatus.CANCELLED, error=BUSY)},
]


@pytest.mark.rule("TX-EXEC-1")
@pytest.mark.parametrize("safety", RetrySafety)
def test_a_retryable_failure_is_reopened_under_the_same_key(safety: RetrySafety) -> None:
    declared, returned = failed(), failed(declared_not_applied=False)
    answer = replay_execution(asked(), declared, lapsed=False, safety=safety)
    assert answer is Answer.REOPEN
    if safety in SAFE:
        assert replay_execution(asked(), returned, lapsed=False, safety=safety) is Answer.REOPEN
        return
    with refused_with("transaction.retry_denied", returned):
        replay_execution(asked(), returned, lapsed=False, safety=safety)


@pytest.mark.rule("TX-EXEC-1")
@pytest.mark.parametrize("change", NOT_REOPENABLE)
def test_any_doubt_about_a_failure_keeps_it_closed(change: dict[str, object]) -> None:
    doubtful = replace(failed(), **change)
    assert not reopenable(doubtful)
    assert not safely_retryable(doubtful, KEY, RetrySafety.SAFE)


@pytest.mark.rule("TX-EXEC-1")
@pytest.mark.parametrize("key", [None, "another", KEY + " "])
def test_a_retry_without_the_same_key_is_denied(key: str | None) -> None:
    known = failed()
    with refused_with("transaction.retry_denied", known):
        replay_execution(asked(idempotency_key=key), known, lapsed=False, safety=RetrySafety.SAFE)


def test_a_failure_that_was_not_retryable_is_answered_with_itself() -> None:
    for error in (None, replace(BUSY, retryable=False)):
        known = failed(error=error)
        answer = replay_execution(asked(), known, lapsed=False, safety=RetrySafety.SAFE)
        assert answer is Answer.RETURN_STORED


@pytest.mark.rule("TX-CANCEL-1")
def test_what_was_cancelled_is_answered_as_cancelled_and_not_run_again() -> None:
    known = failed(result=result(ResultStatus.CANCELLED, error=BUSY))
    answer = replay_execution(asked(), known, lapsed=False, safety=RetrySafety.SAFE)
    assert answer is Answer.RETURN_STORED


def test_a_failure_without_a_stored_result_may_be_reopened_too() -> None:
    assert reopenable(failed(result=None))


# ── whose record it is ───────────────────────────────────────────────────────────────────────────


def test_a_record_belongs_to_the_action_that_holds_it_and_to_the_one_that_planned_it() -> None:
    committed = record_in(Status.COMMITTED)
    assert belongs_to(action(), committed)
    assert belongs_to(action(action_id=PLANNING), committed)
    assert not belongs_to(action(action_id=ActionId("act_loser")), committed)
    assert not belongs_to(action(action_id=PLANNING), record())
