"""The connector whose provider is reached by plain Python functions of the application.

Invariants: a handler is entered at most once per attempt. What ends before its first line is told
as *not applied* (or, where an earlier request may still be applied, as uncertain); after that, only
the handler's own word or exception counts. Context variables of the caller are seen by async and
by plain handlers.

What a handler returns, and what is told:

| returned | told |
|---|---|
| an `Outcome`, or a `Signal` returned or raised | that outcome |
| any other exception, returned or raised | raised on, for the runtime to classify |
| `None` from a look-up | uncertain: "not there" and a forgotten `return` look alike |
| anything else | applied, with the value as output |

A look-up that found nothing says so with `NotFound`.

Deliberately not here: what an outcome means for the record, time limits, retries.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import CoroutineType, MappingProxyType
from typing import Final, TypeAlias

import msgspec

from amends.connectors.blocking import BlockingAttempt, Ended, HandlerThreads, Job, RunSync
from amends.connectors.handlers import BoundHandler, HandlerFunction, bind
from amends.connectors.inputs import InputType, input_type, output_schema, output_to_json
from amends.connectors.port import Attempt, Call
from amends.connectors.signals import Signal
from amends.contracts.enums import ErrorCategory, Handler
from amends.contracts.errors import Misuse, Refused
from amends.contracts.json_types import Json, JsonObject
from amends.contracts.outcomes import (
    Applied,
    ErrorInfo,
    Failure,
    NotApplied,
    NotFound,
    Outcome,
    Partial,
    Pending,
    Uncertain,
)

Late: TypeAlias = Callable[[Call, Awaitable[Outcome]], None]
"""Takes the answer of a plain handler whose `carry_out` was cancelled while the handler ran.

