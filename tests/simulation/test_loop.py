"""The loop's promises: virtual time, replay by seed, asyncio as ever, and no hanging.

These tests make their own loops; nothing here runs on the test runner's.
"""

import asyncio
import contextlib
import contextvars
import gc
import time
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from amends.simulation import (
    Stalled,
    VirtualClock,
    VirtualLoop,
    World,
    observe,
    run,
)

# Time


def test_an_hour_of_waiting_takes_no_time_and_ends_on_the_second() -> None:
    async def scenario(world: World) -> float:
        await asyncio.sleep(3600)
        await asyncio.sleep(0.5)
        return world.loop.time()

    began = time.perf_counter()
    assert run(scenario) == 3600.5
    assert time.perf_counter() - began < 5


def test_timers_fire_in_the_order_of_their_instants() -> None:
    async def scenario(world: World) -> list[tuple[float, str]]:
        seen: list[tuple[float, str]] = []

        async def nap(seconds: float, name: str) -> None:
            await asyncio.sleep(seconds)
            seen.append((world.loop.time(), name))

        await asyncio.gather(
            nap(30, "late"), nap(10, "early"), nap(86_400 * 3, "days"), nap(0, "now")
        )
        return seen

    assert run(scenario) == [(0.0, "now"), (10.0, "early"), (30.0, "late"), (259_200.0, "days")]


def test_time_stands_still_while_a_callback_is_ready() -> None:
    async def scenario(world: World) -> float:
        asyncio.get_running_loop().call_later(1, lambda: None)
        for _ in range(500):
            await asyncio.sleep(0)
        return world.loop.time()

    assert run(scenario) == 0.0


def test_a_cancelled_callback_neither_runs_nor_pulls_time_along() -> None:
    async def scenario(world: World) -> float:
        unwanted: list[float] = []
        for call in (world.loop.call_soon, partial(world.loop.call_later, 5)):
            call(unwanted.append, 1.0).cancel()
        worker = world.process("worker")
        worker.start(asyncio.sleep(9))
        await asyncio.sleep(7)
        assert unwanted == []
        return world.loop.time()

    report = observe(scenario)
    assert (report.result, report.steps) == (7.0, {"worker": 1})


def test_a_clock_follows_virtual_time_and_jumps_on_its_own() -> None:
    async def scenario(world: World) -> list[datetime]:
        other = VirtualClock(world.loop, datetime(2026, 1, 1, 2, tzinfo=UTC))
        await asyncio.sleep(60)
        seen = [world.clock(), other()]
        world.clock.step(timedelta(hours=-2))
        await asyncio.sleep(1)
        world.clock.step(timedelta(days=1))
        return [*seen, world.clock(), other()]

    first, other, stepped, undisturbed = run(scenario)
    assert first == datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    assert other == datetime(2026, 1, 1, 2, 1, tzinfo=UTC)
    assert stepped == datetime(2026, 1, 1, 22, 1, 1, tzinfo=UTC)
    assert undisturbed == datetime(2026, 1, 1, 2, 1, 1, tzinfo=UTC)
    assert stepped.tzinfo is UTC


def test_a_clock_refuses_a_start_without_a_zone() -> None:
    with contextlib.closing(VirtualLoop()) as loop, pytest.raises(ValueError, match="aware"):
        VirtualClock(loop, datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None))


# Order and replay


async def five_racers(world: World) -> list[str]:
    seen: list[str] = []

    async def racer(name: str) -> None:
        for lap in range(3):
            seen.append(f"{name}{lap}")
            await asyncio.sleep(0)

    await asyncio.gather(*(racer(name) for name in "abcde"))
    return seen


def test_without_a_seed_callbacks_run_first_in_first_out() -> None:
    assert run(five_racers) == [f"{name}{lap}" for lap in range(3) for name in "abcde"]


