"""The moment of the crash: after the provider took the charge, before the answer was stored.

Invariants: a process that reaches the point says so and never goes on; if nobody kills it in time
it kills itself, the same way. Not here: who kills it, and any pretence, since the demonstration
shows a real ``kill -9``.
"""

import os
import signal
import time
from pathlib import Path
from typing import NoReturn

HANG_S = 60.0
POLL_S = 0.02


def hang_after_effect(marker_path: Path, *, hang_s: float = HANG_S) -> NoReturn:
    """Write this process's id to `marker_path` and hang, to be killed; call it in the handler.

    The file appears with its whole content or not at all. After `hang_s` the process kills itself:
    to go on would turn the crash into an ordinary success.
    """
    draft = marker_path.with_name(f"{marker_path.name}.{os.getpid()}")
    draft.write_text(str(os.getpid()))
    draft.replace(marker_path)
    time.sleep(hang_s)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable: a process does not survive its own SIGKILL")


def wait_for_effect(marker_path: Path, *, within_s: float = HANG_S) -> int:
    """Wait until a process hangs at the point and return its id, which is what to kill.

    Raises:
        TimeoutError: none came within `within_s`.
    """
    deadline = time.monotonic() + within_s
    while not marker_path.exists():
        if time.monotonic() >= deadline:
            raise TimeoutError("no process reached the crash point in time")
        time.sleep(POLL_S)
    return int(marker_path.read_text())
