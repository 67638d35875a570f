"""How often the disk is asked to make something durable, for one dispatch on both sides.

The benchmark `a dispatch to a child` writes as much without the product, and takes its numbers from
here: they must not drift apart.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import pytest

from amends.contracts.persistence import DurableRecord
from amends.journal.document import encode_journal
from amends.journal.records import open_journal
from amends.ledger.document import encode_ledger
from amends.ledger.plans import open_ledger
from amends.sealed.sqlite_anchor import SqliteAnchor
from amends.sealed.vault import Storage, Vault
from amends.testing.faulty_disk import FaultyDisk
from amends.testing.faulty_files import FaultyFiles
from benchmarks.dispatching import PERSISTS, SYNCS_OF_ANCHOR, SYNCS_OF_FILE
from tests.unit.sealed.stage import anchor_in, storage_in
from tests.unit.worker.stage import DONE, INPUT, INTENT, PLAN, SCOPE, WIDE, Both


class Watching(FaultyFiles):
    """Counts the folder's syncs as well, which SQLite asks of its file layer in passing: with the
    first sync of a journal that was made, and when one is taken away."""

    folders = 0

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802  # SQLite's name for it
        self.folders += bool(flags[0] & apsw.SQLITE_OPEN_MAIN_JOURNAL)
        return super().xOpen(name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802  # SQLite's name for it
        self.folders += syncdir
        super().xDelete(filename, syncdir)


class Opens:
    """A record of a real disk, in the place of one in memory."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def open(self) -> DurableRecord:
        return Vault.open(self._storage)


class Watched:
    """One side's record, with what its disk and its anchor were asked."""

    def __init__(self, path: Path, payload: bytes, files: FaultyFiles) -> None:
        path.mkdir()
        anchor_in(path).close()
        self.disk = FaultyDisk()
        self.anchor = SqliteAnchor.open_file(path / "anchor.db", vfs=files.name)
        self.storage = storage_in(path, anchor=self.anchor, disk=self.disk)
        Vault.initialise(self.storage, payload)


@contextmanager
def watched(tmp_path: Path, files: FaultyFiles) -> Iterator[tuple[Both, Watched, Watched]]:
    both = Both()
    host = Watched(tmp_path / "host", encode_ledger(open_ledger(PLAN)), files)
    worker = Watched(tmp_path / "worker", encode_journal(open_journal(SCOPE)), files)
    both.ledger = Opens(host.storage)  # type: ignore[assignment]  # opens the real record
    both.journal = Opens(worker.storage)  # type: ignore[assignment]  # opens the real record
    with closing(host.anchor), closing(worker.anchor):
        yield both, host, worker


@pytest.mark.rule("WS-1", "HL-3")
async def test_a_dispatch_syncs_each_side_s_two_persists_and_nothing_else(tmp_path: Path) -> None:
    with Watching() as files, watched(tmp_path, files) as (both, host, worker):
        workflow = await both.workflow()
        async with both.channel(WIDE) as channel:
            for side in (host, worker):
                side.disk.calls.clear()
            files.counts.clear()
            files.folders = 0
            key = await workflow.record(INTENT)
            assert await workflow.dispatch(channel, key, INPUT) == DONE
            of_files = [side.disk.calls.count("flush") for side in (host, worker)]
            of_anchors = files.counts["sync"] + files.folders
    assert of_files == [PERSISTS // 2 * SYNCS_OF_FILE] * 2
    assert of_anchors == PERSISTS * SYNCS_OF_ANCHOR
