"""Who goes together on PostgreSQL, and who waits for whose batch."""

import asyncio
from collections.abc import Sequence
from typing import cast

from amends.stores.port import ChangeSet
from amends.stores.postgres.session import Session
from amends.stores.postgres.verdicts import Verdict
from amends.stores.postgres.writer import LONG_S, Writer
from amends.stores.postgres.writes import Prepared, prepare
from amends.stores.sharing import BATCH, FEW
from amends.testing.store_contract_trial import error_of

NOTHING = prepare(ChangeSet(changes=()))


class _Server:
    """What sessions are asked for, and answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self._answers: list[asyncio.Future[None]] = []

    async def run(self, batch: Sequence[Prepared]) -> list[Verdict]:
        self.asked.append(len(batch))
        answer = asyncio.get_running_loop().create_future()
        self._answers.append(answer)
        await answer
        return cast("list[Verdict]", list(batch))

    def answer(self, error: BaseException | None = None) -> None:
        """Answer what was asked first and is not answered."""
        answer = self._answers.pop(0)
        if error is None:
            answer.set_result(None)
        else:
            answer.set_exception(error)

    def writer(self, sessions: int = 2) -> Writer:
        return Writer([cast("Session", _Asking(self)) for _ in range(sessions)])


class _Asking:
    def __init__(self, server: _Server) -> None:
        self._server = server

    async def run(self, batch: Sequence[Prepared]) -> list[Verdict]:
        return await self._server.run(batch)


async def _turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def _commit(writer: Writer) -> Verdict:
    return await writer.commit(NOTHING, asyncio.get_running_loop())


def _callers(writer: Writer, count: int) -> list[asyncio.Task[Verdict]]:
    return [asyncio.ensure_future(_commit(writer)) for _ in range(count)]


async def test_half_of_many_callers_goes_and_the_other_half_waits_until_it_is_back() -> None:
    server = _Server()
    callers = _callers(server.writer(), 40)
    await _turns()
    assert server.asked == [20]
    server.answer()
    await _turns()
    assert server.asked == [20, 20]
    assert [one.done() for one in callers] == [True] * 20 + [False] * 20
    server.answer()
    await asyncio.gather(*callers)


async def test_the_second_half_is_sent_before_anybody_of_the_first_goes_on() -> None:
    server, seen = _Server(), []
    writer = server.writer()

    async def caller() -> None:
        await _commit(writer)
        seen.append(list(server.asked))

    callers = [asyncio.ensure_future(caller()) for _ in range(2 * FEW)]
    await _turns()
    server.answer()
    await _turns()
    assert seen == [[FEW, FEW]] * FEW
    server.answer()
    await asyncio.gather(*callers)


async def test_those_who_come_back_meanwhile_form_the_half_that_goes_next() -> None:
    server = _Server()
    writer = server.writer()

    async def caller() -> None:
        for _ in range(3):
            await _commit(writer)

    callers = [asyncio.ensure_future(caller()) for _ in range(32)]
    for _ in range(6):
        await _turns()
        server.answer()
    await asyncio.gather(*callers)
    assert server.asked == [16] * 6


async def test_few_callers_take_whichever_session_is_free() -> None:
    server = _Server()
    writer = server.writer()
    first = _callers(writer, 3)
    await _turns()
    second = _callers(writer, 2)
    await _turns()
    assert server.asked == [3, 2]
    server.answer()
    server.answer()
    await asyncio.gather(*first, *second)


async def test_a_batch_that_is_long_on_its_way_is_not_waited_for() -> None:
    server = _Server()
    callers = _callers(server.writer(), 40)
    await _turns()
    assert server.asked == [20]
    await asyncio.sleep(LONG_S * 3)
    assert server.asked == [20, 20]
    server.answer()
    server.answer()
    await asyncio.gather(*callers)


async def test_no_batch_is_larger_than_the_most_that_share_a_transaction() -> None:
    server = _Server()
    callers = _callers(server.writer(), 3 * BATCH)
    while not all(one.done() for one in callers):
        await _turns()
        server.answer()
        await _turns()
    assert max(server.asked) == BATCH
    assert sum(server.asked) == 3 * BATCH


async def test_a_failed_batch_tells_its_own_callers_and_the_others_go_on() -> None:
    server = _Server()
    callers = _callers(server.writer(), 2 * FEW)
    await _turns()
    server.answer(RuntimeError("lost"))
    await _turns()
    assert {(await error_of(one)).code for one in callers[:FEW]} == {"store.commit_unknown"}
    server.answer()
    await asyncio.gather(*callers[FEW:])


async def test_a_caller_that_is_gone_is_passed_over() -> None:
    server = _Server()
    callers = _callers(server.writer(), 3)
    await _turns()
    callers[1].cancel()
    server.answer()
    done = await asyncio.gather(*callers, return_exceptions=True)
    assert [isinstance(one, asyncio.CancelledError) for one in done] == [False, True, False]


async def test_what_is_still_queued_is_refused_when_the_store_closes() -> None:
    server = _Server()
    writer = server.writer(sessions=1)
    callers = _callers(writer, 2)
    await _turns()
    late = _callers(writer, 1)
    await _turns()
    writer.refuse()
    assert (await error_of(late[0])).code == "store.closed"
    server.answer()
    await asyncio.gather(*callers)
