"""Approval requests: who may decide, the algebra of rules, and the one use."""

from datetime import timedelta
from itertools import product

import pytest
from msgspec.structs import replace

from amends.contracts.approval_policy import (
    AllOf,
    AnyOf,
    ApprovalPolicy,
    ApprovalRule,
    ByGroup,
    ByPrincipal,
    ByRole,
    ByTenantPolicy,
    Quorum,
)
from amends.contracts.approvals import Answer, ApprovalRequest, ApprovalStatus, Decision
from amends.contracts.enums import PrincipalKind
from amends.contracts.ids import DecisionId, PrincipalId, TenantId
from amends.contracts.principals import APPROVE_SCOPE, OPERATE_SCOPE, Principal
from amends.governance.approval_rules import is_granted, is_met, touches
from amends.governance.approvals import (
    OPEN,
    Word,
    check_consumed,
    consume,
    decide,
    expire,
    freeze,
    may_decide,
    policy_hash,
    release,
    withdraw,
)
from amends.governance.delegations import may_approve
from amends.testing.builders import NOW, approval_request, principal
from amends.testing.refusals import refused_with

ANYBODY = ApprovalPolicy()
BOB = principal("bob", scopes=(APPROVE_SCOPE,))
CAROL = principal("carol", scopes=(APPROVE_SCOPE,))
ALICE = principal("alice", scopes=(APPROVE_SCOPE,))
OPERATOR = principal("olga", kind=PrincipalKind.OPERATOR)
LATER = NOW + timedelta(minutes=1)
EXPIRY = approval_request().expires_at


def word(who: Principal = BOB, answer: Answer = Answer.APPROVED, **changes: object) -> Word:
    said = Word(
        decision_id=DecisionId(f"dec_{who.id}"),
        answer=answer,
        principal=who,
        reason="looked at it",
        evidence={},
        seen_revision=1,
        now=LATER,
    )
    return replace(said, **changes)


def in_status(status: ApprovalStatus, policy: ApprovalPolicy = ANYBODY) -> ApprovalRequest:
    return approval_request(policy, status=status)


def approved(*who: Principal, policy: ApprovalPolicy = ANYBODY) -> ApprovalRequest:
    request = approval_request(policy)
    for one in who:
        request = decide(request, word(one, seen_revision=request.revision))
    return request


# ── deciding ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("AP-3")
def test_a_decision_carries_the_authenticated_approver_and_what_was_seen() -> None:
    who = replace(BOB, roles=("treasury",), groups=("legal",))
    after = decide(approval_request(), word(who, evidence={"ticket": "7"}))
    (made,) = after.decisions
    assert (made.approver, made.roles, made.groups) == (who.ref, ("treasury",), ("legal",))
    assert (made.answer, made.reason, made.evidence) == (
        Answer.APPROVED,
        "looked at it",
        {"ticket": "7"},
    )
    assert (made.seen_revision, made.at, made.may_approve) == (1, LATER, True)
    assert (after.status, after.revision, after.decided_at) == (ApprovalStatus.APPROVED, 2, LATER)


@pytest.mark.rule("AP-3")
@pytest.mark.parametrize("seen", [-1, 0, 2, 99])
def test_a_stale_revision_is_a_conflict_that_names_the_current_one(seen: int) -> None:
    with refused_with("approval.stale", waiting := approval_request()) as caught:
        decide(waiting, word(seen_revision=seen))
    details = caught.error.details
    assert details["revision"] == waiting.revision
    assert details["current"] == {
        "approval_id": waiting.approval_id,
        "status": "pending",
        "revision": 1,
        "action_hash": waiting.action_hash,
        "expires_at": waiting.expires_at.isoformat(),
        "decisions": [],
    }


@pytest.mark.rule("AP-3")
def test_whoever_comes_late_is_told_who_decided_and_how_but_not_what_they_wrote() -> None:
    decided = decide(approval_request(), word(CAROL, Answer.DENIED))
    with refused_with("approval.stale") as caught:
        decide(decided, word(BOB, seen_revision=1))
    current = caught.error.details["current"]
    assert isinstance(current, dict)
    assert (current["status"], current["revision"]) == ("denied", 2)
    assert current["decisions"] == [
        {"answer": "denied", "approver": "carol", "at": LATER.isoformat()}
    ]
    assert "looked at it" not in str(current)


