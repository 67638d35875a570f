"""Asked once for all who wait, and never too early for anybody."""

import asyncio

import pytest

from amends.stores.postgres.shared_question import SharedQuestion


class Clock:
    """Says when a question was asked, once it is let."""

    def __init__(self) -> None:
        self.asked = 0
        self.let = asyncio.Event()
        self.fails = False

    async def __call__(self) -> int:
        self.asked += 1
        number = self.asked
        await self.let.wait()
        if self.fails:
            raise ConnectionError
        return number


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_all_who_ask_at_one_moment_share_a_question() -> None:
    clock = Clock()
    clock.let.set()
    question = SharedQuestion(clock)
    assert await asyncio.gather(*(question.answer() for _ in range(64))) == [1] * 64
    assert await question.answer() == 2


async def test_whoever_comes_while_a_question_is_on_its_way_waits_for_the_next_one() -> None:
    clock = Clock()
    question = SharedQuestion(clock)
    early = asyncio.ensure_future(question.answer())
    await settled()
    late = [asyncio.ensure_future(question.answer()) for _ in range(3)]
    await settled()
    assert clock.asked == 1
    clock.let.set()
    assert await early == 1
    assert await asyncio.gather(*late) == [2] * 3


async def test_who_goes_away_takes_nothing_from_the_others() -> None:
    clock = Clock()
    question = SharedQuestion(clock)
    leaving, staying = (asyncio.ensure_future(question.answer()) for _ in range(2))
    await settled()
    leaving.cancel()
    await settled()
    clock.let.set()
    assert await staying == 1
    assert leaving.cancelled()


async def test_a_question_that_fails_fails_for_all_who_wait_and_for_nobody_after() -> None:
    clock = Clock()
    clock.let.set()
    clock.fails = True
    question = SharedQuestion(clock)
    answers = await asyncio.gather(*(question.answer() for _ in range(2)), return_exceptions=True)
    assert [type(one) for one in answers] == [ConnectionError] * 2
    clock.fails = False
    assert await question.answer() == 2
    clock.let.clear()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(question.answer(), 0.01)
