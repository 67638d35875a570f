"""No history lets an action run that no current approval of exactly that action allows (AP-*).

The real engine over a real store, with people who decide, lend their word, take it back, lose their
roles and go; with edits, expiries and races between a claim and whoever takes a power away. A
handler that is entered asks the model, which knows humans and not names, whether that was allowed.
"""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import combinations
from typing import NamedTuple, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from amends.contracts.approval_policy import ApprovalPolicy, ByRole, Quorum
from amends.contracts.approvals import ApprovalRequest, ApprovalStatus
from amends.contracts.enums import PrincipalKind
from amends.contracts.errors import AmendsError
from amends.contracts.ids import PrincipalId, TenantId
from amends.contracts.principals import Principal, PrincipalRef
from amends.testing.refusals import refused_with
from amends.testing.workbench import ALICE, OLGA, TENANT, Workbench
from tests.unit.runtime.desk import Desk, action, ask, before_next_write

T = TypeVar("T")
TTL_S = 3600


def _one(id: str, human: str, kind: PrincipalKind = PrincipalKind.USER) -> tuple[Principal, str]:
    persons = () if id.casefold().removeprefix("local:") == human else (human,)
    made = Principal(
        id=PrincipalId(id), tenant=TENANT, kind=kind, roles=("treasury",), persons=persons
    )
    return made, human


PEOPLE = [
    _one("alice", "alice"),
    _one("local:Alice", "alice", PrincipalKind.OPERATOR),
    _one("alice-bot", "alice", PrincipalKind.AGENT),
    _one("bob", "bob"),
    _one("BOB", "bob", PrincipalKind.OPERATOR),
    _one("carol", "carol"),
    _one("carols-bot", "carol", PrincipalKind.SERVICE),
    _one("dave", "dave"),
]
HUMAN = {one.ref: human for one, human in PEOPLE}
ACTIONS = ("act_1", "act_2")

BY_ID = {one.id: one for one, _ in PEOPLE}
people = st.sampled_from([one for one, _ in PEOPLE])
able = st.sampled_from([BY_ID[PrincipalId(id_)] for id_ in ("bob", "carol", "dave")]) | people
"""Mostly those who can decide on what Alice asks for; now and then anybody."""

actions = st.sampled_from(ACTIONS)


class Staff:
    """Who is there, and with which roles: the source of principals."""

    def __init__(self) -> None:
        self.now = {one.ref: one for one, _ in PEOPLE} | {ALICE.ref: PEOPLE[0][0], OLGA.ref: OLGA}

    def principal(self, tenant: TenantId, ref: PrincipalRef) -> Principal | None:
        return self.now.get(ref) if tenant == TENANT else None

    def holds(self, ref: PrincipalRef) -> bool:
        return ref in self.now and "treasury" in self.now[ref].roles


class Yes(NamedTuple):
    """One approval: who gave it, and by whose word."""

    by: PrincipalRef
    under: str | None


class Lent(NamedTuple):
    """A delegation as the model knows it."""

    by: PrincipalRef
    to: PrincipalRef
    until: datetime


