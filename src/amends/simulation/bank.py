"""The provider's side of a small world: what really happened there, and what may be sent to it.

The bank plays faults by lot until it is healed, and looks at every request that would move money:
is there a claim for it, by whom, and may it be repeated? What it finds it writes down as a fault of
the product. Its books are the truth that verdicts are held against.
"""

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from random import Random

from amends.contracts.documents import TransactionRecord
from amends.contracts.enums import IN_FLIGHT, Handler, Mode, Verdict
from amends.contracts.times import after_ms
from amends.simulation.chronicle import Chronicle
from amends.simulation.promises import PONDERED_MS, Promise
from amends.testing import faults
from amends.testing.effects import Arrival, Kind, MemoryLedger, Ruling, rulings
from amends.testing.faults import Fault
from amends.testing.provider import ScriptedProvider
from amends.testing.provider_api import Reply

FaultMaker = Callable[[], Fault]


class Weather:
    """Faults by lot until it clears up: of a few kinds only, so that these meet one another."""

    def __init__(self, lot: Random, promise: Promise) -> None:
        self._lot = lot
        self._flight_s = promise.flight_ms / 1000
        self._rate = lot.choice((0.1, 0.4, 0.7))
        self._effect_kinds = lot.sample(self._all_effect_kinds(), lot.randint(1, 4))
        self._look_up_kinds = lot.sample(self._all_look_up_kinds(), lot.randint(1, 2))
        self._foretold: deque[Fault] = deque()
        self.cleared = False

    def foretell(self, *first: Fault) -> None:
        """Let the next charges and refunds go exactly like this."""
        self._foretold.extend(first)

    def charges(self) -> Iterator[Fault]:
        """One fault for each charge or refund."""
        while True:
            told = self._foretold
            yield told.popleft() if told else self._draw(self._effect_kinds)

    def look_ups(self) -> Iterator[Fault]:
        """One fault for each look-up."""
        while True:
            yield self._draw(self._look_up_kinds)

    def _draw(self, kinds: Sequence[FaultMaker]) -> Fault:
        if self.cleared or self._lot.random() > self._rate:
            return faults.none()
        return self._lot.choice(kinds)()

    def _all_effect_kinds(self) -> Sequence[FaultMaker]:
        lot = self._lot
        return (
            faults.connect,
            faults.headers,
            lambda: faults.body(effect=True, after_s=self._flight_s * lot.random()),
            lambda: faults.body(effect=False),
            faults.acknowledgement,
            faults.server_error,
            faults.server_error_after_commit,
            lambda: faults.late(lot.choice((3.0, 9.0, 12.0, 16.0))),
            lambda: faults.never(effect=lot.random() < 0.5),
            faults.decline,
            lambda: faults.accepted(lot.choice((5.0, 60.0))),
            faults.duplicate,
            faults.stranger,
        )

    def _all_look_up_kinds(self) -> Sequence[FaultMaker]:
        late = partial(faults.late, self._lot.choice((3.0, 12.0)))
        return (faults.headers, faults.server_error, faults.never, faults.connect, late)


