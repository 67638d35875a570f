"""The far side of the scripted provider: requests come in, effects happen, answers go astray.

Invariants: each call is one request, and plays one fault of the script; the effect is in the ledger
before anything is answered; the provider never retries and knows nothing of Amends but the key that
a request carries. All waiting is `asyncio.sleep`, so virtual time works.

Deliberately not here: what a connector makes of an answer (`provider`).
"""

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from amends.testing import faults
from amends.testing.effects import Arrival, Kind, Ledger, MemoryLedger, Ruling, rulings
from amends.testing.faults import Answer, Fault


class Phase(StrEnum):
    """How far one request has come."""

    CONNECT = "connect"
    SENT = "sent"
    EFFECT = "effect"
    ANSWER = "answer"


class Request(StrEnum):
    """What is asked of the provider."""

    CHARGE = "charge"
    REFUND = "refund"
    FIND = "find"
    VOID = "void"
    VALIDATE = "validate"


Hook: TypeAlias = Callable[[Phase, Request], Awaitable[None] | None]
"""Called at each phase of a request: before connecting; once it is on the wire; once the effect, if
any, is there; before the answer. In every phase the process may be killed, and the hook may wait.
"""


class ProviderError(Exception):
    """An answer with an error status. A 402 is definite, everything else is not."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(f"{status} {code}")
        self.status = status
        self.code = code


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What the provider says of one effect, or of a request it has refused for good."""

    operation_id: str
    amount: int
    currency: str
    is_ready: bool = True
    refusal: str = ""


_STRANGER: Final = Reply(operation_id="charge_of_somebody_else", amount=1, currency="xxx")


