"""`amends worker reseat`: a journal that was lost or restored goes on, frozen until released."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from amends.journal.rulings import RESEATED
from amends.ledger.records import LedgerState
from amends.testing.refusals import refused_with
from amends.wiring.workers import WorkerPlace, read_journal
from tests.unit.cli.shell import Shell
from tests.unit.wiring.sides import DONE, Sides

WORDS: Final = ("--who", "olga", "--why", "restored from yesterday", "--evidence", "ticket 7")


class Worker(NamedTuple):
    """A worker's folder with one finished operation, and the shell of who looks after it."""

    sides: Sides
    shell: Shell

    @property
    def place(self) -> WorkerPlace:
        return self.sides.place

    @property
    def record(self) -> Path:
        (found,) = (
            path
            for path in (self.place.directory / "worker-journal").iterdir()
            if path.name == self.place.scope
        )
        return found

    def __call__(self, verb: str, *options: str) -> str:
        """The code that the verb was refused with, or nothing."""
        where = ("--state", str(self.place.directory), "--scope", self.place.scope)
        told = self.shell("worker", verb, *options, *WORDS, *where)
        return told.err.partition("[")[2].partition("]")[0] if told.code else ""


@pytest.fixture
def worker(tmp_path: Path, shell: Shell) -> Worker:
    sides = Sides(tmp_path)
    sides.story(DONE, LedgerState.SUCCEEDED)
    return Worker(sides, shell)


def restored(worker: Worker) -> None:
    """The journal is put back as it was one operation ago."""
    copy = worker.record.with_name("copy")
    shutil.copy2(worker.record, copy)
    for _ in range(2):
        worker.sides.story(DONE, LedgerState.SUCCEEDED)
    shutil.move(copy, worker.record)


def journal_lost(worker: Worker) -> None:
    worker.record.unlink()


def anchor_lost(worker: Worker) -> None:
    for file in worker.place.directory.glob("anchor.db*"):
        file.unlink()


@pytest.mark.rule("ST-2")
@pytest.mark.fault(36)
@pytest.mark.parametrize(
    ("harm", "alarm", "options", "kept"),
    [
        (restored, "sealed.rolled_back", (), 1),
        (journal_lost, "sealed.local_lost", ("--journal-is-gone",), 0),
        (anchor_lost, "sealed.anchor_unreachable", ("--anchor-is-gone",), 1),
    ],
)
def test_what_was_lost_or_restored_is_reseated_and_admits_nothing_until_it_is_released(
    worker: Worker, harm: Callable[[Worker], None], alarm: str, options: tuple[str, ...], kept: int
) -> None:
    harm(worker)
    with refused_with(alarm):
        read_journal(worker.place)
    assert worker("release") == alarm
    if options:
        assert worker("reseat") == alarm, "what is gone has to be said to be gone"
    assert not worker("reseat", *options)
    journal = read_journal(worker.place)
    assert journal.frozen == RESEATED
    assert len(journal.records) == kept
    assert journal.releases[-1].evidence == "ticket 7"
    assert not worker("release")
    assert read_journal(worker.place).frozen is None


@pytest.mark.rule("ST-2")
def test_an_anchor_that_is_there_is_not_made_anew(worker: Worker) -> None:
    assert worker("reseat", "--anchor-is-gone") == "sealed.initialised"
    assert read_journal(worker.place).frozen is None


@pytest.mark.rule("ST-2")
def test_a_journal_that_is_there_is_kept_even_where_it_is_said_to_be_gone(worker: Worker) -> None:
    assert not worker("reseat", "--journal-is-gone")
    assert len(read_journal(worker.place).records) == 1