class Bank:
    """A scripted provider, its true books, and the questions it asks of every sender."""

    def __init__(
        self,
        promise: Promise,
        chronicle: Chronicle,
        weather: Weather,
        clock: Callable[[], float],
        arrivals: Iterable[Arrival] = (),
    ) -> None:
        self.promise = promise
        self.weather = weather
        self.answered: dict[str, Reply | None] = {}
        """What look-ups for each key were told last."""
        self.charged: set[str] = set()
        """The keys under which charges were asked for."""
        self._asked: Counter[str] = Counter()
        self._chronicle = chronicle
        self._ledger = MemoryLedger()
        for arrival in arrivals:
            self._ledger.append(partial(_again, arrival))
        self.provider = ScriptedProvider(
            weather.charges(),
            lookups=weather.look_ups(),
            ledger=self._ledger,
            dedup_window_s=promise.remembers_s,
            consistency_delay_s=promise.lag_ms / 1000,
            voids=promise.voids,
            clock=clock,
        )

    async def find(self, *, key: str = "", operation_id: str = "") -> Reply | None:
        """Look up; see `ProviderApi.find`."""
        reply = await self.provider.far_side.find(key=key, operation_id=operation_id)
        self.answered[key] = reply
        return reply

    async def charge(self, key: str, amount: int, currency: str) -> Reply:
        """Take money; see `ProviderApi.charge`."""
        self._ask("charge", key)
        self.charged.add(key)
        return await self.provider.far_side.charge(key, amount, currency)

    async def refund(self, key: str, operation_id: str, amount: int, currency: str) -> Reply:
        """Give money back; see `ProviderApi.refund`."""
        self._ask("refund", key)
        return await self.provider.far_side.refund(key, operation_id, amount, currency)

    def forget(self) -> None:
        """Begin anew to note what is asked and answered."""
        self.answered.clear()
        self.charged.clear()

    @property
    def arrivals(self) -> Sequence[Arrival]:
        """All that was ever sent here and got through, be it in the end."""
        return self._ledger.arrivals()

    @property
    def sent(self) -> int:
        """How many of them there are."""
        return len(self._ledger.arrivals())

    def effects(self, *, until: float = math.inf) -> tuple[Ruling, ...]:
        """Every movement of money, by then or (by default) ever, those in flight included."""
        return tuple(one for one in self.rulings(until=until).values() if one.is_effect)

    def rulings(self, *, until: float = math.inf) -> Mapping[int, Ruling]:
        """What has been made, by then or ever, of everything that was sent here, by its place."""
        return rulings(self._ledger.arrivals(), until, self.promise.remembers_s)

    def _ask(self, kind: Kind, key: str) -> None:
        """Write down what is wrong with this request before it is sent."""
        record = self._chronicle.record_of_key(key)
        if record is None or record.attempt is None:
            self._chronicle.fault(f"a {kind} was sent without a claim")
            return
        self._asked[key] += 1
        if self._asked[key] > record.effect_attempts:
            self._chronicle.fault(f"a {kind} was sent without a licence of its own")
        wanted = "refund" if record.mode is Mode.COMPENSATE else "charge"
        if kind != wanted:
            self._chronicle.fault(f"a {kind} was sent for a record in mode {record.mode}")
        if record.verdict is Verdict.NOT_COMMITTED:
            self._chronicle.fault(f"a {kind} was sent after it was settled as not committed")
        if not self.promise.skew_ms:
            self._ask_of_time(kind, record)
        self._ask_of_repetition(kind, record)

    def _ask_of_time(self, kind: Kind, record: TransactionRecord) -> None:
        """Past its time limit an attempt may still be at it, but never past the end of its lease:
        that is when the horizon begins, after which a missing effect is taken to be absent.
        """
        attempt, now = record.attempt, self._chronicle.clock()
        assert attempt is not None
        runs = record.status in IN_FLIGHT and attempt.handler is not Handler.RECONCILE
        lease_end = self._chronicle.due_at(record) if runs else record.last_effect_lease_end
        if lease_end is None or now >= lease_end:
            self._chronicle.fault(f"a {kind} was sent after its lease had ended")
        plan = record.plan if runs and not attempt.redrive else None
        pondered_ms = PONDERED_MS if self.promise.ponders else 0
        if plan is not None and now >= after_ms(plan.expires_at, pondered_ms):
            self._chronicle.fault(f"a {kind} was sent after its plan had expired")

    def _ask_of_repetition(self, kind: Kind, record: TransactionRecord) -> None:
        sent_before = any(one.arrival.key == record.provider_key for one in self.effects())
        redrive = record.attempt is not None and record.attempt.redrive
        if sent_before and not redrive:
            self._chronicle.fault(f"a {kind} was sent again without being a re-drive")
        if not redrive:
            return
        window, first = self.promise.window_ms, record.first_attempt_at
        if window is None or first is None or record.mode is Mode.COMPENSATE:
            self._chronicle.fault(f"a {kind} was re-driven without a licence")
        elif not self.promise.skew_ms and self._chronicle.clock() > after_ms(first, window):
            self._chronicle.fault(f"a {kind} was re-driven outside of the window")


def _again(arrival: Arrival) -> Arrival:
    return arrival
