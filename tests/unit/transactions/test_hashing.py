"""Digests and keys: what they cover, what they leave out, and that no two kinds meet."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from amends.contracts.canonical import canonical_bytes, digest
from amends.contracts.declarations import CompensationContract
from amends.contracts.enums import Mode, Risk, SideEffect
from amends.contracts.ids import ActionId, CapabilityId, PlanId, TenantId, TransactionId
from amends.contracts.json_types import Json, json_text
from amends.contracts.principals import PrincipalRef
from amends.testing.builders import (
    ACTION,
    CAPABILITY,
    INPUT_HASH,
    PLAN,
    TENANT,
    TRANSACTION,
    capability,
    identity,
    plan,
    principal,
    record,
    result,
)
from amends.transactions.hashing import (
    Intent,
    action_hash,
    contract_digest,
    fingerprint,
    governance_digest,
    input_hash,
    intent_digest,
    plan_digest,
    provider_key,
    transaction_of_key,
)

values: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


def intent(**changes: object) -> Intent:
    made = Intent(
        tenant=TENANT,
        action_id=ACTION,
        transaction_id=TRANSACTION,
        capability_id=CAPABILITY,
        mode=Mode.COMMIT,
        plan_id=PLAN,
        compensation_for=None,
        requester=principal().ref,
        identity=identity(),
        input_hash=INPUT_HASH,
    )
    return replace(made, **changes)


IN_BOTH: list[dict[str, object]] = [
    {"tenant": TenantId("other")},
    {"capability_id": CapabilityId("other")},
    {"mode": Mode.COMPENSATE},
    {"plan_id": PlanId("plan:txn_2")},
    {"plan_id": None},
    {"compensation_for": ActionId("act_other")},
    {"requester": PrincipalRef(principal("bob").id, principal().kind)},
    {"identity": None},
    {"identity": identity(external_account="acct_2")},
    {"input_hash": "other"},
]


@pytest.mark.rule("TX-PLAN-3")
@given(values)
def test_the_input_hash_is_that_of_the_canonical_object(value: Json) -> None:
    expected = digest({"capability_id": CAPABILITY, "input": value})
    assert input_hash(CAPABILITY, canonical_bytes(value)) == expected


@pytest.mark.rule("TX-PLAN-3")
def test_the_capability_is_part_of_the_input_hash() -> None:
    assert input_hash(CapabilityId("a"), b"1") != input_hash(CapabilityId("b"), b"1")


@pytest.mark.parametrize(
    "change",
    [
        {"risk": Risk.HIGH},
        {"version": "2"},
        {"side_effects": (SideEffect.FINANCIAL,)},
        {"required_scopes": ("pay",)},
        {"input_schema": {"type": "string"}},
        {"compensation": CompensationContract()},
        {"plan_ttl_ms": 1},
        {"principal_kinds": ()},
    ],
)
def test_every_declaration_is_part_of_the_contract_digest(change: dict[str, object]) -> None:
    assert contract_digest(capability()) == contract_digest(capability())
    assert contract_digest(capability()) != contract_digest(capability(**change))


@pytest.mark.rule("TX-PLAN-5")
def test_a_risk_that_was_accepted_governs_nothing_and_leaves_frozen_plans_as_they_are() -> None:
    accepted = capability(accepted_risks=("financial_unapproved",))
    assert contract_digest(accepted) == contract_digest(capability())


@pytest.mark.rule("TX-PLAN-5")
def test_contract_policy_and_identity_are_all_part_of_governance() -> None:
    digests = {
        governance_digest("contract", "policy-1", identity()),
        governance_digest("other", "policy-1", identity()),
        governance_digest("contract", "policy-2", identity()),
        governance_digest("contract", "policy-1", None),
        governance_digest("contract", "policy-1", identity(external_account="acct_2")),
    }
    assert len(digests) == 5


# ── plans ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "change",
    [
        {"plan_id": PlanId("plan:other")},
        {"transaction_id": TransactionId("txn_2")},
        {"action_id": ActionId("act_2")},
        {"requester": principal("bob").ref},
        {"input_hash": "other"},
        {"identity": None},
        {"governance_digest": "tighter"},
        {"approval_required": True},
        {"warnings": ("plan.expires_before_approval",)},
        {"validation": result()},
        {"expires_at": plan().created_at},
    ],
)
def test_everything_in_a_plan_is_part_of_its_digest(change: dict[str, object]) -> None:
    assert plan_digest(plan(**change)) != plan().digest


def test_a_plan_digest_leaves_out_itself_and_the_texts_whose_hashes_it_covers() -> None:
    validated = plan(validation=result(output_hash="hash"))
    without = replace(result(output_hash="hash"), output=None)
    assert plan_digest(plan(digest="whatever")) == plan().digest
    assert plan_digest(plan(validation=without)) == plan_digest(validated)
    bare = replace(plan().snapshot, input=None)
    assert plan_digest(plan(snapshot=bare)) == plan().digest
    shown = replace(plan().snapshot, input=json_text(b'"shown"'))
    assert plan_digest(plan(snapshot=shown)) == plan().digest


# ── the provider key ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("ID-5")
@pytest.mark.case("IDB-04")
def test_a_provider_key_is_made_of_identities_and_of_nothing_else() -> None:
    """Two payments of one amount to one target are two effects, and so are two tenants' own."""
    keys = {
        provider_key(TENANT, TRANSACTION, ACTION),
        provider_key(TenantId("other"), TRANSACTION, ACTION),
        provider_key(TENANT, TransactionId("txn_2"), ACTION),
        provider_key(TENANT, TRANSACTION, ActionId("act_2")),
    }
    assert len(keys) == 4
    assert all(re.fullmatch(r"amends-txn_[12]-[0-9a-f]{16}", key) for key in keys)
    assert provider_key(TENANT, TRANSACTION, ACTION) in keys


