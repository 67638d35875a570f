"""Spilled settlements: kept whole and signed, taken in once, and never believed of strangers."""

import os
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import msgspec
import pytest
from msgspec.structs import replace

from amends.connectors.port import Attempt
from amends.contracts.declarations import DataContract
from amends.contracts.documents import Correction, TransactionRecord
from amends.contracts.enums import Mode, Status, Verdict
from amends.contracts.errors import AmendsError, Unavailable
from amends.contracts.ids import Fence, TransactionId
from amends.contracts.outcomes import Applied, NotApplied, NotFound, Outcome, Uncertain
from amends.contracts.principals import PrincipalRef
from amends.receipts.signing import Ed25519Signer, KeyRing
from amends.runtime.engine import Engine
from amends.runtime.heard import Heard
from amends.runtime.spilled import Became, SpilledAnswers
from amends.stores.port import Stored
from amends.testing.builders import DECLINED, OPERATION, OTHER_OPERATION, principal
from amends.testing.refusals import refused_with
from amends.testing.workbench import TENANT, Workbench
from amends.transactions.settlement import NO_OUTPUT, Certainty, Reading, StoredOutput
from amends.wiring.spill import FileSpill, forget, read_spilled, spill_path, waiting
from tests.unit.runtime.desk import DONE, UNSURE, Desk, action, ask, chain, claim, replaced

SIGNER: Final = Ed25519Signer(bytes(range(32)))
KEYS: Final = KeyRing([SIGNER.public_key])
ALICE: Final[PrincipalRef] = principal().ref
GONE: Final = Unavailable("store.poisoned", "The disk is gone.")


def heard(**changes: object) -> Heard:
    made = Heard(
        tenant=TENANT,
        transaction_id=TransactionId("txn_1"),
        reading=Reading(certainty=Certainty.APPLIED, operation=OPERATION),
        output=StoredOutput(output_hash="ab" * 32),
        actor=ALICE,
        fence=Fence("fen_1"),
        event="settlement:fen_1",
    )
    return replace(made, **changes)


# ── files ────────────────────────────────────────────────────────────────────────────────────────


async def test_what_is_kept_is_read_back_as_it_was(tmp_path: Path) -> None:
    database = tmp_path / "amends.db"
    spill = FileSpill(spill_path(database), SIGNER)
    assert await spill.keep(heard()) == "amends.db.spill/settlement-fen_1.json"
    (file,) = waiting(database)
    assert read_spilled(file, KEYS) == heard()
    forget(file)
    assert waiting(database) == []


async def test_only_the_owner_can_look_and_nothing_is_left_half_done(tmp_path: Path) -> None:
    folder = spill_path(tmp_path / "amends.db")
    await FileSpill(folder, SIGNER).keep(heard())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_keeping_the_same_again_is_one_file_and_another_word_another(tmp_path: Path) -> None:
    database = tmp_path / "amends.db"
    spill = FileSpill(spill_path(database), SIGNER)
    for _ in range(2):
        await spill.keep(heard())
    await spill.keep(heard(event="late:fen_1"))
    assert [file.name for file in waiting(database)] == [
        "settlement-fen_1.json",
        "late-fen_1.json",
    ]


