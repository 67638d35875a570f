"""`python -m amends.testing.chaos`: many runtimes on one PostgreSQL, and what can happen to them.

First `--plans` plans are each committed by all runtimes at once, in peace. Then come worlds of 20
seconds. In each, four runtimes charge, plan, commit the same plans and refund, and meanwhile
runtimes are killed with SIGKILL or stopped for longer than a lease, the server is restarted,
crashed, or loses one of its processes, and connections are cut, in the middle of COMMIT above all.
At the end this process recovers what is left, sends some deeds once more, and compares the store
with the provider's own books: nothing twice, nothing lost that was answered, every record ended
honestly. Exit code 1 means that something of it was broken.

A seed draws what is done and what happens, and when. The threads of time are real, so that the same
seed makes the same kind of world and not the same one.

Deliberately not here: each single crash point (`kills`) and each single cut, which tests have.
"""

import argparse
import asyncio
import contextlib
import os
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import msgspec

from amends.testing import faults
from amends.testing.chaos_race import commit_by_all
from amends.testing.chaos_runtime import ChaosRuntime
from amends.testing.effects import FileLedger
from amends.testing.errands import (
    Answer,
    AnyErrand,
    Commit,
    Compensate,
    Execute,
    Plan,
    run_errand,
)
from amends.testing.invariants import check_history
from amends.testing.postgres_server import PostgresServer
from amends.testing.reckoning import doubled, lost, recover, unended
from amends.testing.snapshots import take_snapshot
from amends.testing.tcp_proxy import Cut, TcpProxy
from amends.testing.till import Setup, effects_in, open_till

RUNTIMES: Final = 4
AT_ONCE: Final = 8
WORLD_S: Final = 20.0
LEASE_MS: Final = (400, 200)
"""The time limit of a call, and the grace after it."""

STILL_S: Final = (0.8, 1.8)
"""How long a runtime is stopped: longer than its lease."""

HORIZON_MS: Final = 6_000
"""When a request is surely dead; nobody is stopped for that long."""

_PAUSES_S: Final = (0.1, 0.7)
_AGAIN: Final = 100
_RECENT: Final = 40
_FAULTS: Final = (
    faults.acknowledgement(),
    faults.headers(),
    faults.body(effect=True),
    faults.server_error(),
    faults.server_error_after_commit(),
    faults.connect(),
    faults.decline(),
    faults.late(0.05),
)
_BACKEND: Final = (
    "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'"
    " AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1"
)


class Trouble(StrEnum):
    """What happens."""

    KILL = "runtime killed"
    STILL = "runtime stopped longer than its lease"
    CUT = "connections cut in the middle of COMMIT"
    CUT_ALL = "every connection cut"
    RESTART = "server restarted"
    CRASH = "server stopped at once"
    BACKEND = "process of the server killed"


_OFTEN: Final = {
    Trouble.KILL: 8,
    Trouble.STILL: 6,
    Trouble.CUT: 10,
    Trouble.CUT_ALL: 3,
    Trouble.RESTART: 2,
    Trouble.CRASH: 2,
    Trouble.BACKEND: 1,
}


class Report(msgspec.Struct):
    """What a world came to."""

    seed: int
    troubles: Counter[Trouble]
    heard: Counter[str | None]
    effects: int
    problems: list[str]