@pytest.mark.rule("AP-3")
@pytest.mark.parametrize(
    ("status", "answer"),
    list(
        product(
            [status for status in ApprovalStatus if status is not ApprovalStatus.PENDING],
            [Answer.APPROVED, Answer.DENIED],
        )
    ),
)
def test_a_request_that_is_decided_takes_no_further_decision(
    status: ApprovalStatus, answer: Answer
) -> None:
    with refused_with("approval.closed", closed := in_status(status)):
        decide(closed, word(OPERATOR, answer))


@pytest.mark.parametrize(
    ("answer", "late"), list(product(Answer, [EXPIRY, EXPIRY + (LATER - NOW)]))
)
def test_from_its_expiry_on_a_request_takes_no_word(answer: Answer, late: object) -> None:
    with refused_with("approval.expired", waiting := approval_request()):
        decide(waiting, word(OPERATOR, answer, now=late))
    just = EXPIRY - timedelta(microseconds=1)
    assert decide(waiting, word(now=just)).status is ApprovalStatus.APPROVED


@pytest.mark.rule("AP-1")
@pytest.mark.parametrize("answer", [Answer.APPROVED, Answer.DENIED])
@pytest.mark.parametrize("kind", PrincipalKind)
def test_requesters_do_not_decide_on_their_own_requests_under_whatever_kind(
    answer: Answer, kind: PrincipalKind
) -> None:
    waiting = approval_request()
    with refused_with("approval.separation_of_duties", waiting):
        decide(waiting, word(replace(ALICE, kind=kind), answer))


@pytest.mark.rule("AP-1")
def test_separation_of_duties_can_be_turned_off_by_name() -> None:
    alone = ApprovalPolicy(separation_of_duties=False)
    assert decide(approval_request(alone), word(ALICE)).status is ApprovalStatus.APPROVED


@pytest.mark.rule("AP-1")
@pytest.mark.parametrize(
    ("who", "may"),
    [
        (principal("bob"), False),
        (principal("bob", scopes=()), False),
        (principal("bob", scopes=(OPERATE_SCOPE,)), False),
        (principal("bob", kind=PrincipalKind.RECOVERY), False),
        (BOB, True),
        (OPERATOR, True),
        (replace(OPERATOR, scopes=()), True),
    ],
)
def test_the_wildcard_does_not_approve_since_that_power_is_granted_by_name(
    who: Principal, may: bool
) -> None:
    assert may_approve(who) is may
    if may:
        assert decide(approval_request(), word(who)).status is ApprovalStatus.APPROVED
        return
    for answer in (Answer.APPROVED, Answer.DENIED):
        with refused_with("approval.not_allowed", waiting := approval_request()):
            decide(waiting, word(who, answer))


@pytest.mark.parametrize("answer", Answer)
def test_to_another_tenants_principal_the_request_does_not_exist(answer: Answer) -> None:
    stranger = replace(OPERATOR, tenant=TenantId("other"))
    with refused_with("approval.not_found", waiting := approval_request()) as caught:
        decide(waiting, word(stranger, answer, seen_revision=99))
    assert dict(caught.error.details) == {}


@pytest.mark.rule("AP-3")
def test_one_person_decides_once_however_the_principal_is_named() -> None:
    two = ApprovalPolicy(minimum_distinct=2)
    once = approved(BOB, policy=two)
    assert once.status is ApprovalStatus.PENDING
    assert once.decided_at is None
    for kind, answer in product(PrincipalKind, (Answer.APPROVED, Answer.DENIED)):
        with refused_with("approval.already_decided", once):
            decide(once, word(replace(BOB, kind=kind), answer, seen_revision=2))
    assert approved(BOB, CAROL, policy=two).status is ApprovalStatus.APPROVED


@pytest.mark.rule("AP-3")
def test_one_denial_outweighs_every_approval() -> None:
    three = ApprovalPolicy(minimum_distinct=3)
    twice = approved(BOB, CAROL, policy=three)
    denied = decide(twice, word(OPERATOR, Answer.DENIED, seen_revision=twice.revision))
    assert denied.status is ApprovalStatus.DENIED
    assert denied.decided_at == LATER


@pytest.mark.rule("AP-1")
@pytest.mark.parametrize("given", [{}, {"ticket": ""}, {"ticket": " \t"}, {"other": "7"}])
def test_required_evidence_has_to_come_with_an_approval_but_not_with_a_denial(
    given: dict[str, str],
) -> None:
    strict = ApprovalPolicy(evidence=("ticket",))
    with refused_with("approval.evidence_required", approval_request(strict)) as caught:
        decide(approval_request(strict), word(evidence=given))
    assert caught.error.details == {"evidence": ["ticket"]}
    denied = decide(approval_request(strict), word(answer=Answer.DENIED, evidence=given))
    assert denied.status is ApprovalStatus.DENIED
    full = decide(approval_request(strict), word(evidence={"ticket": "7"}))
    assert full.status is ApprovalStatus.APPROVED


