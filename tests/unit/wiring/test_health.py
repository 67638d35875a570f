"""What a doctor says of a store: each thing that can be wrong, what it is, and what to do."""

import asyncio
import time
from pathlib import Path
from typing import Final

import pytest

from amends.app.amends import Amends
from amends.contracts.documents import TransactionRecord
from amends.contracts.errors import Unavailable
from amends.contracts.events import ProviderEvent, Said
from amends.contracts.ids import Fence, TransactionId
from amends.runtime.heard import Heard
from amends.stores.rows import system_clock
from amends.stores.sqlite import survey as surveying
from amends.stores.sqlite.failures import damaged
from amends.testing.builders import OPERATION
from amends.transactions.settlement import NO_OUTPUT, Certainty, Reading
from amends.wiring import health
from amends.wiring.checkpointing import make_checkpoint
from amends.wiring.contents import KINDS, NAMED, Check, Level
from amends.wiring.health import examine
from amends.wiring.keys import compromise_key, key_path, load_or_make_key, rotate_key
from amends.wiring.migrating import schema_steps, take_steps
from amends.wiring.spill import FileSpill, spill_path, waiting
from tests.unit.wiring.store_files import OLGA, TENANT, change, fill, work

ALICE: Final = OLGA.ref


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "amends.db"
    fill(path)
    return path


def checks(path: Path, *, quick: bool = False) -> list[Check]:
    return list(examine(path, quick=quick, told=lambda _done, _total: None))


def troubles(path: Path, *, quick: bool = False) -> dict[str, Check]:
    """What is not well, by name."""
    return {one.name: one for one in checks(path, quick=quick) if one.level is not Level.OK}


def spill(path: Path, event: str = "settlement:fen_1", *, transaction: str = "txn_lost") -> None:
    """A settlement that waits beside the store."""
    heard = Heard(
        tenant=TENANT,
        transaction_id=TransactionId(transaction),
        reading=Reading(certainty=Certainty.APPLIED, operation=OPERATION),
        output=NO_OUTPUT,
        actor=ALICE,
        fence=Fence("fen_1"),
        event=event,
    )
    signer = load_or_make_key(key_path(path))
    asyncio.run(FileSpill(spill_path(path), signer).keep(heard))


DAY_US: Final = 24 * 3600 * 1_000_000


@pytest.mark.parametrize("quick", [True, False])
def test_a_store_that_is_well_is_said_to_be_well(store: Path, quick: bool) -> None:
    said = checks(store, quick=quick)
    assert {one.name for one in said} >= {
        *("file folder sqlite schema integrity durability key".split()),
        *("old keys,spill,checkpoint".split(",")),
        *(kind.name for kind in KINDS),
    }
    assert [one for one in said if one.level is not Level.OK] == []
    assert all(one.todo == "" for one in said)


def test_long_checks_tell_how_far_they_are(store: Path) -> None:
    told: list[tuple[int, int]] = []
    list(examine(store, quick=False, told=lambda done, total: told.append((done, total))))
    assert told[-1][0] == told[-1][1] == len(told) > 5


# ── files ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("mode", "level"), [(0o644, Level.WARN), (0o666, Level.FAULT)])
@pytest.mark.parametrize(("suffix", "name"), [("", "file"), (".key", "key file")])
def test_files_that_others_can_reach_are_named(
    store: Path, mode: int, level: Level, suffix: str, name: str
) -> None:
    store.with_name(store.name + suffix).chmod(mode)
    found = troubles(store)
    assert found.keys() == {name}
    assert found[name].level is level
    assert found[name].todo == f"Run: chmod 600 amends.db{suffix}"


