"""`Amends` as programs meet it: opened, asked in every mode, resumed, wrapped, closed."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from amends.app.amends import LOCAL, Amends
from amends.app.capabilities import FunctionCapability, capability
from amends.connectors.port import Attempt
from amends.contracts.actions import TransactionRequest
from amends.contracts.declarations import CompensationContract, ExecutionContract
from amends.contracts.documents import ActionDocument
from amends.contracts.enums import CompensationMode, Mode
from amends.contracts.ids import ActionId, CapabilityId, TransactionId
from amends.contracts.outcomes import Applied, Outcome
from amends.contracts.principals import APPROVE_SCOPE, Identity, Principal
from amends.testing.refusals import refused_with
from amends.testing.workbench import ALICE, CHARGE, OLGA, TENANT, Workbench
from amends.wiring.opening import Settings
from tests.unit.runtime.desk import DONE, OPERATION, UNSURE, Desk, action, ask

QUIET = Settings(recover=False)


@dataclass
class Order:
    """What to charge."""

    amount: int
    currency: str = "eur"


@dataclass
class Reason:
    """Why to give back."""

    why: str


def shop() -> tuple[FunctionCapability[..., object], list[str]]:
    """A capability with compensation, and what its handlers did."""
    did: list[str] = []

    @capability("shop.charge", side_effects=["financial"], timeout=timedelta(seconds=2))
    async def charge(order: Order, attempt: Attempt) -> dict[str, object]:
        """Charge the card."""
        did.append(f"charge {order.amount}")
        await attempt.checkpoint("shop", f"ch_{len(did)}")
        return {"id": f"ch_{len(did)}"}

    @charge.reconcile
    async def look(order: Order, attempt: Attempt) -> dict[str, object]:
        did.append("look")
        return {"id": "ch_1"}

    @charge.compensate(requires_approval=True)
    async def refund(reason: Reason, attempt: Attempt) -> dict[str, object]:
        assert attempt.original is not None
        did.append(f"refund {reason.why}")
        return {"id": "re_1"}

    return charge, did


BOB = Principal.named("bob", tenant="acme", scopes=(APPROVE_SCOPE,))


@pytest.mark.parametrize("where", ["memory:", "sqlite"])
async def test_a_program_plans_commits_and_makes_good(where: str, tmp_path: Path) -> None:
    charge, did = shop()
    url = where if where == "memory:" else f"sqlite:///{tmp_path / 'amends.db'}"
    async with Amends.open(url, [charge], principal=ALICE, settings=QUIET) as amends:
        dry = await amends.dry_run(charge, Order(100))
        plan = await amends.plan(charge, Order(100))
        done = await amends.commit(plan)
        waiting = await amends.compensate(done, Reason("broken"))
        await amends.acting_as(BOB).approve(waiting)
        made = await amends.wait_for_approval(waiting, timeout_s=1)
        assert [one.status for one in (dry, plan, done, waiting, made)] == [
            "dry_run_completed",
            "planned",
            "committed",
            "requires_human",
            "compensated",
        ]
        assert did == ["charge 100", "refund broken"]
        assert (await amends.verify(done)).findings == ()
        assert (await amends.verify(made)).findings == ()
        page = await amends.list(where={"status": "committed"})
        assert len(page.items) == 1


async def test_a_second_program_finds_what_the_first_left(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'amends.db'}"
    charge, _ = shop()
    async with Amends.open(url, [charge], principal=ALICE, settings=QUIET) as amends:
        plan = await amends.plan(charge, Order(100))
    charge, did = shop()
    async with Amends.open(url, [charge], principal=ALICE, settings=QUIET) as amends:
        done = await amends.commit(str(plan.plan_id))
        assert (done.status, did) == ("committed", ["charge 100"])
        assert (await amends.verify(done.transaction_id)).findings == ()


async def test_recovery_runs_inside_the_program_by_default(tmp_path: Path) -> None:
    lost = Desk([UNSURE], reconcile=[DONE])
    served = lost.served()
    settings = Settings(poll_s=0.001)
    async with Amends.open("memory:", [served], principal=OLGA, settings=settings) as amends:
        made = await amends.execute(CHARGE, {"amount": 1})
        assert made.status == "outcome_unknown"
        found = await amends.reconcile(made, insist=True)
        assert found.status == "reconciled"


async def test_every_fault_of_a_declaration_is_told_when_it_is_opened() -> None:
    declared, connector = Desk().served()
    bad = replace(declared, plan_ttl_ms=0, side_effects=(), handlers=())
    with refused_with("capability.invalid") as caught:
        await Amends.open("memory:", [(bad, connector)], settings=QUIET).__aenter__()
    faults = caught.error.details["faults"]
    assert isinstance(faults, list)
    assert len(faults) > 2
    with refused_with("capability.twice"):
        await Amends.open("memory:", [(declared, connector)] * 2, settings=QUIET).__aenter__()


async def test_a_store_that_is_closed_takes_no_more(tmp_path: Path) -> None:
    async with Amends.open("memory:", [Desk().served()], settings=QUIET) as amends:
        pass
    with refused_with("runtime.closed"):
        await amends.execute(CHARGE, {})


async def test_an_engine_that_fails_to_close_does_not_keep_the_store_open(
    tmp_path: Path,
) -> None:
    opening = Amends.open("memory:", [Desk().served()], settings=QUIET)
    amends = await opening.__aenter__()

    async def fails(_drain_ms: int) -> None:
        raise RuntimeError("no end")

    setattr(amends._runtime.engine, "close", fails)  # noqa: B010  # in the place of a method
    with pytest.raises(RuntimeError):
        await opening.__aexit__(None, None, None)
    with refused_with("store.closed"):
        await amends._runtime.engine.environment.store.now()


async def test_leaving_the_context_lets_running_attempts_end() -> None:
    entered = asyncio.Event()

    async def slow(_attempt: Attempt) -> object:
        entered.set()
        await asyncio.sleep(0.01)
        return DONE

    async with Amends.open("memory:", [Desk([slow]).served()], settings=QUIET) as amends:
        waits = asyncio.ensure_future(amends.execute(CHARGE, {}))
        await entered.wait()
    assert (await waits).status == "committed"


@pytest.mark.rule("TX-VIEW-0")
async def test_who_acts_is_recorded_as_asserted() -> None:
    async with Amends.open("memory:", [Desk().served()], settings=QUIET) as amends:
        done = await amends.execute(CHARGE, {})
        store = amends._runtime.engine.environment.store
        found = await store.get(ActionDocument, LOCAL.tenant, done.action_id)
        assert found is not None
        assert (found.document.asserted, found.document.principal.id) == (True, "local")


@pytest.mark.rule("TX-REQ-1")
async def test_the_wrapper_is_the_same_action_with_its_receipts() -> None:
    async with Workbench() as bench:
        request = TransactionRequest(
            transaction_id=TransactionId("txn_1"),
            action=action(id="act_1"),
            requested_by=ALICE.ref,
            reason="because",
            metadata={"ticket": 7},
        )
        outcome = await bench.alice.transact(request)
        bare = await bench.alice.execute(
            CHARGE, action().input, action_id="act_1", transaction_id="txn_1"
        )
        assert (outcome.result.status, bare.replayed) == ("committed", True)
        assert (bare.raw_output, bare.revision) == (
            outcome.result.raw_output,
            outcome.result.revision,
        )
        assert [one.step.type for one in outcome.receipts] == [
            "execution_started",
            "provider_accepted",
            "dispatched",
            "committed",
        ]
        found = await bench.store.get(ActionDocument, TENANT, "act_1")
        assert found is not None
        assert found.document.requested is not None
        assert (found.document.requested.reason, found.document.requested.metadata) == (
            "because",
            {"ticket": 7},
        )


@pytest.mark.rule("TX-REQ-1")
@pytest.mark.case("APR-12")
async def test_the_wrapper_speaks_for_the_authenticated_principal_and_one_transaction() -> None:
    async with Workbench() as bench:
        request = TransactionRequest(
            transaction_id=TransactionId("txn_1"), action=action(), requested_by=ALICE.ref
        )
        for requested_by in (OLGA.ref, replace(ALICE, kind=OLGA.kind).ref):
            with refused_with("action.principal_mismatch"):
                await bench.alice.transact(replace(request, requested_by=requested_by))
        other = replace(request, action=action(transaction="txn_2"))
        with refused_with("action.transaction_mismatch"):
            await bench.alice.transact(other)
        same = replace(request, action=action(transaction="txn_1"))
        assert (await bench.alice.transact(same)).result.transaction_id == "txn_1"
        assert bench.provider.charges == 1


@pytest.mark.rule("TX-REQ-1", "TX-RECON-1")
async def test_the_wrapper_may_bring_a_reference_for_a_look_up() -> None:
    desk = Desk([UNSURE], reconcile=[DONE])
    async with Workbench(served=[desk.served(execution=ExecutionContract())]) as bench:
        await ask(bench, action(transaction="txn_1"))
        bench.wait(5)
        outcome = await bench.olga.transact(
            TransactionRequest(
                transaction_id=TransactionId("txn_1"),
                action=action(Mode.RECONCILE),
                requested_by=OLGA.ref,
                provider_operation=OPERATION,
                cursor="c1",
            )
        )
        assert outcome.result.status == "reconciled"
        assert (desk.seen[-1].provider_operation, desk.seen[-1].cursor) == (OPERATION, "c1")


async def test_what_names_nothing_is_refused_before_the_pipeline() -> None:
    async with Workbench() as bench:
        done = await ask(bench, action())
        for call, code in (
            (bench.alice.commit("plan_9"), "transaction.plan_not_found"),
            (bench.alice.commit(done), "transaction.plan_required"),
            (bench.alice.compensate("act_9"), "transaction.compensation_target_not_found"),
            (bench.alice.reconcile("txn_9"), "transaction.not_found"),
            (bench.alice.resume("act_9"), "action.not_found"),
            (bench.alice.wait_for_approval(done), "approval.not_found"),
            (bench.alice.approve(done), "approval.not_found"),
            (bench.bob.approve("apr_9"), "approval.not_found"),
            (bench.alice.execute("nobody", {}), "capability.not_found"),
        ):
            with refused_with(code):
                await call
        assert bench.provider.charges == 1


async def test_an_input_of_the_declared_type_and_its_json_are_the_same_request() -> None:
    charge, did = shop()
    async with Amends.open("memory:", [charge], principal=ALICE, settings=QUIET) as amends:
        plan = await amends.plan(charge, Order(7), plan_id="plan_1")
        done = await amends.commit("plan_1", {"amount": 7, "currency": "eur"})
        assert (plan.status, done.status, did) == ("planned", "committed", ["charge 7"])
        made = await amends.compensate(done.action_id, {"why": "x"})
        assert made.status == "requires_human"
        with refused_with("input.schema_mismatch"):
            await amends.execute("shop.charge", Reason("not an order"))


async def test_a_capability_without_a_function_takes_json_alone() -> None:
    class Echo:
        async def carry_out(self, attempt: Attempt) -> Outcome:
            return Applied(output=attempt.call.input)

    declared, _ = Desk().served()
    async with Amends.open("memory:", [(declared, Echo())], settings=QUIET) as amends:
        done = await amends.execute(CHARGE, {"n": 1})
        assert done.output == {"n": 1}
        with refused_with("input.unsupported_type"):
            await amends.execute(CHARGE, Order(1))


async def test_the_requested_compensation_of_what_declares_none_is_refused_by_its_contract() -> (
    None
):
    async with Workbench(served=[Desk().served()]) as bench:
        done = await ask(bench, action())
        with refused_with("transaction.mode_not_supported"):
            await bench.alice.compensate(done, {})


async def test_a_compensation_is_encoded_for_whoever_carries_it_out() -> None:
    undone: list[object] = []

    @capability("shop.undo")
    async def undo(reason: Reason) -> dict[str, str]:
        undone.append(reason)
        return {}

    @capability(
        "shop.charge",
        compensation=CompensationContract(
            mode=CompensationMode.SUPPORTED, compensation_capability_id=CapabilityId("shop.undo")
        ),
    )
    async def charge(order: Order) -> dict[str, str]:
        return {}

    async with Amends.open("memory:", [charge, undo], settings=QUIET) as amends:
        done = await amends.execute(charge, Order(1))
        made = await amends.compensate(done, Reason("x"))
        assert (made.status, undone) == ("compensated", [Reason("x")])


async def test_an_identity_goes_with_the_view_of_whoever_acts() -> None:
    identity = Identity(tenant=TENANT, external_account="acct_1")
    async with Workbench() as bench:
        plan = await bench.acting_as(ALICE, identity).plan(CHARGE, {"amount": 5})
        with refused_with("transaction.plan_identity_missing"):
            await bench.alice.commit(plan)
        assert (await bench.acting_as(ALICE, identity).commit(plan)).status == "committed"


async def test_a_view_is_found_by_a_result_and_receipts_by_an_id() -> None:
    async with Workbench() as bench:
        done = await ask(bench, action(id="act_1", transaction="txn_1"))
        view = await bench.alice.get(done)
        assert view.result.action_id == ActionId("act_1")
        assert len(await bench.alice.receipts("txn_1")) == 4
        verified = await bench.alice.verify("txn_1")
        assert (verified.findings, verified.head is not None) == ((), True)


async def test_results_do_not_pretend_to_have_an_output() -> None:
    async with Workbench(served=[Desk([UNSURE]).served()]) as bench:
        made = await ask(bench, action())
        with refused_with("transaction.outcome_unknown"):
            _ = made.output
