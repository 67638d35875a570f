"""Hosts and workers killed with SIGKILL; `make kills` plays thousands of these schedules."""

import os
import subprocess
import sys
from typing import Final

import pytest

from amends.testing.worker_kills import Side, deaths_of

PARTS: Final = 4
SIZE: Final = 16
WAIT_S: Final = 280


@pytest.mark.rule("WS-1", "WS-3", "WS-4", "HL-2", "PM-4", "ST-2")
@pytest.mark.fault(28, 29, 30, 39, 51, 59)
@pytest.mark.parametrize("part", range(PARTS))
def test_killed_hosts_and_workers_double_nothing_and_end_as_documented(part: int) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "amends.testing.worker_kills",
            f"--schedules={SIZE}",
            f"--seed={part * SIZE}",
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[4]) >= SIZE // 2


def test_the_schedules_kill_both_sides_at_different_points() -> None:
    deaths = [death for seed in range(PARTS * SIZE) for death in deaths_of(seed).items()]
    assert len({number for _, number in deaths}) > 20
    for side in Side:
        assert sum(who is side for (_, who), _ in deaths) > PARTS * SIZE // 3
