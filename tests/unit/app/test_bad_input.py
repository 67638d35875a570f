"""Whatever a program hands over, every public call answers with a code and never with the value.

Each argument of each call meets the values that break naive edges. What is refused names the
argument (or is a refusal of the named thing, such as an id that is not there), shows nothing of the
value, and leaves the store as it was.
"""

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

import pytest
from msgspec.structs import replace

from amends.contracts.actions import TransactionRequest
from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.documents import Refusal, UnclaimedEffect
from amends.contracts.errors import AmendsError
from amends.contracts.events import ProviderEvent, Said
from amends.contracts.ids import ProviderOperationId, TransactionId
from amends.contracts.outcomes import ErrorInfo, ProviderOperation
from amends.contracts.results import Result
from amends.testing.invariants import canary_absent
from amends.testing.snapshots import Snapshot
from amends.testing.workbench import ALICE, CHARGE, TENANT, Workbench
from tests.unit.app.hostile import (
    CANARY,
    NEVER_A_FLAG,
    NEVER_A_NUMBER,
    NEVER_A_RECORD,
    NEVER_A_REFERENCE,
    NEVER_AN_ID,
    NEVER_AN_OBJECT,
    NEVER_INPUT,
    NEVER_METADATA,
    NEVER_SECONDS,
    NEVER_TEXT_TO_KEEP,
    Value,
)
from tests.unit.runtime.desk import DONE, UNSURE, Desk, action

ASKED: Final = "payments.asked"
INPUT: Final = {"amount": 1}


class World:
    """A bench with one thing of every kind on it, and the calls that can be made of it."""

    def __init__(self, bench: Workbench, unsure: Result, plan: Result, waiting: Result) -> None:
        self.bench = bench
        self.unsure = unsure
        self.plan = plan
        self.waiting = waiting

    def request(self, **changes: Value) -> TransactionRequest:
        base = TransactionRequest(
            transaction_id=TransactionId("txn_new"),
            action=action(id="act_new"),
            requested_by=ALICE.ref,
        )
        return replace(base, **changes)

    def settle(self, **changes: Value) -> Awaitable[object]:
        told = {"reference": "ticket", "note": "found", "verdict": "committed", **changes}
        verdict = told.pop("verdict")
        return self.bench.olga.settle(told.pop("transaction", self.unsure), verdict, **told)


def event(**changes: Value) -> ProviderEvent:
    base = ProviderEvent(provider="desk", event_id="e", said=Said.APPLIED, operation_id="o")
    return replace(base, **changes)


def operation(**changes: Value) -> ProviderOperation:
    return replace(ProviderOperation("desk", ProviderOperationId("o")), **changes)


def error(**changes: Value) -> ErrorInfo:
    return replace(ErrorInfo(code="no"), **changes)


class Edge(NamedTuple):
    """One argument of one call, and the values that it never takes."""

    name: str
    call: Callable[[World, Value], Awaitable[object]]
    values: Mapping[str, Value]


def each(
    prefix: str,
    call: Callable[[World, dict[str, Value]], Awaitable[object]],
    fields: Mapping[str, Mapping[str, Value]],
) -> list[Edge]:
    """An edge for each argument of one call that is given by name."""

    def by_name(field: str) -> Callable[[World, Value], Awaitable[object]]:
        return lambda world, value: call(world, {field: value})

    return [Edge(prefix + field, by_name(field), values) for field, values in fields.items()]


def new(name: str) -> Callable[[World, dict[str, Value]], Awaitable[object]]:
    """One of the calls that begin something; well-formed, but for what is told."""

    def call(world: World, told: dict[str, Value]) -> Awaitable[object]:
        capability, value = told.pop("capability", CHARGE), told.pop("input", INPUT)
        made: Awaitable[object] = getattr(world.bench.alice, name)(capability, value, **told)
        return made

    return call


