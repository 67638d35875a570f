"""The pipeline's order: which gate speaks first, what a refusal leaves behind, who needs a plan."""

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from amends.contracts.actions import Action, TransactionRequest
from amends.contracts.declarations import (
    CompensationContract,
    CredentialPolicy,
    IdempotencyContract,
)
from amends.contracts.documents import TransactionRecord
from amends.contracts.enums import CompensationMode, KeyRequirement, Mode, PrincipalKind, Status
from amends.contracts.errors import Unavailable
from amends.contracts.ids import CapabilityId, ProviderOperationId, TenantId
from amends.contracts.json_types import Json
from amends.contracts.outcomes import ProviderOperation
from amends.contracts.principals import Caller, Identity, Principal
from amends.contracts.results import Result
from amends.contracts.secrets import Credential, Secret
from amends.governance.policy import PolicyDecision, PolicyQuestion, PolicyVerdict
from amends.runtime.requests import Request
from amends.testing.refusals import refused_with
from amends.testing.workbench import ALICE, CHARGE, TENANT, Workbench, contract_of
from tests.unit.runtime.desk import Desk, action, ask, document, records, refusals, replaced

GATES = (
    ("envelope", "input.invalid_id"),
    ("identity", "identity.tenant_mismatch"),
    ("capability", "capability.not_found"),
    ("schema", "input.schema_mismatch"),
    ("contract", "transaction.mode_not_supported"),
    ("credential", "credential.missing"),
    ("policy", "policy.denied"),
)


class Purse:
    """A credential source that is empty until it is filled."""

    filled = False

    def credential(self, *_asked: object) -> Credential | None:
        return Credential(secret=Secret("tok")) if self.filled else None


def guarded(purse: Purse) -> Workbench:
    """A capability that only executes, with a credential, for holders of a scope."""
    desk = Desk()
    only = replace(contract_of(desk.handlers), supported_modes=(Mode.EXECUTE,))
    served = desk.served(
        transaction=only,
        credential=CredentialPolicy(required=True),
        required_scopes=("pay",),
        input_schema={"type": "object", "properties": {"amount": {"type": "integer"}}},
    )
    return Workbench(served=[served], credentials=purse)


async def ask_broken(bench: Workbench, purse: Purse, gate: int) -> Result:
    """A request that this gate and every later one would refuse."""
    broken = [place >= gate for place in range(len(GATES))]
    purse.filled = not broken[5]
    return await ask(
        bench,
        action(
            Mode.PLAN if broken[4] else Mode.EXECUTE,
            id="../etc" if broken[0] else "act_1",
            capability="nobody" if broken[2] else CHARGE,
            input={"amount": "CANARY"} if broken[3] else None,
        ),
        principal=replace(ALICE, scopes=() if broken[6] else ("pay",)),
        identity=Identity(tenant=TenantId("globex") if broken[1] else TENANT),
    )


@pytest.mark.rule("TX-PIPE-4")
@pytest.mark.parametrize("gate", range(len(GATES)), ids=[name for name, _ in GATES])
async def test_the_first_gate_that_says_no_ends_it_and_every_answer_is_kept(gate: int) -> None:
    purse = Purse()
    async with guarded(purse) as bench:
        with refused_with(GATES[gate][1]):
            await ask_broken(bench, purse, gate)
        [entry] = await refusals(bench)
        kept = [(one.gate, one.answer) for one in entry.verdicts]
        assert kept == [*((name, "allow") for name, _ in GATES[:gate]), (GATES[gate][0], "deny")]
        assert entry.code == entry.verdicts[-1].code == GATES[gate][1]
        assert await records(bench) == []


@pytest.mark.rule("TX-ACT-1")
@pytest.mark.parametrize("gate", range(1, len(GATES)), ids=[name for name, _ in GATES[1:]])
async def test_a_refusal_before_acceptance_keeps_no_input_and_leaves_the_action_id_free(
    gate: int,
) -> None:
    purse = Purse()
    async with guarded(purse) as bench:
        with refused_with(GATES[gate][1]):
            await ask_broken(bench, purse, gate)
        [entry] = await refusals(bench)
        assert b"CANARY" not in msgspec.json.encode(entry)
        assert await document(bench, "act_1") is None
        done = await ask_broken(bench, purse, len(GATES))
        assert (done.action_id, done.status) == ("act_1", "committed")


async def test_all_gates_passed_are_kept_in_order_with_an_accepted_action() -> None:
    purse = Purse()
    async with guarded(purse) as bench:
        await ask_broken(bench, purse, len(GATES))
        stored = await document(bench, "act_1")
        assert stored is not None
        assert [(one.gate, one.answer) for one in stored.verdicts] == [
            (name, "allow") for name, _ in GATES
        ]


