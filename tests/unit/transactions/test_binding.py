"""Plan binding: the fourteen checks of a commit, each alone, in order, and at its boundary."""

from collections.abc import Callable
from datetime import timedelta
from itertools import combinations

import pytest
from msgspec.structs import replace

from amends.contracts.documents import TransactionRecord
from amends.contracts.enums import Freeze, PrincipalKind, Status
from amends.contracts.ids import CapabilityId, PlanId, PrincipalId, TenantId, TransactionId
from amends.contracts.outcomes import ErrorInfo
from amends.contracts.principals import PrincipalRef
from amends.testing.builders import (
    CAPABILITY,
    INPUT_HASH,
    NOW,
    PLAN,
    TRANSACTION,
    identity,
    plan,
    principal,
    record_in,
)
from amends.testing.refusals import refused_with
from amends.transactions.binding import CHECKS, CLAIM_LOST, CommitFacts, check_commit

Violation = Callable[[CommitFacts], CommitFacts]
EXPIRY = plan().expires_at


def good_facts() -> CommitFacts:
    return CommitFacts(
        plan_id=PLAN,
        capability_id=CAPABILITY,
        principal=principal().ref,
        transaction_id=TRANSACTION,
        input_hash=INPUT_HASH,
        identity=identity(),
        governance_digest="governance",
        freeze=Freeze.GOVERNANCE,
        record=record_in(Status.PLANNED),
        now=NOW,
    )


def in_record(**changes: object) -> Violation:
    def violate(facts: CommitFacts) -> CommitFacts:
        assert facts.record is not None
        return replace(facts, record=replace(facts.record, **changes))

    return violate


def in_request(**changes: object) -> Violation:
    return lambda facts: replace(facts, **changes)


def in_identity(**changes: object) -> Violation:
    return lambda facts: replace(facts, identity=replace(facts.identity or identity(), **changes))


def without_plan(facts: CommitFacts) -> CommitFacts:
    """The last of the record's violations to be applied, since the others look into the plan."""
    return in_record(plan=None)(facts)


EXPIRED = ErrorInfo(code="transaction.plan_expired")
STRANGER = PrincipalRef(PrincipalId("mallory"), PrincipalKind.USER)

VIOLATIONS: list[tuple[str, str, Violation]] = [
    ("1", "transaction.plan_required", in_request(plan_id=None)),
    ("2", "transaction.plan_not_found", in_request(record=None)),
    ("3", "transaction.plan_capability_mismatch", in_request(capability_id=CapabilityId("other"))),
    ("4a", "transaction.plan_expired", in_record(status=Status.FAILED, error=EXPIRED)),
    ("4b", "transaction.plan_not_committable", in_record(status=Status.COMMITTED, error=None)),
    ("5", "transaction.plan_missing_payload", without_plan),
    ("6", "transaction.plan_principal_mismatch", in_request(principal=STRANGER)),
    ("7", "transaction.plan_expired", in_request(now=EXPIRY)),
    (
        "8",
        "transaction.plan_transaction_mismatch",
        in_request(transaction_id=TransactionId("txn_2")),
    ),
    ("9", "transaction.plan_input_hash_mismatch", in_request(input_hash="other")),
    ("10", "transaction.plan_identity_missing", in_request(identity=None)),
    ("11", "transaction.plan_tenant_mismatch", in_identity(tenant=TenantId("other"))),
    (
        "12",
        "transaction.plan_external_account_mismatch",
        in_identity(external_account="acct_2"),
    ),
    ("13", "transaction.plan_governance_changed", in_request(governance_digest="tighter")),
    ("frozen", "transaction.frozen", in_record(frozen="restored")),
]
IN_ORDER = list(combinations(VIOLATIONS, 2))


def test_a_commit_that_matches_its_plan_in_everything_may_claim_it() -> None:
    facts = good_facts()
    assert check_commit(facts) is facts.record


@pytest.mark.rule("TX-COMMIT")
@pytest.mark.parametrize(("number", "code", "violate"), VIOLATIONS)
def test_each_check_alone_refuses_with_its_own_code(
    number: str, code: str, violate: Violation
) -> None:
    facts = violate(good_facts())
    with refused_with(code, *([facts.record] if facts.record else [])) as caught:
        check_commit(facts)
    assert caught.error.details["check"] == number


@pytest.mark.rule("TX-COMMIT")
@pytest.mark.parametrize(("first", "second"), IN_ORDER)
def test_of_two_violations_the_earlier_check_speaks(
    first: tuple[str, str, Violation], second: tuple[str, str, Violation]
) -> None:
    with refused_with(first[1]) as caught:
        check_commit(first[2](second[2](good_facts())))
    assert caught.error.details["check"] == first[0]


def test_all_violations_at_once_are_refused_by_the_first_check() -> None:
    facts = good_facts()
    for _, _, violate in reversed(VIOLATIONS):
        facts = violate(facts)
    with refused_with("transaction.plan_required"):
        check_commit(facts)