def decision(name: str) -> Callable[[World, dict[str, Value]], Awaitable[object]]:
    """One of the approver's calls; well-formed, but for what is told."""

    def call(world: World, told: dict[str, Value]) -> Awaitable[object]:
        approval = told.pop("approval", world.waiting)
        made: Awaitable[object] = getattr(world.bench.bob, name)(approval, **told)
        return made

    return call


def looking(name: str) -> Callable[[World, dict[str, Value]], Awaitable[object]]:
    """One of the operator's calls that only look."""

    def call(world: World, told: dict[str, Value]) -> Awaitable[object]:
        made: Awaitable[object] = getattr(world.bench.olga, name)(**told)
        return made

    return call


BEGUN: Final[Mapping[str, Mapping[str, Value]]] = MappingProxyType(
    {
        "capability": NEVER_AN_ID,
        "input": NEVER_INPUT,
        "action_id": NEVER_AN_ID,
        "transaction_id": NEVER_AN_ID,
        "metadata": NEVER_METADATA,
    }
)
GOVERNED: Final[Mapping[str, Mapping[str, Value]]] = MappingProxyType(
    {
        "action_id": NEVER_AN_ID,
        "idempotency_key": NEVER_A_REFERENCE,
        "approval_required": NEVER_A_FLAG,
        "metadata": NEVER_METADATA,
    }
)


def asking_edges() -> list[Edge]:
    own = {"approval_required": NEVER_A_FLAG, "plan_id": NEVER_AN_ID}
    return [
        *each("execute.", new("execute"), {**BEGUN, **GOVERNED}),
        *each("dry_run.", new("dry_run"), BEGUN),
        *each("plan.", new("plan"), {**BEGUN, **own}),
        *each(
            "commit.",
            lambda w, told: w.bench.alice.commit(told.pop("plan", w.plan), **told),
            {"plan": NEVER_AN_ID, "input": NEVER_INPUT, **GOVERNED},
        ),
        *each(
            "compensate.",
            lambda w, told: w.bench.alice.compensate(told.pop("target", "act_done"), **told),
            {"target": NEVER_AN_ID, "transaction_id": NEVER_AN_ID, **GOVERNED},
        ),
        *each(
            "resume.",
            lambda w, told: w.bench.alice.resume(told.pop("waiting", w.waiting), **told),
            {"waiting": NEVER_AN_ID, "input": NEVER_INPUT},
        ),
        *each(
            "wait.",
            lambda w, told: w.bench.alice.wait_for_approval(told.pop("on", w.waiting), **told),
            {"on": NEVER_AN_ID, "timeout_s": NEVER_SECONDS},
        ),
    ]


def reconcile_edges() -> list[Edge]:
    told = {
        "transaction": NEVER_AN_ID,
        "input": NEVER_INPUT,
        "insist": NEVER_A_FLAG,
        "provider_operation": NEVER_AN_ID,
        "cursor": NEVER_A_REFERENCE,
    }
    parts = dict.fromkeys(("provider", "operation_id", "request_id"), NEVER_A_REFERENCE)
    return [
        *each(
            "reconcile.",
            lambda w, one: w.bench.olga.reconcile(one.pop("transaction", w.unsure), **one),
            told,
        ),
        *each(
            "reconcile.provider_operation.",
            lambda w, one: w.bench.olga.reconcile(w.unsure, provider_operation=operation(**one)),
            parts,
        ),
    ]


def wrapper_edges() -> list[Edge]:
    request = {
        "transaction_id": NEVER_AN_ID,
        "action": NEVER_A_RECORD,
        "requested_by": NEVER_A_RECORD,
        "reason": NEVER_TEXT_TO_KEEP,
        "metadata": NEVER_METADATA,
        "provider_operation": NEVER_AN_ID,
        "cursor": NEVER_A_REFERENCE,
    }
    inner = {
        "capability_id": NEVER_AN_ID,
        "input": NEVER_INPUT,
        "transaction": NEVER_A_RECORD,
        **GOVERNED,
    }
    context = dict.fromkeys(("mode", "transaction_id", "plan_id", "compensation_for"), NEVER_AN_ID)
    made = action(id="act_new")

    def asked(world: World, told: dict[str, Value]) -> Awaitable[object]:
        return world.bench.alice.transact(world.request(**told))

    def acted(world: World, told: dict[str, Value]) -> Awaitable[object]:
        return asked(world, {"action": replace(made, **told)})

    def meant(world: World, told: dict[str, Value]) -> Awaitable[object]:
        return acted(world, {"transaction": replace(made.transaction, **told)})

    return [
        Edge("transact.request", lambda w, v: w.bench.alice.transact(v), NEVER_A_RECORD),
        *each("transact.", asked, request),
        *each("transact.action.", acted, inner),
        *each("transact.context.", meant, context),
    ]


