"""Two processes go for one commit; one wins, and is killed.

Invariants: both are ready before either is started; none of them outlives the race, however it
ends; the kill is a SIGKILL from outside, and its effect is read from the operating system.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

import msgspec

from amends.cli.demo.racer import Errand
from amends.cli.demo.stage import Patience, Stage
from amends.contracts.errors import Unavailable

CHARGED: Final = "charged"
LANES: Final = ("first", "second")

Racer: TypeAlias = subprocess.Popen[bytes]


class Race:
    """Two racers at the start."""

    def __init__(self, stage: Stage, racers: list[Racer], patience: Patience) -> None:
        self._stage = stage
        self._racers = racers
        self._patience = patience

    def run(self) -> Racer:
        """Start both at once; the one that the provider has charged for."""
        for racer in self._racers:
            assert racer.stdin is not None
            racer.stdin.write(b"!")
            racer.stdin.flush()
        self._patience.until(self._somebody_charged, awaited="for a charge at the provider")
        winner = int(self._stage.file(CHARGED).read_text())
        return next(racer for racer in self._racers if racer.pid == winner)

    def loser(self, winner: Racer) -> Racer:
        """The other one."""
        return next(racer for racer in self._racers if racer is not winner)

    def refusal_of_loser(self, winner: Racer) -> str:
        """The code that the other one was refused with."""
        loser = self.loser(winner)
        self._patience.until(lambda: loser.poll() is not None, awaited="for the second process")
        assert loser.stdout is not None
        return loser.stdout.read().decode().strip()

    def kill(self, winner: Racer) -> bool:
        """Kill the winner as ``kill -9`` does; whether that is what it died of."""
        os.kill(winner.pid, signal.SIGKILL)
        return winner.wait(self._patience.left_s) == -signal.SIGKILL

    def _somebody_charged(self) -> bool:
        if self._stage.file(CHARGED).exists():
            return True
        _check_alive(self._racers)
        return False


@contextmanager
def two_racers(stage: Stage, action_id: str, patience: Patience) -> Iterator[Race]:
    """Two processes that are ready to go on with the action; killed at the end, if they live.

    Raises `Unavailable` (`demo.racer_failed`, `demo.too_slow`).
    """
    racers = [_racer(stage, action_id, lane) for lane in LANES]
    try:
        patience.until(lambda: _all_ready(stage, racers), awaited="for the two processes")
        yield Race(stage, racers, patience)
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate()


def _racer(stage: Stage, action_id: str, lane: str) -> Racer:
    errand = Errand(stage, action_id, ready=f"{lane}.ready", charged=CHARGED)
    with stage.file(f"{lane}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "amends.cli.demo.racer", msgspec.json.encode(errand)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            # A Ctrl-C is for the demonstration, which then ends its racers.
            start_new_session=True,
        )


def _all_ready(stage: Stage, racers: list[Racer]) -> bool:
    _check_alive(racers)
    return all(stage.file(f"{lane}.ready").exists() for lane in LANES)


def _check_alive(racers: list[Racer]) -> None:
    """One may have lost already, with code 0; a crash, or two losers, will charge nothing."""
    ended = [racer.poll() for racer in racers]
    if any(code not in (None, 0) for code in ended) or None not in ended:
        raise Unavailable(
            "demo.racer_failed",
            "A process of the demonstration ended before its time.",
            next_step="Run amends demo --keep DIR and read the .log files in DIR.",
        )
