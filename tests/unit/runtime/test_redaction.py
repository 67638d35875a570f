"""With redaction required nothing of a value is kept but its hash and its shape (RD-1, RD-2)."""

import logging
from pathlib import Path

import pytest
from msgspec.structs import replace

from amends.connectors import signals
from amends.connectors.port import Attempt
from amends.contracts.actions import TransactionRequest
from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.declarations import CompensationContract, DataContract
from amends.contracts.enums import CompensationMode, Handler, Mode, Status
from amends.contracts.errors import AmendsError
from amends.contracts.ids import CapabilityId, ProviderOperationId
from amends.contracts.json_types import Json
from amends.contracts.outcomes import (
    Applied,
    ErrorInfo,
    NotApplied,
    ProviderOperation,
    Uncertain,
)
from amends.contracts.secrets import Credential, Secret
from amends.testing.invariants import canary_absent
from amends.testing.refusals import refused_with
from amends.testing.workbench import ALICE, CHARGE, Workbench, contract_of
from tests.unit.runtime.desk import UNSURE, Desk, action, ask, document

CANARY = "kanarienvogel-7319"
SECRETIVE: Json = {
    "card": CANARY,
    "nested": {"list": [1, {"note": CANARY}], CANARY: True},
    "url": f"https://example.test/?q={CANARY}",
}
REDACTED = DataContract(redaction_required=True, contains_pii=True)


def files_of(database: Path) -> list[bytes]:
    """Everything that the store left on the disk, write-ahead log and key included."""
    return [one.read_bytes() for one in sorted(database.parent.glob(f"{database.name}*"))]


@pytest.mark.rule("RD-1", "RD-2", "RC-4", "TX-PLAN-3")
@pytest.mark.case("SEC-01")
async def test_a_canary_is_nowhere_in_the_store_the_log_or_what_is_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    database = tmp_path / "amends.db"
    desk = Desk(
        [
            {"echo": SECRETIVE},
            RuntimeError(CANARY),
            NotApplied(error=ErrorInfo(code="no", message=CANARY, details={"x": CANARY})),
            signals.Partial("half", CANARY, output={"echo": CANARY}),
        ],
        preview=[{"quote": CANARY}, {"quote": CANARY}, RuntimeError(CANARY)],
        reconcile=[{"found": CANARY}],
        compensate=[{"undone": CANARY}],
    )
    served = desk.served(data=REDACTED, approval=ApprovalPolicy())
    shown: list[object] = []
    async with Workbench(served=[served], file=database) as bench:
        shown.append(await ask(bench, action(Mode.DRY_RUN, input=SECRETIVE)))
        plan = await ask(bench, action(Mode.PLAN, input=SECRETIVE, metadata={"m": CANARY}))
        rejected = await ask(bench, action(Mode.PLAN, input=SECRETIVE))
        waiting = await bench.alice.commit(plan, SECRETIVE, metadata={"m": CANARY})
        await bench.bob.approve(waiting)
        done = await bench.alice.resume(waiting, SECRETIVE)
        assert (rejected.status, done.status) == ("failed", "committed")
        offset = await bench.alice.compensate(done, SECRETIVE)
        await bench.bob.approve(offset)
        shown += [plan, waiting, done, await bench.alice.resume(offset, SECRETIVE)]
        for n in range(3):
            pending = await ask(bench, action(id=f"act_{n}", input=SECRETIVE, key=f"k{n}"))
            await bench.bob.approve(pending)
            shown.append(await ask(bench, action(id=f"act_{n}", input=SECRETIVE, key=f"k{n}")))
        bench.wait(5)
        await bench.sweep()
        page = await bench.alice.list()
        for one in (plan, done):
            shown.append(await bench.alice.get(one, include_result=True, include_receipts=True))
        shown += [page, await bench.snapshot()]
        assert desk.entered(Handler.EXECUTE) == 4
    told = [repr(one) for one in shown]
    assert canary_absent(CANARY, *files_of(database), *told, caplog.text) == []


@pytest.mark.rule("RD-1")
async def test_a_redacted_plan_is_committed_with_the_same_input_and_no_other(
    place: Path | None,
) -> None:
    desk = Desk()
    async with Workbench(served=[desk.served(data=REDACTED)], file=place) as bench:
        plan = await ask(bench, action(Mode.PLAN, input=SECRETIVE))
        record = await bench.record(plan)
        assert record.plan is not None
        assert (record.plan.snapshot.redacted, record.plan.snapshot.input) == (True, None)
        with refused_with("action.input_required"):
            await bench.alice.commit(plan)
        with refused_with("transaction.plan_input_hash_mismatch"):
            await bench.alice.commit(plan, {"card": "another"})
        done = await bench.alice.commit(plan, SECRETIVE)
        assert (done.status, done.output_redacted) == ("committed", True)
        assert desk.seen[0].call.input == SECRETIVE