class ProviderApi:
    """A provider of charges and refunds; see `ScriptedProvider` for what the arguments mean."""

    def __init__(
        self,
        script: Iterable[Fault] = (),
        *,
        lookups: Iterable[Fault] = (),
        ledger: Ledger | None = None,
        dedup_window_s: float | None = None,
        consistency_delay_s: float = 0.0,
        limit: int = 1_000_000,
        clock: Callable[[], float] | None = None,
        on: Hook | None = None,
    ) -> None:
        self.requests: list[Request] = []
        """Every request that was sent, in order, whether it arrived whole or not."""
        self._script = iter(script)
        self._lookups = iter(lookups)
        self._ledger = MemoryLedger() if ledger is None else ledger
        self._dedup_window_s = dedup_window_s
        self._consistency_delay_s = consistency_delay_s
        self._limit = limit
        self._clock = clock or _loop_time
        self._on = on

    async def charge(self, key: str, amount: int, currency: str) -> Reply:
        """Take money. Raises `ConnectionError` and `ProviderError`."""
        arrival = Arrival(kind="charge", key=key, amount=amount, currency=currency)
        return await self._effect(Request.CHARGE, arrival)

    async def refund(self, key: str, operation_id: str, amount: int, currency: str) -> Reply:
        """Give money of a charge back. Raises `ConnectionError` and `ProviderError`."""
        arrival = Arrival(
            kind="refund", key=key, amount=amount, currency=currency, target=operation_id
        )
        return await self._effect(Request.REFUND, arrival)

    async def find(self, *, key: str = "", operation_id: str = "") -> Reply | None:
        """The effect of an operation, or else the effect or the refusal of a key.

        By key it sees nothing that is younger than the consistency delay. Raises `ConnectionError`
        and `ProviderError`.
        """
        fault = await self._received(Request.FIND, self._lookups)
        lag = 0.0 if operation_id else self._consistency_delay_s
        rulings = self._rulings(self._clock() - lag).values()
        found = [
            one
            for one in rulings
            if not one.repeats
            and one.arrival.kind != "void"
            and (one.operation_id == operation_id if operation_id else one.arrival.key == key)
        ]
        # An effect says more of its key than a refusal does.
        found.sort(key=lambda one: one.is_effect)
        reply = self._reply(found[-1]) if found else None
        await self._answered(Request.FIND, fault)
        return reply

    async def void(self, key: str) -> bool:
        """Refuse the key from now on, unless it has had an effect; whether that was so."""
        await self._received(Request.VOID, iter(()))
        ruling = self._arrive(Arrival(kind="void", key=key), faults.none())
        await self._answered(Request.VOID, faults.none())
        return not ruling.refusal

    async def validate(self, amount: int) -> None:
        """Say whether a charge would be taken, without taking it. Raises `ProviderError`."""
        await self._received(Request.VALIDATE, iter(()))
        await self._answered(Request.VALIDATE, faults.none())
        if amount > self._limit:
            raise ProviderError(402, "amount_refused")

    def reverse(self, operation_id: str, amount: int) -> None:
        """Give money back behind everybody's back, as a person at the provider's desk would."""
        arrival = Arrival(kind="refund", key="", amount=amount, target=operation_id)
        self._arrive(arrival, faults.none())

    def effects(self, kind: Kind | None = None, key: str | None = None) -> tuple[Ruling, ...]:
        """The effects so far, one entry each; outside of a loop, those still in flight too."""
        return tuple(
            one
            for one in self._rulings(self._clock()).values()
            if one.is_effect and kind in (None, one.arrival.kind) and key in (None, one.arrival.key)
        )

    async def _effect(self, request: Request, arrival: Arrival) -> Reply:
        fault = await self._received(request, self._script)
        ruling = self._arrive(arrival, fault) if fault.arrives else None
        await self._answered(request, fault)
        assert ruling is not None, "what did not arrive has no answer"
        if ruling.refusal:
            raise ProviderError(402, ruling.refusal)
        return _STRANGER if fault.answer is Answer.STRANGER else self._reply(ruling)

    def _arrive(self, arrival: Arrival, fault: Fault) -> Ruling:
        """Enter it into the ledger, and rule on it as of the moment it arrives."""
        declined = fault.declines or ("amount_refused" if arrival.amount > self._limit else "")

        def arrive() -> Arrival:
            at = self._clock() + fault.arrives_after_s
            ready_at = at + fault.ready_after_s
            return msgspec.structs.replace(arrival, at=at, declined=declined, ready_at=ready_at)

        position, kept = self._ledger.append(arrive)
        return self._rulings(kept.at)[position]

    def _rulings(self, now: float) -> dict[int, Ruling]:
        return rulings(self._ledger.arrivals(), now, self._dedup_window_s)

    def _reply(self, ruling: Ruling) -> Reply:
        return Reply(
            operation_id=ruling.operation_id,
            amount=ruling.arrival.amount,
            currency=ruling.arrival.currency,
            is_ready=ruling.arrival.ready_at <= self._clock(),
            refusal=ruling.refusal,
        )

    async def _received(self, request: Request, script: Iterator[Fault]) -> Fault:
        fault = next(script, faults.none())
        await self._reach(Phase.CONNECT, request)
        if fault.answer is Answer.REFUSED:
            raise ConnectionRefusedError("the provider is not listening")
        self.requests.append(request)
        await self._reach(Phase.SENT, request)
        return fault

    async def _answered(self, request: Request, fault: Fault) -> None:
        """Wait as long as the fault says; then raise, unless there is an answer."""
        await self._reach(Phase.EFFECT, request)
        await asyncio.sleep(fault.answer_after_s)
        if fault.answer is Answer.NOTHING:
            await asyncio.Event().wait()
        await self._reach(Phase.ANSWER, request)
        match fault.answer:
            case Answer.RESET:
                raise ConnectionResetError("the provider has closed the connection")
            case Answer.SERVER_ERROR:
                raise ProviderError(500, "internal_error")
            case Answer.CONFLICT:
                raise ProviderError(409, "duplicate_key")
            case _:
                return

    async def _reach(self, phase: Phase, request: Request) -> None:
        waiting = self._on(phase, request) if self._on else None
        if inspect.isawaitable(waiting):
            await waiting


def _loop_time() -> float:
    """Outside of a loop, when a test counts what happened, all time has passed."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return math.inf
