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
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
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
TTL_S = 600
POLICY = ApprovalPolicy(rule=Quorum(2, ByRole("treasury")), ttl_ms=TTL_S * 1000)


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

people = st.sampled_from([one for one, _ in PEOPLE])
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
        self.bench = Workbench(served=[self.desk.served(approval=POLICY)], principals=self.staff)
        self.run(self.bench.__aenter__())
        self.requests: dict[str, tuple[str, datetime]] = {}
        self.yes: dict[str, list[Yes]] = {id_: [] for id_ in ACTIONS}
        self.closed: set[str] = set()
        self.ran: list[str] = []
        self.lent: dict[str, Lent] = {}
        self.revoked: set[str] = set()

    def run(self, work: Awaitable[T]) -> T:
        async def whole() -> T:
            return await work

        return self.runner.run(whole())

    def teardown(self) -> None:
        self.run(self.bench.__aexit__(None, None, None))
        self.runner.close()

    # ── what the model says ──────────────────────────────────────────────────────────────────────

    def allowed(self, id_: str) -> bool:
        """Whether this action may run now: two words of two humans who did not ask."""
        if id_ in self.closed or id_ in self.ran or id_ not in self.requests:
            return False
        if self.bench.clock() >= self.requests[id_][1]:
            return False
        voices = [self.humans(one) for one in self.yes[id_] if self.counts(one)]
        return any(one.isdisjoint(other) for one, other in combinations(voices, 2))

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

    @rule(id_=actions, race=st.none() | st.sampled_from(["revoke", "lose", "end"]), who=people)
    def goes_on(self, id_: str, race: str | None, who: Principal) -> None:
        if race is not None:
            before_next_write(self.bench, lambda: self.happens(race, id_, who))
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

    async def happens(self, race: str, id_: str, who: Principal) -> None:
        """Somebody takes a power away between the claim's reading and its writing."""
        match race:
            case "revoke" if id_ in self.requests:
                await self._says(self.requests[id_][0], "revoke", id_, who, None)
            case "end":
                for name in sorted(self.lent.keys() - self.revoked)[:1]:
                    await self.bench.olga.revoke_delegation(name)
                    self.revoked.add(name)
            case _:
                pass

    @rule(
        id_=actions,
        who=people,
        saying=st.sampled_from(["approve", "approve", "approve", "deny", "revoke"]),
        chance=st.integers(0, 3),
    )
    def somebody_decides(self, id_: str, who: Principal, saying: str, chance: int) -> None:
        if id_ not in self.requests:
            return
        mine = sorted(name for name in self.lent if self.lent[name].to == who.ref)
        under = mine[chance % len(mine)] if mine and chance else None
        self.run(self._says(self.requests[id_][0], saying, id_, who, under))

    async def _says(
        self, approval_id: str, saying: str, id_: str, who: Principal, under: str | None
    ) -> None:
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

    @rule(by=people, to=people, minutes=st.integers(1, 15))
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

    @rule(who=people, how=st.sampled_from(["role", "gone", "back"]))
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

    @rule(seconds=st.sampled_from([1, 60, 300]))
    def time_passes(self, seconds: int) -> None:
        self.bench.wait(seconds)
        self.run(self.bench.sweep())

    @rule(id_=actions)
    def the_requester_sends_something_else(self, id_: str) -> None:
        if id_ in self.requests:
            with refused_with("action.id_conflict"):
                self.run(ask(self.bench, action(id=id_, input={"amount": 501})))

    @rule()
    def the_process_dies(self) -> None:
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