@pytest.mark.rule("TX-PIPE-4", "TX-VIEW-2")
async def test_a_refusal_after_acceptance_keeps_the_action_and_shows_why() -> None:
    async with Workbench() as bench:
        with refused_with("transaction.plan_not_found"):
            await ask(bench, action(Mode.COMMIT, id="act_1", plan="plan_1"))
        view = await bench.alice.get(action_id="act_1")
        assert [one.answer for one in view.verdicts] == ["allow"] * 7 + ["deny"]
        assert view.verdicts[-1].code == "transaction.plan_not_found"
        assert await refusals(bench) == []


@pytest.mark.rule("TX-ACT-1")
async def test_an_action_refused_after_acceptance_re_enters_and_its_id_is_taken() -> None:
    async with Workbench() as bench:
        asked = action(Mode.COMMIT, id="act_1", plan="plan_1")
        with refused_with("transaction.plan_not_found"):
            await ask(bench, asked)
        with refused_with("action.id_conflict"):
            await ask(bench, action(Mode.COMMIT, id="act_1", plan="plan_2"))
        await bench.alice.plan(CHARGE, {"amount": 500}, plan_id="plan_1")
        done = await ask(bench, asked)
        assert done.status == "committed"
        assert bench.provider.charges == 1


async def test_a_refusal_at_acceptance_leaves_an_entry_too() -> None:
    async with Workbench() as bench:
        await ask(bench, action(id="act_1"))
        with refused_with("action.id_conflict"):
            await ask(bench, action(id="act_1", input={"amount": 7}))
        [entry] = await refusals(bench)
        assert (entry.verdicts[-1].gate, entry.code) == ("acceptance", "action.id_conflict")


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (action(capability="nobody"), "capability.not_found"),
        (action(Mode.COMMIT, plan="plan_1"), "transaction.plan_not_found"),
    ],
)
async def test_a_refusal_is_heard_even_where_the_store_cannot_keep_it(
    asked: Action, code: str
) -> None:
    async with Workbench() as bench:

        async def failing(_change_set: object) -> None:
            raise Unavailable("store.unavailable", "The disk is full.")

        mend = replaced(bench, "commit", failing)
        with refused_with(code):
            await ask(bench, asked)
        mend()
        assert await refusals(bench) == []


@pytest.mark.rule("TX-PIPE-1")
async def test_a_public_commit_needs_a_plan_id_whatever_the_capability_says() -> None:
    desk = Desk()
    contract = replace(contract_of(desk.handlers), requires_plan_before_commit=False)
    async with Workbench(served=[desk.served(transaction=contract)]) as bench:
        with refused_with("transaction.plan_required"):
            await ask(bench, action(Mode.COMMIT))
        assert desk.seen == []


@pytest.mark.rule("TX-PIPE-1")
async def test_a_trusted_commit_without_a_plan_goes_straight_to_committing_where_declared() -> None:
    statuses: list[Status] = []
    bench = Workbench()

    async def look(attempt: object) -> object:
        [record] = await records(bench)
        statuses.append(record.status)
        return {"id": "op_1"}

    desk = Desk([look])
    contract = replace(contract_of(desk.handlers), requires_plan_before_commit=False)
    bench.served = (desk.served(transaction=contract),)
    async with bench:
        asked = action(Mode.COMMIT, id="act_1", transaction="txn_1")
        done = await ask(bench, asked, trusted=True)
        assert (done.status, statuses) == ("committed", [Status.COMMITTING])
        again = await ask(bench, asked, trusted=True)
        assert (again.replayed, again.output) == (True, {"id": "op_1"})
        with refused_with("transaction.id_conflict"):
            await ask(bench, action(Mode.COMMIT, transaction="txn_1"), trusted=True)
        assert len(desk.seen) == 1


@pytest.mark.rule("TX-PIPE-1")
async def test_a_trusted_commit_needs_a_plan_where_the_contract_says_so() -> None:
    async with Workbench() as bench:
        with refused_with("transaction.plan_required"):
            await ask(bench, action(Mode.COMMIT), trusted=True)


@pytest.mark.rule("TX-PIPE-1")
async def test_a_compensation_names_its_target_and_a_reconciliation_its_transaction() -> None:
    async with Workbench() as bench:
        with refused_with("transaction.compensation_for_required"):
            await ask(bench, action(Mode.COMPENSATE))
        with refused_with("transaction.id_required"):
            await ask(bench, action(Mode.RECONCILE))