@pytest.mark.parametrize(
    ("request_", "who", "counts"),
    [
        (approval_request(), BOB, True),
        (approval_request(), ALICE, False),
        (approval_request(), principal("nora"), False),
        (approval_request(ApprovalPolicy(evidence=("ticket",))), BOB, True),
        (approved(BOB, policy=ApprovalPolicy(minimum_distinct=2)), BOB, False),
        (approved(BOB, policy=ApprovalPolicy(minimum_distinct=2)), CAROL, True),
        (approved(BOB), CAROL, False),
        (approval_request(frozen="restored"), BOB, False),
    ],
)
def test_whose_word_would_count_is_asked_without_leaving_a_trace(
    request_: ApprovalRequest, who: Principal, counts: bool
) -> None:
    assert may_decide(request_, who, LATER) is counts
    assert not may_decide(request_, who, EXPIRY)


# ── the algebra ──────────────────────────────────────────────────────────────────────────────────


def said(name: str, **held: object) -> Decision:
    return replace(
        Decision(
            decision_id=DecisionId(f"dec_{name}"),
            answer=Answer.APPROVED,
            approver=principal(name).ref,
            seen_revision=1,
            at=NOW,
        ),
        **held,
    )


TREASURER = said("tom", roles=("treasury",))
LAWYER = said("liz", groups=("legal",))
BOTH = said("tina", roles=("treasury",), groups=("legal",))
TENANTS = said("otto", may_approve=True)
NOBODY = said("nora")
MONEY, LAW = ByRole("treasury"), ByGroup("legal")


@pytest.mark.rule("AP-1")
@pytest.mark.parametrize(
    ("rule", "given", "met"),
    [
        (ByPrincipal((PrincipalId("tom"),)), (TREASURER,), True),
        (ByPrincipal((PrincipalId("tom"),)), (LAWYER,), False),
        (ByPrincipal(()), (TREASURER,), False),
        (MONEY, (LAWYER, TREASURER), True),
        (MONEY, (LAWYER,), False),
        (LAW, (BOTH,), True),
        (LAW, (), False),
        (ByTenantPolicy(), (TENANTS,), True),
        (ByTenantPolicy(), (BOTH,), False),
        (AllOf((MONEY, LAW)), (BOTH,), True),
        (AllOf((MONEY, LAW)), (TREASURER, LAWYER), True),
        (AllOf((MONEY, LAW)), (TREASURER,), False),
        (AllOf(()), (BOTH,), False),
        (AnyOf((MONEY, LAW)), (LAWYER,), True),
        (AnyOf((MONEY, LAW)), (NOBODY,), False),
        (AnyOf(()), (BOTH,), False),
        (Quorum(2, MONEY), (TREASURER, BOTH), True),
        (Quorum(2, MONEY), (TREASURER, LAWYER), False),
        (Quorum(0, MONEY), (), False),
        (Quorum(-1, MONEY), (TREASURER,), False),
        (Quorum(2, AnyOf((MONEY, LAW))), (TREASURER, LAWYER), True),
        (Quorum(2, AllOf((MONEY, LAW))), (TREASURER, LAWYER, BOTH), False),
        (Quorum(1, Quorum(2, MONEY)), (TREASURER, BOTH), False),
        (AllOf((Quorum(2, MONEY), LAW)), (TREASURER, BOTH), True),
    ],
)
def test_the_algebra_of_rules(rule: ApprovalRule, given: tuple[Decision, ...], met: bool) -> None:
    assert is_met(rule, given) is met
    assert is_granted(ApprovalPolicy(rule=rule, minimum_distinct=0), given) is met


@pytest.mark.rule("AP-1")
@pytest.mark.parametrize(("minimum", "granted"), [(0, True), (1, True), (2, True), (3, False)])
def test_the_number_of_distinct_principals_is_a_condition_of_its_own(
    minimum: int, granted: bool
) -> None:
    policy = ApprovalPolicy(rule=MONEY, minimum_distinct=minimum)
    assert is_granted(policy, (TREASURER, BOTH)) is granted


