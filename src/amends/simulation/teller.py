"""The connector of a small world: the scripted provider's own handlers, in whose world they run.

One teller serves every world of its kind: it finds the bank of the world, and the process that it
stands in, in the context. It is honest and punctual. Punctual means that it looks at its own clock
before the request leaves: a process that was stopped for a while does not send what its time limit
has overtaken. Nothing but the sender can prevent that, so Amends asks it of connectors.
"""

import asyncio
import contextlib
from contextvars import ContextVar
from functools import partial
from typing import Final, cast

from amends.connectors.port import Attempt
from amends.connectors.signals import NotApplied
from amends.contracts.json_types import JsonObject
from amends.contracts.outcomes import Applied, ProviderOperation
from amends.simulation.bank import Bank
from amends.simulation.process import Process, current_process
from amends.simulation.promises import PONDERED_MS
from amends.testing.provider import Charge, Refund, ScriptedProvider
from amends.testing.provider_api import ProviderApi, Reply

BANK: Final[ContextVar[Bank]] = ContextVar("amends.simulation.bank")
"""The bank of the world that the running code belongs to."""


class Teller:
    """Handlers of a capability. Without `checkpoints` nothing is recorded before the answer; one
    that `ponders` can still be stopped for a moment before it sends.
    """

    def __init__(self, *, checkpoints: bool, ponders: bool) -> None:
        self._checkpoints = checkpoints
        self._ponders = ponders

    async def charge(self, order: Charge, attempt: Attempt) -> JsonObject:
        """Take money."""
        provider = _provider(attempt)
        await self._ponder(attempt)
        return await provider.charge(order, self._seen(attempt))

    async def preview(self, order: Charge, attempt: Attempt) -> JsonObject:
        """Ask whether money would be taken."""
        return await _provider(attempt).preview(order, attempt)

    async def look_up(self, asked: object, attempt: Attempt) -> Applied:
        """Find out what became of an earlier attempt."""
        return await _provider(attempt).look_up(asked, self._seen(attempt))

    async def refund(self, wanted: Refund | None, attempt: Attempt) -> JsonObject:
        """Give money back."""
        provider = _provider(attempt)
        await self._ponder(attempt)
        return await provider.refund(wanted, self._seen(attempt))

    async def _ponder(self, attempt: Attempt) -> None:
        if self._ponders:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(attempt.cancelled.wait(), PONDERED_MS / 1000)
                raise NotApplied("provider.stopped_in_time")

    def _seen(self, attempt: Attempt) -> Attempt:
        if self._checkpoints:
            return attempt
        return Attempt(attempt.call, _nothing_recorded, attempt.cancelled)


async def _nothing_recorded(_operation: ProviderOperation, _cursor: str | None) -> None:
    """A connector need not record what its provider accepted."""


def _provider(attempt: Attempt) -> ScriptedProvider:
    bank, process = BANK.get(), current_process()
    assert process is not None, "handlers run in processes"
    counter = Counter(process, bank, attempt.call.deadline_in_ms / 1000)
    return bank.provider.through(lambda _: cast(ProviderApi, counter))


class Counter:
    """The bank as one attempt reaches it, for as long as the attempt may send."""

    def __init__(self, process: Process, bank: Bank, seconds: float) -> None:
        self._process = process
        self._bank = bank
        self._clock = asyncio.get_running_loop().time
        self._until = self._clock() + seconds

    async def charge(self, key: str, amount: int, currency: str) -> Reply:
        """See `ProviderApi.charge`."""
        self._check_time()
        return await self._process.reach(partial(self._bank.charge, key, amount, currency))

    async def refund(self, key: str, operation_id: str, amount: int, currency: str) -> Reply:
        """See `ProviderApi.refund`."""
        self._check_time()
        call = partial(self._bank.refund, key, operation_id, amount, currency)
        return await self._process.reach(call)

    async def find(self, *, key: str = "", operation_id: str = "") -> Reply | None:
        """See `ProviderApi.find`."""
        call = partial(self._bank.find, key=key, operation_id=operation_id)
        return await self._process.reach(call)

    async def void(self, key: str) -> bool:
        """See `ProviderApi.void`."""
        return await self._process.reach(partial(self._bank.provider.far_side.void, key))

    async def validate(self, amount: int) -> None:
        """See `ProviderApi.validate`."""
        await self._process.reach(partial(self._bank.provider.far_side.validate, amount))

    def _check_time(self) -> None:
        if self._clock() >= self._until:
            raise NotApplied("provider.too_late_to_send", retryable=True)
