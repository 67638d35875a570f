"""`python -m amends.testing.worker_kills`: kill hosts and workers with SIGKILL, at every point.

A schedule is one release, published and withdrawn by a host and a worker, which are processes with
their own sealed folders and pipes between them. Its seed says in which rounds which of the two
kills itself, and at which of its points: before and after each write of a record and each step of
an anchor, each frame and each effect. After a death new processes go on as documented, and with
nothing else. In the end the provider's books, ledger and journal have to agree, and no key may have
had its effect twice. Exit code 1 means that something of it was broken.

Invariants: this process has no threads and no event loop, since it forks; the same seed gives the
same deaths. Only deaths by SIGKILL are counted.

Deliberately not here: power failures, which no signal can stand for.
"""

import argparse
import asyncio
import inspect
import os
import random
import secrets
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

from amends.contracts.errors import AmendsError
from amends.host.channel import WorkerChannel
from amends.host.workflow import Workflow
from amends.journal.document import decode_journal
from amends.ledger.document import decode_ledger, encode_ledger
from amends.ledger.plans import open_ledger
from amends.protocol.bootstrap import Bootstrap, SessionKey
from amends.sealed.envelopes import Place
from amends.sealed.sqlite_anchor import SqliteAnchor
from amends.sealed.vault import Storage, Vault
from amends.testing.release import (
    GRANT,
    PLAN,
    SCOPE,
    YES,
    Progress,
    faults_in,
    go_on,
    make_adapters,
)
from amends.transports.pipes import open_pipes
from amends.transports.streams import StreamTransport
from amends.wiring.sealing import SealedFolder
from amends.wiring.workers import (
    NAMESPACE,
    Descriptors,
    WorkerPlace,
    initialise_worker,
    serve_child,
)

ROUNDS: Final = 12
WAIT_S: Final = 60.0
POINTS: Final = 30
"""About as many as either process passes when nothing happens."""

REPORT_EVERY: Final = 100
_ENDED, _GOES_ON = 0, 10
_LEDGER: Final = Place("workflow-ledger", "release-42")
_LEDGER_BYTES: Final = 65_536
_TRAPPED: Final[Sequence[tuple[type, str]]] = (
    (Vault, "save"),
    (SqliteAnchor, "advance"),
    (SqliteAnchor, "reserve"),
    (StreamTransport, "send"),
)


class Side(StrEnum):
    """Which of the two processes."""

    HOST = "host"
    WORKER = "worker"


Deaths = Mapping[tuple[int, Side], int]
"""By round and side: at which of its points the process kills itself."""


class Broken(Exception):
    """Something was doubled, lost, or did not end."""

    def __init__(self, seed: int, problem: str) -> None:
        super().__init__(f"Seed {seed}: {problem}")
        self.seed = seed


class Pipes(NamedTuple):
    """Both directions, and the bootstrap."""

    worker_reads: int
    host_writes: int
    host_reads: int
    worker_writes: int
    bootstrap: int


