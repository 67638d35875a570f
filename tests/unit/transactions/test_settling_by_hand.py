"""An operator's ruling on an unknown outcome: by revision, with evidence, in order."""

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from amends.contracts.documents import OperatorRuling, TransactionRecord
from amends.contracts.enums import ResultStatus, Status, Verdict
from amends.contracts.outcomes import ErrorInfo
from amends.contracts.principals import Principal
from amends.testing.builders import NOW, principal, record_in
from amends.testing.refusals import refused_with
from amends.transactions.reconciliation import EXHAUSTED, settle_by_hand
from amends.transactions.settlement import Settled
from amends.transactions.table import Event
from tests.unit.transactions.providers import HAS_HORIZON, HORIZON, LATER, OPERATOR, UNKNOWN


def ruling(verdict: Verdict = Verdict.COMMITTED, **changes: object) -> OperatorRuling:
    made = OperatorRuling(
        verdict=verdict, reference="ticket-7", note="seen in the books", by=OPERATOR.ref, at=LATER
    )
    return replace(made, **changes)


def by_hand(
    made: OperatorRuling,
    before: TransactionRecord = UNKNOWN,
    operator: Principal = OPERATOR,
    seen_revision: int = UNKNOWN.revision,
) -> Settled:
    return settle_by_hand(before, made, HAS_HORIZON, operator, seen_revision=seen_revision)


@pytest.mark.rule("TX-RECON-5")
@pytest.mark.parametrize(
    ("verdict", "status", "code"),
    [
        (Verdict.COMMITTED, ResultStatus.COMPLETED, None),
        (Verdict.PARTIAL, ResultStatus.FAILED, "transaction.effect_partial"),
        (Verdict.NOT_COMMITTED, ResultStatus.FAILED, "transaction.effect_absent"),
    ],
)
def test_an_operator_settles_with_evidence(
    verdict: Verdict, status: ResultStatus, code: str | None
) -> None:
    settled = by_hand(ruling(verdict), replace(UNKNOWN, attention=EXHAUSTED))
    after = settled.record
    assert (settled.event, after.status) == (Event.SETTLED_BY_HAND, Status.RECONCILED)
    assert (after.verdict, after.ruling, after.settled_at) == (verdict, ruling(verdict), LATER)
    assert (after.attention, after.reconcile_after) == (None, None)
    assert settled.result == after.result
    assert after.result is not None
    assert after.result.status is status
    assert (after.error.code if after.error else None) == code
    assert after.result.error == after.error


@pytest.mark.rule("TX-RECON-5")
def test_what_was_settled_by_hand_never_looks_retryable_so_that_its_key_stays_settled() -> None:
    busy = replace(UNKNOWN, error=ErrorInfo(code="provider_busy", retryable=True))
    for verdict in (Verdict.PARTIAL, Verdict.NOT_COMMITTED):
        after = by_hand(ruling(verdict), busy).record
        assert after.error is not None
        assert not after.error.retryable


def test_an_operators_ruling_releases_a_frozen_record_too() -> None:
    after = by_hand(ruling(), replace(UNKNOWN, frozen="restored")).record
    assert (after.status, after.frozen) == (Status.RECONCILED, None)


@pytest.mark.rule("TX-RECON-5")
@pytest.mark.parametrize("status", [s for s in Status if s is not Status.OUTCOME_UNKNOWN])
def test_only_an_unknown_outcome_is_settled_by_hand(status: Status) -> None:
    known = record_in(status)
    with refused_with("transaction.settle_state_invalid", known):
        by_hand(ruling(), known)


STALE = UNKNOWN.revision - 1
HAND_REFUSALS: list[tuple[str, dict[str, object], dict[str, object]]] = [
    ("settle_not_allowed", {}, {}),
    ("settle_state_invalid", {}, {"status": Status.RECONCILING}),
    ("revision_conflict", {}, {}),
    ("settle_evidence_required", {"reference": " "}, {}),
    ("settle_evidence_required", {"note": "\t"}, {}),
    ("settle_risk_not_accepted", {"verdict": Verdict.NOT_COMMITTED, "at": HORIZON}, {}),
]


@pytest.mark.rule("TX-RECON-5")
@pytest.mark.parametrize("first", range(len(HAND_REFUSALS)))
def test_settling_by_hand_is_refused_in_order(first: int) -> None:
    """Everything from this condition on is violated at once."""
    made, before = ruling(), UNKNOWN
    for _, in_ruling, in_record in reversed(HAND_REFUSALS[first:]):
        made, before = replace(made, **in_ruling), replace(before, **in_record)
    who = principal() if first == 0 else OPERATOR
    seen = STALE if first <= 2 else before.revision
    with refused_with(f"transaction.{HAND_REFUSALS[first][0]}", before):
        by_hand(made, before, who, seen)


@pytest.mark.rule("TX-RECON-5")
@pytest.mark.parametrize(
    ("at", "accepted", "changes", "settled"),
    [
        (HORIZON, False, {}, False),
        (HORIZON, True, {}, True),
        (HORIZON + timedelta(microseconds=1), False, {}, True),
        (NOW, False, {"voided": True}, True),
        (LATER, False, {"last_effect_lease_end": None}, False),
    ],
)
def test_absence_before_the_horizon_needs_an_accepted_risk(
    at: datetime, accepted: bool, changes: dict[str, object], settled: bool
) -> None:
    made = ruling(Verdict.NOT_COMMITTED, at=at, risk_accepted=accepted)
    before = replace(UNKNOWN, **changes)
    if settled:
        assert by_hand(made, before).record.verdict is Verdict.NOT_COMMITTED
        return
    with refused_with("transaction.settle_risk_not_accepted", before):
        by_hand(made, before)


@pytest.mark.parametrize("verdict", [Verdict.COMMITTED, Verdict.PARTIAL])
def test_an_effect_that_was_seen_needs_no_horizon(verdict: Verdict) -> None:
    assert by_hand(ruling(verdict, at=NOW)).record.verdict is verdict