def test_the_checks_stand_in_the_order_of_the_specification() -> None:
    assert [check.number for check in CHECKS] == [number for number, _, _ in VIOLATIONS]
    assert [check.code for check in CHECKS] == [code for _, code, _ in VIOLATIONS]
    assert CLAIM_LOST == "transaction.plan_already_claimed"


@pytest.mark.rule("TX-COMMIT")
@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PLANNED])
def test_only_a_planned_record_can_be_committed_and_the_refusal_names_its_status(
    status: Status,
) -> None:
    taken = record_in(status, plan=plan())
    with refused_with("transaction.plan_not_committable", taken) as caught:
        check_commit(replace(good_facts(), record=taken))
    assert caught.error.details["status"] == status.value
    assert caught.error.details["transaction_id"] == TRANSACTION


@pytest.mark.rule("TX-PLAN-6")
@pytest.mark.parametrize("now", [NOW, EXPIRY + timedelta(days=365)])
def test_a_plan_that_was_swept_as_expired_answers_so_for_ever(now: object) -> None:
    swept = record_in(Status.FAILED, plan=plan(), error=EXPIRED)
    with refused_with("transaction.plan_expired"):
        check_commit(replace(good_facts(), record=swept, now=now))


def test_a_committed_plan_is_not_committable_again_by_another_action() -> None:
    used = record_in(Status.COMMITTED)
    with refused_with("transaction.plan_not_committable", used) as caught:
        check_commit(replace(good_facts(), record=used, now=EXPIRY + timedelta(days=1)))
    assert caught.error.details["status"] == "committed"


@pytest.mark.case("TIM-01")
@pytest.mark.usefixtures("local_zone")
@pytest.mark.parametrize(
    ("after_planning", "code"),
    [
        (timedelta(minutes=14, seconds=59), None),
        (timedelta(minutes=15) - timedelta(microseconds=1), None),
        (timedelta(minutes=15), "transaction.plan_expired"),
        (timedelta(minutes=15, seconds=1), "transaction.plan_expired"),
    ],
)
def test_a_plan_has_expired_from_the_very_instant_of_its_expiry_on(
    after_planning: timedelta, code: str | None
) -> None:
    facts = replace(good_facts(), now=NOW + after_planning)
    if code is None:
        assert check_commit(facts) is facts.record
        return
    with refused_with(code):
        check_commit(facts)


@pytest.mark.parametrize("kind", [kind for kind in PrincipalKind if kind != "user"])
def test_the_same_name_of_another_kind_is_another_principal(kind: PrincipalKind) -> None:
    facts = replace(good_facts(), principal=PrincipalRef(principal().id, kind))
    with refused_with("transaction.plan_principal_mismatch"):
        check_commit(facts)


def test_a_commit_may_leave_the_transaction_to_its_plan() -> None:
    facts = replace(good_facts(), transaction_id=None)
    assert check_commit(facts) is facts.record


def planned_without_identity() -> TransactionRecord:
    return record_in(Status.PLANNED, plan=plan(identity=None))


def test_an_identity_on_neither_side_is_the_same_identity() -> None:
    facts = replace(good_facts(), identity=None, record=planned_without_identity())
    assert check_commit(facts) is facts.record


def test_an_identity_that_only_the_commit_has_is_refused() -> None:
    with refused_with("transaction.plan_identity_missing"):
        check_commit(replace(good_facts(), record=planned_without_identity()))


def test_accounts_are_equal_also_where_neither_side_names_one() -> None:
    nobody = identity(external_account=None)
    planned = record_in(Status.PLANNED, plan=plan(identity=nobody))
    facts = replace(good_facts(), identity=nobody, record=planned)
    assert check_commit(facts) is planned
    with refused_with("transaction.plan_external_account_mismatch"):
        check_commit(replace(facts, identity=identity()))


@pytest.mark.rule("TX-PLAN-5")
@pytest.mark.rule("TX-PLAN-5")
def test_a_plan_that_a_rule_froze_is_bound_though_the_capability_freezes_nothing() -> None:
    facts = replace(good_facts(), freeze=Freeze.NOTHING, governance_digest="tighter")
    assert facts.record is not None
    assert facts.record.plan is not None
    frozen = replace(facts.record, plan=replace(facts.record.plan, freeze=Freeze.GOVERNANCE))
    with refused_with("transaction.plan_governance_changed"):
        check_commit(replace(facts, record=frozen))


def test_without_a_freeze_a_different_governance_is_left_to_the_other_gates() -> None:
    facts = replace(good_facts(), governance_digest="tighter", freeze=Freeze.NOTHING)
    assert check_commit(facts) is facts.record


def test_a_plan_id_that_leads_nowhere_says_nothing_of_any_record() -> None:
    with refused_with("transaction.plan_not_found") as caught:
        check_commit(replace(good_facts(), record=None, plan_id=PlanId("plan:theirs")))
    assert set(caught.error.details) == {"check"}