def test_the_same_seed_gives_the_same_order_and_other_seeds_give_others() -> None:
    orders = {seed: run(five_racers, seed) for seed in range(40)}
    assert orders == {seed: run(five_racers, seed) for seed in range(40)}
    assert len({tuple(order) for order in orders.values()}) > 30
    assert all(sorted(order) == sorted(run(five_racers)) for order in orders.values())


def test_a_task_group_cancels_its_children_in_the_same_order_every_time() -> None:
    """Sets of tasks would else follow memory addresses."""

    async def scenario(_world: World) -> list[str]:
        seen: list[str] = []

        async def child(name: str) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                seen.append(name)

        async def fail() -> None:
            raise ValueError

        with contextlib.suppress(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                for name in "abcdefghij":
                    group.create_task(child(name))
                group.create_task(fail())
        return seen

    ballast: list[object] = []
    orders = set()
    for size in range(30):
        orders.add(tuple(run(scenario)))
        ballast.extend(bytearray(64 + size) for _ in range(size))
    assert len(orders) == 1
    assert sorted(orders.pop()) == list("abcdefghij")


def test_ids_and_chance_come_back_for_the_same_seed() -> None:
    def drawn(seed: int | None) -> tuple[bytes, bytes, float]:
        world = World(seed)
        world.loop.close()
        return world.random_bytes(16), world.random_bytes(16), world.random.random()

    assert drawn(7) == drawn(7)
    assert drawn(None) == drawn(None)
    assert len({drawn(seed) for seed in (None, 0, 1, 2)}) == 4
    assert [len(part) for part in drawn(1)[:2]] == [16, 16]


# Never hanging


async def forgotten(event: asyncio.Event) -> None:
    await event.wait()


def test_waiting_for_what_never_comes_is_an_error_that_names_the_waiter() -> None:
    async def scenario(world: World) -> None:
        worker = world.process("worker")
        await worker.run(forgotten(asyncio.Event()))

    with pytest.raises(Stalled, match=r"no timer is set.*forgotten of worker \(running"):
        run(scenario)


def test_waiting_for_a_process_paused_for_ever_says_that_it_is_paused() -> None:
    async def scenario(world: World) -> None:
        worker = world.process("worker")
        worker.pause()
        await worker.run(asyncio.sleep(1))

    with pytest.raises(Stalled, match="paused"):
        run(scenario)


@pytest.mark.parametrize("seconds", [0, 1])
def test_spinning_and_polling_for_ever_end_in_an_error(seconds: float) -> None:
    seen: list[float] = []

    async def scenario(world: World) -> None:
        while True:
            await asyncio.sleep(seconds)
            seen.append(world.loop.time())

    with pytest.raises(Stalled, match="2000 callbacks"):
        World(patience=2000).run(scenario)
    assert seen[:3] == [seconds, 2 * seconds, 3 * seconds]


def test_a_loop_that_was_told_to_stop_stops_without_jumping() -> None:
    with contextlib.closing(VirtualLoop()) as loop:
        loop.call_later(9, lambda: None)
        loop.stop()
        loop.run_forever()
        assert loop.time() == 0.0


def test_a_failing_callback_fails_the_scenario() -> None:
    def broken() -> None:
        raise LookupError("nobody hears this")

    async def scenario(world: World) -> None:
        world.loop.call_soon(broken)
        await asyncio.sleep(1)

    with pytest.raises(ExceptionGroup) as caught:
        run(scenario)
    assert [type(error) for error in caught.value.exceptions] == [LookupError]


def test_a_failing_callback_is_noted_on_the_error_that_it_led_to() -> None:
    def broken() -> None:
        raise LookupError("the reason")

    async def scenario(world: World) -> None:
        world.loop.call_soon(broken)
        await asyncio.Event().wait()

    with pytest.raises(Stalled) as caught:
        run(scenario)
    assert caught.value.__notes__ == ["before that, unhandled: LookupError('the reason')"]


def test_the_loop_has_no_way_out_to_a_network() -> None:
    async def scenario(_world: World) -> None:
        await asyncio.open_connection("localhost", 80)

    with pytest.raises(RuntimeError, match="opens no connections"):
        run(scenario)


# asyncio as the runtime uses it


def test_timeout_and_wait_for_end_at_their_virtual_deadline() -> None:
    async def scenario(world: World) -> list[float]:
        seen: list[float] = []
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.sleep(60)
        seen.append(world.loop.time())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 2)
        seen.append(world.loop.time())
        async with asyncio.timeout(5):
            seen.append(await asyncio.wait_for(asyncio.sleep(1, 99.0), 2))
        return [*seen, world.loop.time()]

    for seed in (None, *range(20)):
        assert run(scenario, seed) == [5.0, 7.0, 99.0, 8.0]