def test_one_principal_counts_once_and_only_approvals_count() -> None:
    twice = replace(TREASURER, decision_id=DecisionId("dec_again"))
    other_kind = replace(TREASURER, approver=principal("tom", kind=PrincipalKind.SERVICE).ref)
    two = ApprovalPolicy(rule=MONEY, minimum_distinct=2)
    assert not is_granted(two, (TREASURER, twice, other_kind))
    assert not is_granted(ApprovalPolicy(rule=Quorum(2, MONEY)), (TREASURER, twice, other_kind))
    for answer in (Answer.DENIED, Answer.REVOKED):
        assert not is_granted(ApprovalPolicy(rule=MONEY), (replace(TREASURER, answer=answer),))


@pytest.mark.parametrize(
    ("rule", "made", "counts"),
    [
        (MONEY, TREASURER, True),
        (MONEY, LAWYER, False),
        (AllOf((MONEY, LAW)), LAWYER, True),
        (AnyOf((MONEY, LAW)), NOBODY, False),
        (Quorum(3, AllOf((MONEY, LAW))), TREASURER, True),
        (Quorum(3, LAW), TREASURER, False),
        (ByTenantPolicy(), TENANTS, True),
        (ByPrincipal((PrincipalId("nora"),)), NOBODY, True),
    ],
)
def test_a_word_counts_where_it_fits_any_part_of_the_rule(
    rule: ApprovalRule, made: Decision, counts: bool
) -> None:
    assert touches(rule, made) is counts


# ── revoking, expiring, withdrawing ──────────────────────────────────────────────────────────────


@pytest.mark.rule("AP-4")
@pytest.mark.parametrize(("status", "who"), list(product(ApprovalStatus, [BOB, OPERATOR])))
def test_an_approval_can_be_revoked_by_who_gave_it_or_an_operator_until_it_is_used(
    status: ApprovalStatus, who: Principal
) -> None:
    given = replace(approved(BOB), status=status)
    if status not in OPEN:
        with refused_with("approval.closed", given):
            decide(given, word(who, Answer.REVOKED, seen_revision=2))
        return
    revoked = decide(given, word(who, Answer.REVOKED, seen_revision=2))
    assert revoked.status is ApprovalStatus.REVOKED
    assert revoked.decisions[-1].approver == who.ref
    with refused_with("approval.revoked", revoked):
        consume(revoked, "hash", ANYBODY, LATER)


@pytest.mark.rule("AP-4")
@pytest.mark.parametrize("who", [CAROL, ALICE, principal("bob2")])
def test_nobody_else_revokes(who: Principal) -> None:
    with refused_with("approval.not_allowed", given := approved(BOB)):
        decide(given, word(who, Answer.REVOKED, seen_revision=2))


@pytest.mark.rule("AP-3")
@pytest.mark.parametrize("status", ApprovalStatus)
def test_expiring_is_a_transition_that_is_due_at_its_instant(status: ApprovalStatus) -> None:
    before = in_status(status)
    assert expire(before, EXPIRY - timedelta(microseconds=1)) is None
    after = expire(before, EXPIRY)
    if status not in OPEN:
        assert after is None
        return
    assert after is not None
    assert (after.status, after.revision) == (ApprovalStatus.EXPIRED, before.revision + 1)
    assert (after.decided_at, after.updated_at) == (EXPIRY, EXPIRY)


@pytest.mark.parametrize("status", ApprovalStatus)
def test_the_requesters_cancellation_withdraws_what_is_open(status: ApprovalStatus) -> None:
    after = withdraw(in_status(status), LATER)
    if status not in OPEN:
        assert after is None
        return
    assert after is not None
    assert after.status is ApprovalStatus.WITHDRAWN
    with refused_with("approval.withdrawn", after):
        consume(after, "hash", ANYBODY, LATER)


def test_the_time_of_the_first_decision_stays_and_the_clock_never_goes_back() -> None:
    given = approved(BOB)
    used = consume(given, "hash", ANYBODY, NOW)
    assert used.decided_at == LATER
    assert used.updated_at == LATER


# ── the freeze ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("TX-LEASE-3")
@pytest.mark.parametrize("status", ApprovalStatus)
def test_a_restore_freezes_what_is_open_until_an_operator_releases_it(
    status: ApprovalStatus,
) -> None:
    before = in_status(status)
    frozen = freeze(before, "restored", LATER)
    if status not in OPEN:
        assert frozen is None
        return
    assert frozen is not None
    assert (frozen.frozen, frozen.status, frozen.revision) == ("restored", status, 2)
    assert freeze(frozen, "again", LATER) is None
    released = release(frozen, LATER)
    assert released is not None
    assert (released.frozen, released.status, released.revision) == (None, status, 3)
    assert release(released, LATER) is None


