"""`python -m amends.simulation`: play small worlds for as long as one likes.

Prints what it has played so far, and for the first broken law the seed, the faults and the story.
`--seed S --scenarios 1` plays that one again. Exit code 1 means that a law was broken.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final

from amends.simulation.scenarios import Playhouse, Violation

REPORT_EVERY: Final = 2_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the scenarios that the arguments ask for, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m amends.simulation", description=__doc__)
    parser.add_argument("--scenarios", type=int, default=REPORT_EVERY, help="how many to play")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first")
    parser.add_argument("--seen", action="store_true", help="list what was seen in all of them")
    asked = parser.parse_args(arguments)
    house = Playhouse()
    try:
        for line in _played(house, asked.seed, asked.scenarios):
            _say(line)
    except Violation as broken:
        _say(f"{broken}\n\nThe story of seed {broken.seed}:")
        for line in broken.story:
            _say(line)
        _say(f"\nAgain: python -m amends.simulation --scenarios 1 --seed {broken.seed}")
        return 1
    if asked.seen:
        for what, times in house.seen.most_common():
            _say(f"{times:9}  {what}")
    return 0


def _played(house: Playhouse, first: int, scenarios: int) -> Iterator[str]:
    """Play them, and say now and then how far it has come."""
    began = time.monotonic()
    for start in range(first, first + scenarios, REPORT_EVERY):
        house.play_all(range(start, min(start + REPORT_EVERY, first + scenarios)))
        a_second = house.played / max(time.monotonic() - began, 0.001)
        yield f"{house.played} of {scenarios} scenarios, {a_second:.0f} a second: no law broken"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
