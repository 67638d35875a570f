"""An approval is looked at again when it is used, and so is whoever uses it (AP-4, AP-5)."""

from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from amends.contracts.approval_policy import ApprovalPolicy, ByRole, Quorum
from amends.contracts.approvals import ApprovalRequest, ApprovalStatus
from amends.contracts.declarations import CredentialPolicy
from amends.contracts.delegations import Delegation
from amends.contracts.enums import Mode, PrincipalKind, Risk
from amends.contracts.ids import PrincipalId, TenantId
from amends.contracts.principals import Identity, Principal, PrincipalRef
from amends.contracts.results import Result
from amends.contracts.secrets import Credential, Secret
from amends.testing.refusals import refused_with
from amends.testing.workbench import ALICE, BOB, EVE, OLGA, TENANT, Workbench
from tests.unit.runtime.desk import DONE, Desk, action, ask, before_next_write

TREASURER = replace(BOB, roles=("treasury",), scopes=())
CAROL = replace(TREASURER, id=PrincipalId("carol"))
DAN = Principal(id=PrincipalId("dan"), tenant=TENANT, scopes=())
TREASURY = ApprovalPolicy(rule=ByRole("treasury"))


class Staff:
    """A source of principals that can be changed, and can fail."""

    def __init__(self, *people: Principal) -> None:
        self.people = {one.ref: one for one in people}
        self.fails = False

    def principal(self, tenant: TenantId, ref: PrincipalRef) -> Principal | None:
        if self.fails:
            raise OSError("hunter2")
        return self.people.get(ref)

    def change(self, who: Principal, **changes: object) -> None:
        self.people[who.ref] = replace(who, **changes)


def bench_of(desk: Desk, staff: Staff | None = None, place: Path | None = None) -> Workbench:
    return Workbench(served=[desk.served(approval=TREASURY)], principals=staff, file=place)


async def status_of(bench: Workbench, waiting: Result) -> ApprovalStatus:
    assert waiting.approval_id is not None
    found = await bench.store.get(ApprovalRequest, TENANT, waiting.approval_id)
    assert found is not None
    return found.document.status


async def lends(bench: Workbench, to: Principal = DAN, by: Principal = TREASURER) -> Delegation:
    until = bench.clock() + timedelta(hours=1)
    return await bench.acting_as(by).delegate(to, ends_at=until, reason="on leave")


# ── who approved, as they are now ────────────────────────────────────────────────────────────────


@pytest.mark.rule("AP-4", "AP-5")
@pytest.mark.case("APR-09")
@pytest.mark.parametrize("how", ["role", "gone", "requester", "subject"])
async def test_an_approver_who_could_not_approve_now_has_not_approved(how: str) -> None:
    desk, staff = Desk(), Staff(ALICE, TREASURER)
    async with bench_of(desk, staff) as bench:
        waiting = await ask(bench, action(id="act_1"))
        await bench.acting_as(TREASURER).approve(waiting)
        match how:
            case "role":
                staff.change(TREASURER, roles=())
            case "gone":
                del staff.people[TREASURER.ref]
            case "requester":
                staff.change(TREASURER, persons=("alice",))
            case _:
                staff.change(ALICE, persons=("bob",))
        with refused_with("approval.no_longer_granted"):
            await ask(bench, action(id="act_1"))
        assert (desk.seen, await status_of(bench, waiting)) == ([], ApprovalStatus.APPROVED)
        staff.change(TREASURER)
        staff.change(ALICE)
        assert (await ask(bench, action(id="act_1"))).status == "committed"
        assert await status_of(bench, waiting) is ApprovalStatus.CONSUMED


@pytest.mark.rule("AP-5")
async def test_the_requester_is_looked_up_anew_and_without_that_denied() -> None:
    desk, staff = Desk(), Staff(ALICE, TREASURER)
    served = [desk.served(approval=TREASURY, required_scopes=("pay",))]
    async with Workbench(served=served, principals=staff) as bench:
        waiting = await ask(bench, action(id="act_1"))
        await bench.acting_as(TREASURER).approve(waiting)
        staff.change(ALICE, scopes=("other",))
        with refused_with("policy.denied"):  # although the caller still claims every scope
            await ask(bench, action(id="act_1"))
        del staff.people[ALICE.ref]
        with refused_with("identity.principal_unknown"):
            await ask(bench, action(id="act_1"))
        staff.people[ALICE.ref] = replace(ALICE, tenant=EVE.tenant)
        with refused_with("identity.principal_unknown"):
            await ask(bench, action(id="act_1"))
        staff.fails = True
        with refused_with("identity.source_failed") as caught:
            await ask(bench, action(id="act_1"))
        assert "hunter2" not in str(caught.error)
        staff.fails = False
        assert (desk.seen, await status_of(bench, waiting)) == ([], ApprovalStatus.APPROVED)
        staff.change(ALICE, scopes=("pay",))
        assert (await ask(bench, action(id="act_1"))).status == "committed"