@pytest.mark.parametrize("broken", ["a file in the way", "no room"])
async def test_what_cannot_be_kept_says_so_and_leaves_nothing(
    tmp_path: Path, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = spill_path(tmp_path / "amends.db")
    if broken == "no room":

        def full(_: int) -> None:
            raise OSError(28, "no space left")

        monkeypatch.setattr(os, "fsync", full)
        folder.mkdir()
    else:
        folder.write_text("in the way")
    with refused_with("spill.unavailable") as caught:
        await FileSpill(folder, SIGNER).keep(heard())
    assert caught.error.details == {"folder": "amends.db.spill"}
    assert not folder.is_dir() or not list(folder.iterdir())


CHANGED: Final[dict[str, Callable[[bytes], bytes]]] = {
    "half of it": lambda content: content[: len(content) // 2],
    "nothing": lambda _: b"",
    "another member": lambda content: b'{"more":1,' + content[1:],
    "another kind": lambda content: content.replace(b'"certainty":"applied"', b'"certainty":"x"'),
    "another format": lambda content: content.replace(b"amends-spill-1", b"amends-spill-2"),
    "too large": lambda content: content + b" " * (17 * 1024 * 1024),
}


@pytest.mark.parametrize("change", CHANGED.values(), ids=CHANGED)
async def test_a_damaged_file_is_not_believed(
    tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    database = tmp_path / "amends.db"
    await FileSpill(spill_path(database), SIGNER).keep(heard())
    (file,) = waiting(database)
    file.write_bytes(change(file.read_bytes()))
    with refused_with("spill.damaged") as caught:
        read_spilled(file, KEYS)
    assert caught.error.details == {"file": file.name}


@pytest.mark.case("RST-01")
@pytest.mark.parametrize(
    ("old", "new"),
    [(b'"ch_1"', b'"ch_2"'), (b'"applied"', b'"partial"'), (b"txn_1", b"txn_2")],
)
async def test_a_file_that_somebody_changed_is_not_believed(
    tmp_path: Path, old: bytes, new: bytes
) -> None:
    database = tmp_path / "amends.db"
    await FileSpill(spill_path(database), SIGNER).keep(heard())
    (file,) = waiting(database)
    content = file.read_bytes()
    assert old in content
    file.write_bytes(content.replace(old, new))
    with refused_with("spill.not_ours"):
        read_spilled(file, KEYS)


async def test_a_file_that_another_key_signed_is_not_believed(tmp_path: Path) -> None:
    database = tmp_path / "amends.db"
    await FileSpill(spill_path(database), Ed25519Signer(b"\7" * 32)).keep(heard())
    with refused_with("spill.not_ours"):
        read_spilled(waiting(database)[0], KEYS)


# ── what the engine spills ───────────────────────────────────────────────────────────────────────


class Keeping:
    """A spill in memory."""

    def __init__(self, error: AmendsError | None = None) -> None:
        self.kept: list[Heard] = []
        self._error = error

    async def keep(self, heard: Heard) -> str:
        if self._error is not None:
            raise self._error
        self.kept.append(heard)
        return "kept"


def with_spill(bench: Workbench, spill: Keeping) -> None:
    bench.engine = Engine(replace(bench.engine.environment, spill=spill))


class Losing(Workbench):
    """A bench whose store fails as soon as the provider has answered, until it is mended."""

    def __init__(self, outcome: Outcome, **changes: object) -> None:
        desk = Desk([self._breaking(outcome)], reconcile=[NotFound()])
        super().__init__(served=[desk.served(**changes)])
        self.mend: Callable[[], None]

    def _breaking(self, outcome: Outcome) -> Callable[[Attempt], Awaitable[object]]:
        async def breaks(_attempt: Attempt) -> object:
            self.mend = broken(self)
            return outcome

        return breaks

    async def lose(self, spill: Keeping) -> AmendsError:
        """Execute `txn_1`, and lose its settlement."""
        with_spill(self, spill)
        with pytest.raises(AmendsError) as caught:
            await ask(self, action(id="act_1", transaction="txn_1"))
        return caught.value

    async def lost(self) -> Heard:
        """The settlement that was lost, on a store that works again."""
        spill = Keeping()
        await self.lose(spill)
        self.mend()
        return spill.kept[0]


def broken(bench: Workbench) -> Callable[[], None]:
    """A store that takes nothing any more; returns how to mend it."""

    async def fails(*_: object) -> object:
        raise GONE

    return replaced(bench, "commit", fails)


@pytest.mark.case("RST-01")
async def test_a_settlement_that_the_store_refuses_is_kept_and_the_error_names_where() -> None:
    async with Losing(Applied(output=DONE, operation=OPERATION)) as bench:
        spill = Keeping()
        error = await bench.lose(spill)
        assert (error.family, error.code) == (
            "outcome_unknown",
            "transaction.settlement_not_stored",
        )
        assert error.details == {
            "transaction_id": "txn_1",
            "provider_operation_id": OPERATION.operation_id,
            "kept_in": "kept",
        }
        (kept,) = spill.kept
        assert (kept.reading.certainty, kept.reading.operation) == (Certainty.APPLIED, OPERATION)
        assert kept.output.output == '{"id":"op_1"}'


async def test_where_nothing_can_be_kept_the_error_still_names_the_operation() -> None:
    async with Losing(Applied(output=DONE, operation=OPERATION)) as bench:
        error = await bench.lose(Keeping(Unavailable("spill.unavailable", "No room.")))
        assert error.details == {
            "transaction_id": "txn_1",
            "provider_operation_id": OPERATION.operation_id,
        }


async def test_a_look_up_that_found_nothing_is_not_worth_a_file() -> None:
    desk = Desk([UNSURE], reconcile=[NotFound()])
    async with Workbench(served=[desk.served()]) as bench:
        await ask(bench, action(id="act_1", transaction="txn_1"))
        bench.wait(60)
        spill = Keeping()
        with_spill(bench, spill)
        running = await claim(bench, action(Mode.RECONCILE, id="act_look", transaction="txn_1"))
        mend = broken(bench)
        bench.engine.dispatch(running)
        with refused_with("transaction.settlement_not_stored"):
            await running.answer
        mend()
        assert spill.kept == []


# ── taking in ────────────────────────────────────────────────────────────────────────────────────


async def taken_in(bench: Workbench, said: Heard) -> list[Became]:
    """Take it in three times."""
    return [await SpilledAnswers(bench.engine).take(said) for _ in range(3)]


@pytest.mark.case("RST-01")
@pytest.mark.parametrize("lapsed", [True, False])
async def test_a_kept_settlement_settles_its_record_once_lease_or_not(lapsed: bool) -> None:
    """Before and after the sweeper, the effect becomes known, and a repetition changes nothing."""
    async with Losing(Applied(output=DONE, operation=OPERATION)) as bench:
        lost = await bench.lost()
        assert (await bench.record("txn_1")).status is Status.PREPARED
        if lapsed:
            bench.wait(36)
            await bench.sweep()
            assert (await bench.record("txn_1")).status is Status.OUTCOME_UNKNOWN
        assert await taken_in(bench, lost) == [Became.TAKEN, Became.KNOWN, Became.KNOWN]
        record = await bench.record("txn_1")
        assert (record.status, record.verdict) == (Status.RECONCILED, Verdict.COMMITTED)
        assert record.provider_operation == OPERATION
        assert record.result is not None
        assert record.result.output == '{"id":"op_1"}'
        seen = await bench.alice.get("txn_1", include_result=True)
        assert seen.result.output == {"id": "op_1"}


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [(NotApplied(error=DECLINED), Verdict.NOT_COMMITTED), (Applied(), Verdict.COMMITTED)],
)
async def test_every_definite_settlement_can_be_taken_in(
    outcome: Outcome, verdict: Verdict
) -> None:
    async with Losing(outcome) as bench:
        lost = await bench.lost()
        assert (await taken_in(bench, lost))[0] is Became.TAKEN
        assert (await bench.record("txn_1")).verdict is verdict


async def test_an_unsure_settlement_brings_its_reference_and_leaves_the_outcome_open() -> None:
    unsure = Uncertain(error=UNSURE.error, operation=OPERATION)
    async with Losing(unsure) as bench:
        lost = await bench.lost()
        assert await taken_in(bench, lost) == [Became.TAKEN, Became.KNOWN, Became.KNOWN]
        record = await bench.record("txn_1")
        assert (record.status, record.provider_operation) == (Status.OUTCOME_UNKNOWN, OPERATION)
        assert len(record.evidence) == 1


async def test_a_second_operation_is_kept_as_evidence_beside_the_first() -> None:
    async with Losing(Uncertain(error=UNSURE.error, operation=OPERATION)) as bench:
        lost = await bench.lost()
        await taken_in(bench, lost)
        other = Reading(certainty=Certainty.APPLIED, operation=OTHER_OPERATION)
        await taken_in(bench, replace(lost, reading=other, event="late:x"))
        record = await bench.record("txn_1")
        assert record.provider_operation == OPERATION
        assert record.attention == "two_provider_operations"


async def test_a_settlement_that_contradicts_a_settled_record_becomes_one_correction() -> None:
    async with Workbench(served=[Desk().served()]) as bench:
        await ask(bench, action(id="act_1", transaction="txn_1"))
        before = await bench.record("txn_1")
        said = heard(reading=Reading(certainty=Certainty.NOT_APPLIED, error=DECLINED))
        assert await taken_in(bench, said) == [Became.TAKEN, Became.KNOWN, Became.KNOWN]
        assert await bench.record("txn_1") == before
        page = await bench.store.list(Correction, TENANT)
        assert len([one for one in page.items if isinstance(one, Stored)]) == 1


async def test_a_settlement_that_was_stored_after_all_changes_nothing() -> None:
    """A COMMIT that failed may have been durable: then the file says what is there already."""
    async with Workbench(served=[Desk().served()]) as bench:
        await ask(bench, action(id="act_1", transaction="txn_1"))
        before = await bench.record("txn_1")
        said = heard(reading=Reading(certainty=Certainty.APPLIED), output=NO_OUTPUT)
        assert await taken_in(bench, said) == [Became.KNOWN] * 3
        assert await bench.record("txn_1") == before


async def test_a_settlement_of_an_attempt_that_still_runs_here_waits() -> None:
    async with Workbench(served=[Desk().served()]) as bench:
        running = await claim(bench, action(id="act_1", transaction="txn_1"))
        said = heard(fence=running.fence)
        bench.engine._running[running.fence] = running
        assert await SpilledAnswers(bench.engine).take(said) is Became.RUNNING
        assert (await bench.record("txn_1")).status is Status.PREPARED


async def test_a_settlement_of_an_unknown_transaction_is_left_to_a_person() -> None:
    async with Workbench(served=[Desk().served()]) as bench:
        assert await taken_in(bench, heard()) == [Became.UNCLAIMED] * 3


async def test_a_late_answer_that_the_store_refuses_is_kept_too() -> None:
    async with Workbench(served=[Desk([UNSURE]).served()]) as bench:
        running = await claim(bench, action(id="act_1", transaction="txn_1"))
        await bench.engine.settlement.settle(running, UNSURE)
        spill = Keeping()
        with_spill(bench, spill)
        mend = broken(bench)
        with refused_with("store.poisoned"):
            await bench.engine.settlement.late(running, Applied(output=DONE))
        mend()
        assert [one.event for one in spill.kept] == [f"late:{running.fence}"]
        await taken_in(bench, spill.kept[0])
        assert (await bench.record("txn_1")).verdict is Verdict.COMMITTED
        assert (await chain(bench, "txn_1"))[-1] == "reconciled"


async def test_what_is_kept_of_a_redacting_capability_is_redacted() -> None:
    outcome = Applied(output={"card": "canary-4929"}, operation=OPERATION)
    async with Losing(outcome, data=DataContract(redaction_required=True)) as bench:
        lost = await bench.lost()
        assert b"canary" not in msgspec.json.encode(lost)
        assert (await taken_in(bench, lost))[0] is Became.TAKEN
        found = await bench.store.get(TransactionRecord, TENANT, "txn_1")
        assert found is not None
        assert b"canary" not in msgspec.json.encode(found.document)
