"""The connector whose provider is reached by plain Python functions of the application.

Invariants: a handler is entered at most once per attempt. What ends before its first line is told
as *not applied* (or, where an earlier attempt may have been applied, as uncertain); after that,
only the handler's own word or exception counts. A plain handler that waited for a thread until its
attempt was given up is never entered late. Context variables of the caller are seen by both kinds.

What a handler returns:

| returned | outcome |
|---|---|
| an `Outcome`, or a `Signal` returned or raised | that outcome |
| any other exception, returned or raised | raised on, for the runtime to classify |
| `None` from a look-up | uncertain: it may mean "not there" or a forgotten `return` |
| anything else | applied, with the value as output |

A look-up that found nothing says so with `NotFound`.

Deliberately not here: what an outcome means for the record, timeouts, retries.
"""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextvars import copy_context
from functools import partial
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec

from amends.connectors.blocking import BlockingAttempt, HandlerThreads, RunSync
from amends.connectors.handlers import BoundHandler, HandlerFunction, bind
from amends.connectors.inputs import InputType, input_type, output_schema, output_to_json
from amends.connectors.port import Attempt, Call
from amends.connectors.signals import Signal
from amends.contracts.enums import ErrorCategory, Handler
from amends.contracts.errors import Misuse, Refused
from amends.contracts.json_types import Json
from amends.contracts.outcomes import (
    Applied,
    ErrorInfo,
    NotApplied,
    Outcome,
    Partial,
    Uncertain,
)

Late: TypeAlias = Callable[[Call, Awaitable[Outcome]], None]
"""Takes the answer of a plain handler whose `carry_out` was cancelled while it ran.

Awaiting it gives, or raises, what `carry_out` would have.
"""

_NO_SCHEMAS: Final[Mapping[Handler, Json]] = MappingProxyType({})
_ANYTHING: Final[Mapping[str, Json]] = MappingProxyType({})


class FunctionConnector:
    """Carries out the attempts of one capability by calling its handlers.

    `handlers` are `async def` or `def`, and take `(input)` or `(input, attempt)`; a plain one is
    given a `BlockingAttempt` and runs in a thread. `schemas` replace annotations. Previews and
    look-ups without an annotation take the input that `execute` declares.

    Cancelling `carry_out` cancels an async handler. A plain one cannot be stopped: if it was not
    entered yet it never will be, otherwise it runs on and its answer goes to `late`, if there is
    one. Raises `Misuse` as `bind` does, and (`connector.input_undeclared`) when `execute` has
    neither an annotated input nor a schema.
    """

    def __init__(
        self,
        handlers: Mapping[Handler, HandlerFunction],
        *,
        schemas: Mapping[Handler, Json] = _NO_SCHEMAS,
        run_sync: RunSync | None = None,
        late: Late | None = None,
    ) -> None:
        self._handlers = {
            kind: bind(function, schemas.get(kind)) for kind, function in handlers.items()
        }
        self._own_threads = HandlerThreads() if run_sync is None else None
        self._run_sync: RunSync = run_sync or self._own_threads or HandlerThreads()
        self._late = late
        execute = self._handlers.get(Handler.EXECUTE)
        if execute is not None and execute.input is None:
            raise _undeclared()

    @property
    def handlers(self) -> tuple[Handler, ...]:
        """What it can be entered for, in the order of the enumeration."""
        return tuple(kind for kind in Handler if kind in self._handlers)

    @property
    def output_schema(self) -> Json:
        """The schema that the return annotation of `execute` promises, or None."""
        execute = self._handlers.get(Handler.EXECUTE)
        return None if execute is None else output_schema(execute.returns)

    def input_for(self, kind: Handler) -> InputType:
        """How the input of a handler is described and converted; any JSON if nothing says."""
        own = self._handlers.get(kind)
        if own is not None and own.input is not None:
            return own.input
        execute = self._handlers.get(Handler.EXECUTE)
        if kind is Handler.COMPENSATE or execute is None or execute.input is None:
            return input_type(dict(_ANYTHING))
        return execute.input

    def close(self) -> None:
        """Let go of the threads, if they are its own; what runs in them is not disturbed."""
        if self._own_threads is not None:
            self._own_threads.close()

    async def carry_out(self, attempt: Attempt) -> Outcome:
        """Enter the handler that the call names; see `Connector.carry_out`."""
        call = attempt.call
        bound = self._handlers.get(call.handler)
        if bound is None:
            return _not_entered(call, "connector.handler_missing")
        try:
            value = self._decoded(call)
        except Refused as refusal:
            return _not_entered(call, refusal.code, refusal.message)
        if bound.is_async:
            return await self._enter(bound, value, attempt)
        return await self._enter_in_thread(bound, value, attempt)

    def _decoded(self, call: Call) -> object:
        """The input as the handler takes it. What redaction has left out stays None."""
        if call.input is None and call.capability.data.redaction_required:
            return None
        return self.input_for(call.handler).decode(call.input)

    async def _enter(self, bound: BoundHandler, value: object, attempt: Attempt) -> Outcome:
        if attempt.cancelled.is_set():
            return _not_entered(attempt.call, "connector.cancelled_before_entry")
        return await _concluded(
            attempt.call, partial(bound.function, *bound.arguments(value, attempt))
        )

    async def _enter_in_thread(
        self, bound: BoundHandler, value: object, attempt: Attempt
    ) -> Outcome:
        job = _Job(partial(bound.function, *bound.arguments(value, BlockingAttempt(attempt))))
        job.give_up_if = attempt.cancelled.is_set
        call = attempt.call
        running: asyncio.Future[None] | None = None
        try:
            running = asyncio.ensure_future(self._run_sync(partial(copy_context().run, job)))
            await asyncio.shield(running)
        except (Exception, asyncio.CancelledError):
            if not job.claim():
                self._hand_over(call, job, running)
                raise
        return await self._answer(call, job)
