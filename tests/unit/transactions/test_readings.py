"""Reading outcomes: four certainties, and the more careful word where words disagree."""

import pytest
from msgspec.structs import replace

from amends.contracts import limits
from amends.contracts.json_types import Json
from amends.contracts.outcomes import (
    Applied,
    ErrorInfo,
    Failure,
    NotApplied,
    NotFound,
    Outcome,
    Partial,
    Pending,
    Uncertain,
)
from amends.testing.builders import DECLINED, OPERATION, OTHER_OPERATION
from amends.transactions.readings import (
    TIMEOUT_CODE,
    Certainty,
    Reading,
    bounded_delay,
    named_operation,
    read_outcome,
)


def error(code: str = "declined", **details: Json) -> ErrorInfo:
    return ErrorInfo(code=code, details=details)


NAMED: dict[str, Json] = {"provider": "stripe", "operation_id": "ch_1"}


@pytest.mark.parametrize(
    ("outcome", "certainty"),
    [
        (Applied(), Certainty.APPLIED),
        (NotApplied(error=DECLINED), Certainty.NOT_APPLIED),
        (Partial(error=DECLINED), Certainty.PARTIAL),
        (Failure(error=DECLINED), Certainty.NOT_APPLIED),
        (Uncertain(error=DECLINED), Certainty.UNCERTAIN),
        (Pending(), Certainty.UNCERTAIN),
        (NotFound(), Certainty.UNCERTAIN),
        (NotFound(voided=True), Certainty.UNCERTAIN),
    ],
)
def test_every_kind_of_outcome_is_read_into_one_certainty(
    outcome: Outcome, certainty: Certainty
) -> None:
    assert read_outcome(outcome).certainty is certainty


@pytest.mark.rule("TX-SETTLE-2", "TX-SETTLE-3")
@pytest.mark.parametrize(
    ("failure", "certainty"),
    [
        (error(), Certainty.NOT_APPLIED),
        (error(TIMEOUT_CODE), Certainty.UNCERTAIN),
        (error(uncertain_outcome=True), Certainty.UNCERTAIN),
        (error(TIMEOUT_CODE, side_effects_committed=True), Certainty.UNCERTAIN),
        (error(uncertain_outcome=True, side_effects_committed=True), Certainty.UNCERTAIN),
        (error(side_effects_committed=True), Certainty.PARTIAL),
        (error(uncertain_outcome=False, side_effects_committed=False), Certainty.NOT_APPLIED),
        (error(uncertain_outcome="yes"), Certainty.NOT_APPLIED),
        (error("SLA.TIMEOUT_EXCEEDED"), Certainty.NOT_APPLIED),
    ],
)
def test_a_returned_failure_is_definite_unless_its_code_or_flag_says_otherwise(
    failure: ErrorInfo, certainty: Certainty
) -> None:
    reading = read_outcome(Failure(error=failure))
    assert reading.certainty is certainty
    assert not reading.declared


@pytest.mark.rule("TX-SETTLE-2")
@pytest.mark.parametrize("doubt", [error(TIMEOUT_CODE), error(uncertain_outcome=True)])
def test_a_timeout_is_never_nothing_happened_whoever_declares_it(doubt: ErrorInfo) -> None:
    for outcome in (NotApplied(error=doubt), Partial(error=doubt), Failure(error=doubt)):
        reading = read_outcome(outcome)
        assert (reading.certainty, reading.declared) == (Certainty.UNCERTAIN, False)


def test_a_declared_absence_whose_error_admits_side_effects_is_partial() -> None:
    reading = read_outcome(NotApplied(error=error(side_effects_committed=True)))
    assert (reading.certainty, reading.declared) == (Certainty.PARTIAL, False)


def test_only_a_declared_absence_is_read_as_declared() -> None:
    assert read_outcome(NotApplied(error=DECLINED)).declared
    others = (Applied(), Failure(error=DECLINED), Partial(error=DECLINED), NotFound())
    assert not any(read_outcome(outcome).declared for outcome in others)