def test_a_folder_that_cannot_be_written_is_a_fault(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amends.wiring.health.os.access", lambda *_: False)
    assert troubles(store)["folder"].level is Level.FAULT


def test_a_sqlite_that_can_damage_files_is_a_fault(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "library_version", lambda: "3.40.0")
    assert "store.sqlite_too_old" in troubles(store)["sqlite"].says


def test_a_file_that_is_no_store_ends_the_checks(tmp_path: Path) -> None:
    path = tmp_path / "amends.db"
    path.write_bytes(b"no database" * 1000)
    path.chmod(0o600)
    assert [one.name for one in checks(path)] == ["file", "folder", "sqlite", "file"]
    assert "store.unavailable" in troubles(path)["file"].says


def test_an_empty_file_is_well_and_has_nothing_in_it(tmp_path: Path) -> None:
    path = tmp_path / "amends.db"
    path.touch(0o600)
    assert troubles(path) == {}
    assert path.read_bytes() == b""


def test_steps_of_the_schema_that_are_missing_are_named_and_nothing_is_done(store: Path) -> None:
    change(store, "DELETE FROM migrations")
    found = troubles(store)
    assert found.keys() == {"schema"}
    assert "documents and receipts" in found["schema"].says
    assert "migrate" in found["schema"].todo
    assert {one.taken for one in schema_steps(store)} == {False}


def test_missing_steps_are_taken_when_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "amends.db"
    path.touch(0o600)
    assert {one.taken for one in schema_steps(path)} == {False}
    take_steps(path)
    assert {one.taken for one in schema_steps(path)} == {True}


def test_a_damaged_file_is_named_as_that(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(*_: object, **__: object) -> tuple[str, ...]:
        return ("row 7 missing from index",)

    monkeypatch.setattr(surveying.Survey, "integrity", found)
    damage = troubles(store)["integrity"]
    assert (damage.level, damage.named) == (Level.FAULT, ("row 7 missing from index",))
    assert "row 7" in damage.says


def test_settings_that_are_not_kept_are_a_fault(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> None:
        raise Unavailable("store.not_durable", "It does not keep the setting synchronous.")

    monkeypatch.setattr(health, "connect", refuses)
    assert "store.not_durable" in troubles(store)["durability"].says


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_key_that_is_gone_is_a_fault_and_none_is_made(store: Path) -> None:
    key_path(store).unlink()
    found = troubles(store)
    assert found.keys() == {"key"}
    assert found["key"].level is Level.FAULT
    assert not key_path(store).exists()


def test_a_file_that_holds_no_key_is_a_fault(store: Path) -> None:
    key_path(store).write_text("nothing")
    assert "key.corrupt" in troubles(store)["key"].says


def test_another_key_than_the_one_that_signed_is_noticed(store: Path) -> None:
    key_path(store).write_text("07" * 32)
    assert troubles(store).keys() == {"key"}
    assert troubles(store)["key"].level is Level.WARN


# ── spilled settlements ──────────────────────────────────────────────────────────────────────────


@pytest.mark.case("RST-01")
def test_what_the_store_had_refused_is_taken_in_once_and_removed(store: Path) -> None:
    spill(store)
    said = [one for one in checks(store) if one.name == "spill"]
    assert [(one.level, "txn_lost" in one.says) for one in said] == [(Level.OK, True)]
    assert waiting(store) == []

    async def look(amends: Amends) -> str:
        return str((await amends.get("txn_lost")).result.verdict)

    assert work(store, look) == "committed"
    spill(store)
    (again,) = [one for one in checks(store) if one.name == "spill"]
    assert "known already" in again.says
    assert waiting(store) == []


def test_what_belongs_to_no_transaction_stays_for_a_person(store: Path) -> None:
    spill(store, transaction="txn_none")
    assert troubles(store)["spill"].level is Level.FAULT
    assert len(waiting(store)) == 1


def test_a_file_that_is_not_ours_is_not_taken_in_and_the_others_are(store: Path) -> None:
    spill(store, event="settlement:a")
    spill(store, event="settlement:b")
    first = waiting(store)[0]
    first.write_bytes(first.read_bytes().replace(b"ch_1", b"ch_9"))
    levels = [one.level for one in checks(store) if one.name == "spill"]
    assert sorted(levels) == [Level.FAULT, Level.OK]
    assert waiting(store) == [first]


def test_a_settlement_of_a_record_that_nobody_can_act_on_waits(store: Path) -> None:
    change(store, "UPDATE transactions SET body = '{' WHERE id = 'txn_lost'")
    spill(store)
    found = [one for one in checks(store) if one.name == "spill"]
    assert "store.record_corrupt" in found[0].says
    assert len(waiting(store)) == 1


def test_a_store_that_cannot_be_opened_leaves_what_waits(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spill(store)

    async def refuses(*_: object) -> None:
        raise Unavailable("store.unavailable", "It is gone.")

    monkeypatch.setattr(health, "take_in", refuses)
    assert troubles(store)["spill"].level is Level.FAULT
    assert len(waiting(store)) == 1


# ── what lies in it ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.case("STK-09", "VER-01")
def test_rows_that_need_somebody_are_counted_and_named(store: Path) -> None:
    async def events(amends: Amends) -> None:
        olga = amends.acting_as(OLGA)
        for id_, said in (("evt_1", Said.APPLIED), ("evt_2", Said.NOT_APPLIED)):
            event = ProviderEvent(
                provider="desk", event_id=id_, said=said, operation_id="op_nobody"
            )
            await olga.evidence(event)

    work(store, events)
    change(store, "UPDATE actions SET body = '{' WHERE id = 'act_done'")
    change(store, "UPDATE transactions SET due_at = 1 WHERE id = 'txn_lost'")
    put(store, "txn_plan", '"frozen":"restored"')
    put(store, "txn_again", '"attention":"reconcile_by_hand"', attention="reconcile_by_hand")
    put(store, "txn_done", '"error":{"code":"odd"}')
    found = troubles(store)
    assert {name: one.level for name, one in found.items()} == {
        "rows": Level.FAULT,
        "records": Level.FAULT,
        "attention": Level.WARN,
        "frozen": Level.WARN,
        "unclaimed": Level.WARN,
        "recovery": Level.WARN,
    }
    assert found["rows"].named == (f"actions {TENANT} act_done",)
    assert found["records"].named == (f"{TENANT} txn_done",)
    assert found["attention"].named == (f"{TENANT} txn_again reconcile_by_hand",)
    assert found["frozen"].named == (f"{TENANT} txn_plan restored",)
    assert found["recovery"].named == (f"{TENANT} txn_lost",)
    assert found["unclaimed"].says.startswith("2 ")
    assert "rows" not in troubles(store, quick=True)


def put(path: Path, id_: str, member: str, attention: str | None = None) -> None:
    """Put one more member into a record, and its column beside it."""
    change(
        path,
        "UPDATE transactions SET body = substr(body, 1, length(body) - 1) || ',' || ? || '}',"
        " attention = ? WHERE id = ?",
        member,
        attention,
        id_,
    )


def test_frozen_requests_and_corrections_without_a_ruling_are_named(store: Path) -> None:
    change(
        store,
        'UPDATE approvals SET body = substr(body, 1, length(body) - 1) || \',"frozen":"x"}\'',
    )

    async def contradict(amends: Amends) -> None:
        environment = amends._runtime.engine.environment
        stored = await environment.store.get(TransactionRecord, TENANT, "txn_done")
        assert stored is not None
        event = ProviderEvent(
            provider="desk",
            event_id="evt_1",
            said=Said.NOT_APPLIED,
            provider_key=stored.document.provider_key,
        )
        await amends.acting_as(OLGA).evidence(event)

    work(store, contradict)
    found = troubles(store)
    assert found.keys() == {"frozen", "corrections"}
    assert found["frozen"].named[0].startswith(f"{TENANT} apr_")
    assert found["corrections"].named[0].startswith(f"{TENANT} cor_")


def test_of_many_only_some_are_named_and_all_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "amends.db"

    async def many(amends: Amends) -> None:
        for number in range(NAMED + 5):
            await amends.plan("payments.charge", {"amount": 1}, transaction_id=f"txn_{number}")

    work(path, many)
    change(path, "UPDATE transactions SET due_at = ?", int((time.time() - 3600) * 1_000_000))
    late = troubles(path)["recovery"]
    assert len(late.named) == NAMED
    assert late.says.startswith(f"{NAMED + 5} ")


def test_damage_that_is_met_on_the_way_ends_the_walk(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object) -> object:
        raise damaged(store, "CorruptError")

    monkeypatch.setattr(surveying.Survey, "documents", breaks)
    assert "store.file_damaged" in troubles(store)["rows"].says
    assert "store.file_damaged" in troubles(store)["checkpoint"].says


# ── the log ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("RC-3")
def test_a_log_that_was_not_checkpointed_for_days_is_noticed(store: Path) -> None:
    change(store, "UPDATE transactions SET created_at = created_at - ?", 3 * DAY_US)
    assert "no checkpoint of the log yet" in troubles(store)["checkpoint"].says
    make_checkpoint(store)
    (well,) = [one for one in checks(store) if one.name == "checkpoint"]
    assert (well.level, well.todo) == (Level.OK, "")
    assert well.says.endswith("receipts since: 0.")


@pytest.mark.rule("RC-2")
def test_old_keys_and_keys_in_other_hands_are_told(store: Path) -> None:
    path = key_path(store)
    first = rotate_key(path, system_clock()).published[0].key_id
    (said,) = [one for one in checks(store) if one.name == "old keys"]
    assert "before: 1" in said.says
    compromise_key(path, first, system_clock(), system_clock())
    told = troubles(store)["old keys"]
    assert (told.level, told.named) == (Level.WARN, (first,))


@pytest.mark.rule("RC-2")
def test_what_a_killed_rotation_left_is_named(store: Path) -> None:
    left = store.with_name(f"{store.name}.key.99.abcd")
    left.write_text("private")
    assert troubles(store)["key file"].named == (left.name,)