class Vault:
    """A credential source that can be emptied."""

    full = True

    def credential(self, *_asked: object) -> Credential | None:
        return Credential(secret=Secret("s")) if self.full else None


@pytest.mark.rule("AP-5")
async def test_the_credential_is_resolved_anew_and_without_that_denied(place: Path | None) -> None:
    desk, vault = Desk(), Vault()
    served = [desk.served(approval=TREASURY, credential=CredentialPolicy(required=True))]
    async with Workbench(served=served, credentials=vault, file=place) as bench:
        waiting = await ask(bench, action(id="act_1"))
        await bench.acting_as(TREASURER).approve(waiting)
        vault.full = False
        await bench.restart()
        with refused_with("credential.missing"):
            await bench.alice.resume(waiting)
        assert (desk.seen, await status_of(bench, waiting)) == ([], ApprovalStatus.APPROVED)
        vault.full = True
        assert (await bench.alice.resume(waiting)).status == "committed"


@pytest.mark.rule("AP-3", "AP-5")
async def test_whoever_is_gone_decides_nothing_and_powers_are_those_of_now() -> None:
    desk, staff = Desk(), Staff(ALICE, replace(TREASURER, roles=()))
    async with bench_of(desk, staff) as bench:
        waiting = await ask(bench, action(id="act_1"))
        with refused_with("approval.not_allowed"):  # the role is asserted, and not held
            await bench.acting_as(TREASURER).approve(waiting)
        with refused_with("identity.principal_unknown"):
            await bench.acting_as(CAROL).approve(waiting)
        with refused_with("identity.principal_unknown"):
            await bench.acting_as(CAROL).delegate(DAN, ends_at=bench.clock())


@pytest.mark.rule("AP-5")
async def test_the_scheduler_needs_no_entry_among_the_principals() -> None:
    desk = Desk([TimeoutError("lost")], reconcile=[DONE])
    async with Workbench(served=[desk.served()], principals=Staff(ALICE)) as bench:
        lost = await ask(bench, action())
        assert lost.status == "outcome_unknown"
        bench.wait(60)
        assert (await bench.sweep()).reconciled == 1


# ── lent words ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("AP-1", "AP-3")
async def test_a_lent_word_approves_is_named_and_leaves_its_hash(place: Path | None) -> None:
    desk = Desk()
    async with bench_of(desk, place=place) as bench:
        waiting = await ask(bench, action(id="act_1"))
        assert (await bench.acting_as(DAN).approvals()).items == ()
        with refused_with("approval.not_found"):
            await bench.acting_as(DAN).approval(str(waiting.approval_id))
        delegation = await lends(bench)
        assert len((await bench.acting_as(DAN).approvals()).items) == 1
        await bench.restart()
        approved = await bench.acting_as(DAN).approve(waiting, under=delegation)
        (decision,) = approved.decisions
        assert (decision.approver, decision.speaks_for) == (DAN.ref, TREASURER.ref)
        assert (await ask(bench, action(id="act_1"))).status == "committed"
        receipts = await bench.olga.receipts(waiting)
        hashes = {one.step.type.value: one.step.hashes for one in receipts}
        assert "delegation" in hashes["approval_granted"]


@pytest.mark.rule("AP-4")
@pytest.mark.parametrize("how", ["revoked", "ended", "lender's role", "lender gone"])
async def test_what_was_approved_under_a_delegation_that_is_over_counts_no_more(how: str) -> None:
    desk, staff = Desk(), Staff(ALICE, TREASURER, DAN, OLGA)
    async with bench_of(desk, staff) as bench:
        waiting = await ask(bench, action(id="act_1"))
        delegation = await lends(bench)
        await bench.acting_as(DAN).approve(waiting, under=delegation.delegation_id)
        match how:
            case "revoked":
                await bench.olga.revoke_delegation(delegation, reason="back")
            case "ended":
                bench.wait(3600)
            case "lender's role":
                staff.change(TREASURER, roles=())
            case _:
                del staff.people[TREASURER.ref]
        with refused_with("approval.no_longer_granted"):
            await ask(bench, action(id="act_1"))
        assert (desk.seen, await status_of(bench, waiting)) == ([], ApprovalStatus.APPROVED)


