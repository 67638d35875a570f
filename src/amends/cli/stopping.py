"""Ctrl-C, and being told to end: once to stop waiting, twice to leave at once.

Invariants: the first signal starts nothing new and stops nothing that was begun; the second one
ends the process there and then, as a kill would, after saying what is not known. A signal that the
process was started to ignore stays ignored.

Deliberately not here: what becomes of an attempt that is under way (`session`).
"""

import asyncio
import json
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import IO, Final, NoReturn, TypeVar

from amends.cli import exits
from amends.cli.output import error_document
from amends.contracts.errors import AmendsError, OutcomeUnknown, Unavailable
from amends.contracts.json_types import Json

T = TypeVar("T")
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stop:
    """What the signals of one command have said so far; used inside its event loop only.

    `doing` names what is under way, by its ids, for a process that has to leave at once;
    `refuse_new` is called as soon as a signal is heard.
    """

    def __init__(self, *, as_json: bool) -> None:
        self.number: int | None = None
        self.doing: dict[str, Json] | None = None
        self.refuse_new: Callable[[], None] = _nothing
        self._as_json = as_json
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen while the block lasts."""

        def heard(number: int, _: FrameType | None) -> None:
            if self.number is not None:
                self._leave(number)
            self.number = number
            self.refuse_new()
            self._loop.call_soon_threadsafe(self._event.set)

        before = {
            one: signal.signal(one, heard)
            for one in SIGNALS
            if signal.getsignal(one) is not signal.SIG_IGN
        }
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    @contextmanager
    def asking(self) -> Iterator[Callable[[IO[str]], None]]:
        """A question on the terminal, which a signal ends at once: nothing is under way.

        Gives what waits for an answer. A signal that comes just before the system is asked to read
        would not be heard until somebody types; the waiting hears of it through a pipe.
        """
        before = {one: signal.getsignal(one) for one in SIGNALS}
        heard, tells = os.pipe()
        os.set_blocking(tells, False)
        told_before = signal.set_wakeup_fd(tells)
        try:
            for one in SIGNALS:
                if before[one] is not signal.SIG_IGN:
                    signal.signal(one, _end)
            yield partial(_wait_for_words, heard)
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)
            signal.set_wakeup_fd(told_before)
            os.close(heard)
            os.close(tells)

    async def first(self, task: "asyncio.Future[T]") -> bool:
        """Wait for the task or for a signal; whether the task has ended."""
        stopped = asyncio.ensure_future(self._event.wait())
        try:
            await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
        return task.done()

    def check(self) -> None:
        """Raise what a signal means for a command that has nothing under way."""
        if self.number is not None:
            raise _meaning(self.number)

    def _leave(self, number: int) -> NoReturn:
        """End this process now. Written past every buffer, since one may be in use just here."""
        error = left_at_once(self.doing)
        _write(sys.__stderr__, f"{error}\n")
        if self._as_json:
            document = {"ok": False, "error": error_document(error), "interrupted": True}
            _write(sys.__stdout__, json.dumps(document, indent=2) + "\n")
        code = exits.KILLED + number if self.doing is None else exits.OF_FAMILY[error.family]
        os._exit(code)


def left_at_once(doing: dict[str, Json] | None) -> AmendsError:
    """What is known by a process that does not wait for what it has begun."""
    if doing is None:
        return Unavailable("cli.interrupted", "Interrupted.", next_step="Run the command again.")
    id_ = doing.get("transaction_id") or doing.get("action_id") or "ID"
    return OutcomeUnknown(
        "cli.left_at_once",
        "This command left without waiting. The effect may have happened.",
        details=doing,
        next_step=f"Do not repeat it: look with amends tx show {id_}, then amends reconcile {id_}.",
    )


def _nothing() -> None:
    """Before anything is open there is nothing that could take new work."""


def _meaning(number: int) -> BaseException:
    return KeyboardInterrupt() if number == signal.SIGINT else exits.Ended(number)


def _end(number: int, _: FrameType | None) -> NoReturn:
    raise _meaning(number)


def _wait_for_words(heard: int, stream: IO[str]) -> None:
    with suppress(OSError):  # a stream without a descriptor has its words already
        select.select([stream.fileno(), heard], [], [])


def _write(stream: object, text: str) -> None:
    with suppress(OSError, ValueError, AttributeError):
        os.write(stream.fileno(), text.encode(errors="backslashreplace"))  # type: ignore[attr-defined]  # a stream that is missing or detached is passed over
