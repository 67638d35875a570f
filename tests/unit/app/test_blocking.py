"""The portal: the methods of `Amends`, from plain code and from any thread."""

import inspect
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import assert_type

import pytest

from amends import (
    Amends,
    BlockingAttempt,
    Conflict,
    Misuse,
    Principal,
    Refused,
    Result,
    blocking,
    capability,
)
from amends.blocking import Portal
from amends.contracts.approvals import ApprovalRequest
from amends.contracts.principals import APPROVE_SCOPE

ALICE = Principal.named("alice")
BOB = Principal.named("bob", scopes=[APPROVE_SCOPE])
WAIT_S = 20


@dataclass
class Order:
    amount: int


@capability("payments.charge")
def charge(order: Order, attempt: BlockingAttempt) -> dict[str, int]:
    attempt.checkpoint("fake", f"ch-{order.amount}")
    return {"amount": order.amount}


@charge.compensate(requires_approval=True)
def refund(reason: str) -> dict[str, str]:
    return {"reason": reason}


@pytest.fixture
def portal() -> Iterator[Portal]:
    with blocking.open("memory:", [charge], principal=ALICE) as opened:
        yield opened


def coroutines(kind: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(method)
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if inspect.iscoroutinefunction(inspect.unwrap(method)) and not name.startswith("_")
    }


def test_every_coroutine_of_amends_has_its_namesake_with_the_same_signature() -> None:
    assert coroutines(Portal) == coroutines(Amends)
    assert not any(map(inspect.iscoroutinefunction, vars(Portal).values()))


def test_opening_takes_what_amends_open_takes() -> None:
    assert inspect.signature(blocking.open).parameters == inspect.signature(Amends.open).parameters


def test_a_call_returns_what_its_coroutine_returns_and_type_checkers_know_it(
    portal: Portal,
) -> None:
    plan = portal.plan(charge, Order(5))
    assert_type(plan, Result)
    done = portal.commit(plan)
    assert (plan.status, done.status, done.output) == ("planned", "committed", {"amount": 5})
    assert portal.verify(done).ok
    assert len(portal.list().items) == 1


def test_a_refusal_is_raised_as_it_is(portal: Portal) -> None:
    with pytest.raises(Refused) as refused:
        portal.commit("no-such-plan")
    assert refused.value.code == "transaction.plan_not_found"


def test_acting_as_gives_another_principals_portal_to_the_same_engine(portal: Portal) -> None:
    done = portal.execute(charge, Order(5))
    waiting = portal.compensate(done, "broken")
    decided = portal.acting_as(BOB).approve(waiting)
    assert_type(decided, ApprovalRequest)
    back = portal.wait_for_approval(waiting, timeout_s=WAIT_S)
    assert (back.status, back.output) == ("compensated", {"reason": "broken"})


def test_many_threads_may_call_at_once_and_one_commits_a_plan(portal: Portal) -> None:
    plan = portal.plan(charge, Order(5))

    def commit(number: int) -> str:
        try:
            return portal.commit(plan, action_id=f"act-{number}").status
        except Conflict:
            return "conflict"

    with ThreadPoolExecutor(8) as threads:
        answers = sorted(threads.map(commit, range(16)))
    assert answers == ["committed"] + ["conflict"] * 15


def test_a_plain_handler_may_use_the_portal_that_runs_it() -> None:
    @capability("orders.place")
    def place(order: Order, attempt: BlockingAttempt) -> object:
        return opened.execute(charge, order).output

    with blocking.open("memory:", [charge, place], principal=ALICE) as opened:
        assert opened.execute(place, Order(5)).output == {"amount": 5}


def test_an_async_handler_that_would_wait_for_its_own_loop_is_told_so() -> None:
    told: list[str] = []

    @capability("orders.place")
    async def place(order: Order) -> None:
        try:
            opened.execute(charge, order)
        except Misuse as misuse:
            told.append(misuse.code)

    with blocking.open("memory:", [charge, place], principal=ALICE) as opened:
        opened.execute(place, Order(5))
        assert told == ["blocking.own_loop"]
        assert opened.list(where={"capability_id": "payments.charge"}).items == ()


def test_a_call_after_the_block_is_refused_and_begins_nothing(portal: Portal) -> None:
    with blocking.open("memory:", [charge]) as closed:
        pass
    with pytest.raises(Misuse) as refused:
        closed.execute(charge, Order(5))
    assert refused.value.code == "blocking.closed"


def test_the_thread_ends_with_the_block_also_when_opening_fails() -> None:
    def portals() -> int:
        return sum(thread.name == "amends-portal" for thread in threading.enumerate())

    before = portals()
    with blocking.open("memory:", [charge]):
        assert portals() == before + 1
    with pytest.raises(Misuse, match=r"store\.url_unknown"), blocking.open("nowhere:", [charge]):
        raise AssertionError("the block was entered")
    assert portals() == before


INTERRUPTED = """
import signal, sys, threading
from amends import blocking, capability
signal.signal(signal.SIGINT, signal.default_int_handler)
entered, may_end = threading.Event(), threading.Event()

@capability("slow")
def slow(order: int) -> int:
    entered.set()
    assert may_end.wait(20)
    return order

def press_ctrl_c() -> None:
    entered.wait()
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

with blocking.open(sys.argv[1], [slow]) as portal:
    threading.Thread(target=press_ctrl_c).start()
    try:
        portal.execute(slow, 5, action_id="one")
    except KeyboardInterrupt:
        print(portal.get(action_id="one").result.status)
        may_end.set()
with blocking.open(sys.argv[1], [slow]) as portal:
    print(portal.get(action_id="one", include_result=True).result.output)
"""


def test_ctrl_c_ends_the_wait_and_not_the_attempt(tmp_path: object) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, f"sqlite:///{tmp_path}/amends.db"],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert (done.stdout.split(), done.stderr) == (["prepared", "5"], "")
