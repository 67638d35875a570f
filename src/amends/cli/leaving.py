"""Ending the process although a plain handler is still in a provider's hands.

Nothing can interrupt a thread, and an interpreter that exits waits for it. By then the command has
told what is known, and the attempt is settled or left recoverable, so nothing is lost by leaving.
"""

import os
import sys
import threading
import time
from contextlib import suppress
from typing import Final

HANDLERS: Final = "amends-handler"
"""How the threads of plain handlers are called (`amends.connectors.blocking`)."""

_PATIENCE_S: Final = 0.3


def leave(code: int) -> None:
    """Return when nothing holds the process back; otherwise end it here and now."""
    deadline = time.monotonic() + _PATIENCE_S
    handlers = [one for one in threading.enumerate() if one.name.startswith(HANDLERS)]
    for one in handlers:
        one.join(max(0.0, deadline - time.monotonic()))
    if any(one.is_alive() for one in handlers):
        end(code)


def end(code: int) -> None:
    """End the process without waiting for its threads, with everything said."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)
