"""The server's time between two answers of it.

An answer that carries the server's time was made between the moment its question was sent and the
moment it was received, by this machine's clock. So for a while the server's time is known without
asking: not before the time told and what has passed since the answer came, and not after the time
told and what has passed since the question was sent. Every written batch brings such an answer.

What is licensed, an attempt under its lease, is measured by the later end, so that a lease is never
thought longer here than it is there. Whether somebody else's lease has lapsed is never asked here:
the server compares that itself, when it is asked what is due, or tells its time with the row.

- *Clocks that run apart.* A kernel lets a clock be slewed by a tenth of its speed at most, and two
  of them may go in opposite directions; the later end allows for a quarter.
- *A process that stands still, a machine that sleeps.* The clock here goes on meanwhile, so what
  was told is too old afterwards.
- *A server's clock that is set.* What was told before is believed for `CARRIED_S` longer, which is
  less than the grace by which a lease outlasts its attempt. A claim tells the time of its lease.
- *Another server.* A connection that is lost or made takes away all that was told before.

Deliberately not here: asking.
"""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, NamedTuple

CARRIED_S: Final = 1.0
"""How long after its question was sent an answer is used."""

WIDE_S: Final = 0.1
"""An answer that took longer says too little to be carried."""

DRIFT: Final = 0.25


_BOOT: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)


def ticks() -> float:
    """Seconds by a clock of this machine that is never set, and goes on while the machine sleeps.

    Elsewhere than on Linux the monotonic clock is the one that does.
    """
    return time.monotonic() if _BOOT is None else time.clock_gettime(_BOOT)


class Told(NamedTuple):
    """What the server said its time was, and between which two ticks it said so."""

    time: datetime
    sent: float
    received: float

    @property
    def fixed(self) -> "Moment":
        """The very time that was told."""
        return Moment(self._replace(sent=self.received), self.received)


class Moment(NamedTuple):
    """The server's time at a later tick: not before the one end and not after the other."""

    told: Told
    tick: float

    @property
    def earliest(self) -> datetime:
        """By what has passed since the answer came."""
        return self.told.time + timedelta(seconds=self.tick - self.told.received)

    @property
    def latest(self) -> datetime:
        """By what has passed since the question was sent, on clocks that run apart."""
        return self.told.time + timedelta(seconds=(self.tick - self.told.sent) * (1 + DRIFT))


class ServerTime:
    """What is known of one server's time. Belongs to one event loop."""

    def __init__(self, clock: Callable[[], float] = ticks) -> None:
        self.ticks = clock
        self._told: Told | None = None
        self._since = clock()

    def hear(self, told: datetime, sent: float) -> Told:
        """Take over what an answer told that has just been received."""
        heard = Told(told, sent, self.ticks())
        if sent >= self._since and heard.received - sent <= WIDE_S:
            self._told = heard
        return heard

    def forget(self) -> None:
        """Carry nothing that was asked until now: it may have been another server."""
        self._told = None
        self._since = self.ticks()

    def carried(self) -> Moment | None:
        """The server's time now, if it was told lately."""
        tick = self.ticks()
        if self._told is None or tick - self._told.sent > CARRIED_S:
            return None
        return Moment(self._told, tick)