Awaiting it gives, or raises, what `carry_out` would have.
"""

_AWAITABLE: Final = (CoroutineType, Awaitable)
"""A coroutine first, as it nearly always is one: to ask the abstract class costs more."""

_NO_SCHEMAS: Final[Mapping[Handler, JsonObject]] = MappingProxyType({})


class FunctionConnector:
    """Carries out the attempts of one capability by calling its handlers.

    `handlers` are `async def` or `def`, and take `(input)` or `(input, attempt)`; a plain one is
    given a `BlockingAttempt` and runs in a thread. `schemas` replace annotations.

    Cancelling `carry_out` cancels an async handler. A plain one cannot be stopped: if it was not
    entered yet it never will be, otherwise it runs on and its answer goes to `late`, if given.

    Raises `Misuse` as `bind` does, and (`connector.input_undeclared`) when `execute` has neither an
    annotated input nor a schema.
    """

    def __init__(
        self,
        handlers: Mapping[Handler, HandlerFunction],
        *,
        schemas: Mapping[Handler, JsonObject] = _NO_SCHEMAS,
        run_sync: RunSync | None = None,
        late: Late | None = None,
    ) -> None:
        self._handlers = {kind: bind(one, schemas.get(kind)) for kind, one in handlers.items()}
        self._own_threads = HandlerThreads()
        self._run_sync = run_sync or self._own_threads
        self._late = late
        self.inputs: Mapping[Handler, InputType] = MappingProxyType(_inputs(self._handlers))
        """How the input of each handler is described and converted.

        Without an annotation, previews and look-ups take what `execute` declares, and a
        compensation takes any JSON.
        """

    @property
    def handlers(self) -> tuple[Handler, ...]:
        """What it can be entered for."""
        return tuple(kind for kind in Handler if kind in self._handlers)

    @property
    def output_schema(self) -> Json:
        """What the return annotation of `execute` promises, or None."""
        execute = self._handlers.get(Handler.EXECUTE)
        return None if execute is None else output_schema(execute.returns)

    def close(self) -> None:
        """Let go of its own threads, if it used them; what runs in them is not disturbed."""
        self._own_threads.close()

    async def carry_out(self, attempt: Attempt) -> Outcome:
        """Enter the handler that the call names, as `Connector.carry_out` says."""
        call = attempt.call
        bound = self._handlers.get(call.handler)
        if bound is None:
            return _not_entered(call, "connector.handler_missing", "There is no such handler.")
        try:
            value = self._decoded(call)
        except Refused as refusal:
            return _not_entered(call, refusal.code, refusal.message)
        if attempt.cancelled.is_set():
            return _given_up(call)
        if bound.is_async:
            return await _told(call, bound.enter(value, attempt))
        return await self._enter_in_thread(bound, value, attempt)

    def _decoded(self, call: Call) -> object:
        """The input as the handler takes it: what redaction has left out stays None.

        A look-up takes the input of what it looks for, be it the effect or its compensation.
        """
        if call.input is None and call.capability.data.redaction_required:
            return None
        of_compensation = call.original is not None and Handler.COMPENSATE in self._handlers
        kind = Handler.COMPENSATE if of_compensation else call.handler
        return self.inputs[kind].decode(call.input)

    async def _enter_in_thread(
        self, bound: BoundHandler, value: object, attempt: Attempt
    ) -> Outcome:
        job = Job(partial(bound.enter, value, BlockingAttempt(attempt)), attempt)
        running = asyncio.create_task(self._begin(job))
        try:
            await asyncio.wait((running,))
        except asyncio.CancelledError:
            if not job.give_up():
                self._hand_over(attempt.call, job, running)
                raise
            running.cancel()
            return _given_up(attempt.call)
        return await _ended(attempt.call, job, running)

    async def _begin(self, job: Job) -> Ended | None:
        return await self._run_sync(job)

    def _hand_over(self, call: Call, job: Job, running: "asyncio.Task[Ended | None]") -> None:
        if self._late is None:
            running.cancel()
        else:
            self._late(call, asyncio.create_task(_ended(call, job, running)))


def _inputs(handlers: Mapping[Handler, BoundHandler]) -> dict[Handler, InputType]:
    execute = handlers.get(Handler.EXECUTE)
    if execute is not None and execute.input is None:
        raise Misuse(
            "connector.input_undeclared",
            "The execute handler does not say what it takes.",
            next_step="Annotate its first parameter, or give a JSON Schema.",
        )
    own = {kind: one.input for kind, one in handlers.items() if one.input is not None}
    shared = own.get(Handler.EXECUTE) or input_type({})
    return {
        **dict.fromkeys(Handler, shared),
        Handler.COMPENSATE: input_type({}),
        **own,
    }


async def _ended(call: Call, job: Job, running: "asyncio.Task[Ended | None]") -> Outcome:
    """What a plain handler told, or that it was never entered: its pool may have been closed."""
    await asyncio.wait((running,))
    if job.give_up():
        running.cancelled() or running.exception()  # looked at, so that nobody warns of it
        return _given_up(call)
    ended = running.result()
    return _given_up(call) if ended is None else await _told(call, ended.answer())


async def _told(call: Call, answer: object) -> Outcome:
    try:
        value = await answer if isinstance(answer, _AWAITABLE) else answer
    except Signal as signal:
        return signal.outcome
    match value:
        case Signal():
            return value.outcome
        case BaseException():
            raise value
        case Applied() | Partial():
            return msgspec.structs.replace(value, output=_builtins(value.output))
        case NotApplied() | Failure() | Uncertain() | Pending() | NotFound():
            return value
        case None if call.handler is Handler.RECONCILE:
            return _uncertain(
                "misuse.lookup_without_answer", "The look-up returned None, which says nothing."
            )
        case _:
            return Applied(output=_builtins(value))


def _builtins(output: object) -> object:
    """An output without a JSON form stays what it is: the effect is there all the same."""
    try:
        return output_to_json(output)
    except Refused:
        return output


def _given_up(call: Call) -> Outcome:
    return _not_entered(call, "connector.given_up", "The attempt was given up before its handler.")


def _not_entered(call: Call, code: str, message: str) -> Outcome:
    """Nothing was sent by this attempt; a look-up or a re-drive has an earlier one to think of."""
    if call.handler is Handler.RECONCILE or call.redrive:
        return _uncertain(code, message)
    return NotApplied(error=ErrorInfo(code=code, message=message))


def _uncertain(code: str, message: str) -> Uncertain:
    return Uncertain(error=ErrorInfo(code=code, message=message, category=ErrorCategory.CONNECTOR))
