"""The promises of simulated processes: honest death at each step, pause, and a silent end.

These tests make their own loops; nothing here runs on the test runner's.
"""

import asyncio
import contextlib
import gc
import sys
import warnings
import weakref
from collections.abc import Awaitable
from functools import partial

import pytest

from amends.simulation import (
    Process,
    ProcessDied,
    World,
    current_process,
    observe,
    run,
    sweep,
)
from amends.simulation.process import Life


class Ledger:
    """An object of the world: what reached it is what happened."""

    def __init__(self, delay: float = 0.0) -> None:
        self.delay = delay
        self.written: list[str] = []

    async def write(self, line: str) -> int:
        if self.delay:
            await asyncio.sleep(self.delay)
        if line in self.written:
            raise KeyError(line)
        self.written.append(line)
        return len(self.written)

    def count(self) -> int:
        return len(self.written)


async def three_lines(ledger: Ledger) -> str:
    for line in ("claim", "charge", "settle"):
        await ledger.write(line)
    return "done"


async def one_line(ledger: Ledger, line: str) -> int:
    return await ledger.write(line)


async def outlive(main: Awaitable[object]) -> str:
    """Say how a wait for a process ended."""
    try:
        await main
    except ProcessDied:
        return "died"
    return "lived"


# Death


def test_children_timers_and_threads_belong_to_the_process_that_started_them() -> None:
    async def scenario(world: World) -> list[str]:
        worker = world.process("worker")
        owners: list[str] = []

        def note_owner() -> None:
            process = current_process()
            owners.append("the world" if process is None else process.name)

        async def outside() -> None:
            note_owner()

        async def child() -> None:
            note_owner()
            asyncio.get_running_loop().call_later(1, note_owner)
            await asyncio.to_thread(note_owner)
            await worker.reach(outside)

        async def main() -> None:
            await asyncio.create_task(child())

        note_owner()
        await worker.run(main())
        await asyncio.sleep(2)
        return owners

    assert run(scenario) == ["the world", "worker", "worker", "the world", "worker"]


def test_a_killed_process_takes_no_further_step_and_runs_no_cleanup() -> None:
    async def scenario(world: World) -> list[str]:
        seen: list[str] = []
        worker = world.process("worker")

        async def child() -> None:
            try:
                await asyncio.sleep(20)
                seen.append("child went on")
            except BaseException:
                seen.append("child caught")
            finally:
                seen.append("child cleaned up")

        async def main() -> None:
            asyncio.get_running_loop().call_later(20, seen.append, "timer fired")
            task = asyncio.create_task(child())
            task.add_done_callback(lambda _task: seen.append("callback ran"))
            with contextlib.suppress(asyncio.CancelledError):
                async with asyncio.timeout(30):
                    await task

        life = asyncio.create_task(outlive(worker.run(main())))
        await asyncio.sleep(10)
        worker.kill()
        worker.kill()
        assert await life == "died"
        assert world.loop.time() == 10.0
        for task in asyncio.all_tasks():
            if task is not asyncio.current_task():
                task.cancel()
        await asyncio.sleep(100)
        return list(seen)

    assert run(scenario) == []


def test_cleanup_at_the_end_of_the_world_is_refused_at_the_gate() -> None:
    ledger, refused = Ledger(), []

    async def scenario(world: World) -> None:
        for name in ("killed", "alive at the end"):
            process = world.process(name)
            process.start(stubborn(process, process.through(ledger)))
        await asyncio.sleep(1)
        world.processes["killed"].kill()

    async def stubborn(process: Process, seen: Ledger) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            try:
                await seen.write("released")
            except ProcessDied:
                refused.append(current_process() is process)
            await asyncio.sleep(0)
            refused.append(False)

    run(scenario)
    assert ledger.written == []
    assert refused == [True, True]


def test_a_process_that_kills_itself_does_not_go_on_and_its_cleanup_has_no_effect() -> None:
    ledger = Ledger()

    async def scenario(world: World) -> str:
        worker = world.process("worker")
        seen = worker.through(ledger)

        async def main() -> None:
            try:
                await seen.write("before")
                worker.kill()
                ledger.written.append("went on")
            finally:
                await seen.write("cleanup")

        async def by_timer() -> None:
            asyncio.get_running_loop().call_later(1, timed.kill)
            await asyncio.sleep(2)

        timed = world.process("timed")
        assert await outlive(timed.run(by_timer())) == "died"
        return await outlive(worker.run(main()))

    assert run(scenario) == "died"
    assert ledger.written == ["before"]