@pytest.mark.rule("TX-PIPE-2")
async def test_previews_say_that_approval_will_be_needed_and_ask_nobody(
    place: Path | None,
) -> None:
    async with Workbench(file=place) as bench:
        plan = await bench.alice.plan(CHARGE, {"amount": 500}, approval_required=True)
        dry = await ask(bench, action(Mode.DRY_RUN, approval=True))
        assert (plan.status, plan.approval_required, plan.approval_id) == ("planned", True, None)
        assert (dry.approval_required, dry.approval_id) == (True, None)
        assert dry.output == {
            "fidelity": "downstream_validation",
            "input_hash": (await bench.record(plan)).input_hash,
            "approval_required": True,
            "side_effects": ["financial"],
            "provider": {"status": "completed", "output": {"would_charge": 500, "currency": "eur"}},
        }
        assert (await bench.snapshot()).approvals == ()


@pytest.mark.rule("TX-PIPE-2", "AP-4")
async def test_a_pending_approval_does_not_consume_the_plan() -> None:
    async with Workbench() as bench:
        plan = await bench.alice.plan(CHARGE, {"amount": 500})
        waiting = await bench.alice.commit(plan, approval_required=True)
        assert waiting.status == "requires_human"
        assert (await bench.record(plan)).status is Status.PLANNED
        assert bench.provider.charges == 0


@pytest.mark.rule("TX-PIPE-3")
async def test_a_compensation_contract_forces_approval_under_the_tenants_policy() -> None:
    desk = Desk(compensate=[{"id": "re_1"}])
    forced = CompensationContract(mode=CompensationMode.SUPPORTED, requires_approval=True)
    async with Workbench(served=[desk.served(compensation=forced)]) as bench:
        done = await ask(bench, action())
        waiting = await bench.alice.compensate(done)
        assert waiting.status == "requires_human"
        with refused_with("approval.separation_of_duties"):
            await bench.alice.approve(waiting)
        await bench.bob.approve(waiting)
        made = await bench.alice.resume(waiting)
        assert made.status == "compensated"


class Changing:
    """A policy that answers as it was last told, and names its rules."""

    revision = "changing-1"
    verdict = PolicyVerdict.ALLOW
    fails = False

    def decide(self, question: PolicyQuestion) -> PolicyDecision:
        if self.fails:
            raise RuntimeError("the engine is down")
        return PolicyDecision(
            verdict=self.verdict, rules=("rule-7",), reason="told so", revision=self.revision
        )


@pytest.mark.rule("PO-1")
async def test_a_policy_that_fails_or_answers_half_has_denied() -> None:
    policy = Changing()
    async with Workbench(policy=policy) as bench:
        policy.fails = True
        with refused_with("policy.denied"):
            await ask(bench, action())
        policy.fails = False
        policy.verdict = PolicyVerdict.REQUIRE_APPROVAL
        with refused_with("policy.denied"):
            await ask(bench, action())
        assert bench.provider.charges == 0


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (action(transaction="t" * 121), "input.invalid_id"),
        (action(Mode.COMMIT, plan="-plan"), "input.invalid_id"),
        (action(Mode.COMPENSATE, target="a b"), "input.invalid_id"),
        (action(Mode.PLAN, plan="plan:txn_of_somebody_else"), "input.invalid_id"),
        (action(Mode.PLAN, plan="../x"), "input.invalid_id"),
        (action(metadata={"note": "x" * 17_000}), "action.metadata_too_large"),
        (action(metadata={"note": "\ud800"}), "input.lone_surrogate"),
        (action(input={"note": "\ud800"}), "input.lone_surrogate"),
        (action(input={"note": float("nan")}), "input.not_a_number"),
    ],
)
@pytest.mark.case("CAN-06")
async def test_a_malformed_envelope_is_refused_before_anything_else(
    asked: object, code: str
) -> None:
    async with Workbench() as bench:
        with refused_with(code):
            await ask(bench, asked)  # type: ignore[arg-type]  # from a table
        [entry] = await refusals(bench)
        assert [(one.gate, one.reason) for one in entry.verdicts] == [("envelope", "")]
        assert bench.provider.far_side.requests == []