def test_a_task_group_cancels_the_rest_when_one_child_fails() -> None:
    async def scenario(world: World) -> tuple[float, list[str]]:
        seen: list[str] = []

        async def fail() -> None:
            await asyncio.sleep(1)
            raise ValueError("first")

        async def rest() -> None:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        async def both() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail(), name="fail")
                group.create_task(rest(), context=contextvars.copy_context())

        with pytest.raises(ExceptionGroup):
            await both()
        return world.loop.time(), seen

    for seed in (None, *range(20)):
        assert run(scenario, seed) == (1.0, ["cancelled"])


def test_locks_events_queues_and_gather_work_in_every_order() -> None:
    async def scenario(_world: World) -> tuple[int, list[object]]:
        lock, go, queue = asyncio.Lock(), asyncio.Event(), asyncio.Queue[int](maxsize=1)
        inside = most = 0

        async def enter(number: int) -> int:
            nonlocal inside, most
            await go.wait()
            async with lock:
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0.1)
                inside -= 1
            await queue.put(number)
            return number

        async def drain() -> set[int]:
            return {await queue.get() for _ in range(4)}

        asyncio.get_running_loop().call_later(3, go.set)
        drained, *numbers = await asyncio.gather(drain(), *(enter(number) for number in range(4)))
        assert drained == set(numbers)
        return most, numbers

    for seed in (None, *range(20)):
        assert run(scenario, seed) == (1, [0, 1, 2, 3])


def test_an_executor_runs_sync_functions_inline_and_hands_back_what_came_of_them() -> None:
    def divide(left: int, right: int) -> float:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        return left / right

    async def scenario(world: World) -> tuple[float, float]:
        result = await world.loop.run_in_executor(None, divide, 6, 3)
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(divide, 1, 0)
        assert asyncio.get_running_loop() is world.loop
        return result, world.loop.time()

    assert run(scenario) == (2.0, 0.0)


def test_a_sync_function_is_not_stopped_by_the_cancellation_of_its_caller() -> None:
    async def scenario(world: World) -> list[str]:
        seen: list[str] = []

        def fail() -> None:
            seen.append("failed")
            raise ValueError

        for job in (
            world.loop.run_in_executor(None, seen.append, "ran"),
            world.loop.run_in_executor(None, fail),
        ):
            job.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return seen

    assert run(scenario) == ["ran", "failed"]


@pytest.mark.parametrize("via_executor", [True, False])
def test_an_interrupt_from_the_keyboard_leaves_the_loop_at_once(via_executor: bool) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    async def call() -> None:
        interrupted()

    async def scenario(world: World) -> None:
        if via_executor:
            await asyncio.to_thread(interrupted)
        await world.process("worker").run(world.process("caller").reach(call))

    with pytest.raises(KeyboardInterrupt):
        run(scenario)


def test_a_closed_loop_says_nothing_of_its_tasks_and_asyncio_forgets_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> asyncio.Task[None]:
        return asyncio.create_task(asyncio.sleep(60))

    loop = VirtualLoop()
    task = loop.run_until_complete(main())
    loop.close()
    assert asyncio.all_tasks(loop) == set()
    del task
    gc.collect()
    assert caplog.records == []
