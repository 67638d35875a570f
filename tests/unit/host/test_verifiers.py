"""Both verifiers: asked three times, in time, and no unless they said yes (PM-1, PM-2)."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Final

import pytest

from amends.contracts.errors import Refused
from amends.ledger.targets import Question, Stage
from amends.protocol.table import SessionState
from tests.unit.worker.stage import GRANT, INVERSE, NONCE, SCOPE, Both

SECRET: Final = "release"


async def hangs(_: Question) -> bool:
    await asyncio.sleep(60)
    return True


async def hangs_on(_: Question) -> bool:
    """Not even cancelling it helps."""
    until = asyncio.get_running_loop().time() + 0.5
    while asyncio.get_running_loop().time() < until:
        try:
            await asyncio.sleep(0.5)
        except asyncio.CancelledError:
            continue
    return True


def blocks(_: Question) -> bool:
    time.sleep(0.4)
    return True


def raises(question: Question) -> bool:
    raise ValueError(question.payload.body)


async def raises_later(question: Question) -> bool:
    raise ValueError(question.payload.body)


def leaves(question: Question) -> bool:
    raise SystemExit(question.payload.body)


NO: Final[dict[str, Callable[[Question], object]]] = {
    "says no": lambda _: False,
    "says nothing": lambda _: None,
    "says something like yes": lambda _: 1,
    "raises": raises,
    "raises later": raises_later,
    "ends the program": leaves,
    "hangs": hangs,
    "hangs on": hangs_on,
    "blocks": blocks,
}
WHO: Final = {"grant": "ledger.grant_denied", "action": "ledger.action_denied"}


@pytest.mark.rule("PM-1", "HL-3")
@pytest.mark.parametrize("how", NO)
@pytest.mark.parametrize("who", WHO)
async def test_an_intent_that_a_verifier_did_not_allow_is_not_recorded(who: str, how: str) -> None:
    both = Both()
    workflow, key = await both.succeeded()
    before = both.ledger.payload
    both.says[who] = NO[how]
    target = workflow.target(key, SCOPE, GRANT, INVERSE)
    with pytest.raises(Refused) as caught:
        await workflow.record_compensation(target, NONCE)
    assert caught.value.code == WHO[who]
    assert SECRET not in repr(caught.value) + str(caught.value.__cause__)
    assert both.ledger.payload == before


@pytest.mark.rule("PM-1")
@pytest.mark.parametrize("how", NO)
@pytest.mark.parametrize("who", WHO)
async def test_no_permit_is_given_when_a_verifier_did_not_allow_it(who: str, how: str) -> None:
    both = Both()
    workflow, target = await both.intended()
    async with both.channel() as channel:
        both.says[who] = NO[how]
        frames = len(both.wires[0].sent)
        with pytest.raises(Refused) as caught:
            await workflow.permit(channel, target)
        assert caught.value.code == WHO[who]
        assert len(both.wires[0].sent) == frames


@pytest.mark.rule("PM-1", "PM-3", "PM-5")
@pytest.mark.parametrize("how", NO)
@pytest.mark.parametrize("who", WHO)
async def test_a_verifier_that_is_asked_before_sealing_uses_the_permit_up_and_no_number(
    who: str, how: str
) -> None:
    both = Both()
    workflow, target = await both.intended()
    async with both.channel() as channel:
        permit = await workflow.permit(channel, target)
        both.says[who] = NO[how]
        frames = len(both.wires[0].sent)
        with pytest.raises(Refused) as caught:
            await workflow.compensate(channel, target, permit)
        assert caught.value.code == WHO[who]
        assert permit.is_spent
        assert len(both.wires[0].sent) == frames
        both.says.clear()
        with pytest.raises(Refused, match=r"permit\.spent"):
            await workflow.compensate(channel, target, permit)
        await workflow.compensate(channel, target)
        assert channel.state is SessionState.OPEN
    assert both.provider.entered["compensate"] == 1


@pytest.mark.rule("PM-1", "PM-2")
async def test_both_are_asked_at_each_of_three_stages_about_exactly_this_input() -> None:
    both = Both()
    workflow, target = await both.intended()
    async with both.channel() as channel:
        await workflow.compensate(channel, target)
    assert [(who, question.stage) for who, question in both.asked] == [
        (who, stage) for stage in Stage for who in WHO
    ]
    assert all(question.payload == INVERSE for _, question in both.asked)
    assert all(SECRET not in repr(question) for _, question in both.asked)


async def test_a_plain_verifier_runs_beside_the_event_loop() -> None:
    both = Both()
    workflow, key = await both.succeeded()
    threads: list[int] = []

    def allows(_: Question) -> bool:
        threads.append(threading.get_ident())
        return True

    both.says = {"grant": allows}
    target = workflow.target(key, SCOPE, GRANT, INVERSE)
    await workflow.record_compensation(target, NONCE)
    assert threads
    assert threading.get_ident() not in threads


async def test_the_second_verifier_is_not_asked_about_what_the_first_refused() -> None:
    both = Both()
    workflow, key = await both.succeeded()
    both.says["grant"] = lambda _: False
    with pytest.raises(Refused, match="grant_denied"):
        await workflow.record_compensation(workflow.target(key, SCOPE, GRANT, INVERSE), NONCE)
    assert [who for who, _ in both.asked] == ["grant"]
