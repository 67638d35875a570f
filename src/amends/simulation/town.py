"""One small world, put together: a store, a bank, processes that come and go, and what was told."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, TypeVar

import msgspec

from amends.contracts.declarations import Capability
from amends.contracts.documents import TransactionRecord
from amends.contracts.enums import Verdict, WireStatus
from amends.contracts.errors import AmendsError, Corrupt, Misuse
from amends.contracts.ids import TransactionId
from amends.contracts.results import Result
from amends.receipts.signing import Signer
from amends.runtime.registry import Registry
from amends.runtime.requests import Request
from amends.simulation.bank import Bank, Weather
from amends.simulation.chronicle import Chronicle, Moment
from amends.simulation.hosts import Call, Flaky, Host, meet_fate
from amends.simulation.process import ProcessDied
from amends.simulation.promises import HOUR_MS, Promise
from amends.simulation.teller import BANK
from amends.simulation.world import World
from amends.testing.effects import Arrival

T = TypeVar("T")

_ENDINGS: Final = frozenset(
    {WireStatus.COMMITTED, WireStatus.COMPENSATED, WireStatus.RECONCILED, WireStatus.CANCELLED}
)


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """What is left of a world that stopped: its store, its provider's books, what was said.

    `seconds` is the loop's time then, `clock` the store's; `told` is what was told as final.
    """

    history: Sequence[Moment]
    arrivals: Sequence[Arrival]
    asked: Sequence[Request]
    told: Sequence[Result]
    seconds: float
    clock: datetime


class Town:
    """Everything that one scenario happens in. Make it inside the running loop.

    With a `past` it goes on where another one stopped; its world's clock has to start there too.
    """

    def __init__(
        self,
        world: World,
        promise: Promise,
        registry: Registry,
        signer: Signer | None,
        past: Past | None = None,
    ) -> None:
        self.world = world
        self.lot = world.random
        self.promise = promise
        self.signer = signer
        self._registry = registry
        self._began = past.seconds if past else 0.0
        self._prefix = f"r{len(past.history)}-" if past else "h"
        self.chronicle = Chronicle(promise, world.clock, self.seconds)
        self.weather = Weather(self.lot, promise)
        arrivals = past.arrivals if past else ()
        self.bank = Bank(promise, self.chronicle, self.weather, self.seconds, arrivals)
        self.chronicle.hold_against(self.bank)
        self.chronicle.relive(past.history if past else ())
        self.flaky = Flaky(self.lot, self.lot.choice((0.0, 0.0, 0.0, 0.03)), self.chronicle.seen)
        self.hosts: list[Host] = []
        self.asked: list[Request] = list(past.asked) if past else []
        self.told: list[Result] = list(past.told) if past else []
        self._asked_after: list[int] = []
        self._told_after: list[int] = []
        self.tried_before: dict[TransactionId, int] = {}
        self.story: list[str] = []
        self._size = self.lot.choice((1, 2, 2, 3))
        self._sweeps = self.lot.choice((None, None, 15.0, 50.0))
        BANK.set(self.bank)

    def seconds(self) -> float:
        """The virtual seconds since this town, or the one before it, began."""
        return self._began + self.world.loop.time()

    def note(self, text: str) -> None:
        """Add a line to the story that is shown when the world turns out to be broken."""
        self.story.append(f"{self.seconds():9.3f}  {text}")

    def remember(self, request: Request) -> None:
        """Keep a request, so that it can be repeated."""
        self.asked.append(request)
        self._asked_after.append(len(self.chronicle.history))

    def past(self, changes: int, *, sent: int) -> Past:
        """This town as it stood after so many change sets, with so many requests sent."""
        history = self.chronicle.history[:changes]
        asked = sum(1 for before in self._asked_after if before < changes)
        told = sum(1 for before in self._told_after if before <= changes)
        return Past(
            history=history,
            arrivals=self.bank.arrivals[:sent],
            asked=self.asked[:asked],
            told=self.told[:told],
            seconds=history[-1].seconds,
            clock=history[-1].at,
        )

    def count(self, what: str) -> None:
        """Count something that happened."""
        self.chronicle.seen[what] += 1

    def capability(self, record: TransactionRecord) -> Capability:
        """The capability that carried the record's effect."""
        return self._registry.get(record.connector_capability_id).capability

    def clear_up(self) -> None:
        """End all faults of provider and store."""
        self.note("all is well again")
        self.weather.cleared = True
        self.flaky.rate = 0.0

    def begin_anew(self) -> None:
        """Note how often each record was looked up in bad times; what follows has to succeed."""
        self.bank.forget()
        self.tried_before = {
            record.transaction_id: record.reconcile_attempts
            for record in self.chronicle.documents(TransactionRecord)
        }

    # ── processes ────────────────────────────────────────────────────────────────────────────────

    def host(self) -> Host:
        """A process that is alive, perhaps a new one; it may be paused."""
        alive = [host for host in self.hosts if host.is_alive]
        if len(alive) < self._size:
            alive.append(self.start_host(fated=True, sweeps_every_s=self._sweeps))
        return self.lot.choice(alive)

    def start_host(self, *, fated: bool, sweeps_every_s: float | None = None) -> Host:
        """A new process over the same store."""
        host = Host(
            self.world,
            f"{self._prefix}{len(self.hosts)}",
            self.chronicle,
            registry=self._registry,
            signer=self.signer,
            flaky=self.flaky,
            sweeps_every_s=sweeps_every_s,
        )
        self.hosts.append(host)
        if fated:
            fate = meet_fate(host, self.lot, self.world.loop)
            self.count(f"a process {fate}")
            self.note(f"{host.process.name} starts; it {fate}")
        return host

    # ── asking ───────────────────────────────────────────────────────────────────────────────────

    async def ask(
        self,
        who: str,
        call: Call[T],
        *,
        host: Host | None = None,
        patience_s: float | None = None,
    ) -> T | None:
        """Have a process do something, and write down what it said; None if it said nothing.

        After `patience_s` seconds the caller goes away, which the engine sees as a cancellation.
        """
        host = host or self.host()
        self.note(f"{who} -> {host.process.name}")
        try:
            answer = await host.ask(call, patience_s)
        except TimeoutError:
            self.count("a caller lost patience")
            return None
        except ProcessDied:
            self.count("a caller was left alone")
            self.note(f"{who}: {host.process.name} has died")
            return None
        if isinstance(answer, AmendsError):
            self._refused(who, answer)
            return None
        if isinstance(answer, Result):
            self._told(who, answer)
        return answer

    def _refused(self, who: str, error: AmendsError) -> None:
        self.count(f"refused: {error.code}")
        self.note(f"{who}: {error.code}")
        if isinstance(error, Corrupt | Misuse):
            self.chronicle.fault(f"{who} was answered {error.code}")

    def _told(self, who: str, result: Result) -> None:
        """What is told is durable and true at that moment."""
        self.note(f"{who}: {result.action_id} {result.status} {result.verdict}")
        record = self.chronicle.document(TransactionRecord, result.transaction_id)
        if record is None:
            if result.status in _ENDINGS - {WireStatus.CANCELLED}:
                self.chronicle.fault(f"{who} was told {result.status} of nothing")
            return
        shown = (record.status.value, WireStatus.REQUIRES_HUMAN, WireStatus.CANCELLED)
        if result.revision == record.revision and result.status not in shown:
            self.chronicle.fault(f"{who} was told {result.status} of a {record.status} record")
        if result.verdict is Verdict.COMMITTED and record.verdict is not Verdict.COMMITTED:
            self.chronicle.fault(f"{who} was told of an effect that the record does not know")
        if result.status in _ENDINGS:
            self.told.append(result)
            self._told_after.append(len(self.chronicle.history))

    # ── the clock ────────────────────────────────────────────────────────────────────────────────

    async def step_clock(self) -> None:
        """Step the store's clock, now and then, within what the promise allows for."""
        offset = 0
        reach = (0, HOUR_MS) if self.promise.skew_ms == HOUR_MS else (-HOUR_MS, HOUR_MS)
        for _ in range(self.lot.randint(1, 3)):
            await asyncio.sleep(60 * self.lot.random())
            to = self.lot.choice((0, *reach))
            self.world.clock.step(timedelta(milliseconds=to - offset))
            self.note(f"the clock is stepped by {to - offset} ms")
            self.count("the clock was stepped")
            offset = to
