"""Two people are two people: no role, group, delegation or second name gets round it (AP-1)."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from amends.contracts.approval_policy import ApprovalPolicy, ByGroup, ByRole, Quorum
from amends.contracts.approvals import Answer, ApprovalRequest, ApprovalStatus, Decision
from amends.contracts.delegations import Delegation
from amends.contracts.enums import PrincipalKind, Risk
from amends.contracts.ids import CapabilityId, DecisionId, DelegationId, PrincipalId, TenantId
from amends.contracts.persons import names_of
from amends.contracts.principals import APPROVE_SCOPE, Identity, Principal
from amends.governance.approval_rules import is_granted
from amends.governance.approvals import (
    Word,
    check_still_granted,
    decide,
    may_decide,
    requester_names,
)
from amends.governance.delegations import (
    LONGEST,
    Lending,
    check_lends,
    lend,
    renewed,
    revoke,
    void,
)
from amends.testing.builders import NOW, TENANT, approval_request, principal
from amends.testing.refusals import refused_with

EVERYTHING = {"scopes": (APPROVE_SCOPE,), "roles": ("treasury",), "groups": ("legal",)}
ALICE = principal("alice", **EVERYTHING)
BOB = principal("bob", **EVERYTHING)
CAROL = principal("carol", **EVERYTHING)
DAVE = principal("dave", scopes=())
OLGA = principal("olga", kind=PrincipalKind.OPERATOR)
TREASURY = ApprovalPolicy(rule=ByRole("treasury"))
TWO = ApprovalPolicy(rule=Quorum(2, ByRole("treasury")), minimum_distinct=2)
LATER = NOW + timedelta(hours=1)
ALICES_SUBJECT = Identity(tenant=TENANT, subject="alice")


def said(
    who: Principal,
    *,
    request: ApprovalRequest,
    answer: Answer = Answer.APPROVED,
    identity: Identity | None = None,
    under: Delegation | None = None,
) -> Word:
    return Word(
        decision_id=DecisionId(f"dec_{who.id}"),
        answer=answer,
        principal=who,
        reason="",
        evidence={},
        seen_revision=request.revision,
        now=NOW,
        identity=identity,
        delegation=under,
    )


def yes(request: ApprovalRequest, who: Principal, under: Delegation | None = None) -> object:
    return decide(request, said(who, request=request, under=under))


def lending(to: Principal, **changes: object) -> Lending:
    whole = Lending(
        delegate=to.ref,
        capabilities=("*",),
        max_risk=Risk.CRITICAL,
        starts_at=NOW,
        ends_at=NOW + timedelta(days=1),
        reason="on leave",
    )
    return replace(whole, **changes)


def lent(by: Principal, to: Principal, **changes: object) -> Delegation:
    return lend(DelegationId(f"del_{by.id}_{to.id}"), by, lending(to, **changes), by, NOW)


# ── two names of one person ──────────────────────────────────────────────────────────────────────


@pytest.mark.rule("AP-1")
@pytest.mark.parametrize(
    ("who", "identity"),
    [
        (ALICE, None),
        (replace(ALICE, kind=PrincipalKind.OPERATOR), None),
        (replace(ALICE, kind=PrincipalKind.SERVICE), None),
        (replace(BOB, id=PrincipalId("Alice")), None),
        (replace(BOB, id=PrincipalId("local:alice")), None),
        (replace(BOB, id=PrincipalId("ＡＬＩＣＥ")), None),
        (replace(BOB, id=PrincipalId("alice\u200b")), None),
        (replace(BOB, persons=("alice",)), None),
        (replace(BOB, persons=("ALICE",)), None),
        (BOB, ALICES_SUBJECT),
        (BOB, Identity(tenant=TENANT, subject="local:Alice")),
    ],
)
def test_no_second_name_lets_a_requester_approve(who: Principal, identity: Identity | None) -> None:
    request = approval_request(TREASURY)
    for answer in (Answer.APPROVED, Answer.DENIED):
        with refused_with("approval.separation_of_duties", request):
            decide(request, said(who, request=request, answer=answer, identity=identity))


@pytest.mark.rule("AP-1")
def test_the_subject_of_an_agent_and_the_person_behind_it_have_asked_too() -> None:
    agent = principal("bot", kind=PrincipalKind.AGENT, persons=("bob",))
    request = approval_request(
        TREASURY,
        requester=agent.ref,
        requester_names=names_of(agent, Identity(tenant=TENANT, subject="Carol")),
        identity=Identity(tenant=TENANT, subject="Carol"),
    )
    assert requester_names(request) == ("bob", "bot", "carol")
    for who in (BOB, CAROL, replace(ALICE, persons=("carol",))):
        assert not may_decide(request, who, NOW)
    assert may_decide(request, ALICE, NOW)


@pytest.mark.rule("AP-1")
def test_requests_of_before_names_were_kept_still_know_who_asked() -> None:
    request = approval_request(TREASURY, identity=ALICES_SUBJECT, requester=BOB.ref)
    assert requester_names(request) == ("alice", "bob")


@pytest.mark.rule("AP-1")
@pytest.mark.parametrize(
    "again",
    [
        replace(BOB, kind=PrincipalKind.OPERATOR),
        replace(BOB, id=PrincipalId("BOB")),
        replace(BOB, id=PrincipalId("local:bob")),
        replace(CAROL, persons=("bob",)),
    ],
)
def test_no_second_name_makes_a_second_voice(again: Principal) -> None:
    request = decide(start := approval_request(TWO), said(BOB, request=start))
    with refused_with("approval.already_decided", request):
        yes(request, again)
    assert request.status is ApprovalStatus.PENDING


def made(*names: str, at: int = 0) -> Decision:
    return Decision(
        decision_id=DecisionId(f"dec_{at}"),
        answer=Answer.APPROVED,
        approver=principal(names[0]).ref,
        roles=("treasury",),
        seen_revision=1,
        at=NOW,
        names=names,
    )


@pytest.mark.rule("AP-1")
@pytest.mark.parametrize(
    ("decisions", "granted"),
    [
        ([made("bob")], False),
        ([made("bob"), made("carol")], True),
        ([made("bob"), made("Bob")], False),
        ([made("bob", "x"), made("carol", "x")], False),
        ([made("bob", "x"), made("carol", "y"), made("dave", "x", "y")], False),
        ([made("bob", "x"), made("carol", "y"), made("dave", "x")], True),
    ],
)
def test_words_that_share_a_name_count_once_even_through_a_third(
    decisions: list[Decision], granted: bool
) -> None:
    assert is_granted(TWO, decisions) is granted


# ── lending a word ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("AP-1", "AP-3")
def test_a_lent_word_counts_as_the_delegators_and_says_so() -> None:
    request = approval_request(TREASURY)
    assert not may_decide(request, DAVE, NOW)
    delegation = lent(BOB, DAVE)
    assert may_decide(request, DAVE, NOW, delegation=delegation)
    after = decide(request, said(DAVE, request=request, under=delegation))
    (decision,) = after.decisions
    assert after.status is ApprovalStatus.APPROVED
    assert (decision.approver, decision.speaks_for) == (DAVE.ref, BOB.ref)
    assert decision.under is not None
    assert decision.under.delegation_id == delegation.delegation_id
    assert (decision.roles, decision.groups, decision.may_approve) == (
        ("treasury",),
        ("legal",),
        True,
    )
    assert decision.names == ("bob", "dave")


@pytest.mark.rule("AP-1")
@pytest.mark.parametrize(
    ("under", "who"),
    [
        (lent(ALICE, DAVE), DAVE),  # the requester's own word
        (lent(BOB, ALICE), ALICE),  # another's word, in the requester's mouth
        (lent(replace(BOB, persons=("alice",)), DAVE), DAVE),
        (lent(replace(ALICE, id=PrincipalId("local:alice")), DAVE), DAVE),
    ],
)
def test_separation_follows_the_delegation(under: Delegation, who: Principal) -> None:
    request = approval_request(TREASURY)
    with refused_with("approval.separation_of_duties", request):
        yes(request, who, under)


@pytest.mark.rule("AP-1")
def test_a_requesters_word_is_not_lent_even_where_requesters_may_approve() -> None:
    request = approval_request(replace(TREASURY, separation_of_duties=False))
    assert may_decide(request, ALICE, NOW)
    with refused_with("approval.separation_of_duties", request):
        yes(request, DAVE, lent(ALICE, DAVE))


@pytest.mark.rule("AP-1")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((BOB, None), (DAVE, lent(BOB, DAVE))),
        ((DAVE, lent(BOB, DAVE)), (BOB, None)),
        ((DAVE, lent(BOB, DAVE)), (CAROL, lent(BOB, CAROL))),
        ((DAVE, lent(BOB, DAVE)), (DAVE, lent(CAROL, DAVE))),
        ((CAROL, None), (CAROL, lent(BOB, CAROL))),
        ((CAROL, lent(BOB, CAROL)), (CAROL, None)),
    ],
)
def test_lending_makes_no_second_voice(
    first: tuple[Principal, Delegation | None], second: tuple[Principal, Delegation | None]
) -> None:
    start = approval_request(TWO)
    request = decide(start, said(first[0], request=start, under=first[1]))
    with refused_with("approval.already_decided", request):
        yes(request, *second)


@pytest.mark.rule("AP-1")
def test_what_was_lent_cannot_be_lent_on() -> None:
    request = approval_request(TREASURY)
    on = lent(DAVE, principal("erin", scopes=()))  # Dave may decide by Bob's word only
    assert (on.roles, on.may_approve) == ((), False)
    with refused_with("approval.not_allowed", request):
        yes(request, principal("erin", scopes=()), on)


@pytest.mark.rule("AP-4")
def test_lender_and_borrower_both_may_revoke_what_was_approved() -> None:
    start = approval_request(TREASURY)
    approved = decide(start, said(DAVE, request=start, under=lent(BOB, DAVE)))
    for who in (DAVE, BOB, OLGA):
        word = said(who, request=approved, answer=Answer.REVOKED)
        assert decide(approved, word).status is ApprovalStatus.REVOKED
    with refused_with("approval.not_allowed", approved):
        decide(approved, said(CAROL, request=approved, answer=Answer.REVOKED))


@pytest.mark.rule("AP-1")
@pytest.mark.parametrize(
    ("change", "who", "at", "code"),
    [
        ({}, CAROL, NOW, "delegation.not_found"),
        ({}, replace(DAVE, kind=PrincipalKind.AGENT), NOW, "delegation.not_found"),
        ({}, replace(DAVE, tenant=TenantId("other")), NOW, "delegation.not_found"),
        ({"starts_at": LATER}, DAVE, NOW, "delegation.not_current"),
        ({"ends_at": LATER}, DAVE, LATER, "delegation.not_current"),
        ({"capabilities": ("refunds.*", "pay")}, DAVE, NOW, "delegation.out_of_scope"),
        ({"max_risk": Risk.LOW}, DAVE, NOW, "delegation.out_of_scope"),
    ],
)
def test_a_delegation_lends_nothing_outside_its_bounds(
    change: dict[str, object], who: Principal, at: object, code: str
) -> None:
    delegation = lent(BOB, DAVE, **change)
    with refused_with(code, delegation):
        check_lends(delegation, who, CapabilityId("payments.charge"), Risk.MEDIUM, at)  # type: ignore[arg-type]  # a table of instants


@pytest.mark.parametrize("pattern", ["*", "payments.*", "payments.charge", "*.charge", "p*e"])
@pytest.mark.parametrize("risk", [Risk.LOW, Risk.MEDIUM, Risk.HIGH])
def test_a_delegation_reaches_as_far_as_it_says(pattern: str, risk: Risk) -> None:
    delegation = lent(BOB, DAVE, capabilities=("other.*", pattern), max_risk=Risk.HIGH)
    check_lends(delegation, DAVE, CapabilityId("payments.charge"), risk, NOW)


@pytest.mark.rule("AP-1")
@pytest.mark.parametrize(
    ("by", "change", "code"),
    [
        (BOB, {"delegate": BOB.ref}, "delegation.to_oneself"),
        (BOB, {"delegate": principal("local:Bob").ref}, "delegation.to_oneself"),
        (OLGA, {"delegate": OLGA.ref}, "delegation.to_oneself"),
        (CAROL, {}, "delegation.not_allowed"),
        (replace(OLGA, tenant=TenantId("other")), {}, "delegation.not_allowed"),
        (replace(BOB, kind=PrincipalKind.RECOVERY), {}, "delegation.not_allowed"),
        (BOB, {"ends_at": NOW}, "delegation.span_invalid"),
        (BOB, {"starts_at": LATER, "ends_at": LATER}, "delegation.span_invalid"),
        (BOB, {"ends_at": NOW + LONGEST + timedelta(seconds=1)}, "delegation.span_invalid"),
        (BOB, {"capabilities": ()}, "delegation.scope_invalid"),
        (BOB, {"capabilities": ("[a-z]*",)}, "delegation.scope_invalid"),
        (BOB, {"capabilities": ("?",)}, "delegation.scope_invalid"),
        (BOB, {"capabilities": ("a",) * 51}, "delegation.scope_invalid"),
    ],
)
def test_what_is_no_sound_delegation_is_refused(
    by: Principal, change: dict[str, object], code: str
) -> None:
    with refused_with(code):
        lend(DelegationId("del_1"), BOB, lending(DAVE, **change), by, NOW)


@pytest.mark.rule("AP-1")
def test_an_operator_lends_the_word_of_somebody_absent_and_is_named() -> None:
    delegation = lend(DelegationId("del_1"), BOB, lending(DAVE), OLGA, NOW)
    assert (delegation.delegator, delegation.made_by) == (BOB.ref, OLGA.ref)
    with refused_with("approval.separation_of_duties"):
        yes(approval_request(TREASURY, requester=BOB.ref), DAVE, delegation)


@pytest.mark.rule("AP-4")
def test_delegators_and_operators_revoke_a_delegation_once() -> None:
    delegation = lent(BOB, DAVE)
    for who in (DAVE, CAROL):
        with refused_with("delegation.not_allowed", delegation):
            revoke(delegation, who, "", LATER)
    with refused_with("delegation.not_found"):
        revoke(delegation, replace(OLGA, tenant=TenantId("other")), "", LATER)
    for who in (BOB, OLGA):
        revoked = revoke(delegation, who, "back again", LATER)
        assert (revoked.revision, revoked.revoked_by, revoked.revoked_at) == (2, who.ref, LATER)
        assert revoked.revocation == "back again"
        with refused_with("delegation.revoked", revoked):
            revoke(revoked, who, "", LATER)
        with refused_with("delegation.revoked"):
            yes(approval_request(TREASURY), DAVE, revoked)


@pytest.mark.rule("TX-LEASE-3")
def test_a_restore_takes_back_what_lends_still_and_nothing_else() -> None:
    delegation = lent(BOB, DAVE, ends_at=LATER)
    taken = void(delegation, OLGA.ref, "restored", NOW)
    assert taken is not None
    assert (taken.revocation, taken.revoked_by, taken.revision) == ("restored", OLGA.ref, 2)
    assert void(taken, OLGA.ref, "restored", NOW) is None
    assert void(delegation, OLGA.ref, "restored", LATER) is None


def test_a_delegation_lends_what_its_delegator_holds_now() -> None:
    now = renewed(lent(BOB, DAVE), replace(BOB, roles=("clerk",), scopes=(), persons=("robert",)))
    assert (now.roles, now.groups, now.may_approve) == (("clerk",), ("legal",), False)
    assert now.delegator_names == ("bob", "robert")


# ── when an approval is used ─────────────────────────────────────────────────────────────────────


@pytest.mark.rule("AP-4", "AP-5")
def test_an_approval_stands_only_while_those_who_gave_it_could_give_it_again() -> None:
    policy = ApprovalPolicy(rule=Quorum(2, ByGroup("legal")))
    request = approval_request(policy)
    for who in (BOB, CAROL):
        request = decide(request, said(who, request=request))
    one, other = request.decisions
    check_still_granted(request, [one, other], ())
    lost_group = replace(other, groups=())
    now_alice = replace(other, names=("alice", "carol"))
    one_person = replace(other, names=("bob", "carol"))
    for standing in ([one], [], [one, lost_group], [one, now_alice], [one, one_person]):
        with refused_with("approval.no_longer_granted", request):
            check_still_granted(request, standing, ())
    with refused_with("approval.no_longer_granted", request):
        check_still_granted(request, [one, other], ("carol",))