@pytest.mark.rule("TX-LEASE-3")
@pytest.mark.parametrize("status", sorted(OPEN))
def test_of_a_frozen_request_nobody_knows_whether_it_was_used(status: ApprovalStatus) -> None:
    frozen = replace(in_status(status), frozen="restored")
    for answer in Answer:
        with refused_with("approval.frozen", frozen):
            decide(frozen, word(OPERATOR, answer))
    with refused_with("approval.frozen", frozen):
        consume(frozen, "hash", ANYBODY, LATER)
    with refused_with("approval.frozen", frozen):
        withdraw(frozen, LATER)
    assert expire(frozen, EXPIRY) is None


# ── the one use ──────────────────────────────────────────────────────────────────────────────────

CODES = {
    ApprovalStatus.PENDING: "approval.required",
    ApprovalStatus.DENIED: "approval.denied",
    ApprovalStatus.EXPIRED: "approval.expired",
    ApprovalStatus.REVOKED: "approval.revoked",
    ApprovalStatus.WITHDRAWN: "approval.withdrawn",
    ApprovalStatus.CONSUMED: "approval.consumed",
}


@pytest.mark.rule("AP-4")
@pytest.mark.parametrize("status", ApprovalStatus)
def test_only_an_approved_request_is_used_and_only_once(status: ApprovalStatus) -> None:
    request = in_status(status)
    if status is not ApprovalStatus.APPROVED:
        with refused_with(CODES[status], request):
            consume(request, "hash", ANYBODY, LATER)
        return
    used = consume(request, "hash", ANYBODY, LATER)
    assert (used.status, used.revision) == (ApprovalStatus.CONSUMED, request.revision + 1)
    with refused_with("approval.consumed", used):
        consume(used, "hash", ANYBODY, LATER)


TIGHTER = ApprovalPolicy(minimum_distinct=2)


@pytest.mark.rule("AP-4")
@pytest.mark.parametrize(
    ("action_hash", "policy"), [("other", ANYBODY), ("hash", TIGHTER), ("other", TIGHTER)]
)
@pytest.mark.parametrize("status", ApprovalStatus)
def test_an_approval_is_for_exactly_that_action_under_exactly_that_policy(
    action_hash: str, policy: ApprovalPolicy, status: ApprovalStatus
) -> None:
    request = in_status(status)
    with refused_with("approval.mismatch", request):
        consume(request, action_hash, policy, LATER)
    with refused_with("approval.mismatch", request):
        check_consumed(request, action_hash, policy, LATER)


@pytest.mark.rule("AP-4")
def test_an_approval_is_not_used_from_its_expiry_on() -> None:
    given = in_status(ApprovalStatus.APPROVED)
    consume(given, "hash", ANYBODY, EXPIRY - timedelta(microseconds=1))
    for late in (EXPIRY, EXPIRY + timedelta(days=1)):
        with refused_with("approval.expired", given):
            consume(given, "hash", ANYBODY, late)


@pytest.mark.rule("AP-4")
@pytest.mark.parametrize("status", ApprovalStatus)
def test_a_reopened_attempt_relies_on_a_consumed_approval_alone(status: ApprovalStatus) -> None:
    request = in_status(status)
    if status is ApprovalStatus.CONSUMED:
        check_consumed(request, "hash", ANYBODY, EXPIRY - timedelta(microseconds=1))
        with refused_with("approval.expired", request):
            check_consumed(request, "hash", ANYBODY, EXPIRY)
        return
    code = "approval.required" if status is ApprovalStatus.APPROVED else CODES[status]
    with refused_with(code, request):
        check_consumed(request, "hash", ANYBODY, LATER)


@pytest.mark.parametrize(
    "change",
    [
        {"required": False},
        {"reason": "x"},
        {"ttl_ms": 1},
        {"rule": MONEY},
        {"minimum_distinct": 2},
        {"separation_of_duties": False},
        {"evidence": ("ticket",)},
        {"version": "2"},
    ],
)
def test_every_part_of_a_policy_is_part_of_its_hash(change: dict[str, object]) -> None:
    assert policy_hash(replace(ANYBODY, **change)) != policy_hash(ANYBODY)


def test_rules_that_only_look_alike_have_different_hashes() -> None:
    names: list[ApprovalRule] = [
        ByRole("x"),
        ByGroup("x"),
        ByPrincipal((PrincipalId("x"),)),
        ByTenantPolicy(),
        AllOf((ByRole("x"),)),
        AnyOf((ByRole("x"),)),
        Quorum(1, ByRole("x")),
    ]
    assert len({policy_hash(replace(ANYBODY, rule=rule)) for rule in names}) == len(names)
