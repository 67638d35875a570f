"""Rules of a file at work: limits in the claim, frozen plans, and rules that change on the way."""

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path

import pytest
from msgspec.structs import replace

from amends.app.amends import Amends
from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.approvals import ApprovalRequest, ApprovalStatus
from amends.contracts.declarations import ExecutionContract
from amends.contracts.documents import ActionDocument, LimitUsage, Refusal
from amends.contracts.enums import Freeze, Mode, RetrySafety
from amends.contracts.errors import AmendsError
from amends.contracts.outcomes import NotApplied
from amends.contracts.principals import Caller
from amends.governance.policy import PolicyDecision, PolicyQuestion
from amends.governance.rule_policy import RulePolicy
from amends.governance.rules import Effect, Limit, Match, Per, Rule
from amends.runtime.engine import Engine
from amends.stores.port import Stored
from amends.testing import faults
from amends.testing.refusals import refused_with
from amends.testing.workbench import ALICE, CHARGE, TENANT, Workbench
from amends.wiring.cel import Cel
from amends.wiring.opening import Runtime, Settings
from tests.unit.runtime.desk import DONE, LATER, Desk, action, ask

CEL = Cel()
ALLOW = Rule(id="allow", effect=Effect.ALLOW)
HOUR = 3_600


class Rules:
    """A policy whose rules a test can change, as a file's do."""

    def __init__(self, *rules: Rule) -> None:
        self._number = 0
        self.meanwhile: Callable[[], None] | None = None
        self.change(*rules)

    def change(self, *rules: Rule) -> None:
        self._number += 1
        self._rules = RulePolicy(rules, CEL, f"rules-{self._number}")

    @property
    def revision(self) -> str:
        return self._rules.revision

    def decide(self, question: PolicyQuestion) -> PolicyDecision:
        answer = self._rules.decide(question)
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        return answer


def limiting(maximum: int, *, of: str | None = None, per: Per = Per.PRINCIPAL) -> Rule:
    limit = Limit(maximum=Decimal(maximum), within_ms=HOUR * 1000, per=per, of=of)
    return Rule(id="few", limits=(limit,), match=Match(mode=(Mode.EXECUTE, Mode.COMMIT)))


async def usages(bench: Workbench) -> list[LimitUsage]:
    page = await bench.store.list(LimitUsage, TENANT)
    return [one.document for one in page.items if isinstance(one, Stored)]


# ── limits ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("PO-2")
async def test_a_limit_holds_until_its_window_has_passed() -> None:
    async with Workbench(policy=Rules(ALLOW, limiting(2))) as bench:
        for _ in range(2):
            await bench.alice.execute(CHARGE, {"amount": 1})
        with refused_with("policy.limit_exceeded") as caught:
            await bench.alice.execute(CHARGE, {"amount": 1}, action_id="act_3")
        assert bench.provider.charges == 2
        assert caught.error.details["rule"] == "few"
        wait_ms = caught.error.details["retry_after_ms"]
        assert isinstance(wait_ms, int)
        bench.wait(wait_ms / 1000)
        done = await bench.alice.execute(CHARGE, {"amount": 1}, action_id="act_3")
        assert done.status == "committed"
        assert await bench.check() == []


@pytest.mark.rule("PO-3")
async def test_a_refused_claim_keeps_which_rule_refused_it() -> None:
    async with Workbench(policy=Rules(ALLOW, limiting(1))) as bench:
        await bench.alice.execute(CHARGE, {"amount": 1})
        with refused_with("policy.limit_exceeded"):
            await bench.alice.execute(CHARGE, {"amount": 1}, action_id="act_2")
        stored = await bench.store.get(ActionDocument, TENANT, "act_2")
        assert stored is not None
        assert stored.document.verdicts[-1].rules == ("few",)


@pytest.mark.rule("PO-2")
async def test_a_limit_of_value_adds_up_exactly() -> None:
    async with Workbench(policy=Rules(ALLOW, limiting(1000, of="/amount"))) as bench:
        await bench.alice.execute(CHARGE, {"amount": 999})
        with refused_with("policy.limit_exceeded"):
            await bench.alice.execute(CHARGE, {"amount": 2})
        await bench.alice.execute(CHARGE, {"amount": 1})
        with refused_with("policy.limit_too_small"):
            await bench.alice.execute(CHARGE, {"amount": 1001})
        assert bench.provider.charges == 2


