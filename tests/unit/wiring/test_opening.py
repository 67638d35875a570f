"""From a URL to a running engine: what is opened, what is closed when it cannot be."""

import asyncio
from pathlib import Path

import pytest

from amends.app.amends import Amends
from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.limits import SERVER_GRACE_MS
from amends.contracts.notices import Notice
from amends.contracts.principals import Caller
from amends.recovery import checkpointing
from amends.runtime.requests import Request
from amends.stores.memory import MemoryStore
from amends.stores.rows import system_clock
from amends.stores.sqlite.survey import Survey
from amends.testing.refusals import refused_with
from amends.testing.workbench import ALICE, CHARGE
from amends.wiring.keys import key_path, rotate_key
from amends.wiring.opening import Notices, Settings, open_runtime, open_store
from tests.unit.runtime.desk import DONE, Desk, action


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


@pytest.mark.parametrize("url", ["", "sqlite:///", "mysql://x", "memory", "amends.db"])
async def test_a_url_that_names_no_store_is_refused(url: str) -> None:
    with refused_with("store.url_unknown"):
        await open_store(url)


@pytest.mark.fault(21)
async def test_a_grace_below_two_seconds_is_refused_where_the_store_is_on_a_server() -> None:
    """Before anything is opened: there is no such server."""
    url = "postgresql://nobody@127.0.0.1:1/none"
    with refused_with("store.grace_too_short"):
        await open_runtime(url, [], Settings(grace_ms=SERVER_GRACE_MS - 1))
    with refused_with("store.unavailable"):
        await open_runtime(url, [], Settings(grace_ms=SERVER_GRACE_MS))
    await (await open_runtime("memory:", [], Settings(grace_ms=0))).close()


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
    assert runtime._running
    assert all(one.done() for one in runtime._running)


async def test_a_sweeper_that_died_does_not_keep_a_runtime_from_closing() -> None:
    runtime = await open_runtime("memory:", [Desk().served()], Settings(poll_s=0.001))

    async def dies() -> None:
        raise RuntimeError("a bug")

    runtime._running[0].cancel()
    runtime._running[0] = asyncio.ensure_future(dies())
    await asyncio.sleep(0)
    await runtime.close()
    with refused_with("store.closed"):
        await runtime.engine.environment.store.now()
    assert isinstance(runtime._running[0].exception(), RuntimeError)


class Told:
    """A channel that is waited for."""

    name = "told"

    def __init__(self) -> None:
        self.notice: asyncio.Future[Notice] = asyncio.Future()

    async def tell(self, notice: Notice) -> None:
        self.notice.set_result(notice)


@pytest.mark.parametrize("recover", [True, False])
async def test_a_runtime_tells_people_about_approvals_if_it_looks_after_its_store(
    recover: bool,
) -> None:
    told = Told()
    notices = Notices(channels=(told,), link="https://desk.example/{approval_id}")
    settings = Settings(recover=recover, poll_s=0.001, notices=notices)
    served = Desk().served(approval=ApprovalPolicy())
    runtime = await open_runtime("memory:", [served], settings)
    waiting = await runtime.engine.perform(Request(action=action(), caller=Caller(principal=ALICE)))
    if recover:
        async with asyncio.timeout(10):
            notice = await told.notice
        assert notice.link == f"https://desk.example/{waiting.approval_id}"
    await asyncio.sleep(0.01)
    await runtime.close()
    assert told.notice.done() is recover
    assert all(one.done() for one in runtime._running)


async def test_every_runtime_is_somebody_else() -> None:
    quiet = Settings(recover=False)
    owners = set()
    for _ in range(2):
        runtime = await open_runtime("memory:", [Desk().served()], quiet)
        owners.add(runtime.engine.environment.owner)
        await runtime.close()
    assert len(owners) == 2


@pytest.mark.rule("RC-2")
async def test_a_program_that_runs_signs_with_the_new_key_after_a_rotation(tmp_path: Path) -> None:
    """And checks what both keys signed by the ring."""
    database = tmp_path / "amends.db"
    desk = Desk((DONE, DONE))
    async with Amends.open(f"sqlite:///{database}", [desk.served()], recover=False) as amends:
        first = await amends.execute(CHARGE, {"amount": 500}, transaction_id="txn_1")
        new = rotate_key(key_path(database), system_clock()).signer.key_id
        second = await amends.execute(CHARGE, {"amount": 500}, transaction_id="txn_2")
        heads = [(await amends.receipts(one))[-1].key_id for one in (first, second)]
        assert heads[0] != new
        assert heads[1] == new
        assert (await amends.verify(first)).ok
        assert (await amends.verify(second)).ok


@pytest.mark.rule("RC-3")
async def test_a_runtime_that_recovers_keeps_checkpoints_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpointing, "FIRST_LOOK_S", 0.0)
    monkeypatch.setattr(checkpointing, "LOOK_S", 0.01)
    database = tmp_path / "amends.db"
    async with Amends.open(f"sqlite:///{database}", [Desk((DONE,)).served()]) as amends:
        await amends.execute(CHARGE, {"amount": 500}, transaction_id="txn_1")
        async with asyncio.timeout(20):
            while not _checkpoints(database):  # noqa: ASYNC110 - another task writes it
                await asyncio.sleep(0.01)


def _checkpoints(database: Path) -> int:
    with Survey(database) as survey, survey.logbook() as book:
        return len(book.checkpoints())
