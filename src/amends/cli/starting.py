"""Where the process of the command `amends` begins, before anything that takes time is imported.

Until a command listens nothing was begun, so Ctrl-C ends the process there and then, without a word
and with the code that an interrupted command has. Raised as an exception it would come out of the
middle of an import, as a traceback that tells nobody anything.
"""

import os
import signal
from types import FrameType
from typing import NoReturn

from amends.cli import exits


def start() -> NoReturn:
    """Run the command that the process was started with, and exit."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave_quietly)
    from amends.cli.main import main

    main()


def leave_quietly(number: int, _: FrameType | None) -> NoReturn:
    """End the process here and now; a handler of signals."""
    os._exit(exits.KILLED + number)
