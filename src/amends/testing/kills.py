"""`python -m amends.testing.kills`: kill processes at random until so many have been killed.

Each world is one SQLite store and one provider. One victim after the other works there, does what
its seed says, and kills itself with SIGKILL at a crash point; the next may send the same again,
sweep, or simply go on. At the end this process recovers what is left, sends every deed once more,
and compares the store with the provider's own books: nothing twice, nothing lost that was answered,
and every record ended honestly. Exit code 1 means that something of it was broken.

Invariants: only deaths by SIGKILL are counted; the same seed gives the same deeds, faults and
crash points. Worlds share nothing, so that several are played at once.

Deliberately not here: what must be heard and found at each single crash point, which is the
business of tests, and a power failure, which no signal can stand for.
"""

import argparse
import asyncio
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from amends.contracts.enums import Mode
from amends.testing import faults
from amends.testing.crash_points import CrashPoint
from amends.testing.effects import FileLedger
from amends.testing.errands import (
    Answer,
    AnyErrand,
    Commit,
    Compensate,
    Execute,
    Plan,
    Reconcile,
    Step,
    Sweep,
    run_errand,
)
from amends.testing.invariants import check_history
from amends.testing.reckoning import doubled, lost, recover, unended
from amends.testing.snapshots import take_snapshot
from amends.testing.till import Setup, open_till
from amends.testing.victim import Answered, Line, Sprung, Told, Trap

KILLS_A_WORLD: Final = 10
LANES: Final = 2
REPORT_EVERY: Final = 100
WAIT_S: Final = 60.0
DUE_MS: Final = 6_000
"""Past the first look-up of an unknown outcome."""

LAPSED_MS: Final = 120_000
"""Past every lease, and past the moment from which a request is surely dead."""

_DEEDS: Final = 4
"""So many deeds are tried in one life; a fault may keep each from reaching the crash point."""

_MODES: Final = (Mode.EXECUTE, Mode.COMMIT, Mode.COMPENSATE, Mode.RECONCILE)
_UNSURE: Final = (
    faults.acknowledgement(),
    faults.headers(),
    faults.body(effect=True),
    faults.server_error(),
    faults.server_error_after_commit(),
    faults.duplicate(),
    faults.stranger(),
)
_ANY: Final = (*_UNSURE, faults.connect(), faults.decline())
_LOOKING: Final = (faults.connect(), faults.headers(), faults.server_error())


class After(StrEnum):
    """What the next process does about the deed in which the last one was killed."""

    RETRY = "retry"
    SWEEP = "sweep"
    RESTART = "restart"


class Broken(Exception):
    """Something was doubled, lost or left dishonest. `story` is what the world was told to do."""

    def __init__(
        self, seed: int, kills: int, problems: Sequence[str], story: Sequence[str]
    ) -> None:
        super().__init__(f"Seed {seed}: " + "; ".join(problems))
        self.seed = seed
        self.kills = kills
        self.story = tuple(story)


class Deed(NamedTuple):
    """What has to be there, and what is then done at once with the trap set."""

    before: tuple[AnyErrand, ...]
    told: tuple[AnyErrand, ...]


class Victim:
    """A running victim, as far as a world talks to it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def ask(self, *told: Told) -> tuple[Answer, ...] | None:
        """Send one line; its answers, or none where a trap sprang and the process died of it."""
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(told) + b"\n")
        line = await self.line()
        if isinstance(line, Answered):
            return line.answers
        assert isinstance(line, Sprung)
        ended = await asyncio.wait_for(self._process.wait(), WAIT_S)
        assert ended == -signal.SIGKILL, f"the victim ended with {ended}"
        return None

    async def line(self) -> Line:
        """The next line. Raises `RuntimeError` when the victim ended by itself."""
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        said = await asyncio.wait_for(self._process.stdout.readline(), WAIT_S)
        if not said:
            complaint = (await self._process.stderr.read()).decode(errors="replace")
            raise RuntimeError(f"the victim says nothing more: {complaint[-2000:]}")
        return msgspec.json.decode(said, type=Line)


@asynccontextmanager
async def _victim(setup: Setup) -> AsyncIterator[Victim]:
    """A victim that does not outlive the block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "amends.testing.victim",
        msgspec.json.encode(setup).decode(),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        victim = Victim(process)
        await victim.line()
        yield victim
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


