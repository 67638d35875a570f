"""From a URL to a running engine: what is opened, what is closed when it cannot be."""

import asyncio
from pathlib import Path

import pytest

from amends.stores.memory import MemoryStore
from amends.testing.refusals import refused_with
from amends.wiring.opening import Settings, open_runtime, open_store
from tests.unit.runtime.desk import Desk


def names(folder: Path) -> set[str]:
    """What lies in a folder."""
    return {path.name for path in folder.iterdir()}


async def test_a_url_names_a_file_or_a_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for url in ("sqlite:///here.db", f"sqlite:///{tmp_path}/there.db"):
        store, signer = await open_store(url)
        await store.close()
        assert signer.key_id
    assert {"here.db", "here.db.key", "there.db", "there.db.key"} <= names(tmp_path)
    store, _ = await open_store("memory:")
    assert isinstance(store, MemoryStore)


@pytest.mark.parametrize("url", ["", "sqlite:///", "postgres://x", "memory", "amends.db"])
async def test_a_url_that_names_no_store_is_refused(url: str) -> None:
    with refused_with("store.url_unknown"):
        await open_store(url)


async def test_a_store_whose_key_is_unusable_is_not_left_open(tmp_path: Path) -> None:
    key = tmp_path / "amends.db.key"
    key.write_text("none")
    with refused_with("key.corrupt"):
        await open_store(f"sqlite:///{tmp_path}/amends.db")
    key.unlink()
    store, _ = await open_store(f"sqlite:///{tmp_path}/amends.db")
    await store.close()
    with refused_with("store.closed"):
        await store.now()


async def test_a_runtime_sweeps_until_it_is_closed_and_closes_its_store() -> None:
    settings = Settings(poll_s=0.001)
    runtime = await open_runtime("memory:", [Desk().served()], settings)
    await asyncio.sleep(0.005)
    await runtime.close()
    with refused_with("store.closed"):
        await runtime.engine.environment.store.now()
    assert runtime._sweeping is not None
    assert runtime._sweeping.done()


async def test_a_sweeper_that_died_does_not_keep_a_runtime_from_closing() -> None:
    runtime = await open_runtime("memory:", [Desk().served()], Settings(poll_s=0.001))

    async def dies() -> None:
        raise RuntimeError("a bug")

    assert runtime._sweeping is not None
    runtime._sweeping.cancel()
    runtime._sweeping = asyncio.ensure_future(dies())
    await asyncio.sleep(0)
    await runtime.close()
    with refused_with("store.closed"):
        await runtime.engine.environment.store.now()
    assert isinstance(runtime._sweeping.exception(), RuntimeError)


async def test_every_runtime_is_somebody_else() -> None:
    quiet = Settings(recover=False)
    owners = set()
    for _ in range(2):
        runtime = await open_runtime("memory:", [Desk().served()], quiet)
        owners.add(runtime.engine.environment.owner)
        await runtime.close()
    assert len(owners) == 2