def people_edges() -> list[Edge]:
    decided = {
        "approval": NEVER_AN_ID,
        "reason": NEVER_TEXT_TO_KEEP,
        "seen_revision": NEVER_A_NUMBER,
    }
    evidence = {"evidence": {**NEVER_METADATA, "no text in it": {"a": 7}}}
    return [
        *each("approve.", decision("approve"), {**decided, **evidence}),
        *each("deny.", decision("deny"), decided),
        *each("revoke.", decision("revoke"), decided),
        *each(
            "cancel.",
            lambda w, told: w.bench.alice.cancel(told.pop("action", w.waiting), **told),
            {"action": NEVER_AN_ID, "reason": NEVER_TEXT_TO_KEEP},
        ),
        Edge("withdraw.plan", lambda w, v: w.bench.alice.withdraw(v), NEVER_AN_ID),
        Edge("release.transaction", lambda w, v: w.bench.olga.release(v), NEVER_AN_ID),
    ]


def ruling_edges() -> list[Edge]:
    settled = {
        "transaction": NEVER_AN_ID,
        "verdict": NEVER_AN_ID,
        "reference": NEVER_TEXT_TO_KEEP,
        "note": NEVER_TEXT_TO_KEEP,
        "accept_risk": NEVER_A_FLAG,
        "seen_revision": NEVER_A_NUMBER,
    }
    ruled = {
        "correction": NEVER_AN_ID,
        "ruling": NEVER_TEXT_TO_KEEP,
        "allow_compensation": NEVER_A_FLAG,
    }
    word = {"correction": "cor_1", "ruling": "seen", "allow_compensation": False}
    return [
        *each("settle.", lambda w, told: w.settle(**told), settled),
        *each("rule.", lambda w, told: w.bench.olga.rule(**{**word, **told}), ruled),
    ]


def evidence_edges() -> list[Edge]:
    fields = {
        "provider": NEVER_AN_ID,
        "event_id": NEVER_A_REFERENCE,
        "said": NEVER_AN_ID,
        "provider_key": NEVER_A_REFERENCE,
        "operation_id": NEVER_A_REFERENCE,
        "error": NEVER_AN_ID,
    }
    parts = {
        "code": NEVER_TEXT_TO_KEEP,
        "message": NEVER_A_REFERENCE,
        "category": NEVER_AN_ID,
        "retryable": NEVER_A_FLAG,
        "details": {name: one for name, one in NEVER_AN_OBJECT.items() if "half" not in name},
    }
    return [
        Edge("evidence.event", lambda w, v: w.bench.olga.evidence(v), NEVER_A_RECORD),
        *each("evidence.", lambda w, told: w.bench.olga.evidence(event(**told)), fields),
        *each(
            "evidence.error.",
            lambda w, told: w.bench.olga.evidence(event(error=error(**told))),
            parts,
        ),
    ]


