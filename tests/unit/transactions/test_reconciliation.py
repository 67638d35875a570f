"""Reconciliation: its admission in order, and the ways to ask the provider."""

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from amends.contracts.declarations import Capability, ServiceLevelContract
from amends.contracts.enums import Handler, Mode, PrincipalKind, Status
from amends.contracts.ids import CapabilityId
from amends.testing.builders import (
    CAPABILITY,
    NOW,
    OPERATION,
    OTHER_OPERATION,
    principal,
    record_in,
)
from amends.testing.refusals import refused_with
from amends.transactions.contradictions import TWO_EFFECTS
from amends.transactions.reconciliation import Ask, Way, admit, redrive_is_safe, way_to_ask
from tests.unit.transactions.providers import (
    BY_SCOPE,
    DEDUPES,
    LATER,
    LOOKS_UP,
    NO_WAY,
    OPERATOR,
    SECOND,
    UNKNOWN,
    serving,
)

DUE = NOW + timedelta(seconds=5)


def asking(**changes: object) -> Ask:
    return replace(Ask(capability_id=CAPABILITY, principal=principal()), **changes)


# ── admission ────────────────────────────────────────────────────────────────────────────────────


def test_the_owner_may_ask_once_it_is_due() -> None:
    assert admit(asking(), UNKNOWN, LOOKS_UP, DUE) == UNKNOWN


@pytest.mark.rule("TX-RECON-1")
@pytest.mark.parametrize("status", [s for s in Status if s is not Status.OUTCOME_UNKNOWN])
def test_only_an_unknown_outcome_is_reconciled(status: Status) -> None:
    known = record_in(status)
    with refused_with("transaction.reconcile_state_invalid", known) as caught:
        admit(asking(principal=OPERATOR, insist=True), known, LOOKS_UP, LATER)
    assert caught.error.details["status"] == status.value


STRANGER = principal("mallory")
REFUSALS: list[tuple[str, dict[str, object], dict[str, object], Capability, datetime]] = [
    ("reconcile_state_invalid", {}, {"status": Status.RECONCILING}, LOOKS_UP, LATER),
    ("frozen", {}, {"frozen": "restored"}, LOOKS_UP, LATER),
    (
        "execution_contract_mismatch",
        {"capability_id": CapabilityId("other")},
        {},
        LOOKS_UP,
        LATER,
    ),
    ("reconcile_not_allowed", {"principal": STRANGER}, {}, LOOKS_UP, LATER),
    ("provider_operation_not_accepted", {"cursor": "page-9"}, {}, LOOKS_UP, LATER),
    ("provider_operation_required", {}, {}, NO_WAY, LATER),
    ("reconcile_not_due", {}, {}, LOOKS_UP, NOW),
]


@pytest.mark.rule("TX-RECON-1")
@pytest.mark.parametrize(("code", "ask", "in_record", "declared", "now"), REFUSALS)
def test_each_condition_of_admission_alone_refuses_with_its_own_code(
    code: str,
    ask: dict[str, object],
    in_record: dict[str, object],
    declared: Capability,
    now: datetime,
) -> None:
    unknown = replace(UNKNOWN, **in_record)
    with refused_with(f"transaction.{code}", unknown):
        admit(asking(**ask), unknown, declared, now)


@pytest.mark.rule("TX-RECON-1")
@pytest.mark.parametrize("first", range(len(REFUSALS)))
def test_of_several_violations_the_first_condition_speaks(first: int) -> None:
    """Everything from this condition on is violated at once, where that is possible."""
    ask, in_record = asking(), UNKNOWN
    for _, asked, changed, _, _ in reversed(REFUSALS[first:]):
        ask, in_record = replace(ask, **asked), replace(in_record, **changed)
    declared = NO_WAY if first <= 5 else LOOKS_UP
    with refused_with(f"transaction.{REFUSALS[first][0]}"):
        admit(ask, in_record, declared, NOW)


