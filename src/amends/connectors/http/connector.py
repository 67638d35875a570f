"""The connector that sends what is declared: one request for an effect, look-ups to find out.

Invariants: an effect is one request, sent at most once; what cannot be made of the attempt's facts
is not sent; nothing is sent after the attempt's deadline.

Deliberately not here: reading declarations, and what an outcome means for the record.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

from amends.connectors.http import codes
from amends.connectors.http.checks import checked_forms, well_typed
from amends.connectors.http.codes import told
from amends.connectors.http.declaration import HttpDeclaration, Provider
from amends.connectors.http.derived import derive_capability
from amends.connectors.http.failures import Context
from amends.connectors.http.forms import EffectForm, Forms, LookUpForm, ObjectForm, RequestForm
from amends.connectors.http.judging import judge_effect, not_entered
from amends.connectors.http.lookup import look_up
from amends.connectors.http.messages import Outgoing, Reply
from amends.connectors.http.objects import expectations
from amends.connectors.http.requests import facts_of, outgoing
from amends.connectors.http.templates import Facts, Unfit
from amends.connectors.port import Attempt, Call, Connector
from amends.contracts.declarations import Capability
from amends.contracts.enums import Handler
from amends.contracts.errors import Misuse
from amends.contracts.limits import LEASE_GRACE_MS
from amends.contracts.outcomes import Outcome

if TYPE_CHECKING:
    from amends.connectors.http.transport import Transport

Clock: TypeAlias = Callable[[], datetime]

_TO_SEND: Final = 0.8
"""Which part of its time a request may wait for a connection; after that it is not sent."""

_TO_LOOK_UP: Final = 0.9
"""Which part of its time a look-up uses, so that what it learnt is told before its deadline."""

_AT_LEAST_S: Final = 0.001
"""A time limit of nothing would be none."""


def utc_now() -> datetime:
    """The time by this machine's clock."""
    return datetime.now(UTC)


def transport_for(provider: Provider) -> "Transport":
    """Connections to a provider, which several capabilities may share.

    Raises `Misuse` (`connector.extra_missing`) where aiohttp is not installed.
    """
    try:
        from amends.connectors.http.transport import Transport
    except ModuleNotFoundError as error:
        raise Misuse(
            "connector.extra_missing",
            "HTTP capabilities need aiohttp, which is not installed.",
            next_step="Run: pip install 'amends[http]'",
        ) from error
    return Transport(
        connect_timeout_ms=provider.connect_timeout_ms, max_answer_bytes=provider.max_answer_bytes
    )


class HttpConnector:
    """Carries out the attempts of one declared capability.

    `clock` is what dates in `Retry-After` are compared with.
    """

    def __init__(self, forms: Forms, transport: "Transport", clock: Clock = utc_now) -> None:
        self._forms = forms
        self._transport = transport
        self._clock = clock

    async def aclose(self) -> None:
        """Close its connections of this event loop. Capabilities of one file share them."""
        await self._transport.aclose()

    async def carry_out(self, attempt: Attempt) -> Outcome:
        """Send the request that the call's handler stands for, as `Connector.carry_out` says."""
        call, forms = attempt.call, self._forms
        match call.handler:
            case Handler.EXECUTE:
                return await self._send(forms.execute, attempt)
            case Handler.COMPENSATE:
                return await self._send(forms.compensate, attempt)
            case Handler.PREVIEW:
                return await self._send(forms.preview, attempt)
            case Handler.RECONCILE:
                return await self._look_up(attempt)
            case _:
                assert_never(call.handler)

    async def _send(self, form: EffectForm | None, attempt: Attempt) -> Outcome:
        call = attempt.call
        if form is None:
            return _refused(call, codes.HANDLER_MISSING)
        if attempt.cancelled.is_set():
            return _refused(call, codes.GIVEN_UP)
        facts = facts_of(call)
        deadline_s = call.deadline_in_ms / 1000
        try:
            context = self._context(call, form.object, facts)
            request = self._filled(form.request, call, facts, {})
        except Unfit as unfit:
            return _unfit(call, unfit)
        reply = await self._transport.send(
            request, within_s=deadline_s + _late_s(call), sent_within_s=deadline_s * _TO_SEND
        )
        return judge_effect(form, reply, context)

    async def _look_up(self, attempt: Attempt) -> Outcome:
        call, form = attempt.call, self._lookup_of(attempt.call)
        if form is None:
            return _refused(call, codes.LOOKUP_UNDECLARED)
        loop, facts = asyncio.get_running_loop(), facts_of(call)
        end = loop.time() + call.deadline_in_ms / 1000 * _TO_LOOK_UP

        async def ask(request: RequestForm, more: Mapping[str, str]) -> Reply:
            left_s = max(end - loop.time(), _AT_LEAST_S)
            filled = self._filled(request, call, facts, more)
            return await self._transport.send(
                filled, within_s=left_s, sent_within_s=left_s * _TO_SEND
            )

        try:
            context = self._context(call, form.object, facts)
            return await look_up(form, context, ask, lambda: loop.time() >= end)
        except Unfit as unfit:
            return _unfit(call, unfit)

    def _lookup_of(self, call: Call) -> LookUpForm | None:
        """A compensation of this capability's own is looked up its own way."""
        of_compensation = call.original is not None and self._forms.compensate is not None
        return self._forms.compensate_lookup if of_compensation else self._forms.execute_lookup

    def _filled(
        self, request: RequestForm, call: Call, facts: Facts, more: Mapping[str, str]
    ) -> Outgoing:
        return outgoing(request, self._forms.provider.base_url, facts, call.credential, more)

    def _context(self, call: Call, form: ObjectForm, facts: Facts) -> Context:
        return Context(
            call=call,
            provider=self._forms.provider,
            clock=self._clock,
            expected=expectations(form, facts),
        )


def http_capability(
    declaration: HttpDeclaration,
    *,
    transport: "Transport | None" = None,
    clock: Clock = utc_now,
    prefix: str = "",
) -> tuple[Capability, Connector]:
    """A capability and its connector, as `Amends.open` takes them.

    Several capabilities may share a `transport`. Raises `Misuse` (`connector.declaration_invalid`)
    with every fault of the declaration, each under its field, with `prefix` before it.
    """
    declaration = well_typed(declaration, prefix)
    forms = checked_forms(declaration, prefix)
    shared = transport or transport_for(declaration.provider)
    return derive_capability(declaration, forms), HttpConnector(forms, shared, clock)


def _late_s(call: Call) -> float:
    """How long an effect's answer is waited for beyond the deadline, since a late one settles too.

    As long again at most, and not longer than the grace after which nobody would take it.
    """
    return min(call.deadline_in_ms, LEASE_GRACE_MS) / 1000


def _unfit(call: Call, unfit: Unfit) -> Outcome:
    return _refused(call, unfit.code, unfit.reference)


def _refused(call: Call, code: str, reference: str | None = None) -> Outcome:
    return not_entered(call, told(code, None if reference is None else {"reference": reference}))
