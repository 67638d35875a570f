"""Approvals against a model: no history makes one usable that its policy does not grant.

The model keeps only what matters: who said yes, whether anybody or anything closed the request, and
the time. It knows the algebra of rules by its definition, from the principals themselves.
"""

from collections.abc import Callable
from datetime import timedelta
from itertools import combinations
from typing import NamedTuple, assert_never

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
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
from amends.contracts.approvals import Answer, ApprovalRequest, ApprovalStatus
from amends.contracts.enums import PrincipalKind
from amends.contracts.errors import AmendsError
from amends.contracts.ids import DecisionId, PrincipalId, TenantId
from amends.contracts.principals import APPROVE_SCOPE, OPERATE_SCOPE, Principal
from amends.governance.approvals import (
    Word,
    consume,
    decide,
    expire,
    freeze,
    may_decide,
    release,
    withdraw,
)
from amends.testing.builders import NOW, approval_request, principal

PEOPLE = (
    principal("alice", scopes=(APPROVE_SCOPE,), roles=("treasury",)),
    principal("alice", kind=PrincipalKind.OPERATOR, groups=("legal",)),
    principal("bob", scopes=(APPROVE_SCOPE,)),
    principal("carol", scopes=("*",), roles=("treasury",)),
    principal("dave", scopes=(), groups=("legal",)),
    principal("erin", roles=("treasury",), groups=("legal",)),
    principal("erin", kind=PrincipalKind.SERVICE, roles=("treasury",)),
    principal("olga", kind=PrincipalKind.OPERATOR, scopes=()),
    principal("omar", scopes=(OPERATE_SCOPE,)),
    principal("olga", kind=PrincipalKind.OPERATOR, tenant=TenantId("other")),
)

leaves: st.SearchStrategy[ApprovalRule] = st.one_of(
    st.builds(ByPrincipal, st.lists(st.sampled_from(["bob", "erin"]), max_size=2).map(tuple)),
    st.just(ByRole("treasury")),
    st.just(ByGroup("legal")),
    st.just(ByTenantPolicy()),
)
rules: st.SearchStrategy[ApprovalRule] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(AllOf, st.lists(inner, max_size=3).map(tuple)),
        st.builds(AnyOf, st.lists(inner, max_size=3).map(tuple)),
        st.builds(Quorum, st.integers(-1, 3), inner),
    ),
    max_leaves=4,
)
policies = st.builds(
    ApprovalPolicy,
    rule=rules,
    minimum_distinct=st.integers(0, 3),
    separation_of_duties=st.booleans(),
    evidence=st.sampled_from([(), ("ticket",)]),
    ttl_ms=st.just(60_000),
)


class Chance(NamedTuple):
    """What chance decides in one step."""

    who: Principal
    answer: Answer
    yes: bool
    seconds: int


def fits(rule: ApprovalRule, who: Principal) -> bool:
    """Whether a selector means this principal, by its definition."""
    match rule:
        case ByPrincipal(ids):
            return who.id in ids
        case ByRole(role):
            return role in who.roles
        case ByGroup(group):
            return group in who.groups
        case ByTenantPolicy():
            return APPROVE_SCOPE in who.scopes or who.kind is PrincipalKind.OPERATOR
        case AllOf() | AnyOf() | Quorum():
            raise AssertionError("no selector")
        case _:
            assert_never(rule)


def met(rule: ApprovalRule, people: tuple[Principal, ...]) -> bool:
    """Whether these people together meet a rule, by its definition."""
    match rule:
        case AllOf(parts):
            return len(parts) > 0 and not [part for part in parts if not met(part, people)]
        case AnyOf(parts):
            return len([part for part in parts if met(part, people)]) > 0
        case Quorum(n, of):
            able = [one for one in people if met(of, (one,))]
            return n >= 1 and any(True for _ in combinations(able, n))
        case ByPrincipal() | ByRole() | ByGroup() | ByTenantPolicy():
            return len([one for one in people if fits(rule, one)]) > 0
        case _:
            assert_never(rule)


