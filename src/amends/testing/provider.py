"""A scripted payment provider, and the handlers of a capability that charges through it.

`ScriptedProvider` counts effects in books of its own (`effects`), so that a test can say how often
money moved, whatever Amends believes. Its handlers are an honest connector: they send the provider
key, record the operation before they answer, call definite only what is, compare what a look-up
finds with what was asked, and leave everything else uncertain.

    provider = ScriptedProvider([faults.acknowledgement()])
    connector = FunctionConnector(provider.handlers)

Deliberately not here: the faults (`faults`), and how a request goes (`provider_api`).
"""

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Final, Never, Self

import msgspec

from amends.connectors.handlers import HandlerFunction
from amends.connectors.port import Attempt, checked_operation
from amends.connectors.signals import NotApplied, NotFound, Pending
from amends.contracts.enums import ErrorCategory, Handler
from amends.contracts.json_types import Json, JsonObject
from amends.contracts.outcomes import Applied, ProviderOperation
from amends.testing.effects import Ledger
from amends.testing.faults import Fault
from amends.testing.provider_api import Hook, ProviderApi, ProviderError, Reply

PROVIDER: Final = "scripted"


class Charge(msgspec.Struct, frozen=True):
    """What to take, in minor units."""

    amount: Annotated[int, msgspec.Meta(gt=0)]
    currency: str = "eur"


class Refund(msgspec.Struct, frozen=True):
    """What to give back, in minor units; without an amount, all of it."""

    amount: Annotated[int, msgspec.Meta(gt=0)] | None = None


class AnswerMismatch(Exception):
    """The provider's answer belongs to another request; whether ours took effect is unknown."""


class ScriptedProvider:
    """A provider whose requests go as scripted, one fault each, and well after the last.

    `script` is for charges and refunds, `lookups` for look-ups. `ledger` may be shared by providers
    in other processes. `dedup_window_s` is how long a key repeats its first answer (none: it is
    not looked at). `consistency_delay_s` is how far look-ups lag behind. `limit` is the largest
    amount taken. `voids`: a look-up that finds nothing voids the key. `clock` gives seconds, by
    default the loop's. `on` is called in each phase of each request.
    """

    def __init__(
        self,
        script: Iterable[Fault] = (),
        *,
        lookups: Iterable[Fault] = (),
        ledger: Ledger | None = None,
        dedup_window_s: float | None = None,
        consistency_delay_s: float = 0.0,
        limit: int = 1_000_000,
        voids: bool = False,
        clock: Callable[[], float] | None = None,
        on: Hook | None = None,
    ) -> None:
        self.far_side = ProviderApi(
            script,
            lookups=lookups,
            ledger=ledger,
            dedup_window_s=dedup_window_s,
            consistency_delay_s=consistency_delay_s,
            limit=limit,
            clock=clock,
            on=on,
        )
        self._api = self.far_side
        self._voids = voids

    def through(self, wrap: Callable[[ProviderApi], ProviderApi]) -> Self:
        """The same provider, as reached over something else, such as a simulated process."""
        other = copy.copy(self)
        other._api = wrap(self.far_side)
        return other

    # ── counting ─────────────────────────────────────────────────────────────────────────────────

    @property
    def charges(self) -> int:
        """How often money was taken."""
        return len(self.far_side.effects("charge"))

    @property
    def refunds(self) -> int:
        """How often money was given back."""
        return len(self.far_side.effects("refund"))

    def effects_of(self, provider_key: str) -> int:
        """How often money moved for one key, in either direction."""
        return len(self.far_side.effects(key=provider_key))

    @property
    def balance(self) -> int:
        """What was taken and not given back, in minor units."""
        taken = sum(one.arrival.amount for one in self.far_side.effects("charge"))
        return taken - sum(one.arrival.amount for one in self.far_side.effects("refund"))

    # ── handlers ─────────────────────────────────────────────────────────────────────────────────

    @property
    def handlers(self) -> Mapping[Handler, HandlerFunction]:
        """The four handlers of a capability, for `FunctionConnector`."""
        return {
            Handler.EXECUTE: self.charge,
            Handler.PREVIEW: self.preview,
            Handler.RECONCILE: self.look_up,
            Handler.COMPENSATE: self.refund,
        }

    async def charge(self, order: Charge, attempt: Attempt) -> JsonObject:
        """Take the money once."""
        try:
            reply = await self._api.charge(attempt.provider_key, order.amount, order.currency)
        except (ConnectionRefusedError, ProviderError) as error:
            _raise_for(error)
        if (reply.amount, reply.currency) != (order.amount, order.currency):
            raise AnswerMismatch("the provider has answered with another charge")
        return await _recorded(reply, attempt)

    async def preview(self, order: Charge, _attempt: Attempt) -> JsonObject:
        """Ask whether the money would be taken."""
        try:
            await self._api.validate(order.amount)
        except ProviderError as error:
            _raise_for(error)
        return {"would_charge": order.amount, "currency": order.currency}

    async def look_up(self, asked: object, attempt: Attempt) -> Applied:
        """Find the charge or the refund of an earlier attempt."""
        known = attempt.provider_operation
        reply = await self._api.find(
            key=attempt.provider_key, operation_id=known.operation_id if known else ""
        )
        if reply is None:
            voided = self._voids and await self._api.void(attempt.provider_key)
            raise NotFound(voided=voided)
        if reply.refusal:
            raise NotApplied(f"provider.{reply.refusal}")
        if getattr(asked, "amount", None) not in (None, reply.amount):
            raise AnswerMismatch("what the look-up found has another amount")
        if not reply.is_ready:
            raise Pending(operation=_operation(reply))
        return Applied(output=_told(reply), operation=_operation(reply))

    async def refund(self, wanted: Refund | None, attempt: Attempt) -> JsonObject:
        """Give the money of the original charge back, or a part of it, once."""
        original = await self._original(attempt)
        amount = wanted.amount if wanted and wanted.amount else original.amount
        try:
            reply = await self._api.refund(
                attempt.provider_key, original.operation_id, amount, original.currency
            )
        except (ConnectionRefusedError, ProviderError) as error:
            _raise_for(error)
        if reply.amount != amount:
            raise AnswerMismatch("the provider has answered with another refund")
        return await _recorded(reply, attempt)

    async def _original(self, attempt: Attempt) -> Reply:
        """The charge to offset, from what was stored of it."""
        effect = attempt.original
        found = None
        if effect is not None:
            operation_id = effect.operation.operation_id if effect.operation else ""
            found = await self._api.find(key=effect.provider_key or "", operation_id=operation_id)
        if found is None or not found.operation_id:
            raise NotApplied("provider.no_such_charge")
        return found


async def _recorded(reply: Reply, attempt: Attempt) -> JsonObject:
    await attempt.checkpoint(PROVIDER, reply.operation_id)
    if not reply.is_ready:
        raise Pending(operation=_operation(reply))
    return _told(reply)


def _told(reply: Reply) -> JsonObject:
    told: dict[str, Json] = {"operation_id": reply.operation_id}
    return {**told, "amount": reply.amount, "currency": reply.currency}


def _operation(reply: Reply) -> ProviderOperation:
    return checked_operation(PROVIDER, reply.operation_id, None)


def _raise_for(error: ConnectionRefusedError | ProviderError) -> Never:
    """Only a refused connection and a 402 are certain; the rest goes on as it is."""
    match error:
        case ConnectionRefusedError():
            raise NotApplied(
                "provider.unreachable", retryable=True, category=ErrorCategory.TRANSPORT
            ) from error
        case ProviderError(status=402):
            raise NotApplied(f"provider.{error.code}") from error
        case _:
            raise error