@pytest.mark.rule("RD-1")
async def test_an_output_is_kept_as_its_hash_and_its_shape() -> None:
    desk = Desk([{"id": CANARY, "n": 7, CANARY: [True, None]}])
    schema = {"type": "object", "properties": {"id": {}, "n": {}}}
    served = desk.served(data=REDACTED, output_schema=schema)
    async with Workbench(served=[served]) as bench:
        done = await ask(bench, action())
        assert done.output == {
            "id": "[string]",
            "n": "[number]",
            "[key 1]": ["[boolean]", "[null]"],
        }
        assert done.output_hash is not None


@pytest.mark.rule("RD-1")
async def test_an_action_that_waited_needs_its_input_again_to_be_resumed() -> None:
    desk = Desk()
    served = desk.served(data=REDACTED, approval=ApprovalPolicy())
    async with Workbench(served=[served]) as bench:
        waiting = await ask(bench, action(id="act_1", input=SECRETIVE))
        await bench.bob.approve(waiting)
        with refused_with("action.input_required"):
            await bench.alice.resume("act_1")
        with refused_with("action.id_conflict"):
            await bench.alice.resume("act_1", {"card": "another"})
        done = await bench.alice.wait_for_approval("act_1", input=SECRETIVE)
        assert done.status == "committed"


@pytest.mark.rule("RD-1", "TX-REQ-1")
@pytest.mark.case("SEC-01")
async def test_reason_and_metadata_of_the_wrapper_are_not_kept_either() -> None:
    desk = Desk()
    async with Workbench(served=[desk.served(data=REDACTED)]) as bench:
        request = TransactionRequest(
            transaction_id="txn_1",  # type: ignore[arg-type]  # as a program writes it
            action=action(id="act_1", input=SECRETIVE, metadata={"m": CANARY}),
            requested_by=ALICE.ref,
            reason=CANARY,
            metadata={"m": CANARY},
        )
        await bench.alice.transact(request)
        stored = await document(bench, "act_1")
        assert stored is not None
        assert (stored.input, stored.requested, stored.metadata) == (None, None, {})
        assert canary_absent(CANARY, repr(await bench.snapshot())) == []


@pytest.mark.case("SEC-02")
@pytest.mark.rule("RD-2")
@pytest.mark.parametrize(
    "value",
    [
        {"amount": "x", "card": CANARY},
        {"amount": CANARY},
        {"amount": 1, CANARY: 1},
        {"amount": 1, "nan": [CANARY, float("nan")]},
        {"amount": 1, CANARY: float("nan")},
        {"amount": 1, "blob": CANARY * 100_000},
        {"amount": 1, "half": CANARY + "\ud800"},
        CANARY,
        [CANARY],
    ],
)
async def test_a_refused_input_is_kept_nowhere_and_its_values_are_not_told(
    value: Json, tmp_path: Path
) -> None:
    database = tmp_path / "amends.db"
    schema: Json = {
        "type": "object",
        "properties": {"amount": {"type": "integer"}},
        "additionalProperties": False,
    }
    async with Workbench(served=[Desk().served(input_schema=schema)], file=database) as bench:
        with pytest.raises(AmendsError) as caught:
            await ask(bench, action(input=value))
        if not (isinstance(value, dict) and CANARY in value):
            # A place is named by its keys, to the caller alone.
            assert canary_absent(CANARY, str(caught.value), repr(caught.value.details)) == []
    assert canary_absent(CANARY, *files_of(database)) == []


@pytest.mark.rule("RD-2")
@pytest.mark.case("SEC-03")
async def test_a_credential_that_a_provider_echoes_is_taken_out_of_what_is_kept(
    tmp_path: Path,
) -> None:
    database = tmp_path / "amends.db"

    class Vault:
        def credential(self, *_: object) -> Credential:
            return Credential(secret=Secret(CANARY))

    echo = ErrorInfo(code="no", message=f"bad token {CANARY}", details={"header": f"B {CANARY}"})
    told = {"id": "ch_1", "headers": [{"authorization": f"Bearer {CANARY}"}], f"for {CANARY}": 1}
    desk = Desk([NotApplied(error=echo), told], preview=[NotApplied(error=echo), told])
    async with Workbench(served=[desk.served()], file=database, credentials=Vault()) as bench:
        made = await ask(bench, action())
        plan = await ask(bench, action(Mode.PLAN))
        assert (made.status, plan.status) == ("failed", "failed")
        assert made.error is not None
        assert made.error.message.startswith("bad token")
        done = await ask(bench, action(transaction="txn_done"))
        seen = await ask(bench, action(Mode.PLAN, transaction="txn_seen"))
        assert done.output == {
            "id": "ch_1",
            "headers": [{"authorization": "Bearer [redacted]"}],
            "for [redacted]": 1,
        }
        assert seen.status == "planned"
        assert canary_absent(CANARY, repr((made, plan, done, seen)), repr(desk.seen[0].call)) == []
    assert canary_absent(CANARY, *files_of(database)) == []