class World:
    """One store, one provider, and everything that was asked there and answered."""

    def __init__(self, seed: int, directory: Path) -> None:
        self.killed: Counter[tuple[Mode, CrashPoint]] = Counter()
        self.story: list[str] = []
        self._seed = seed
        self._random = random.Random(seed)  # to be repeated, not to be secret
        self._setup = Setup(
            store=str(directory / "amends.db"), ledger=str(directory / "provider.jsonl")
        )
        self._ahead_ms = 0
        self._numbers = 0
        self._last: tuple[AnyErrand, ...] = ()
        self._deeds: list[AnyErrand] = []
        self._heard: list[Answer] = []

    async def play(self, kills: int) -> None:
        """Have so many victims killed, then recover and judge. Raises `Broken`."""
        try:
            while self.killed.total() < kills:
                await self._live()
            problems = await self._end()
        except Exception as error:
            raise Broken(self._seed, kills, [repr(error)], self.story) from error
        if problems:
            raise Broken(self._seed, kills, problems, self.story)

    # ── one life ─────────────────────────────────────────────────────────────────────────────────

    async def _live(self) -> None:
        """Run one victim until its trap kills it, or until no deed of its life reached the trap."""
        drawn = self._random
        mode, at = drawn.choice(_MODES), drawn.choice(list(CrashPoint))
        after = drawn.choice(list(After))
        self.story.append(f"a process is to be killed in {mode} {at}, and begins with {after}")
        async with _victim(self._faulty(mode)) as victim:
            await self._go_on(victim, after)
            for _ in range(_DEEDS):
                if await self._dies(victim, Trap(at=at, mode=mode), self._deed(mode)):
                    self.killed[mode, at] += 1
                    self.story.append("killed")
                    return

    def _faulty(self, mode: Mode) -> Setup:
        """This life's clock and faults: every charge is unsure where one is to be looked up."""
        drawn, unsure = self._random, mode is Mode.RECONCILE
        script = tuple(
            drawn.choice(_UNSURE if unsure else _ANY) if unsure or drawn.random() < 0.4 else fine
            for fine in [faults.none()] * 12
        )
        lookups = tuple(
            drawn.choice(_LOOKING) if drawn.random() < 0.2 else fine
            for fine in [faults.none()] * 12
        )
        return msgspec.structs.replace(
            self._setup, ahead_ms=self._ahead_ms, script=script, lookups=lookups
        )

    async def _go_on(self, victim: Victim, after: After) -> None:
        """Take up what the last victim left, in one of three ways."""
        match after:
            case After.RETRY:
                for errand in self._last:
                    await self._ask(victim, errand)
            case After.SWEEP:
                await self._ask(victim, Step(milliseconds=LAPSED_MS), Sweep())
            case After.RESTART:
                return

    async def _dies(self, victim: Victim, trap: Trap, deed: Deed) -> bool:
        for errand in deed.before:
            if await self._ask(victim, errand) is None:
                return True  # by the trap of an earlier deed, which that one did not reach
        self._last = tuple(one for one in deed.told if not isinstance(one, Step | Sweep))
        return await self._ask(victim, *deed.told, trap=trap) is None

    async def _ask(
        self, victim: Victim, *errands: AnyErrand, trap: Trap | None = None
    ) -> tuple[Answer, ...] | None:
        """Ask, and keep what was asked and heard."""
        self.story += [repr(one) for one in errands]
        for one in errands:
            if isinstance(one, Step):
                self._ahead_ms += one.milliseconds
            elif isinstance(one, Execute | Commit | Compensate) and one not in self._deeds:
                self._deeds.append(one)
        answers = await victim.ask(*([trap] if trap else []), *errands)
        self._heard += answers or ()
        self.story += [f"  heard {one.heard}" for one in answers or ()]
        return answers

    def _deed(self, mode: Mode) -> Deed:
        drawn = self._random
        self._numbers += 1
        action, transaction = f"act_{self._numbers}", f"txn_{self._numbers}"
        key = f"key_{self._numbers}" if drawn.random() < 0.5 else None
        chosen = transaction if drawn.random() < 0.5 else None
        twice = drawn.choice((1, 1, 2))
        first = f"first_{self._numbers}"
        match mode:
            case Mode.COMMIT:
                plan = Plan(action_id=first, transaction_id=transaction)
                commit = Commit(action_id=action, plan_id=f"plan:{transaction}", key=key)
                return Deed((plan,), (commit,) * twice)
            case Mode.COMPENSATE:
                undo = Compensate(
                    action_id=action, transaction_id=transaction, target=first, key=key
                )
                return Deed((Execute(action_id=first),), (undo,) * twice)
            case Mode.RECONCILE:
                look = Reconcile(action_id=action, transaction_id=transaction)
                charge = Execute(action_id=first, transaction_id=transaction)
                wait = Step(milliseconds=DUE_MS)
                return Deed((charge,), (wait, drawn.choice((look, Sweep()))))
            case _:
                charge = Execute(action_id=action, transaction_id=chosen, key=key)
                return Deed((), (charge,) * twice)

    # ── the end ──────────────────────────────────────────────────────────────────────────────────

    async def _end(self) -> list[str]:
        """Recover, send every deed once more, recover again: what is broken, at which moment."""
        setup = msgspec.structs.replace(self._setup, ahead_ms=self._ahead_ms)
        async with open_till(setup) as till:
            left = await take_snapshot(till.store)
            problems = [*await till.check(), *lost(self._heard, left)]
            if self._random.random() < 0.5:
                await recover(till)
            for deed in self._deeds:
                self._heard.append(await run_errand(till, deed))
            await recover(till)
            ended = await take_snapshot(till.store)
            problems += [
                *await till.check(),
                *check_history(left, ended),
                *lost(self._heard, ended),
                *unended(ended),
                *doubled(ended, FileLedger(self._setup.ledger)),
            ]
        return problems