@pytest.mark.rule("AP-4")
async def test_a_delegation_that_is_gone_from_the_store_lends_nothing() -> None:
    desk = Desk()
    async with bench_of(desk) as bench:
        waiting = await ask(bench, action(id="act_1"))
        delegation = await lends(bench)
        await bench.acting_as(DAN).approve(waiting, under=delegation)
        get = bench.store.get

        async def without(type_: type, tenant: TenantId, id_: str) -> object:
            return None if type_ is Delegation else await get(type_, tenant, id_)

        bench.store.get = without  # type: ignore[method-assign,assignment]  # a store that lost it
        with refused_with("approval.no_longer_granted"):
            await ask(bench, action(id="act_1"))


@pytest.mark.rule("AP-4")
@pytest.mark.parametrize("race", ["revoked", "ended"])
async def test_a_delegation_that_ends_between_check_and_claim_is_not_used(race: str) -> None:
    desk = Desk()
    async with bench_of(desk) as bench:
        waiting = await ask(bench, action(id="act_1"))
        delegation = await lends(bench)
        await bench.acting_as(DAN).approve(waiting, under=delegation)

        async def ends() -> None:
            if race == "revoked":
                await bench.acting_as(TREASURER).revoke_delegation(delegation)
            else:
                bench.wait(3600)

        before_next_write(bench, ends)
        with refused_with("approval.no_longer_granted"):
            await ask(bench, action(id="act_1"))
        assert desk.seen == []


@pytest.mark.rule("AP-4")
async def test_a_delegation_that_is_revoked_while_somebody_decides_lends_nothing() -> None:
    desk = Desk()
    async with bench_of(desk) as bench:
        waiting = await ask(bench, action(id="act_1"))
        delegation = await lends(bench)

        async def ends() -> None:
            await bench.acting_as(TREASURER).revoke_delegation(delegation)

        before_next_write(bench, ends)
        with refused_with("delegation.revoked"):
            await bench.acting_as(DAN).approve(waiting, under=delegation)
        assert await status_of(bench, waiting) is ApprovalStatus.PENDING


@pytest.mark.rule("AP-1")
async def test_an_approval_of_two_lent_words_and_of_a_compensation(place: Path | None) -> None:
    desk = Desk(compensate=[DONE])
    two = ApprovalPolicy(rule=Quorum(2, ByRole("treasury")))
    served = [desk.served(), desk.served("shop.undo", approval=two)]
    async with Workbench(served=served, file=place) as bench:
        sold = await ask(bench, action(capability="shop.undo", id="act_s"))
        erin = replace(DAN, id=PrincipalId("erin"))
        one, other = await lends(bench), await lends(bench, erin, CAROL)
        for who, under in ((DAN, one), (erin, other)):
            await bench.acting_as(who).approve(sold, under=under)
        sold = await ask(bench, action(capability="shop.undo", id="act_s"))
        assert sold.status == "committed"
        undo = action(Mode.COMPENSATE, id="act_u", target="act_s", capability="shop.undo", input={})
        waiting = await ask(bench, undo)
        assert waiting.status == "requires_human"
        with refused_with("approval.separation_of_duties"):
            await bench.acting_as(replace(ALICE, roles=("treasury",))).approve(waiting)
        for who, under in ((DAN, one), (erin, other)):
            await bench.acting_as(who).approve(waiting, under=under)
        assert (await ask(bench, undo)).status == "compensated"
        assert await status_of(bench, waiting) is ApprovalStatus.CONSUMED


@pytest.mark.rule("AP-1")
async def test_the_user_an_agent_acts_for_does_not_approve_what_it_asked() -> None:
    desk = Desk()
    agent = Principal(id=PrincipalId("bot"), tenant=TENANT, kind=PrincipalKind.AGENT)
    acting = Identity(tenant=TENANT, subject=TREASURER.id)
    async with bench_of(desk) as bench:
        waiting = await ask(bench, action(), principal=agent, identity=acting)
        with refused_with("approval.separation_of_duties"):
            await bench.acting_as(TREASURER).approve(waiting)
        other_bot = replace(agent, id=PrincipalId("bot2"), roles=("treasury",), scopes=())
        with refused_with("approval.separation_of_duties"):
            await bench.acting_as(other_bot, acting).approve(waiting)
        assert (await bench.acting_as(other_bot, acting).approvals()).items == ()
        await bench.acting_as(CAROL).approve(waiting)