def test_a_call_goes_on_when_its_caller_dies_or_stops_waiting() -> None:
    """Silence never means that nothing happened."""
    ledger = Ledger(delay=1)

    async def scenario(world: World) -> list[str]:
        died, cancelled = world.process("died"), world.process("cancelled")

        async def impatient() -> None:
            async with asyncio.timeout(0.5):
                await cancelled.through(ledger).write("from the impatient")

        died.die_after(0.5)
        died_end = await outlive(died.run(died.through(ledger).write("from the dead")))
        with pytest.raises(TimeoutError):
            await cancelled.run(impatient())
        assert (died_end, world.loop.time()) == ("died", 1.0)
        assert "from the impatient" not in ledger.written
        await asyncio.sleep(5)
        return ledger.written

    assert run(scenario) == ["from the dead", "from the impatient"]


def test_a_call_that_fails_is_told_to_who_still_waits_and_to_nobody_else() -> None:
    ledger = Ledger(delay=1)
    ledger.written.append("twice")

    async def scenario(world: World) -> list[str]:
        dead, hasty, patient = (world.process(name) for name in ("dead", "hasty", "patient"))
        dead.die_after(0.5)
        ends = [await outlive(dead.run(one_line(dead.through(ledger), "twice")))]
        hurry = asyncio.wait_for(one_line(hasty.through(ledger), "twice"), 0.5)
        for waiting in (hasty.run(hurry), patient.run(one_line(patient.through(ledger), "twice"))):
            try:
                await waiting
            except (TimeoutError, KeyError) as error:
                ends.append(type(error).__name__)
        await asyncio.sleep(5)
        return ends

    assert run(scenario) == ["died", "TimeoutError", "KeyError"]


def test_a_process_sees_the_world_as_it_is_while_it_lives() -> None:
    ledger = Ledger()

    async def scenario(world: World) -> int:
        worker = world.process("worker")
        seen = worker.through(ledger)
        assert await worker.run(one_line(seen, "one")) == 1
        assert (seen.count(), seen.delay) == (1, 0.0)
        with pytest.raises(KeyError):
            await worker.run(one_line(seen, "one"))
        write = seen.write
        worker.kill()
        with pytest.raises(ProcessDied):
            seen.count()
        for late in (write("two"), worker.reach(partial(ledger.write, "three"))):
            with pytest.raises(ProcessDied):
                await late
        with pytest.raises(ProcessDied, match="worker died"):
            await worker.run(one_line(ledger, "never awaited"))
        return ledger.count()

    assert run(scenario) == 1


def test_death_at_each_step_leaves_every_prefix_of_the_effects_exactly_once() -> None:
    async def scenario(world: World) -> list[str]:
        ledger, worker = Ledger(), world.process("worker")
        end = await outlive(worker.run(three_lines(worker.through(ledger))))
        return [*ledger.written, end]

    for seed in (None, 1, 2):
        assert [report.result for report in sweep(scenario, "worker", seed)] == [
            ["claim", "charge", "settle", "lived"],
            ["died"],
            ["claim", "died"],
            ["claim", "charge", "died"],
            ["claim", "charge", "settle", "died"],
        ]


def test_death_at_each_step_covers_every_await_of_every_task() -> None:
    reached: set[tuple[str, ...]] = set()

    async def scenario(world: World) -> None:
        at: dict[str, str] = {}
        worker = world.process("worker")

        async def child(name: str) -> None:
            for place in ("sleep", "yield", "lock"):
                at[name] = place
                match place:
                    case "sleep":
                        await asyncio.sleep(1)
                    case "yield":
                        await asyncio.sleep(0)
                    case _:
                        await asyncio.to_thread(len, "")
            at[name] = "end"

        async def main() -> None:
            async with asyncio.TaskGroup() as group:
                at["main"] = "group"
                group.create_task(child("a"))
                group.create_task(child("b"))
            at["main"] = "end"

        if await outlive(worker.run(main())) == "died":
            reached.add(tuple(at.get(name, "not begun") for name in ("main", "a", "b")))

    reports = list(sweep(scenario, "worker"))
    assert len(reports) == reports[0].steps["worker"] + 1
    for index, name in enumerate(("main", "a", "b")):
        places = {"group"} if name == "main" else {"sleep", "yield", "lock"}
        assert places | {"not begun"} <= {state[index] for state in reached}, name


def test_the_step_that_broke_a_scenario_is_noted_on_its_error() -> None:
    async def scenario(world: World) -> None:
        ledger, worker = Ledger(), world.process("worker")
        await outlive(worker.run(three_lines(worker.through(ledger))))
        assert ledger.written != ["claim", "charge"], "left unsettled"

    reports = sweep(scenario, "worker", seed=5)
    with pytest.raises(AssertionError, match="left unsettled") as caught:
        list(reports)
    assert caught.value.__notes__[-1] == "seed 5, worker met its fate at step 2"


def test_a_report_counts_the_steps_of_each_process_and_the_seconds() -> None:
    async def scenario(world: World) -> str:
        worker, idle = world.process("worker"), world.process("idle")
        assert idle.life is Life.RUNNING
        return await worker.run(three_lines(worker.through(Ledger(delay=2))))

    report = observe(scenario)
    assert report.result == "done"
    assert report.steps == {"worker": 4, "idle": 0}
    assert report.seconds == 6.0


