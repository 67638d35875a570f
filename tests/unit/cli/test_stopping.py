"""Ctrl-C and its kin, in the very process: once stops the waiting, twice the process.

What real processes leave behind is shown in `tests/acceptance/test_cli.py`.
"""

import asyncio
import os
import signal
import sys
import threading
from typing import Any, Final

import pytest

from amends import OutcomeUnknown
from amends.cli import exits, main, stopping
from amends.cli.options import Options
from amends.cli.stopping import Stop
from amends.contracts.codes import coded
from tests.unit.cli import shop
from tests.unit.cli.shell import SHOP, Said, Shell

QUICK: Final = ("--settings", f"{SHOP}:settings")
ENDINGS: Final = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]


@pytest.fixture(autouse=True)
def as_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`amends` answers these signals as Ctrl-C from its start on."""
    before = {one: signal.getsignal(one) for one in stopping.SIGNALS}
    for one in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, main._end)
    yield
    assert {one: signal.getsignal(one) for one in before} == before | {
        signal.SIGTERM: main._end,
        signal.SIGHUP: main._end,
    }
    for one, handler in before.items():
        signal.signal(one, handler)


def sends_itself(shell: Shell, point: str, *numbers: int) -> None:
    """From now on, whoever reaches the point in this process sends the signals there."""
    shell.monkeypatch.setenv(shop.SIGNALS, f"{point}:{','.join(str(int(one)) for one in numbers)}")


def soon(number: int, after_s: float = 0.4) -> None:
    """A signal that comes from outside in a moment."""
    threading.Timer(after_s, os.kill, (os.getpid(), number)).start()


@pytest.mark.parametrize(("number", "code"), ENDINGS)
def test_before_the_claim_nothing_is_begun_and_the_plan_is_still_planned(
    shell: Shell, number: int, code: int
) -> None:
    shell.planned("t1")
    sends_itself(shell, "credential", number)
    said = shell.json("commit", "t1", "--yes", *QUICK)
    assert (said.code, said.error) == (code, "cli.interrupted")
    assert shell.json("tx", "list").data["items"][0]["status"] == "planned"
    assert shop.books() == []


@pytest.mark.parametrize(("number", "code"), ENDINGS)
def test_a_question_is_ended_at_once(
    shell: Shell, number: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.planned("t1")
    shell.types("")
    monkeypatch.setattr(sys.stdin, "readline", lambda: os.kill(os.getpid(), number))
    said = shell.json("commit", "t1")
    assert (said.code, said.error) == (code, "cli.interrupted")
    assert shop.books() == []


@pytest.mark.parametrize("number", [one for one, _ in ENDINGS])
def test_an_attempt_that_ends_in_time_is_told_as_it_ended(shell: Shell, number: int) -> None:
    shell.planned("t1", shop.SLOW)
    sends_itself(shell, "moved", number)
    said = shell.json("commit", "t1", "--yes", *QUICK)
    assert (said.code, said.json["interrupted"]) == (0, True)
    assert said.data["status"] == "committed"
    assert "Stopping. What was begun cannot be taken back: it has 0.4 s to end." in said.err


@pytest.mark.parametrize("number", [one for one, _ in ENDINGS])
def test_an_attempt_that_does_not_end_in_time_is_unknown_and_settled_so(
    shell: Shell, number: int
) -> None:
    shell.planned("t1", shop.FOREVER)
    sends_itself(shell, "moved", number)
    said = shell.json("commit", "t1", "--yes", *QUICK)
    assert (said.code, said.error) == (5, "transaction.outcome_unknown")
    assert said.json["data"]["error"]["code"] == "transaction.attempt_interrupted"
    assert said.json["interrupted"] is True
    assert shell.json("tx", "list").data["items"][0]["status"] == "outcome_unknown"
    found = shell.as_("olga", "reconcile", "t1", "--insist").data
    assert (found["verdict"], len(shop.books())) == ("committed", 1)


def test_all_plans_means_no_more_of_them_after_a_signal(shell: Shell) -> None:
    for number, amount in enumerate((shop.SLOW, 5, 6)):
        shell.planned(f"t{number}", amount)
    sends_itself(shell, "moved", signal.SIGINT)
    said = shell.json("commit", "--all", "--yes", *QUICK)
    assert (said.code, said.error) == (130, "cli.interrupted")
    data = said.json["data"]
    assert [one["status"] for one in data["results"]] == ["committed"]
    assert [one["plan_id"] for one in data["not_begun"]] == ["plan:t1", "plan:t2"]
    assert len(shop.books()) == 1


def test_who_stops_waiting_for_an_approval_leaves_the_request_standing(shell: Shell) -> None:
    order = ("--input", '{"amount": 5}', "--yes", "--wait", "30")
    soon(signal.SIGINT)
    said = shell.json("execute", "payments.wire", *order)
    assert (said.code, said.error) == (3, "approval.required")
    assert said.json["interrupted"] is True
    assert len(shell.json("approvals").data["items"]) == 1


def test_who_stops_waiting_for_a_look_up_has_asked_nobody(shell: Shell) -> None:
    shell.done("t1", shop.BREAKS)
    soon(signal.SIGINT)
    said = shell.json("reconcile", "t1", "--wait", "30")
    assert (said.code, said.error) == (130, "cli.interrupted")
    assert shell.json("tx", "list").data["items"][0]["status"] == "outcome_unknown"


def test_who_stops_watching_has_seen_what_there_was(shell: Shell) -> None:
    shell.planned("t1")
    soon(signal.SIGINT)
    said = shell.json("tx", "watch", "t1")
    assert (said.code, said.json["interrupted"]) == (0, True)
    assert said.data["result"]["status"] == "planned"


def test_a_call_that_does_not_end_even_then_is_unknown(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is known of it, so nothing else is said."""
    from amends.cli.answers import Answer
    from amends.cli.session import Session, act

    async def stubborn() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(60)

    async def work(session: Session) -> Answer:
        await session.carry(stubborn(), {"action_id": "act-1"}, at_most_ms=1_000)
        raise AssertionError

    shell.planned("t1")
    options = Options(store=f"sqlite:///{shell.database}", settings=f"{SHOP}:settings")
    with pytest.raises(OutcomeUnknown) as unknown:
        act(options, work)
    assert unknown.value.details["action_id"] == "act-1"