@pytest.mark.rule("TX-RECON-1")
@pytest.mark.parametrize(
    ("who", "allowed"),
    [
        ({"principal": principal()}, True),
        ({"principal": OPERATOR}, True),
        ({"principal": BY_SCOPE}, True),
        ({"principal": STRANGER, "recovering": True}, True),
        ({"principal": STRANGER}, False),
        ({"principal": principal(kind=PrincipalKind.SERVICE)}, False),
    ],
)
def test_owner_operator_and_recovery_may_ask(who: dict[str, object], allowed: bool) -> None:
    if allowed:
        assert admit(asking(**who), UNKNOWN, LOOKS_UP, DUE) == UNKNOWN
        return
    with refused_with("transaction.reconcile_not_allowed"):
        admit(asking(**who), UNKNOWN, LOOKS_UP, DUE)


@pytest.mark.rule("TX-RECON-1")
@pytest.mark.parametrize(
    ("ask", "now", "admitted"),
    [
        (asking(), DUE - timedelta(microseconds=1), False),
        (asking(), DUE, True),
        (asking(insist=True), NOW, False),
        (asking(principal=OPERATOR), NOW, False),
        (asking(principal=OPERATOR, insist=True), NOW, True),
        (asking(principal=BY_SCOPE, insist=True), NOW, True),
    ],
)
def test_before_its_time_only_an_operator_who_insists_may_ask(
    ask: Ask, now: datetime, admitted: bool
) -> None:
    if admitted:
        assert admit(ask, UNKNOWN, LOOKS_UP, now) == UNKNOWN
        return
    with refused_with("transaction.reconcile_not_due") as caught:
        admit(ask, UNKNOWN, LOOKS_UP, now)
    assert caught.error.details["reconcile_after"] == "2026-03-01T12:00:05Z"


def test_a_record_without_a_due_time_may_be_asked_about_at_once() -> None:
    escalated = replace(UNKNOWN, reconcile_after=None, first_attempt_at=None)
    assert admit(asking(), escalated, LOOKS_UP, NOW) == escalated
    with refused_with("transaction.provider_operation_required") as caught:
        admit(asking(), escalated, NO_WAY, NOW)
    assert caught.error.details["reconcile_after"] is None
    assert caught.error.details["search_from"] == "2026-03-01T12:00:00Z"


@pytest.mark.rule("TX-RECON-1")
def test_where_nothing_is_known_to_ask_by_the_refusal_names_the_span_to_search() -> None:
    with refused_with("transaction.provider_operation_required", UNKNOWN) as caught:
        admit(asking(), UNKNOWN, NO_WAY, LATER)
    details = caught.error.details
    assert (details["search_from"], details["search_until"]) == (
        "2026-03-01T12:00:00Z",
        "2026-03-01T12:00:00Z",
    )


@pytest.mark.parametrize(
    ("declared", "known", "code"),
    [
        (serving((Handler.EXECUTE,), lookup_by_key=True), None, "reconcile_unsupported"),
        (NO_WAY, OPERATION, "reconcile_unsupported"),
        (serving(), None, "provider_operation_required"),
        (DEDUPES, None, "provider_operation_required"),
    ],
)
def test_why_nobody_can_be_asked_is_told_apart(
    declared: Capability, known: object, code: str
) -> None:
    with refused_with(f"transaction.{code}"):
        admit(asking(), replace(UNKNOWN, provider_operation=known), declared, LATER)


@pytest.mark.rule("TX-RECON-1")
@pytest.mark.parametrize(
    "supplied",
    [
        {"provider_operation": OPERATION},
        {"cursor": "page-9"},
        {"provider_operation": OPERATION, "cursor": "page-9"},
    ],
)
def test_a_reference_or_cursor_that_is_not_stored_is_taken_from_operators_only(
    supplied: dict[str, object],
) -> None:
    for who in (OPERATOR, BY_SCOPE):
        filled = admit(asking(principal=who, **supplied), UNKNOWN, LOOKS_UP, LATER)
        assert filled == replace(UNKNOWN, **supplied)
    for asked in (asking(**supplied), asking(recovering=True, **supplied)):
        with refused_with("transaction.provider_operation_not_accepted", UNKNOWN):
            admit(asked, UNKNOWN, LOOKS_UP, LATER)