@given(st.tuples(*[st.text("abc", min_size=1, max_size=4)] * 3))
def test_identities_cannot_be_cut_elsewhere_to_make_the_same_provider_key(
    ids: tuple[str, str, str],
) -> None:
    tenant, transaction, action = ids
    shifted = (tenant + transaction[:1], transaction[1:], action)
    made = provider_key(TenantId(tenant), TransactionId(transaction), ActionId(action))
    other = provider_key(TenantId(shifted[0]), TransactionId(shifted[1]), ActionId(shifted[2]))
    assert made != other


names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,119}", fullmatch=True)


@given(names, names, names)
def test_a_provider_key_leads_back_to_its_transaction(
    tenant: str, transaction: str, action: str
) -> None:
    made = provider_key(TenantId(tenant), TransactionId(transaction), ActionId(action))
    assert transaction_of_key(made) == transaction


@pytest.mark.parametrize(
    "foreign",
    [
        "",
        "order-7",
        "amends-",
        "amends-txn_1",
        "amends--0123456789abcdef",
        "amends-txn_1-0123456789abcde",
        "amends-txn_1-0123456789abcdef0",
        "txn_1-0123456789abcdef",
        "Amends-txn_1-0123456789abcdef",
    ],
)
def test_a_foreign_key_leads_nowhere(foreign: str) -> None:
    assert transaction_of_key(foreign) is None


# ── intents ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("AP-2")
@pytest.mark.parametrize(
    "change",
    [*IN_BOTH, {"action_id": ActionId("act_2")}, {"transaction_id": TransactionId("txn_2")}],
)
def test_an_approval_is_bound_to_everything_that_would_run(change: dict[str, object]) -> None:
    bound = action_hash(intent(), "plan digest")
    assert bound == action_hash(intent(), "plan digest")
    assert bound != action_hash(intent(**change), "plan digest")
    assert bound != action_hash(intent(), "another plan digest")
    assert bound != action_hash(intent(), None)


@pytest.mark.rule("ID-2")
@pytest.mark.case("IDB-01", "IDB-02")
@pytest.mark.parametrize("change", IN_BOTH)
def test_a_fingerprint_covers_mode_capability_plan_target_principal_tenant_and_input(
    change: dict[str, object],
) -> None:
    assert fingerprint(intent(), None) != fingerprint(intent(**change), None)


@pytest.mark.rule("ID-2")
@pytest.mark.case("IDB-01")
@pytest.mark.parametrize("mode", Mode)
def test_a_fingerprint_covers_the_transaction_that_the_caller_chose(mode: Mode) -> None:
    """Also in a commit, so that one key on two transactions' paths is no replay."""
    asked = intent(mode=mode)
    chosen = {fingerprint(asked, one) for one in (None, TRANSACTION, TransactionId("txn_2"))}
    assert len(chosen) == 3


@pytest.mark.rule("ID-2")
def test_a_retry_under_a_new_action_has_the_same_fingerprint() -> None:
    retried = intent(action_id=ActionId("act_2"), transaction_id=TransactionId("txn_made_up"))
    assert fingerprint(retried, None) == fingerprint(intent(), None)


def test_digests_of_different_kinds_never_meet() -> None:
    kinds = [
        action_hash(intent(), None),
        fingerprint(intent(), None),
        contract_digest(capability()),
        governance_digest("contract", "policy", None),
        plan().digest,
        INPUT_HASH,
    ]
    assert len(set(kinds)) == len(kinds)
    assert all(re.fullmatch(r"[0-9a-f]{64}", one) for one in kinds)


@pytest.mark.rule("INT-1")
def test_what_a_transaction_means_is_its_plan_or_else_its_input() -> None:
    planned = record(plan=plan(digest="d" * 64))
    assert intent_digest(planned) == "d" * 64
    assert intent_digest(replace(planned, plan=None)) == planned.input_hash