@pytest.mark.rule("RD-2")
@pytest.mark.case("SEC-03")
async def test_a_credential_in_a_reference_or_a_cursor_is_not_kept_and_not_sent_in_a_look_up(
    tmp_path: Path,
) -> None:
    """A provider that repeats it as the id of what it made; the effect is there all the same."""
    database = tmp_path / "amends.db"

    class Vault:
        def credential(self, *_: object) -> Credential:
            return Credential(secret=Secret(CANARY))

    def by(operation_id: str, request_id: str | None = None) -> ProviderOperation:
        return ProviderOperation("desk", ProviderOperationId(operation_id), request_id)

    refused: list[str] = []

    async def notes(attempt: Attempt) -> object:
        for given in ((f"op {CANARY}", None, None), ("op_1", CANARY, None), ("op_1", None, CANARY)):
            with pytest.raises(AmendsError) as caught:
                await attempt.checkpoint("desk", given[0], request_id=given[1], cursor=given[2])
            refused.append(caught.value.code)
        await attempt.checkpoint("desk", "op_1")
        return {}

    unsure = ErrorInfo(
        code="no", details={"provider_operation": {"provider": "d", "operation_id": CANARY}}
    )
    desk = Desk(
        [
            Applied(output={}, operation=by(CANARY)),
            Applied(output={}, operation=by("op_1", f"for {CANARY}")),
            notes,
            Uncertain(error=unsure, cursor=f"after {CANARY}"),
        ],
    )
    async with Workbench(served=[desk.served()], file=database, credentials=Vault()) as bench:
        bare = await ask(bench, action(transaction="txn_1"))
        cut = await ask(bench, action(transaction="txn_2"))
        noted = await ask(bench, action(transaction="txn_3"))
        unknown = await ask(bench, action(transaction="txn_4"))
        assert (bare.status, bare.provider_operation) == ("committed", None)
        assert cut.provider_operation == noted.provider_operation == by("op_1")
        assert refused == ["transaction.checkpoint_refused"] * 3
        assert (unknown.status, unknown.provider_operation) == ("outcome_unknown", None)
        assert canary_absent(CANARY, repr((bare, cut, noted, unknown))) == []
    assert canary_absent(CANARY, *files_of(database)) == []


@pytest.mark.rule("RD-2")
async def test_without_redaction_declared_pointers_and_secret_names_are_hidden_in_errors() -> None:
    error = ErrorInfo(code="no", details={"password": CANARY, "who": {"tax": CANARY}})
    data = DataContract(redact=("/who/tax",))
    desk = Desk([NotApplied(error=error)])
    async with Workbench(served=[desk.served(data=data)]) as bench:
        made = await ask(bench, action())
        assert canary_absent(CANARY, repr(made), repr(await bench.snapshot())) == []


@pytest.mark.rule("RD-1")
async def test_a_capability_that_redacts_governs_what_it_offsets_for_another() -> None:
    desk, other = Desk(), Desk()
    offset = CompensationContract(
        mode=CompensationMode.SUPPORTED,
        compensation_capability_id=CapabilityId(CHARGE + ".undo"),
    )
    modes = replace(contract_of(desk.handlers), supported_modes=(Mode.EXECUTE, Mode.COMPENSATE))
    served = [
        desk.served(compensation=offset, transaction=modes),
        other.served(CHARGE + ".undo", data=REDACTED),
    ]
    async with Workbench(served=served) as bench:
        done = await ask(bench, action())
        made = await bench.alice.compensate(done, SECRETIVE)
        assert made.status == "compensated"
        assert canary_absent(CANARY, repr(await bench.snapshot())) == []
        assert other.seen[0].call.input == SECRETIVE


@pytest.mark.rule("RD-1")
async def test_a_look_up_of_a_redacted_effect_keeps_nothing_of_what_it_finds() -> None:
    desk = Desk([UNSURE], reconcile=[{"found": CANARY}])
    async with Workbench(served=[desk.served(data=REDACTED)]) as bench:
        made = await ask(bench, action(input=SECRETIVE))
        bench.wait(5)
        found = await bench.alice.reconcile(made)
        assert (found.status, found.output_redacted) == ("reconciled", True)
        assert canary_absent(CANARY, repr(await bench.snapshot())) == []
        assert (await bench.record(made)).status is Status.RECONCILED