@pytest.mark.rule("TX-RECON-1")
@pytest.mark.parametrize("who", [principal(), OPERATOR])
def test_what_is_stored_wins_over_what_is_supplied(who: object) -> None:
    stored = replace(UNKNOWN, provider_operation=OPERATION, cursor="")
    ask = asking(principal=who, provider_operation=OTHER_OPERATION, cursor="page-9")
    assert admit(ask, stored, LOOKS_UP, LATER) == stored


def test_a_reference_that_an_operator_supplies_opens_a_way_to_ask() -> None:
    ask = asking(principal=OPERATOR, provider_operation=OPERATION)
    assert admit(ask, UNKNOWN, serving(), LATER).provider_operation == OPERATION


# ── ways to ask ──────────────────────────────────────────────────────────────────────────────────

BOTH = serving(lookup_by_key=True, provider_dedup_window_ms=300 * SECOND)
IN_WINDOW = NOW + timedelta(seconds=10)
NEGATIVE = {"negative_lookup_at": NOW}


@pytest.mark.rule("TX-RECON-3")
@pytest.mark.parametrize(
    ("declared", "changes", "now", "way"),
    [
        (NO_WAY, {}, IN_WINDOW, None),
        (NO_WAY, {"provider_operation": OPERATION}, IN_WINDOW, None),
        (serving(), {}, IN_WINDOW, None),
        (serving(), {"provider_operation": OPERATION}, IN_WINDOW, Way.LOOK_UP),
        (LOOKS_UP, {}, IN_WINDOW, Way.LOOK_UP),
        (LOOKS_UP, NEGATIVE, IN_WINDOW, Way.LOOK_UP),
        (DEDUPES, {}, IN_WINDOW, Way.REDRIVE),
        (DEDUPES, {}, LATER, None),
        (DEDUPES, {"mode": Mode.COMPENSATE}, IN_WINDOW, None),
        (DEDUPES, {"attention": TWO_EFFECTS}, IN_WINDOW, None),
        (BOTH, {}, IN_WINDOW, Way.LOOK_UP),
        (BOTH, NEGATIVE, IN_WINDOW, Way.REDRIVE),
        (BOTH, NEGATIVE, NOW + timedelta(seconds=271), Way.LOOK_UP),
        (BOTH, {**NEGATIVE, "mode": Mode.COMPENSATE}, IN_WINDOW, Way.LOOK_UP),
    ],
)
def test_a_look_up_comes_first_and_a_redrive_only_where_it_is_licensed(
    declared: Capability, changes: dict[str, object], now: datetime, way: Way | None
) -> None:
    assert way_to_ask(replace(UNKNOWN, **changes), declared, now) is way


@pytest.mark.rule("TX-RECON-3")
@pytest.mark.parametrize(
    ("now", "safe"),
    [
        (NOW, True),
        (NOW + timedelta(seconds=30), True),
        (NOW + timedelta(seconds=30, microseconds=1), False),
        (NOW + timedelta(seconds=60), False),
    ],
)
def test_a_redrive_fits_into_the_dedup_window_with_its_whole_time_limit(
    now: datetime, safe: bool
) -> None:
    """A window of 60 seconds from the first attempt on, and a time limit of 30."""
    assert redrive_is_safe(UNKNOWN, DEDUPES, now) is safe


def test_a_longer_time_limit_closes_the_window_earlier() -> None:
    slow = replace(DEDUPES, service_level=ServiceLevelContract(timeout_ms=60 * SECOND))
    assert redrive_is_safe(UNKNOWN, slow, NOW)
    assert not redrive_is_safe(UNKNOWN, slow, NOW + timedelta(milliseconds=1))


@pytest.mark.parametrize(
    "changes",
    [
        {"mode": Mode.COMPENSATE},
        {"first_attempt_at": None},
        {"attention": TWO_EFFECTS},
        {"updated_at": NOW + timedelta(seconds=31)},
    ],
)
def test_a_redrive_is_never_safe_for_compensations_nor_in_any_doubt(
    changes: dict[str, object],
) -> None:
    """The last one: a clock that went back does not open the window again."""
    assert not redrive_is_safe(replace(UNKNOWN, **changes), DEDUPES, NOW)
    assert not redrive_is_safe(UNKNOWN, LOOKS_UP, NOW)