# ── many worlds ──────────────────────────────────────────────────────────────────────────────────


async def kill_many(
    kills: int, seed: int, *, say: Callable[[str], None]
) -> Counter[tuple[Mode, CrashPoint]]:
    """Play worlds from `seed` on, until so many processes were killed; where how many were.

    Progress goes to `say`. Raises `Broken`.
    """
    killed: Counter[tuple[Mode, CrashPoint]] = Counter()
    worlds = enumerate(range(0, kills, KILLS_A_WORLD), seed)
    began = time.monotonic()

    async def lane(todo: Iterator[tuple[int, int]]) -> None:
        for number, start in todo:
            with tempfile.TemporaryDirectory() as directory:
                world = World(number, Path(directory))
                await world.play(min(KILLS_A_WORLD, kills - start))
            before = killed.total()
            killed.update(world.killed)
            if before // REPORT_EVERY < killed.total() // REPORT_EVERY or killed.total() == kills:
                a_second = killed.total() / (time.monotonic() - began)
                say(f"{killed.total()} of {kills} kills, {a_second:.1f} a second: nothing broken")

    lanes = [asyncio.ensure_future(lane(worlds)) for _ in range(LANES)]
    try:
        await asyncio.gather(*lanes)
    finally:
        for one in lanes:
            one.cancel()
        await asyncio.gather(*lanes, return_exceptions=True)
    return killed


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill as often as the arguments ask for, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m amends.testing.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=1_000, help="how many processes to kill")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first world")
    asked = parser.parse_args(arguments)
    try:
        killed = asyncio.run(kill_many(asked.kills, asked.seed, say=_say))
    except Broken as broken:
        for line in (*broken.story, "", str(broken)):
            _say(line)
        _say(f"Again: python -m amends.testing.kills --kills {broken.kills} --seed {broken.seed}")
        return 1
    for mode in _MODES:
        counted = ", ".join(f"{at} {killed[mode, at]}" for at in CrashPoint)
        _say(f"{mode:10} {counted}")
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