class Desk:
    """A request, and what the model knows of it."""

    def __init__(self, policy: ApprovalPolicy) -> None:
        self.policy = policy
        self.request: ApprovalRequest = approval_request(policy)
        self.now = NOW
        self.said_yes: dict[PrincipalId, Principal] = {}
        self.closed = False
        self.uses = 0

    def granted(self) -> bool:
        """Whether the request may be used now, by what the model knows."""
        people = tuple(self.said_yes.values())
        return (
            not self.closed
            and self.request.frozen is None
            and self.uses == 0
            and self.now < self.request.expires_at
            and len(people) >= self.policy.minimum_distinct
            and met(self.policy.rule, people)
        )

    def become(self, after: ApprovalRequest) -> None:
        assert after.revision == self.request.revision + 1
        assert after.decisions[: len(self.request.decisions)] == self.request.decisions
        self.request = after

    # ── steps ────────────────────────────────────────────────────────────────────────────────────

    def somebody_decides(self, chance: Chance) -> None:
        word = Word(
            decision_id=DecisionId("dec"),
            answer=chance.answer,
            principal=chance.who,
            reason="",
            evidence={"ticket": "7"} if chance.yes else {},
            seen_revision=self.request.revision,
            now=self.now,
        )
        open_, before = self.open(), msgspec.json.encode(self.request)
        counts = may_decide(self.request, chance.who, self.now)
        try:
            after = decide(self.request, word)
        except AmendsError:
            assert msgspec.json.encode(self.request) == before
            return
        self.become(after)
        assert open_
        if chance.answer is Answer.APPROVED:
            self._says_yes(chance, counts=counts)
        else:
            self.closed = True

    def open(self) -> bool:
        return (
            not self.closed
            and self.uses == 0
            and self.now < self.request.expires_at
            and self.request.frozen is None
        )

    def _says_yes(self, chance: Chance, *, counts: bool) -> None:
        who = chance.who
        assert counts
        assert who.tenant == self.request.tenant
        assert who.id not in self.said_yes
        assert who.id != self.request.requester.id or not self.policy.separation_of_duties
        assert chance.yes or not self.policy.evidence
        self.said_yes[who.id] = who

    def somebody_decides_on_what_is_past(self, chance: Chance) -> None:
        word = Word(
            decision_id=DecisionId("dec"),
            answer=chance.answer,
            principal=chance.who,
            reason="",
            evidence={"ticket": "7"},
            seen_revision=self.request.revision - 1,
            now=self.now,
        )
        with pytest.raises(AmendsError):
            decide(self.request, word)

    def time_passes(self, chance: Chance) -> None:
        self.now += timedelta(seconds=chance.seconds)

    def it_expires_or_is_withdrawn(self, chance: Chance) -> None:
        if self.request.frozen is not None:
            return
        after = withdraw(self.request, self.now) if chance.yes else expire(self.request, self.now)
        if after is not None:
            self.closed = True
            self.become(after)

    def the_store_is_restored(self, chance: Chance) -> None:
        after = freeze(self.request, "restored", self.now)
        if chance.yes:
            after = release(self.request, self.now)
        if after is not None:
            self.become(after)

    def somebody_uses_it_for_something_else(self, chance: Chance) -> None:
        other = replace(self.policy, reason="tighter") if chance.yes else self.policy
        with pytest.raises(AmendsError):
            consume(self.request, "hash" if chance.yes else "other", other, self.now)

    def somebody_uses_it(self, _chance: Chance) -> None:
        granted = self.granted()
        try:
            used = consume(self.request, "hash", self.policy, self.now)
        except AmendsError:
            assert not granted
            return
        assert granted
        self.become(used)
        self.uses += 1


STEPS: tuple[Callable[[Desk, Chance], None], ...] = (
    Desk.somebody_decides,
    Desk.somebody_decides,
    Desk.somebody_decides,
    Desk.somebody_decides_on_what_is_past,
    Desk.time_passes,
    Desk.it_expires_or_is_withdrawn,
    Desk.the_store_is_restored,
    Desk.somebody_uses_it_for_something_else,
    Desk.somebody_uses_it,
)
chances = st.builds(
    Chance,
    who=st.sampled_from(PEOPLE),
    answer=st.sampled_from([Answer.APPROVED, Answer.APPROVED, Answer.DENIED, Answer.REVOKED]),
    yes=st.booleans(),
    seconds=st.sampled_from([1, 5, 59, 60]),
)
histories = st.lists(st.tuples(st.sampled_from(STEPS), chances), max_size=25)


@pytest.mark.rule("AP-1", "AP-3", "AP-4")
@settings(max_examples=6 * settings().max_examples)
@given(policies, histories)
def test_no_history_makes_an_approval_usable_that_its_policy_does_not_grant(
    policy: ApprovalPolicy, history: list[tuple[Callable[[Desk, Chance], None], Chance]]
) -> None:
    """And every one that it does grant can be used, once."""
    desk = Desk(policy)
    for step, chance in history:
        step(desk, chance)
        assert (desk.request.status is ApprovalStatus.CONSUMED) == (desk.uses == 1)
        assert desk.uses <= 1


@pytest.mark.rule("AP-1")
@settings(max_examples=4 * settings().max_examples)
@given(policies, st.lists(st.sampled_from(PEOPLE[2:6] + PEOPLE[7:9]), unique_by=lambda p: p.id))
def test_yes_by_enough_of_the_right_people_and_nothing_else_grants(
    policy: ApprovalPolicy, people: list[Principal]
) -> None:
    desk = Desk(policy)
    for who in people:
        desk.somebody_decides(Chance(who, Answer.APPROVED, True, 0))
    assert (desk.request.status is ApprovalStatus.APPROVED) == desk.granted()
    desk.somebody_uses_it(Chance(people[0] if people else PEOPLE[2], Answer.APPROVED, True, 0))
