"""Amends on PostgreSQL, and beside it what others would write by hand, on the same server.

*Bare*: one row, inserted and updated, each durable. *Same rows*: the rows, indexes and bytes that
one Amends action writes, one statement for each of its two change sets, without a rule, a hash, a
signature or a tenant. All have so many callers at once; the loops have a connection for each.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Any, Final

import asyncpg

from amends import Amends, Principal
from amends.contracts.errors import AmendsError
from benchmarks.dbos_loop import dbos_on
from benchmarks.pg_server import bench
from benchmarks.pg_template import named, sampled
from benchmarks.product import nothing, run

COUNT: Final = 6_000
FEW: Final = 800
CLAIMANTS: Final = 64
PLANS: Final = 30
_FILL: Final = 50_000
_BARE: Final = "CREATE TABLE bare (id text PRIMARY KEY, status text, body text)"
_BEGUN: Final = "INSERT INTO bare VALUES ($1, 'prepared', $2)"
_ENDED: Final = "UPDATE bare SET status = 'committed', body = $2 WHERE id = $1"


def _count(tasks: int) -> int:
    return FEW if tasks == 1 else COUNT


def execute(folder: Path, tasks: str) -> float:
    """Actions a second of one process."""
    with bench(folder) as on:
        return asyncio.run(run(on.url, count=_count(int(tasks)), tasks=int(tasks)))


def two_processes(folder: Path, tasks: str) -> float:
    """Actions a second of two processes together, each with so many callers."""
    with bench(folder) as on:
        asyncio.run(run(on.url, count=1, tasks=1))  # makes the store and its key
        command = [sys.executable, "-m", "benchmarks.pg_cases", on.url, tasks]
        both = [
            subprocess.Popen([*command, str(first)], stdout=subprocess.PIPE, text=True)
            for first in (COUNT, 2 * COUNT)
        ]
        return sum(float(one.communicate()[0]) for one in both)


def among(folder: Path, records: str) -> float:
    """Actions a second where so many are there already."""
    with bench(folder, f"filled_{records}") as on:
        asyncio.run(_filled(on.url, on.superuser_url, int(records)))
        # The database stays for the next round: keys that were used would only be answered.
        return asyncio.run(run(on.url, count=COUNT, tasks=64, first=time.time_ns() // 1000))


def same_rows(folder: Path, tasks: str) -> float:
    """Actions a second of a loop that writes the rows of an action."""

    async def work() -> float:
        template = await sampled(on.url, on.superuser_url)
        both = (template.claim, template.settlement)

        async def one(connection: Any) -> Callable[[int], Awaitable[None]]:
            first, second = [await connection.prepare(statement.sql) for statement in both]

            async def write(number: int) -> None:
                name = named(number)
                await first.fetch(*template.claim.bindings(name))
                await second.fetch(*template.settlement.bindings(name))

            return write

        return await _loop(on.superuser_url, int(tasks), one)

    with bench(folder) as on:
        return asyncio.run(work())


def bare(folder: Path, tasks: str) -> float:
    """Actions a second of the bare loop."""

    async def one(connection: Any) -> Callable[[int], Awaitable[None]]:
        body = "x" * 300

        async def write(number: int) -> None:
            await connection.execute(_BEGUN, named(number), body)
            await connection.execute(_ENDED, named(number), body)

        return write

    async def work() -> float:
        connection = await asyncpg.connect(on.superuser_url)
        await connection.execute(_BARE)
        await connection.close()
        return await _loop(on.superuser_url, int(tasks), one)

    with bench(folder) as on:
        return asyncio.run(work())


async def _loop(
    url: str, tasks: int, prepare: Callable[[Any], Awaitable[Callable[[int], Awaitable[None]]]]
) -> float:
    async with AsyncExitStack() as stack:
        writers = []
        for _ in range(tasks):
            connection = await asyncpg.connect(url)
            stack.push_async_callback(connection.close)
            writers.append(await prepare(connection))
        count = _count(tasks)
        numbers = iter(range(count))

        async def lane(write: Callable[[int], Awaitable[None]]) -> None:
            for number in numbers:
                await write(number)

        started = time.perf_counter()
        await asyncio.gather(*(lane(write) for write in writers))
        return count / (time.perf_counter() - started)


def dbos(folder: Path, threads: str) -> float:
    """Workflows of one step a second."""
    with bench(folder) as on:
        return dbos_on(on.superuser_url, 400 if int(threads) > 1 else 120, int(threads))


def last_verdict(folder: Path) -> float:
    """Milliseconds until the last of 64 claimants of one plan has its answer."""
    with bench(folder) as on:
        return asyncio.run(_claimed(on.url))


async def _claimed(url: str) -> float:
    work = nothing()
    took: list[float] = []
    async with AsyncExitStack() as stack:
        replicas = [
            await stack.enter_async_context(
                Amends.open(url, [work], principal=Principal.named("bench"), recover=False)
            )
            for _ in range(4)
        ]
        for _ in range(PLANS):
            plan = await replicas[0].plan(work, {"amount": 1, "currency": "eur"})
            started = time.perf_counter()
            won = await asyncio.gather(
                *(_won(replicas[n % 4], plan.plan_id) for n in range(CLAIMANTS))
            )
            took.append(time.perf_counter() - started)
            assert sum(won) == 1
    return median(took) * 1000


async def _won(amends: Amends, plan_id: Any) -> bool:
    try:
        await amends.commit(plan_id)
    except AmendsError:
        return False
    return True


async def _filled(url: str, superuser_url: str, records: int) -> None:
    """Put the rows of one action there so many times, unless they are there."""
    connection = await asyncpg.connect(superuser_url)
    try:
        if await connection.fetchval("SELECT to_regclass('amends.transactions')") is not None:
            return
        template = await sampled(url, superuser_url)
        for start in range(1, records + 1, _FILL):
            for sql in template.fill:
                await connection.execute(sql, start, min(start + _FILL - 1, records))
        for step in ("VACUUM (ANALYZE)", "CHECKPOINT"):
            await connection.execute(step)
    finally:
        await connection.close()


CASES: Final[dict[str, Callable[..., float]]] = {
    "pg_execute": execute,
    "pg_latency": lambda folder: 1e6 / execute(folder, "1"),
    "pg_two": two_processes,
    "pg_among": among,
    "pg_same_rows": same_rows,
    "pg_same_rows_latency": lambda folder: 1e6 / same_rows(folder, "1"),
    "pg_bare": bare,
    "pg_bare_latency": lambda folder: 1e6 / bare(folder, "1"),
    "pg_dbos": dbos,
    "pg_last_verdict": last_verdict,
}


def main(arguments: Sequence[str]) -> None:
    """One of two processes: so many callers at a store that is there; prints its rate."""
    url, tasks, first = arguments
    work = run(url, count=COUNT // 2, tasks=int(tasks), first=int(first))
    print(asyncio.run(work))


if __name__ == "__main__":
    main(sys.argv[1:])