async def test_each_principal_has_its_own_unless_the_tenant_shares() -> None:
    carol = ALICE.named("carol", tenant=TENANT)
    async with Workbench(policy=Rules(ALLOW, limiting(1))) as bench:
        for who in (bench.alice, bench.acting_as(carol)):
            await who.execute(CHARGE, {"amount": 1})
    async with Workbench(policy=Rules(ALLOW, limiting(1, per=Per.TENANT))) as bench:
        await bench.alice.execute(CHARGE, {"amount": 1})
        with refused_with("policy.limit_exceeded"):
            await bench.acting_as(carol).execute(CHARGE, {"amount": 1})
        assert [one.subject for one in await usages(bench)] == ["tenant"]


@pytest.mark.rule("PO-2")
async def test_an_action_is_counted_once_however_often_it_comes() -> None:
    desk = Desk([NotApplied(error=LATER), DONE])
    served = [desk.served(execution=ExecutionContract(retry_safety=RetrySafety.SAFE))]
    async with Workbench(served=served, policy=Rules(ALLOW, limiting(1))) as bench:
        asked = action(id="act_1", transaction="txn_1", key="order-7")
        ends = [(await ask(bench, asked)).status for _ in range(3)]
        assert ends == ["failed", "committed", "committed"]
        assert len(desk.seen) == 2
        [usage] = await usages(bench)
        assert [span.amount for span in usage.spans] == ["1"]


async def test_previews_take_nothing_and_a_commit_does() -> None:
    async with Workbench(policy=Rules(ALLOW, limiting(1))) as bench:
        plans = [await bench.alice.plan(CHARGE, {"amount": 1}) for _ in range(2)]
        await bench.alice.dry_run(CHARGE, {"amount": 1})
        assert await usages(bench) == []
        await bench.alice.commit(plans[0])
        with refused_with("policy.limit_exceeded"):
            await bench.alice.commit(plans[1])
        assert (await bench.record(plans[1])).status == "planned"


async def test_a_request_that_waits_for_people_takes_nothing_yet() -> None:
    approve = Rule(id="ask", effect=Effect.REQUIRE_APPROVAL, approval=ApprovalPolicy())
    async with Workbench(policy=Rules(approve, limiting(1))) as bench:
        waiting = await bench.alice.execute(CHARGE, {"amount": 1})
        assert await usages(bench) == []
        await bench.bob.approve(waiting)
        await bench.alice.resume(waiting)
        assert len(await usages(bench)) == 1


@pytest.mark.rule("PO-2")
async def test_many_at_once_never_take_more_than_the_limit() -> None:
    async with Workbench(policy=Rules(ALLOW, limiting(3))) as bench:

        async def one(number: int) -> str:
            try:
                done = await bench.alice.execute(CHARGE, {"amount": 1}, action_id=f"act_{number}")
            except AmendsError as error:
                return error.code
            return done.status.value

        ends = await asyncio.gather(*(one(number) for number in range(12)))
        assert sorted(ends) == ["committed"] * 3 + ["policy.limit_exceeded"] * 9
        assert bench.provider.charges == 3


@pytest.mark.rule("PO-2")
async def test_two_engines_over_one_file_share_what_is_left(tmp_path: Path) -> None:
    async with Workbench(policy=Rules(ALLOW, limiting(3)), file=tmp_path / "a.db") as bench:
        both = (bench.alice, another_engine(bench, 1))

        async def one(number: int) -> str:
            try:
                done = await both[number % 2].execute(CHARGE, {"amount": 1})
            except AmendsError as error:
                return error.code
            return done.status.value

        ends = await asyncio.gather(*(one(number) for number in range(10)))
        assert sorted(ends) == ["committed"] * 3 + ["policy.limit_exceeded"] * 7
        assert bench.provider.charges == 3


