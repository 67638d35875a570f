"""The server goes away for a while: nothing new is sent, and what was sent is written down."""

import asyncio
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from amends.testing import faults
from amends.testing.errands import Execute, run_errand
from amends.testing.postgres_server import PostgresServer
from amends.testing.till import Setup, Till, open_till
from tests.acceptance.children import effects, status

AWAY_S: Final = 1.0
PATIENCE_S: Final = 20.0


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def setup(server: PostgresServer, tmp_path: Path) -> Setup:
    database = server.lend()
    ledger = str(tmp_path / "provider.jsonl")
    return Setup(store=f"{database.url}?folder={tmp_path}", ledger=ledger)


@pytest.mark.fault(23)
@pytest.mark.rule("TX-PIPE-5")
async def test_nothing_is_sent_while_the_store_is_away_and_all_of_it_once_when_it_is_back(
    server: PostgresServer, setup: Setup
) -> None:
    async with open_till(setup) as till:
        server.stop(signal.SIGQUIT)
        sent = [
            asyncio.create_task(run_errand(till, Execute(action_id=f"act_{n}"))) for n in range(8)
        ]
        await asyncio.sleep(AWAY_S)
        assert not any(one.done() for one in sent)
        assert effects(setup) == 0
        server.start()
        answers = await asyncio.gather(*sent)
        assert [answer.status for answer in answers] == ["committed"] * 8
        assert await till.check() == []
    assert effects(setup) == 8


@pytest.mark.fault(16, 23)
@pytest.mark.rule("TX-SETTLE-6")
async def test_an_outcome_that_comes_while_the_store_is_away_is_written_when_it_is_back(
    server: PostgresServer, setup: Setup
) -> None:
    slow = msgspec.structs.replace(setup, script=(faults.late(AWAY_S),))
    async with open_till(slow) as till:
        errand = Execute(action_id="act_1", transaction_id="txn_1")
        sent = asyncio.create_task(run_errand(till, errand))
        await claimed(till)
        server.stop(signal.SIGQUIT)
        await asyncio.sleep(AWAY_S * 1.5)
        assert effects(setup) == 1
        assert not sent.done()
        server.start()
        answer = await sent
        assert (answer.status, answer.code) == ("committed", None)
        assert await status(till, "txn_1") == "committed"
        assert await till.check() == []
    assert effects(setup) == 1


async def claimed(till: Till) -> None:
    end = time.monotonic() + PATIENCE_S
    while await status(till, "txn_1") != "prepared":
        assert time.monotonic() < end
        await asyncio.sleep(0.01)