class Approvals(RuleBasedStateMachine):
    """Two actions that wait for two people each."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.staff = Staff()
        self.desk = Desk()
        self.needed = 2
        self.bench = Workbench(served=[self.desk.served()], principals=self.staff)
        self.run(self.bench.__aenter__())
        self.requests: dict[str, tuple[str, datetime]] = {}
        self.yes: dict[str, list[Yes]] = {id_: [] for id_ in ACTIONS}
        self.closed: set[str] = set()
        self.ran: list[str] = []
        self.lent: dict[str, Lent] = {}
        self.revoked: set[str] = set()

    @initialize(needed=st.integers(1, 2))
    def alice_asks(self, needed: int) -> None:
        self.needed = needed
        rule = Quorum(needed, ByRole("treasury"))
        policy = ApprovalPolicy(rule=rule, ttl_ms=TTL_S * 1000)
        self.run(self.bench.restart([self.desk.served(approval=policy)]))
        for id_ in ACTIONS:
            self.goes_on(id_, None)

    def run(self, work: Awaitable[T]) -> T:
        async def whole() -> T:
            return await work

        return self.runner.run(whole())

    def teardown(self) -> None:
        self.run(self.bench.__aexit__(None, None, None))
        self.runner.close()

    # ── what the model says ──────────────────────────────────────────────────────────────────────

    def allowed(self, id_: str) -> bool:
        """Whether this action may run now: by words of enough humans, none of whom asked."""
        if id_ in self.closed or id_ in self.ran or id_ not in self.requests:
            return False
        if self.bench.clock() >= self.requests[id_][1]:
            return False
        voices = [self.humans(one) for one in self.yes[id_] if self.counts(one)]
        return any(
            len(frozenset().union(*some)) == sum(map(len, some))
            for some in combinations(voices, self.needed)
        )

    def counts(self, yes: Yes) -> bool:
        if yes.by not in self.staff.now or "alice" in self.humans(yes):
            return False
        if yes.under is None:
            return self.staff.holds(yes.by)
        lent = self.lent[yes.under]
        alive = yes.under not in self.revoked and self.bench.clock() < lent.until
        return alive and self.staff.holds(lent.by)

    def humans(self, yes: Yes) -> frozenset[str]:
        lender = [] if yes.under is None else [HUMAN[self.lent[yes.under].by]]
        return frozenset([HUMAN[yes.by], *lender])

    # ── steps ────────────────────────────────────────────────────────────────────────────────────

    @rule(id_=actions, race=st.sampled_from([None, None, "revoke", "end"]))
    def goes_on(self, id_: str, race: str | None) -> None:
        if race is not None:
            before_next_write(self.bench, lambda: self.happens(race, id_))
        entered = len(self.desk.seen)
        with suppress(AmendsError):
            result = self.run(ask(self.bench, action(id=id_)))
            self.waits(id_, result.approval_id)
        if len(self.desk.seen) > entered:
            assert self.allowed(id_), "it ran, and nobody had allowed it"
            self.ran.append(id_)
        elif race is None:
            assert not self.allowed(id_), "it was allowed, and did not run"
        self.bench.store.__dict__.pop("commit", None)

    def waits(self, id_: str, approval_id: str | None) -> None:
        if approval_id is not None and id_ not in self.requests:
            stored = self.run(self.bench.store.get(ApprovalRequest, TENANT, approval_id))
            assert stored is not None
            self.requests[id_] = (approval_id, stored.document.expires_at)

    async def happens(self, race: str, id_: str) -> None:
        """Somebody takes a power away between the claim's reading and its writing."""
        if race == "revoke":
            givers = [one.by for one in self.yes[id_]]
            who = self.staff.now.get(givers[0]) if givers else None
            if who is not None:
                await self._says("revoke", id_, who, None)
        else:
            used = {one.under for one in self.yes[id_] if one.under is not None}
            for name in sorted(used - self.revoked)[:1]:
                await self.bench.olga.revoke_delegation(name)
                self.revoked.add(name)

    @rule(id_=actions, who=able, chance=st.integers(0, 3))
    def somebody_approves(self, id_: str, who: Principal, chance: int) -> None:
        mine = sorted(name for name, one in self.lent.items() if one.to == who.ref)
        under = mine[chance % len(mine)] if mine and chance else None
        self.run(self._says("approve", id_, who, under))

    @rule(id_=actions, who=able, chance=st.integers(0, 3))
    def somebody_else_approves(self, id_: str, who: Principal, chance: int) -> None:
        self.somebody_approves(id_, who, chance)

    @rule(id_=actions, by=able, to=able, minutes=st.integers(1, 30))
    def somebody_approves_by_a_word_lent_just_now(
        self, id_: str, by: Principal, to: Principal, minutes: int
    ) -> None:
        before = set(self.lent)
        self.somebody_lends_the_word(by, to, minutes)
        for name in self.lent.keys() - before:
            self.run(self._says("approve", id_, to, name))

    @rule(id_=actions, who=able, saying=st.sampled_from(["deny", "revoke", "revoke"]))
    def somebody_says_no(self, id_: str, who: Principal, saying: str) -> None:
        self.run(self._says(saying, id_, who, None))

    async def _says(self, saying: str, id_: str, who: Principal, under: str | None) -> None:
        approval_id = self.requests[id_][0]
        desk = self.bench.acting_as(who)
        try:
            match saying:
                case "approve":
                    await desk.approve(approval_id, under=under)
                case "deny":
                    await desk.deny(approval_id, under=under)
                case _:
                    await desk.revoke(approval_id)
        except AmendsError:
            return
        if saying == "approve":
            self.yes[id_].append(Yes(who.ref, under))
        else:
            self.closed.add(id_)

    @rule(by=able, to=able, minutes=st.integers(1, 30))
    def somebody_lends_the_word(self, by: Principal, to: Principal, minutes: int) -> None:
        until = self.bench.clock() + timedelta(minutes=minutes)
        with suppress(AmendsError):
            made = self.run(self.bench.acting_as(by).delegate(to, ends_at=until))
            assert HUMAN[by.ref] != HUMAN[to.ref]
            self.lent[made.delegation_id] = Lent(by.ref, to.ref, until)

    @rule(chance=st.integers(0, 20))
    def a_delegation_is_revoked(self, chance: int) -> None:
        left = sorted(self.lent.keys() - self.revoked)
        if left:
            name = left[chance % len(left)]
            self.run(self.bench.olga.revoke_delegation(name))
            self.revoked.add(name)

    @rule(who=able, how=st.sampled_from(["role", "gone", "back", "back"]))
    def the_staff_changes(self, who: Principal, how: str) -> None:
        if who.ref == ALICE.ref:
            return
        match how:
            case "role":
                self.staff.now[who.ref] = replace(who, roles=())
            case "gone":
                self.staff.now.pop(who.ref, None)
            case _:
                self.staff.now[who.ref] = who

    @rule(id_=actions, what=st.sampled_from([1, 60, 600, "edit", "crash"]))
    def the_world_goes_on(self, id_: str, what: int | str) -> None:
        match what:
            case int(seconds):
                self.bench.wait(seconds)
                self.run(self.bench.sweep())
            case "edit":
                with refused_with("action.id_conflict"):
                    self.run(ask(self.bench, action(id=id_, input={"amount": 501})))
            case _:
                self.run(self.bench.restart())

    # ── what always holds ────────────────────────────────────────────────────────────────────────

    @invariant()
    def each_action_ran_once_at_most_and_used_its_own_approval(self) -> None:
        assert len(set(self.ran)) == len(self.ran) == len(self.desk.seen)
        for id_ in self.ran:
            stored = self.run(self.bench.store.get(ApprovalRequest, TENANT, self.requests[id_][0]))
            assert stored is not None
            assert stored.document.status is ApprovalStatus.CONSUMED
            assert stored.document.action_id == id_


TestApprovals = Approvals.TestCase
TestApprovals.settings = settings(stateful_step_count=40)
TestApprovals.pytestmark = [  # type: ignore[attr-defined]  # made by Hypothesis
    pytest.mark.rule("AP-1", "AP-3", "AP-4", "AP-5")
]