def reading_edges() -> list[Edge]:
    lists = {
        "where": {**NEVER_AN_OBJECT, "no column": {CANARY: "x"}, "no text in it": {"status": 7}},
        "after": NEVER_A_REFERENCE,
        "limit": {**NEVER_A_NUMBER, "none at all": 0},
    }
    ids = dict.fromkeys(("transaction_id", "plan_id", "action_id"), NEVER_AN_ID)
    flags = dict.fromkeys(("include_result", "include_receipts"), NEVER_A_FLAG)
    return [
        *each("list.", looking("list"), lists),
        *each("approvals.", looking("approvals"), lists),
        *each("get.", looking("get"), ids),
        *each("get.", lambda w, told: w.bench.olga.get(w.unsure.transaction_id, **told), flags),
        *each("", looking("approval"), {"approval": NEVER_AN_ID}),
        Edge("receipts", lambda w, v: w.bench.olga.receipts(v), NEVER_AN_ID),
        Edge("verify", lambda w, v: w.bench.olga.verify(v), NEVER_AN_ID),
        Edge("refusals", lambda w, v: w.bench.olga.refusals(v), NEVER_A_REFERENCE),
    ]


EDGES: Final = [
    *asking_edges(),
    *reconcile_edges(),
    *wrapper_edges(),
    *people_edges(),
    *ruling_edges(),
    *evidence_edges(),
    *reading_edges(),
]
NAMED_THING: Final = (
    ".not_found",
    "compensation_target_not_found",
    "plan_not_found",
    "mode_not_supported",
    "principal_mismatch",
    "transaction_mismatch",
    "idempotency.key_invalid",
    "view.selector_invalid",
    "metadata_too_large",
    "store.bad_cursor",
)
"""Refusals that say by their code which argument is meant."""


def names_what_is_wrong(caught: AmendsError) -> bool:
    place = caught.details.get("field") or caught.details.get("path")
    return bool(place) or caught.code.startswith("input.") or caught.code.endswith(NAMED_THING)


async def told(edge: Edge, world: World, value: Value) -> str:
    """What is wrong with the answer to one value; empty, if nothing is."""
    try:
        await asyncio.wait_for(edge.call(world, value), 5)
    except AmendsError as caught:
        said = [str(caught), repr(caught), repr(dict(caught.details))]
        said += traceback.format_exception(caught)
        leaks = canary_absent(CANARY, *said)
        return "; ".join(leaks) or ("" if names_what_is_wrong(caught) else f"only {caught.code}")
    except Exception as caught:  # whatever it is, it is the finding
        return f"raises {type(caught).__name__}"
    return "is taken"


async def kept(bench: Workbench) -> tuple[Snapshot, tuple[object, ...]]:
    """All that the store holds, but for the refusals."""
    unclaimed = await bench.store.list(UnclaimedEffect, TENANT)
    return await bench.snapshot(), unclaimed.items


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """The file of a SQLite store, or none for a store in memory."""
    return tmp_path / "amends.db" if request.param == "sqlite" else None


@pytest.mark.rule("TX-PIPE-4", "RD-2")
@pytest.mark.case("SEC-02", "INJ-02")
@pytest.mark.parametrize("name", [edge.name for edge in EDGES])
async def test_a_hostile_value_is_refused_by_name_and_leaves_nothing(
    name: str, place: Path | None
) -> None:
    [edge] = [one for one in EDGES if one.name == name]
    desk = Desk([DONE, UNSURE], reconcile=[DONE], compensate=[DONE])
    schema = {"type": "object", "properties": {"amount": {"type": "integer"}}}
    served = [
        desk.served(input_schema=schema),
        Desk().served(ASKED, approval=ApprovalPolicy(), input_schema=schema),
    ]
    async with Workbench(served=served, file=place) as bench:
        alice = bench.alice
        await alice.execute(CHARGE, INPUT, action_id="act_done")
        unsure = await alice.execute(CHARGE, INPUT)
        plan = await alice.plan(CHARGE, INPUT)
        waiting = await alice.execute(ASKED, INPUT)
        world = World(bench, unsure, plan, waiting)
        before = await kept(bench)
        answers = {what: await told(edge, world, value) for what, value in edge.values.items()}
        assert {what: one for what, one in answers.items() if one} == {}
        assert await kept(bench) == before
        page = await bench.store.list(Refusal, TENANT)
        assert canary_absent(CANARY, repr(page.items)) == []
        assert len(desk.seen) == 2