class ChaosWorld:
    """One database, one provider, and everything that was asked there and answered."""

    def __init__(self, seed: int, server: PostgresServer, folder: Path) -> None:
        self._seed = seed
        self._random = random.Random(seed)  # to be repeated, not to be secret
        self._server = server
        self._folder = folder
        self._runtimes: list[ChaosRuntime] = []
        self._resting: set[asyncio.Task[None]] = set()
        self._troubles: Counter[Trouble] = Counter()
        self._problems: list[str] = []
        self._heard: list[Answer] = []
        self._deeds: list[AnyErrand] = []
        self._numbers = 0
        self._over = False

    async def play(self, seconds: float) -> Report:
        """Let it go on for so long, then recover and judge."""
        database = self._server.lend()
        async with TcpProxy(self._server.port) as proxy:
            timeout_ms, grace_ms = LEASE_MS
            setup = Setup(
                store=f"{database.url}?folder={self._folder}",
                ledger=str(self._folder / "provider.jsonl"),
                timeout_ms=timeout_ms,
                grace_ms=grace_ms,
                horizon_ms=HORIZON_MS,
                recover=True,
                poll_s=0.2,
            )
            through = msgspec.structs.replace(setup, store=proxy.beside(setup.store))
            try:
                await self._live(through, proxy, seconds)
            finally:
                for runtime in self._runtimes:
                    runtime.kill()
            self._server.wait()
            await self._end(msgspec.structs.replace(setup, recover=False))
        self._server.take_back(database)
        return Report(
            self._seed,
            self._troubles,
            Counter(answer.heard for answer in self._heard),
            len(effects_in(FileLedger(setup.ledger))),
            self._problems,
        )

    async def _live(self, setup: Setup, proxy: TcpProxy, seconds: float) -> None:
        # The store is made in peace, so that every runtime finds one.
        async with open_till(setup):
            pass
        parts = [asyncio.create_task(self._lane(setup)) for _ in range(RUNTIMES)]
        parts.append(asyncio.create_task(self._suffer(proxy)))
        try:
            await asyncio.wait(parts, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
            self._over = True
            await asyncio.gather(*parts)
            await asyncio.gather(*self._resting)
        finally:
            for part in (*parts, *self._resting):
                part.cancel()
            await asyncio.gather(*parts, *self._resting, return_exceptions=True)

    # ── what is done ─────────────────────────────────────────────────────────────────────────────

    async def _lane(self, setup: Setup) -> None:
        """One runtime after the other, each until it dies."""
        while not self._over:
            script = tuple(
                self._random.choice(_FAULTS) if self._random.random() < 0.15 else faults.none()
                for _ in range(400)
            )
            runtime = await ChaosRuntime.start(msgspec.structs.replace(setup, script=script))
            self._runtimes.append(runtime)
            try:
                if await runtime.opened():
                    await self._work(runtime)
                    if not self._over:
                        self._complain(await runtime.complaint())
            finally:
                self._runtimes.remove(runtime)
                await self._leave(runtime)

    async def _leave(self, runtime: ChaosRuntime) -> None:
        try:
            if self._random.random() < 0.5:
                runtime.kill()
            await runtime.end()
            complaint = await runtime.complaint()
            # One that began while there was no server says so and ends; the next one tries again.
            if "store.unavailable" not in complaint:
                self._complain(complaint)
        finally:
            runtime.kill()
            runtime.close()

    def _complain(self, complaint: str) -> None:
        if complaint and complaint not in self._problems:
            self._problems.append(complaint)

    async def _work(self, runtime: ChaosRuntime) -> None:
        while not self._over:
            errands = [self._deed() for _ in range(AT_ONCE)]
            answers = await runtime.ask(*errands)
            if answers is None:
                return
            self._heard += answers

    def _deed(self) -> AnyErrand:
        drawn = self._random.random()
        if drawn < 0.15 and self._deeds:
            return self._random.choice(self._deeds[-_RECENT:])
        self._numbers += 1
        deed = self._new(drawn, f"act_{self._numbers}", f"txn_{self._numbers}")
        self._deeds.append(deed)
        return deed

    def _new(self, drawn: float, action: str, transaction: str) -> AnyErrand:
        """A plan that many may want, a charge under a plan, a refund, or just a charge."""
        if drawn < 0.3:
            return Plan(action_id=action, transaction_id=transaction)
        recent = self._heard[-_RECENT * 2 :]
        planned = [one for one in recent if one.status == "planned"]
        charged = [one for one in recent if one.status == "committed"]
        if drawn < 0.6 and planned:
            plan = self._random.choice(planned)
            return Commit(action_id=action, plan_id=f"plan:{plan.transaction_id}")
        if drawn < 0.75 and charged:
            target = self._random.choice(charged).action_id
            assert target is not None
            return Compensate(action_id=action, transaction_id=transaction, target=target)
        key = f"key_{self._numbers}" if self._random.random() < 0.5 else None
        return Execute(action_id=action, transaction_id=transaction, key=key)

    # ── what happens ─────────────────────────────────────────────────────────────────────────────

    async def _suffer(self, proxy: TcpProxy) -> None:
        drawn = random.Random(self._seed)  # by itself, so that a seed always draws the same
        kinds, weights = list(_OFTEN), list(_OFTEN.values())
        while not self._over:
            await asyncio.sleep(drawn.uniform(*_PAUSES_S))
            if self._runtimes:
                (trouble,) = drawn.choices(kinds, weights)
                self._troubles[trouble] += 1
                self._strike(trouble, proxy)

    def _strike(self, trouble: Trouble, proxy: TcpProxy) -> None:
        """Let it happen. While the server is down nothing else does, the proxy included."""
        match trouble:
            case Trouble.KILL:
                self._random.choice(self._runtimes).kill()
            case Trouble.STILL:
                still = self._random.choice(self._runtimes)
                seconds = self._random.uniform(*STILL_S)
                task = asyncio.create_task(still.stand_still(seconds))
                self._resting.add(task)
                task.add_done_callback(self._resting.discard)
            case Trouble.CUT:
                count = self._random.randint(1, 4)
                proxy.cut_next(*(self._random.choice(list(Cut)) for _ in range(count)))
            case Trouble.CUT_ALL:
                proxy.cut_all()
            case Trouble.RESTART:
                self._server.restart()
            case Trouble.CRASH:
                self._server.crash()
            case Trouble.BACKEND:
                self._kill_backend()

    def _kill_backend(self) -> None:
        """The server then ends all others as well and recovers by itself."""

        async def pick(connection: Any) -> int | None:
            pid: int | None = await connection.fetchval(_BACKEND)
            return pid

        pid = self._server.ask(self._server.url_of("postgres", "postgres"), pick)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._server.wait()

    # ── the end ──────────────────────────────────────────────────────────────────────────────────

    async def _end(self, setup: Setup) -> None:
        """Recover, send some deeds once more, recover again: what is broken, at which moment."""
        async with open_till(setup) as till:
            left = await take_snapshot(till.store)
            self._problems += [*await till.check(), *lost(self._heard, left)]
            await recover(till)
            for deed in self._random.sample(self._deeds, min(_AGAIN, len(self._deeds))):
                self._heard.append(await run_errand(till, deed))
            await recover(till)
            ended = await take_snapshot(till.store)
            self._problems += [
                *await till.check(),
                *check_history(left, ended),
                *lost(self._heard, ended),
                *unended(ended),
                *doubled(ended, FileLedger(setup.ledger)),
            ]


async def play_many(seconds: float, seed: int, *, say: Callable[[str], None]) -> tuple[Report, ...]:
    """Play worlds from `seed` on for so many seconds together; each is told to `say`."""
    reports: list[Report] = []
    with PostgresServer() as server:
        while seconds > 0:
            with tempfile.TemporaryDirectory() as folder:
                world = ChaosWorld(seed, server, Path(folder))
                reports.append(await world.play(min(seconds, WORLD_S)))
            say(told(reports[-1]))
            seconds, seed = seconds - WORLD_S, seed + 1
    return tuple(reports)


def told(report: Report) -> str:
    """A report as people read it."""
    happened = ", ".join(f"{kind} {times}" for kind, times in sorted(report.troubles.items()))
    heard = ", ".join(f"{name} {times}" for name, times in report.heard.most_common())
    lines = [
        f"seed {report.seed}: {report.heard.total()} answers, money moved {report.effects} times",
        f"  happened: {happened}",
        f"  answered: {heard}",
        *(f"  BROKEN: {problem}" for problem in report.problems),
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments ask for, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m amends.testing.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=WORLD_S * 9, help="how long to play")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first world")
    parser.add_argument("--plans", type=int, default=0, help="how many plans all commit first")
    asked = parser.parse_args(arguments)
    if asked.plans:
        problems = asyncio.run(_race(asked.plans))
        _say(f"{asked.plans} plans, each committed by {RUNTIMES} runtimes at once")
        _say("\n".join(problems) or "  as many effects, and one winner each")
        if problems:
            return 1
    reports = asyncio.run(play_many(asked.seconds, asked.seed, say=_say))
    broken = [report.seed for report in reports if report.problems]
    for seed in broken:
        _say(f"Again: python -m amends.testing.chaos --seconds {WORLD_S:g} --seed {seed}")
    return 1 if broken else 0


async def _race(plans: int) -> list[str]:
    with PostgresServer() as server, tempfile.TemporaryDirectory() as folder:
        return await commit_by_all(server, Path(folder), plans, RUNTIMES)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
