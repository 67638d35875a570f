"""Compacting a file: old bytes go, everything stored stays, and whoever is in the way is named."""

from pathlib import Path
from typing import Final

import apsw
import pytest
from msgspec.structs import replace

from amends.stores.port import ChangeSet, Insert, Replace
from amends.stores.sqlite import compacting, open_sqlite
from amends.stores.sqlite.compacting import compact
from amends.testing.clock import FixedClock
from amends.testing.invariants import canary_absent
from amends.testing.refusals import refused_with
from amends.testing.store_documents import TENANT, an_action, changed
from amends.wiring.compacting import compact_store

CANARY: Final = "kanarienvogel-7319"


def bytes_of(database: Path) -> list[bytes]:
    return [one.read_bytes() for one in database.parent.glob(f"{database.name}*")]


@pytest.fixture
async def database(tmp_path: Path) -> Path:
    """A closed store in which long and short texts were replaced."""
    path = tmp_path / "amends.db"
    store = await open_sqlite(path, clock=FixedClock())
    for name, times in (("short", 1), ("long", 3_000)):
        written = replace(an_action(name), metadata={"text": CANARY * times})
        await store.commit(ChangeSet(changes=(Insert(written),)))
        await store.commit(ChangeSet(changes=(Replace(changed(written, metadata={})),)))
    await store.close()
    return path


@pytest.mark.rule("RD-3")
async def test_what_was_replaced_is_in_the_file_until_it_is_compacted(database: Path) -> None:
    assert canary_absent(CANARY, *bytes_of(database)) != []
    compact(database)
    assert canary_absent(CANARY, *bytes_of(database)) == []
    store = await open_sqlite(database, clock=FixedClock())
    found = await store.get(type(an_action()), TENANT, "act_long")
    await store.close()
    assert found is not None
    assert found.document.revision == 2


@pytest.mark.parametrize("begin", ["BEGIN; SELECT count(*) FROM actions", "BEGIN IMMEDIATE"])
def test_somebody_who_reads_or_writes_just_then_is_in_the_way(
    database: Path, begin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compacting, "BUSY_MS", 1)
    other = apsw.Connection(str(database))
    list(other.execute(begin))
    with refused_with("store.not_compacted"):
        compact(database)
    other.close(True)
    compact(database)


@pytest.mark.parametrize("content", [None, b"no database" * 1000])
def test_what_is_no_store_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "other"
    if content is not None:
        path.write_bytes(content)
    with refused_with("store.unavailable"):
        compact(path)


def test_only_a_store_with_a_file_is_compacted(database: Path) -> None:
    assert compact_store(f"sqlite:///{database}")
    assert not compact_store("memory:")