@pytest.mark.rule("PO-2")
@pytest.mark.parametrize("engines", [1, 4])
async def test_nobody_is_turned_away_while_a_limit_has_room_however_many_come(
    place: Path | None, engines: int
) -> None:
    """All of them change one document, far more often than one request begins anew."""
    async with Workbench(policy=Rules(ALLOW, limiting(1000)), file=place) as bench:
        doors = [bench.alice, *(another_engine(bench, number) for number in range(1, engines))]
        asked = [doors[number % engines].execute(CHARGE, {"amount": 1}) for number in range(64)]
        ends = await asyncio.gather(*asked)
        assert {done.status for done in ends} == {"committed"}
        [usage] = await usages(bench)
        assert sum(int(span.amount) for span in usage.spans) == 64


def another_engine(bench: Workbench, number: int) -> Amends:
    """Alice at another engine over the same store, which takes no turns with the bench's."""
    environment = replace(bench.engine.environment, owner=f"beside-{number}")
    return Amends(
        Runtime(Engine(environment), bench.signer, Settings(recover=False)), Caller(principal=ALICE)
    )


@pytest.mark.rule("PO-2")
async def test_two_limits_are_waited_for_in_one_order() -> None:
    both = (limiting(1000), replace(limiting(1000, per=Per.TENANT), id="all"))
    async with Workbench(policy=Rules(ALLOW, *both)) as bench:
        carol = bench.acting_as(ALICE.named("carol", tenant=TENANT))
        asked = [who.execute(CHARGE, {"amount": 1}) for who in (bench.alice, carol) * 8]
        async with asyncio.timeout(30):
            ends = await asyncio.gather(*asked)
        assert {done.status for done in ends} == {"committed"}
        counted = {
            one.subject: sum(int(span.amount) for span in one.spans) for one in await usages(bench)
        }
        assert sorted(counted.values()) == [8, 8, 16]


@pytest.mark.rule("PO-1")
async def test_an_amount_that_is_none_is_denied_and_nothing_is_taken() -> None:
    async with Workbench(policy=Rules(ALLOW, limiting(5, of="/cost"))) as bench:
        with refused_with("policy.denied") as caught:
            await bench.alice.execute(CHARGE, {"amount": 1})
        assert caught.error.details["rules"] == ["policy.amount_invalid:few"]
        assert await usages(bench) == []


# ── plans ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("PO-2", "TX-PLAN-5")
async def test_a_rule_freezes_a_plan_to_the_rules_it_was_made_under() -> None:
    rules = Rules(ALLOW, Rule(id="freeze", freeze=True))
    async with Workbench(policy=rules) as bench:
        first = await bench.alice.plan(CHARGE, {"amount": 1})
        second = await bench.alice.plan(CHARGE, {"amount": 1})
        assert (await bench.record(first)).plan.freeze is Freeze.GOVERNANCE  # type: ignore[union-attr]  # it is a plan
        assert (await bench.alice.commit(first)).status == "committed"
        rules.change(ALLOW)
        with refused_with("transaction.plan_governance_changed"):
            await bench.alice.commit(second)
        free = await bench.alice.plan(CHARGE, {"amount": 1})
        rules.change(ALLOW, Rule(id="more", effect=Effect.ALLOW))
        assert (await bench.alice.commit(free)).status == "committed"


@pytest.mark.rule("PO-2")
async def test_a_rule_shortens_the_life_of_a_plan_and_never_lengthens_it() -> None:
    short = Rule(id="short", plan_ttl_ms=60_000)
    long = Rule(id="long", plan_ttl_ms=7 * 24 * HOUR * 1000)
    async with Workbench(policy=Rules(ALLOW, short, long)) as bench:
        plan = await bench.alice.plan(CHARGE, {"amount": 1})
        bench.wait(60)
        with refused_with("transaction.plan_expired"):
            await bench.alice.commit(plan)
    async with Workbench(policy=Rules(ALLOW, long)) as bench:
        plan = await bench.alice.plan(CHARGE, {"amount": 1})
        made = (await bench.record(plan)).plan
        assert made is not None
        assert (made.expires_at - made.created_at).total_seconds() == 15 * 60


# ── rules that change on the way ─────────────────────────────────────────────────────────────────

DENY = Rule(id="deny", effect=Effect.DENY)
Tail = Callable[..., Awaitable[object]]