async def test_an_operator_lends_for_somebody_absent_only_by_a_source_of_principals() -> None:
    desk, staff = Desk(), Staff(ALICE, TREASURER, DAN, OLGA)
    async with bench_of(desk, staff) as bench:
        until = bench.clock() + timedelta(days=1)
        made = await bench.olga.delegate("dan", ends_at=until, on_behalf_of=TREASURER)
        assert (made.roles, made.made_by) == (("treasury",), OLGA.ref)
        with refused_with("identity.principal_unknown"):
            await bench.olga.delegate("dan", ends_at=until, on_behalf_of="carol")
        with refused_with("delegation.not_allowed"):
            await bench.acting_as(DAN).delegate("alice", ends_at=until, on_behalf_of=TREASURER)
        del staff.people[TREASURER.ref]
        waiting = await ask(bench, action(id="act_1"))
        with refused_with("identity.principal_unknown"):
            await bench.acting_as(DAN).approve(waiting, under=made)
    async with bench_of(desk) as bench:
        with refused_with("delegation.not_allowed"):
            await bench.olga.delegate("dan", ends_at=until, on_behalf_of=TREASURER)


@pytest.mark.rule("AP-1", "RD-2")
async def test_the_reasons_of_a_delegation_are_scrubbed_before_they_are_kept() -> None:
    async with bench_of(Desk()) as bench:
        boss = bench.acting_as(TREASURER)
        until = bench.clock() + timedelta(days=1)
        made = await boss.delegate("dan", ends_at=until, reason="Away, password=hunter22")
        revoked = await boss.revoke_delegation(made, reason="Back, password=hunter22")
        assert made.reason == "Away, password=[redacted]"
        assert "hunter22" not in repr(revoked)
        assert "hunter22" not in repr(await bench.store.get(Delegation, TENANT, made.delegation_id))


@pytest.mark.rule("AP-1")
async def test_delegations_are_seen_by_those_they_concern_and_operators() -> None:
    async with bench_of(Desk()) as bench:
        made = await lends(bench)
        again = await bench.acting_as(TREASURER).delegate(
            PrincipalRef(PrincipalId("carol"), PrincipalKind.USER),
            ends_at=bench.clock() + timedelta(days=2),
            capabilities="payments.*",
            max_risk="low",
        )
        assert (again.capabilities, again.max_risk) == (("payments.*",), Risk.LOW)
        for who, sees in (
            (TREASURER, (again, made)),
            (DAN, (made,)),
            (OLGA, (again, made)),
            (ALICE, ()),
            (EVE, ()),
        ):
            assert await bench.acting_as(who).delegations() == sees
        for who in (EVE, ALICE):
            code = "delegation.not_found" if who is EVE else "delegation.not_allowed"
            with refused_with(code):
                await bench.acting_as(who).revoke_delegation(made)
        waiting = await ask(bench, action())
        for under in (made, "del_x"):
            with refused_with("delegation.not_found"):
                await bench.acting_as(CAROL).approve(waiting, under=under)


async def test_however_many_were_lent_all_are_seen() -> None:
    async with bench_of(Desk()) as bench:
        for _ in range(201):
            await lends(bench)
        assert len(await bench.acting_as(DAN).delegations()) == 201


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("ends_at", "tomorrow", "input.unsupported_type"),
        ("to", "a b", "input.invalid_id"),
        ("to", 3, "input.unsupported_type"),
        ("capabilities", [3], "input.unsupported_type"),
        ("max_risk", "enormous", "input.invalid_value"),
        ("reason", "x" * 5000, "input.too_large"),
    ],
)
async def test_what_is_no_delegation_is_refused_at_the_edge(
    field: str, value: object, code: str
) -> None:
    async with bench_of(Desk()) as bench:
        told = {"to": "dan", "ends_at": bench.clock() + timedelta(days=1), field: value}
        with refused_with(code):
            await bench.acting_as(TREASURER).delegate(**told)  # type: ignore[arg-type]  # a table
        assert await bench.olga.delegations() == ()


@pytest.mark.rule("AP-1")
@pytest.mark.parametrize("id", ["ａｌｉｃｅ", "alice ", " alice", "ali\u200bce", "а́lice", ""])
async def test_a_principal_whose_id_is_not_plain_is_refused_at_the_edge(id: str) -> None:
    async with bench_of(Desk()) as bench:
        with refused_with("input.invalid_id"):
            bench.alice.acting_as(Principal(id=PrincipalId(id), tenant=TENANT))