async def test_what_the_wrapper_brings_is_checked_like_the_rest_of_the_envelope() -> None:
    async with Workbench() as bench:
        base = TransactionRequest(
            transaction_id="txn_1",  # type: ignore[arg-type]  # as a program writes it
            action=action(),
            requested_by=ALICE.ref,
        )
        for changes, code in (
            ({"reason": "\ud800"}, "input.lone_surrogate"),
            ({"reason": "x" * 2_001}, "input.too_large"),
            ({"reason": 7}, "input.unsupported_type"),
            ({"metadata": {"n": float("inf")}}, "input.not_a_number"),
            ({"cursor": ""}, "input.invalid_id"),
            (
                {"provider_operation": ProviderOperation("p", ProviderOperationId(""))},
                "input.invalid_id",
            ),
            (
                {"provider_operation": ProviderOperation("p", ProviderOperationId("o"), "\x00")},
                "input.invalid_id",
            ),
        ):
            with refused_with(code):
                await bench.alice.transact(replace(base, **changes))
        assert bench.provider.charges == 0


async def test_an_idempotency_key_is_required_where_the_capability_says_so() -> None:
    needed = IdempotencyContract(requirement=KeyRequirement.REQUIRED)
    async with Workbench(idempotency=needed) as bench:
        with refused_with("idempotency.key_required"):
            await ask(bench, action())
        [entry] = await refusals(bench)
        assert entry.verdicts[-1].gate == "contract"
        done = await ask(bench, action(key="order-7"))
        assert done.status == "committed"


@pytest.mark.parametrize("failure", [RuntimeError, SystemExit])
async def test_a_credential_source_that_fails_stops_the_request_without_its_words(
    failure: type[BaseException],
) -> None:
    class Broken:
        def credential(self, *_: object) -> Credential | None:
            raise failure("secret CANARY in a message")

    async with Workbench(credentials=Broken()) as bench:
        with refused_with("credential.unavailable") as caught:
            await ask(bench, action())
        assert caught.error.__cause__ is None
        assert caught.error.__suppress_context__
        assert "CANARY" not in str(caught.error)
        assert bench.provider.charges == 0


async def test_a_credential_source_may_refuse_in_its_own_words() -> None:
    class Strict:
        def credential(self, *_: object) -> Credential | None:
            raise Unavailable("credential.vault_sealed", "The vault is sealed.")

    async with Workbench(credentials=Strict()) as bench:
        with refused_with("credential.vault_sealed"):
            await ask(bench, action())


@pytest.mark.rule("TX-PIPE-1")
async def test_identity_comes_from_the_transport_and_must_be_of_its_tenant() -> None:
    async with Workbench() as bench:
        caller = Caller(principal=ALICE, identity=Identity(tenant=TenantId("globex")))
        with refused_with("identity.tenant_mismatch"):
            await bench.engine.perform(Request(action=action(), caller=caller))


async def test_two_capabilities_of_a_compensation_are_both_asked() -> None:
    desk, other = Desk(), Desk()
    offset = CompensationContract(
        mode=CompensationMode.SUPPORTED, compensation_capability_id=CapabilityId(CHARGE + ".undo")
    )
    contract = replace(contract_of(desk.handlers), supported_modes=(Mode.EXECUTE, Mode.COMPENSATE))
    served = [
        desk.served(compensation=offset, transaction=contract),
        other.served(CHARGE + ".undo", required_scopes=("undo",)),
    ]
    async with Workbench(served=served) as bench:
        done = await ask(bench, action())
        asked = action(Mode.COMPENSATE, target=done.action_id, input={})
        with refused_with("policy.denied"):
            await ask(bench, asked, principal=replace(ALICE, scopes=()))
        made = await ask(bench, asked)
        assert made.status == "compensated"


async def test_the_engine_keeps_what_a_request_was_accepted_with() -> None:
    async with Workbench() as bench:
        tags: list[Json] = ["a"]
        nested: dict[str, Json] = {"tags": tags}
        await ask(bench, action(id="act_1", metadata=nested, key="k", approval=True))
        tags.append("b")
        stored = await document(bench, "act_1")
        assert stored is not None
        assert stored.metadata == {"tags": ["a"]}
        assert (stored.idempotency_key, stored.approval_requested) == ("k", True)
        assert stored.asserted is False
        found = await bench.store.get(TransactionRecord, TENANT, stored.transaction_id)
        assert found is None


async def test_a_principal_of_another_kind_is_not_the_same_requester() -> None:
    async with Workbench() as bench:
        plan = await bench.alice.plan(CHARGE, {"amount": 500})
        assert plan.plan_id is not None
        service = Principal(id=ALICE.id, tenant=TENANT, kind=PrincipalKind.SERVICE)
        with refused_with("transaction.plan_principal_mismatch"):
            await ask(bench, action(Mode.COMMIT, plan=plan.plan_id), principal=service)