@pytest.mark.rule("TX-SETTLE-2")
@pytest.mark.parametrize("kind", [NotApplied, Partial, Failure, Uncertain])
def test_an_operation_named_only_in_the_details_is_kept_and_one_in_the_outcome_goes_first(
    kind: type[NotApplied | Partial | Failure | Uncertain],
) -> None:
    outcome = kind(error=error(provider_operation=NAMED))
    assert read_outcome(outcome).operation == OPERATION
    assert read_outcome(replace(outcome, operation=OTHER_OPERATION)).operation == OTHER_OPERATION


@pytest.mark.parametrize(
    "named",
    [
        None,
        "ch_1",
        [],
        {},
        {"provider": "stripe"},
        {"operation_id": "ch_1"},
        {"provider": "", "operation_id": "ch_1"},
        {"provider": "stripe", "operation_id": ""},
        {"provider": "  ", "operation_id": "ch_1"},
        {"provider": "stripe", "operation_id": 9007199254740993},
        {"provider": 1, "operation_id": "ch_1"},
        {"provider": "stripe", "operation_id": "ch\n1"},
        {"provider": "stripe", "operation_id": "\ud800"},
        {"provider": "stripe", "operation_id": "x" * (limits.PROVIDER_OPERATION_LENGTH + 1)},
        {"provider": "x" * (limits.ID_LENGTH + 1), "operation_id": "ch_1"},
    ],
)
def test_what_is_no_reference_is_not_taken_for_one(named: Json) -> None:
    assert named_operation(error(provider_operation=named)) is None


def test_an_operation_id_keeps_its_exact_digits() -> None:
    named: Json = {"provider": "bank", "operation_id": "9007199254740993"}
    found = named_operation(error(provider_operation=named))
    assert found is not None
    assert found.operation_id == "9007199254740993"


@pytest.mark.parametrize(
    ("told", "kept"),
    [(0, 0), (1500, 1500), (-1, None), (True, None), (1.5, None), ("120", None), (None, None)],
)
def test_a_time_to_look_again_is_a_whole_number_of_milliseconds_or_none(
    told: Json, kept: int | None
) -> None:
    reading = read_outcome(Failure(error=error(TIMEOUT_CODE, retry_after_ms=told)))
    assert reading.retry_after_ms == kept


def test_an_uncertain_outcome_may_name_its_time_in_either_place() -> None:
    doubt = error(retry_after_ms=700)
    assert read_outcome(Uncertain(error=doubt)).retry_after_ms == 700
    assert read_outcome(Uncertain(error=doubt, retry_after_ms=900)).retry_after_ms == 900


@pytest.mark.rule("TX-SETTLE-4")
def test_an_answer_such_as_pending_is_uncertain_with_all_it_said() -> None:
    told = Pending(retry_after_ms=900, operation=OPERATION, cursor="page-2")
    reading = read_outcome(told)
    assert reading == Reading(
        certainty=Certainty.UNCERTAIN,
        error=reading.error,
        operation=OPERATION,
        cursor="page-2",
        retry_after_ms=900,
    )
    assert reading.error is not None
    assert reading.error.code == "transaction.outcome_unknown"


def test_not_found_keeps_its_cursor_and_says_nothing_certain() -> None:
    reading = read_outcome(NotFound(cursor="page-3"))
    assert reading.cursor == "page-3"
    assert reading.error is not None
    assert reading.error.code == "transaction.provider_answer_invalid"
    assert read_outcome(Failure(error=DECLINED, cursor="page-4")).cursor == "page-4"


@pytest.mark.rule("TX-SETTLE-2")
@pytest.mark.parametrize(
    ("told", "delay"),
    [(None, 5_000), (0, 0), (-1, 0), (1, 1), (10**12, limits.RETRY_AFTER_MAX_MS)],
)
def test_the_delay_is_five_seconds_unless_told_and_always_bounded(
    told: int | None, delay: int
) -> None:
    assert bounded_delay(told) == delay