def test_a_fate_of_the_past_and_a_name_used_twice_are_refused() -> None:
    async def scenario(world: World) -> None:
        worker = world.process("worker")
        await worker.run(asyncio.sleep(0))
        with pytest.raises(ValueError, match="past step 0"):
            worker.die_at(0)
        with pytest.raises(ValueError, match="already"):
            world.process("worker")

    run(scenario)


# Pause


def test_a_paused_process_is_overtaken_and_then_goes_on_late() -> None:
    async def scenario(world: World) -> list[tuple[float, str]]:
        seen: list[tuple[float, str]] = []

        async def beat(name: str) -> None:
            for _ in range(3):
                await asyncio.sleep(1)
                seen.append((world.loop.time(), name))

        paused, steady = world.process("paused"), world.process("steady")
        world.loop.call_later(1.5, paused.pause, 10)
        await asyncio.gather(paused.run(beat("paused")), steady.run(beat("steady")))
        return seen

    assert run(scenario) == [
        (1.0, "paused"),
        (1.0, "steady"),
        (2.0, "steady"),
        (3.0, "steady"),
        (11.5, "paused"),
        (12.5, "paused"),
    ]


def test_a_pause_at_each_step_changes_when_but_not_what() -> None:
    async def scenario(world: World) -> list[str]:
        ledger, worker = Ledger(), world.process("worker")
        await worker.run(three_lines(worker.through(ledger)))
        return ledger.written

    def pause(process: Process, step: int) -> None:
        process.pause_at(step, 90)

    reports = list(sweep(scenario, "worker", fate=pause))
    assert [report.seconds for report in reports] == [0.0, 90.0, 90.0, 90.0, 90.0]
    assert {tuple(report.result) for report in reports} == {("claim", "charge", "settle")}


def test_a_process_resumed_early_is_not_disturbed_by_the_end_of_its_old_pause() -> None:
    async def scenario(world: World) -> list[Life]:
        worker, seen = world.process("worker"), []
        worker.resume()
        worker.pause(10)
        worker.pause(2)
        await asyncio.sleep(5)
        seen.append(worker.life)
        worker.resume()
        seen.append(worker.life)
        worker.pause(100)
        await asyncio.sleep(50)
        seen.append(worker.life)
        await asyncio.sleep(60)
        return [*seen, worker.life]

    assert run(scenario) == [Life.PAUSED, Life.RUNNING, Life.PAUSED, Life.RUNNING]


def test_a_pause_without_an_end_lasts_until_the_process_is_resumed() -> None:
    async def scenario(world: World) -> list[int]:
        ledger, worker = Ledger(), world.process("worker")
        worker.pause()
        worker.start(three_lines(worker.through(ledger)))
        await asyncio.sleep(1000)
        seen = [ledger.count()]
        worker.resume()
        await asyncio.sleep(1)
        return [*seen, ledger.count()]

    assert run(scenario) == [0, 3]


def test_a_process_killed_in_its_pause_does_not_wake() -> None:
    async def scenario(world: World) -> tuple[Life, int]:
        ledger, worker = Ledger(), world.process("worker")
        worker.pause(5)
        worker.start(three_lines(worker.through(ledger)))
        worker.die_after(1)
        await asyncio.sleep(2)
        worker.pause(1)
        await asyncio.sleep(10)
        return worker.life, ledger.count()

    assert run(scenario) == (Life.DEAD, 0)


# The end


def test_the_end_of_a_world_is_silent_whatever_it_leaves_unfinished(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def outer(coro: Awaitable[None]) -> None:
        await coro

    async def awaits_in_its_cleanup() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            try:
                await asyncio.sleep(0)
            finally:
                await asyncio.sleep(0)

    async def fails() -> None:
        raise ValueError("seen by nobody, since its process ended with the world")

    async def scenario(world: World) -> None:
        worker = world.process("worker")
        worker.start(fails())
        worker.start(awaits_in_its_cleanup())
        await asyncio.sleep(0.5)
        worker.start(outer(asyncio.sleep(1)))
        worker.kill()

    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(scenario)
        gc.collect()
    assert [str(warning.message) for warning in caught] == []
    assert unraisable == []


def test_a_thousand_worlds_leave_none_behind() -> None:
    worlds: weakref.WeakSet[World] = weakref.WeakSet()

    async def scenario(world: World) -> str:
        worlds.add(world)
        ledger, worker = Ledger(delay=0.1), world.process("worker")
        worker.die_at(2)
        return await outlive(worker.run(three_lines(worker.through(ledger))))

    assert {run(scenario, seed) for seed in range(1000)} == {"died"}
    gc.collect()
    assert len(worlds) == 0