def changing(tail: Tail, rules: Rules, *changed: Rule) -> Tail:
    """Reads the end of a chain, the last that a claim reads, while somebody changes the rules."""

    async def slept(*asked: object) -> object:
        rules.change(*changed)
        return await tail(*asked)

    return slept


@pytest.mark.rule("PO-2")
async def test_rules_that_changed_since_they_were_asked_are_asked_again_before_the_claim() -> None:
    rules = Rules(ALLOW)
    async with Workbench(policy=rules) as bench:
        rules.meanwhile = lambda: rules.change(DENY)
        with refused_with("policy.denied") as caught:
            await bench.alice.execute(CHARGE, {"amount": 1}, action_id="act_1")
        assert caught.error.details["rules"] == ["deny"]
        assert bench.provider.charges == 0
        [entry] = (await bench.store.list(Refusal, TENANT)).items
        assert isinstance(entry, Stored)
        assert [one.gate for one in entry.document.verdicts].count("policy") == 1
        assert entry.document.verdicts[-1].rules == ("deny",)


@pytest.mark.rule("PO-2")
async def test_rules_that_change_while_the_claim_is_written_are_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The process sleeps between its reading and its claim, and the rules change meanwhile."""
    rules = Rules(ALLOW)
    async with Workbench(policy=rules) as bench:
        plan = await bench.alice.plan(CHARGE, {"amount": 1})
        monkeypatch.setattr(bench.store, "tail", changing(bench.store.tail, rules, DENY))
        with refused_with("policy.denied"):
            await bench.alice.commit(plan)
        assert bench.provider.charges == 0
        assert (await bench.record(plan)).status == "planned"


@pytest.mark.rule("PO-2", "AP-4")
@pytest.mark.case("APR-09")
@pytest.mark.fault(12)
@pytest.mark.parametrize("late", [False, True], ids=["before", "while the claim is written"])
async def test_rules_that_were_tightened_after_an_approval_are_obeyed_and_leave_it_unused(
    late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    approve = Rule(id="ask", effect=Effect.REQUIRE_APPROVAL, approval=ApprovalPolicy())
    rules = Rules(approve)
    async with Workbench(policy=rules) as bench:
        waiting = await bench.alice.execute(CHARGE, {"amount": 1})
        await bench.bob.approve(waiting)
        if late:
            monkeypatch.setattr(
                bench.store, "tail", changing(bench.store.tail, rules, approve, DENY)
            )
        else:
            rules.change(approve, DENY)
        with refused_with("policy.denied"):
            await bench.alice.resume(waiting)
        assert bench.provider.charges == 0
        [request] = (await bench.store.list(ApprovalRequest, TENANT)).items
        assert isinstance(request, Stored)
        assert request.document.status is ApprovalStatus.APPROVED


async def test_rules_that_still_allow_let_it_pass_under_their_new_revision() -> None:
    rules = Rules(ALLOW)
    async with Workbench(policy=rules) as bench:
        rules.meanwhile = lambda: rules.change(ALLOW, Rule(id="more", effect=Effect.ALLOW))
        done = await bench.alice.execute(CHARGE, {"amount": 1})
        stored = await bench.store.get(ActionDocument, TENANT, done.action_id)
        assert stored is not None
        assert stored.document.verdicts[-1].rules == ("allow", "more")
        assert [one.gate for one in stored.document.verdicts].count("policy") == 1


@pytest.mark.rule("PO-3")
async def test_an_action_keeps_which_rules_decided() -> None:
    async with Workbench(policy=Rules(ALLOW)) as bench:
        done = await bench.alice.execute(CHARGE, {"amount": 1})
        stored = await bench.store.get(ActionDocument, TENANT, done.action_id)
        assert stored is not None
        assert stored.document.verdicts[-1].rules == ("allow",)


async def test_outcomes_are_looked_up_whatever_the_rules_say() -> None:
    rules = Rules(ALLOW)
    async with Workbench([faults.acknowledgement()], policy=rules) as bench:
        unknown = await bench.alice.execute(CHARGE, {"amount": 1})
        assert unknown.status == "outcome_unknown"
        rules.change(DENY)
        bench.wait(60)
        await bench.sweep()
        assert (await bench.record(unknown)).verdict == "committed"