class Release:
    """Everything that survives the processes of one schedule."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.killed = 0
        self.rounds = 0
        self._seed = seed
        self._deaths = deaths_of(seed)
        self._books = directory / "books"
        self._books.touch()
        self._host = directory / "host"
        self._worker = WorkerPlace(directory=directory / "worker", scope=SCOPE)
        initialise_worker(self._worker)
        with closing(SealedFolder.make(self._host)) as folder:
            Vault.initialise(_ledger_in(folder), encode_ledger(open_ledger(PLAN)))

    def play(self) -> None:
        """Go on until nothing more follows, and judge. Raises `Broken`."""
        while not self._round():
            if self.rounds >= ROUNDS:
                raise Broken(self._seed, "it does not come to an end")
        faults = self._judged()
        if faults:
            raise Broken(self._seed, "; ".join(faults))

    def _round(self) -> bool:
        number, self.rounds = self.rounds, self.rounds + 1
        bootstrap = Bootstrap(f"session-{number}", SessionKey(secrets.token_bytes(32)))
        pipes = _pipes(bootstrap)
        worker = self._fork(number, Side.WORKER, pipes, lambda: self._serve(pipes))
        host = self._fork(number, Side.HOST, pipes, lambda: self._drive(pipes, bootstrap))
        for descriptor in pipes:
            os.close(descriptor)
        ended = self._reaped(host)
        self._reaped(worker)
        return ended == _ENDED

    def _fork(self, number: int, side: Side, pipes: Pipes, main: Callable[[], int]) -> int:
        process = os.fork()
        if process:
            return process
        code = 1
        try:
            for descriptor in pipes:
                if descriptor not in _ends_of(pipes, side):
                    os.close(descriptor)
            _Trap(self._deaths.get((number, side))).set()
            code = main()
        except AmendsError:
            code = _GOES_ON
        finally:
            os._exit(code)

    def _reaped(self, process: int) -> int:
        """How a process ended; one that does not is broken."""
        until = time.monotonic() + WAIT_S
        while True:
            found, status = os.waitpid(process, os.WNOHANG)
            if found:
                break
            if time.monotonic() > until:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
                raise Broken(self._seed, "a process does not end")
            time.sleep(0.002)
        code = os.waitstatus_to_exitcode(status)
        self.killed += code == -signal.SIGKILL
        if code not in (_ENDED, _GOES_ON, -signal.SIGKILL):
            raise Broken(self._seed, f"a process ended with {code}")
        return code

    # ── in the processes ─────────────────────────────────────────────────────────────────────────

    def _serve(self, pipes: Pipes) -> int:
        ends = Descriptors(pipes.bootstrap, pipes.worker_reads, pipes.worker_writes)
        adapters = make_adapters(self._act, self._has)
        asyncio.run(serve_child(adapters, self._worker, ends))
        return _ENDED

    async def _act(self, key: str) -> None:
        with self._books.open("a") as file:
            file.write(f"{key}\n")

    async def _has(self, key: str) -> bool:
        return key in self._books.read_text()

    def _drive(self, pipes: Pipes, bootstrap: Bootstrap) -> int:
        with closing(SealedFolder.open(self._host)) as folder:
            progress = asyncio.run(_workflow(_ledger_in(folder), pipes, bootstrap))
        return _ENDED if progress is Progress.ENDED else _GOES_ON

    # ── the end ──────────────────────────────────────────────────────────────────────────────────

    def _judged(self) -> list[str]:
        with closing(SealedFolder.open(self._host)) as folder:
            ledger = decode_ledger(Vault.open(_ledger_in(folder)).payload)
        limit = self._worker.limits.max_bytes
        with closing(SealedFolder.open(self._worker.directory)) as folder:
            place = Place(NAMESPACE, SCOPE)
            payload = Vault.open(folder.storage(place, max_bytes=limit)).payload
        journal = decode_journal(payload, max_bytes=limit)
        return faults_in(ledger, journal, Counter(self._books.read_text().split()))


def deaths_of(seed: int) -> Deaths:
    """One death in the first round, and up to two more."""
    drawn = random.Random(f"deaths {seed}")  # to be repeated, not to be secret
    rounds = (0, *(drawn.randrange(3) for _ in range(drawn.choice((0, 0, 1, 1, 2)))))
    return {(number, drawn.choice(list(Side))): drawn.randrange(POINTS) for number in rounds}


class _Trap:
    """Counts the points that this process passes, and kills it at one of them."""

    def __init__(self, at: int | None) -> None:
        self._left = -1 if at is None else at

    def set(self) -> None:
        """Watch this process, which was forked for that: its classes are its own."""
        for owner, name in _TRAPPED:
            setattr(owner, name, self._around(getattr(owner, name)))
        Release._act = self._around(Release._act)  # type: ignore[method-assign]  # as above

    def _around(self, method: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(method):

            async def waiting(*arguments: object) -> object:
                self._point()
                answer: object = await method(*arguments)
                self._point()
                return answer

            return waiting

        def blocking(*arguments: object) -> object:
            self._point()
            answer: object = method(*arguments)
            self._point()
            return answer

        return blocking

    def _point(self) -> None:
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1


async def _workflow(storage: Storage, pipes: Pipes, bootstrap: Bootstrap) -> Progress:
    transport = await open_pipes(pipes.host_reads, pipes.host_writes)
    nonce = secrets.token_bytes(32)
    workflow = await Workflow.open(
        PLAN, lambda: Vault.open(storage), YES, clock=lambda: datetime.now(UTC)
    )
    async with WorkerChannel(
        transport, bootstrap, [GRANT], tenant_scope=SCOPE, nonce=nonce
    ) as channel:
        while (progress := await go_on(workflow, channel)) is Progress.GOES_ON:
            pass
    return progress


def _ledger_in(folder: SealedFolder) -> Storage:
    return folder.storage(_LEDGER, max_bytes=_LEDGER_BYTES)


def _pipes(bootstrap: Bootstrap) -> Pipes:
    secret, told = os.pipe()
    os.write(told, bootstrap.preamble())
    os.close(told)
    return Pipes(*os.pipe(), *os.pipe(), secret)


def _ends_of(pipes: Pipes, side: Side) -> Sequence[int]:
    if side is Side.HOST:
        return pipes.host_writes, pipes.host_reads
    return pipes.worker_reads, pipes.worker_writes, pipes.bootstrap


def play_all(seeds: Sequence[int]) -> Iterator[Release]:
    """Play these schedules, one after the other. Raises `Broken`."""
    for seed in seeds:
        with tempfile.TemporaryDirectory() as directory:
            release = Release(Path(directory), seed)
            release.play()
            yield release


def main(arguments: Sequence[str] | None = None) -> int:
    """Play as many schedules as the arguments ask for, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m amends.testing.worker_kills")
    parser.add_argument("--schedules", type=int, default=2_000, help="how many to play")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first")
    asked = parser.parse_args(arguments)
    killed, began = 0, time.monotonic()
    try:
        for played, release in enumerate(
            play_all(range(asked.seed, asked.seed + asked.schedules)), 1
        ):
            killed += release.killed
            if played % REPORT_EVERY == 0 or played == asked.schedules:
                a_second = played / (time.monotonic() - began)
                _say(
                    f"{played} of {asked.schedules} schedules, {killed} kills, "
                    f"{a_second:.1f} a second: nothing broken"
                )
    except Broken as broken:
        _say(str(broken))
        _say(
            "Again: python -m amends.testing.worker_kills --schedules 1 "
            f"--seed {broken.seed}: {dict(deaths_of(broken.seed))}"
        )
        return 1
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