def test_a_look_that_a_signal_ends_has_changed_nothing(shell: Shell) -> None:
    from amends.cli.answers import Answer
    from amends.cli.session import Session, act

    async def slow() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(60)

    async def work(session: Session) -> Answer:
        await session.until_stopped(slow())
        raise AssertionError

    shell.planned("t1")
    with pytest.raises(exits.Ended) as ended:
        act(Options(store=f"sqlite:///{shell.database}"), work)
    assert ended.value.number == signal.SIGTERM


def test_a_signal_that_comes_while_the_store_is_opened_is_heard(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    from amends.wiring import opening

    real = opening.open_store

    async def opened(url: str, *, looks: bool) -> object:
        os.kill(os.getpid(), signal.SIGTERM)
        return await real(url, looks=looks)

    shell.planned("t1")
    monkeypatch.setattr(opening, "open_store", opened)
    said = shell.json("tx", "list")
    assert (said.code, said.error) == (143, "cli.interrupted")


def test_an_engine_that_is_closed_for_another_reason_is_no_interruption(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    from amends.runtime.engine import Engine

    def refuse(_: object) -> None:
        raise coded("runtime.closed")

    shell.planned("t1")
    monkeypatch.setattr(Engine, "_check_open", refuse)
    said = shell.json("commit", "t1", "--yes")
    assert (said.code, said.error) == (8, "runtime.closed")


async def test_a_signal_ends_a_look_that_takes_its_time() -> None:
    stop = Stop(as_json=False)
    with stop.listening():
        task = asyncio.ensure_future(asyncio.sleep(60))
        os.kill(os.getpid(), signal.SIGINT)
        assert await stop.first(task) is False
        task.cancel()
        with pytest.raises(KeyboardInterrupt):
            stop.check()


@pytest.mark.parametrize(
    ("doing", "code", "error"),
    [
        (None, 143, "cli.interrupted"),
        ({"transaction_id": "t1"}, 5, "cli.left_at_once"),
    ],
)
@pytest.mark.parametrize("as_json", [True, False])
async def test_twice_leaves_there_and_then_and_says_what_is_not_known(
    doing: dict[str, Any] | None,
    code: int,
    error: str,
    as_json: bool,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    left: list[int] = []
    monkeypatch.setattr(os, "_exit", left.append)
    stop = Stop(as_json=as_json)
    stop.doing = doing
    with stop.listening():
        os.kill(os.getpid(), signal.SIGTERM)
        assert left == []
        monkeypatch.setattr(sys, "__stderr__", sys.stderr)
        monkeypatch.setattr(sys, "__stdout__", sys.stdout)
        os.kill(os.getpid(), signal.SIGTERM)
    assert left == [code]
    said = capfd.readouterr()
    if as_json:
        assert Said(code, said.out, said.err).error == error
    else:
        assert f"[{error}]" in said.err
        assert said.out == ""


async def test_a_signal_that_was_ignored_from_the_start_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        stop = Stop(as_json=False)
        with stop.listening(), stop.asking():
            os.kill(os.getpid(), signal.SIGINT)
        assert stop.number is None
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


async def test_a_question_hears_of_a_signal_by_way_of_a_pipe_and_gives_everything_back() -> None:
    """The interpreter alone would not hear of one that comes just before it begins to read."""
    handlers = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    silent, far = os.pipe()
    stop = Stop(as_json=False)
    later = threading.Timer(0.2, signal.pthread_kill, (threading.get_ident(), signal.SIGTERM))
    try:
        with os.fdopen(silent) as stdin, stop.asking() as wait:
            woken = signal.set_wakeup_fd(-1)
            signal.set_wakeup_fd(woken)
            assert woken >= 0
            later.start()
            with pytest.raises(exits.Ended):
                wait(stdin)
    finally:
        os.close(far)
        later.join()
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == (
        handlers
    )
    left = signal.set_wakeup_fd(-1)
    assert left == -1


def test_a_command_that_is_ended_before_it_began_says_so(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(*_: object) -> None:
        raise exits.Ended(signal.SIGTERM)

    monkeypatch.setattr("amends.cli.apps.load_capabilities", ended)
    said = shell.json("plan", "x")
    assert (said.code, said.error) == (143, "cli.interrupted")
