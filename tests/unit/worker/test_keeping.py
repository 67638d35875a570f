"""Where a worker waits for its disk: in a thread, or right there while nothing else is asked."""

import asyncio
import threading

from amends.testing.durable import Moment
from amends.worker.adapters import Call
from tests.unit.worker.stage import DONE, INPUT, INTENT, WIDE, Both


def noting(both: Both) -> list[int]:
    """The threads in which the journal is written from now on."""
    threads: list[int] = []

    def note(moment: Moment, _: bytes) -> None:
        if moment is Moment.BEFORE:
            threads.append(threading.get_ident())

    both.journal.at = note
    return threads


async def test_a_lone_request_is_written_down_without_a_thread() -> None:
    both = Both()
    threads = noting(both)
    await both.succeeded()
    assert threads == [threading.get_ident()] * 2


async def test_requests_side_by_side_do_not_wait_for_one_another_s_disk() -> None:
    both = Both()
    going = asyncio.Event()

    async def wait(_: Call) -> None:
        await going.wait()

    both.provider.before = wait
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    async with both.channel(WIDE) as channel:
        one = asyncio.ensure_future(workflow.dispatch(channel, key, INPUT))
        other = asyncio.ensure_future(workflow.dispatch(channel, key, INPUT))
        await asyncio.sleep(0.05)
        threads = noting(both)
        going.set()
        assert await one == await other == DONE
    assert len(threads) == 1
    assert threads != [threading.get_ident()]
