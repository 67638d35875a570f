"""Every step that a session asks of the disk fails in turn: what was entered was durable before."""

from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from amends.contracts.errors import AmendsError
from amends.journal.document import decode_journal, encode_journal
from amends.journal.observation import without_body
from amends.journal.records import open_journal, require_record
from amends.journal.reports import compensation_state
from amends.journal.rulings import archive
from amends.sealed.vault import Storage, Vault
from amends.testing.faulty_disk import FaultyDisk
from tests.unit.sealed.stage import anchor_in, record_of, storage_in
from tests.unit.worker.stage import DONE, SCOPE, WIDE, Both

LIMIT: Final = 16 * 1024 * 1024


class OnDisk(Both):
    """Both sides, with the journal in a real record; its disk fails when told to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.disk = FaultyDisk()
        self.anchor = anchor_in(path)
        self.storage = storage_in(path, anchor=self.anchor, disk=self.disk)
        Vault.initialise(self.storage, encode_journal(open_journal(SCOPE)))
        self.journal = _Opens(self.storage)  # type: ignore[assignment]  # opens the real record


class _Opens:
    """What a worker's shell needs of a record."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def open(self) -> Vault:
        return Vault.open(self._storage)


async def compensated(both: OnDisk, fail: Callable[[], None]) -> str:
    """A session that compensates while the disk fails; what is durable of the inverse then."""
    workflow, target = await both.intended()
    fail()
    try:
        async with both.channel() as channel:
            await workflow.compensate(channel, target)
    except AmendsError:
        pass
    both.disk.heal()
    journal = decode_journal(Vault.open(both.storage).payload, max_bytes=LIMIT)
    held = workflow.ledger.operations[0].compensation
    assert held is not None
    state = compensation_state(journal, target.operation_key, held.compensation_key)
    return type(state).__name__


@pytest.mark.rule("WS-1", "WS-2", "ST-6")
@pytest.mark.fault(31, 32, 41)
@pytest.mark.parametrize(
    ("after", "only_once"), [(False, True), (True, False)], ids=["once", "for good, and done"]
)
async def test_no_handler_is_entered_unless_its_admission_is_durable(
    tmp_path: Path, after: bool, only_once: bool
) -> None:
    seen: Counter[tuple[str, int]] = Counter()
    number = 0
    while ("Succeeded", 1) not in seen or number < 10:
        number += 1
        folder = tmp_path / f"{number}-{after}"
        folder.mkdir()
        both = OnDisk(folder)
        fail = partial(both.disk.fail_at, number, after=after, only_once=only_once)
        state = await compensated(both, fail)
        entered = both.provider.entered["compensate"]
        both.anchor.close()
        seen[state, entered] += 1
        assert entered == 0 or state != "NoneType"
        assert entered == 1 or state in {"NoneType", "Pending"}
        if state != "Succeeded" or both.ends is not None:
            assert both.ends is not None  # it was poisoned, and says so
    assert seen["NoneType", 0] > 5
    assert seen["Pending", 1] > 5


@pytest.mark.rule("WJ-1")
@pytest.mark.fault(42)
@pytest.mark.parametrize("after", [False, True])
async def test_an_archiving_that_fails_anywhere_loses_no_entry_and_no_key(
    tmp_path: Path, after: bool
) -> None:
    both = OnDisk(tmp_path)
    with closing(both.anchor):
        _, key = await both.succeeded()
        states: Counter[bool] = Counter()
        number = 0
        while not states[True] or number < 10:
            number += 1
            vault = Vault.open(both.storage)
            journal = decode_journal(vault.payload, max_bytes=LIMIT)
            both.disk.fail_at(number, after=after)
            with suppress(AmendsError):
                vault.save(encode_journal(archive(journal, key)))
            both.disk.heal()
            vault = Vault.open(both.storage)
            record = require_record(decode_journal(vault.payload, max_bytes=LIMIT), key)
            states[record.archived] += 1
            assert record.input_fingerprint == journal.records[0].input_fingerprint
            assert record.state == (without_body(DONE) if record.archived else DONE)
        assert states[False] > 5


async def test_the_real_record_serves_as_well_as_that_of_the_tests(tmp_path: Path) -> None:
    both = OnDisk(tmp_path)
    with closing(both.anchor):
        assert await compensated(both, lambda: None) == "Succeeded"
    assert both.provider.effects.total() == 2


@pytest.mark.rule("ST-2", "WS-4")
@pytest.mark.fault(35, 36)
@pytest.mark.case("RST-03")
@pytest.mark.parametrize("deleted", [False, True])
async def test_a_journal_that_was_restored_or_lost_serves_nobody(
    tmp_path: Path, deleted: bool
) -> None:
    both = OnDisk(tmp_path)
    older = record_of(tmp_path).read_bytes()
    with closing(both.anchor):
        workflow, key = await both.succeeded()
        record_of(tmp_path).unlink() if deleted else record_of(tmp_path).write_bytes(older)
        with pytest.raises(AmendsError, match=r"channel\.lost"):
            async with both.channel(WIDE) as channel:
                await workflow.reconcile(channel, key)
    assert both.ends is not None
    assert both.ends.code == ("sealed.local_lost" if deleted else "sealed.rolled_back")
    assert both.provider.entered["dispatch"] == 1
