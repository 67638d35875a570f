"""Entering a handler within a time limit, and reading what it returned (WS-2).

Exactly what is a definite status counts. An exception, a time limit, a value that means nothing:
each is `NoStatus`, and whoever entered the handler does not know what happened.

A plain `def` runs in a thread. Nothing can stop a thread; past its limit it is left to itself.
"""

import asyncio
import inspect
from collections.abc import Awaitable
from contextvars import copy_context
from typing import Final

from amends.connectors.blocking import Ended, RunSync
from amends.contracts.errors import Refused
from amends.contracts.worker_grant import CapabilityGrant
from amends.contracts.worker_identity import framed, worker_input_fingerprint
from amends.contracts.worker_json import write_json
from amends.contracts.worker_payload import (
    Cancelled,
    Failed,
    PayloadFormat,
    Running,
    Status,
    Succeeded,
    SucceededOversize,
    ToolPayload,
)
from amends.journal.observation import succeeded
from amends.worker.adapters import Handler

LARGEST_OUTPUT: Final = 64 * 1024 * 1024
"""An output beyond this is not even hashed, and so has no status."""


class NoStatus(Exception):
    """The handler ended, or did not end, without a definite status."""


async def enter(handler: Handler, argument: object, limit_s: float, threads: RunSync) -> object:
    """What the handler returned. Raises `NoStatus`; when cancelled, so is the handler."""
    task = asyncio.ensure_future(_answer(handler, argument, threads))
    task.add_done_callback(_look_at)
    try:
        await asyncio.wait({task}, timeout=limit_s)
        if not task.done() or task.cancelled() or isinstance(task.exception(), Exception):
            raise NoStatus
        return task.result()
    finally:
        task.cancel()


def read_status(value: object, grant: CapabilityGrant) -> Status:
    """The status that a handler reported, as the journal records it. Raises `NoStatus`."""
    match value:
        case Running() | Failed() | Cancelled() | SucceededOversize():
            return value
        case Succeeded(ToolPayload() as payload) | (ToolPayload() as payload):
            return _within(payload, grant)
        case dict() | list() if grant.format is PayloadFormat.JSON:
            return _made(value, grant)
        case str() if grant.format is PayloadFormat.TEXT:
            return _made(value, grant)
    raise NoStatus


def _made(value: object, grant: CapabilityGrant) -> Status:
    is_text = isinstance(value, str)
    try:
        payload = ToolPayload.text(value) if isinstance(value, str) else ToolPayload.json(value)
    except Refused as refusal:
        if "too_large" in (refusal.code + str(refusal.details.get("reason"))):
            return _oversize(value.encode() if isinstance(value, str) else _body(value), is_text)
        raise NoStatus from None
    return _within(payload, grant)


def _within(payload: ToolPayload, grant: CapabilityGrant) -> Status:
    try:
        return succeeded(payload, grant)
    except Refused:
        raise NoStatus from None


def _oversize(body: bytes, is_text: bool) -> SucceededOversize:
    form = PayloadFormat.TEXT if is_text else PayloadFormat.JSON
    digest = worker_input_fingerprint(form.encode() + framed(body))
    return SucceededOversize(digest, len(body))


def _body(value: object) -> bytes:
    try:
        return write_json(value, max_bytes=LARGEST_OUTPUT)
    except Refused:
        raise NoStatus from None


async def _answer(handler: Handler, argument: object, threads: RunSync) -> object:
    if inspect.iscoroutinefunction(handler):
        return await handler(argument)
    context = copy_context()

    def job() -> Ended:
        try:
            return Ended(context.run(handler, argument))
        except BaseException as error:
            return Ended(error=error)

    ended: Awaitable[Ended] = threads(job)
    return await (await ended).answer()


def _look_at(task: "asyncio.Task[object]") -> None:
    """A handler that was left to itself may raise later; nobody is there to hear it."""
    if not task.cancelled():
        task.exception()
