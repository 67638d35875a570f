"""The host's two verifiers: who may compensate, and whether exactly this may be done (PM-1, PM-2).

They are asked when an intent is recorded, when a permit is given, and right before sealing, and
have to resolve what is true *now*. A verifier says yes by returning `True`, in time. Everything
else is no: another value, an exception, silence. What it raised is not kept, since it may repeat
its input.

A plain `def` runs in a thread of a pool of its own, so one that hangs holds up nothing but other
verifiers, which are then a no.
"""

import asyncio
import inspect
from collections.abc import Awaitable
from functools import partial
from typing import Protocol, TypeAlias

import msgspec

from amends.connectors.blocking import RunSync
from amends.ledger.targets import Question, Verdicts


class CompensationGrantVerifier(Protocol):
    """Whether tenant policy, revocations and grants still allow this, as they are now."""

    def __call__(self, question: Question, /) -> bool | Awaitable[bool]:
        """Answer `True` for yes."""
        ...


class CompensationActionVerifier(Protocol):
    """Whether exactly this inverse payload is right for exactly this operation, now."""

    def __call__(self, question: Question, /) -> bool | Awaitable[bool]:
        """Answer `True` for yes."""
        ...


_Verifier: TypeAlias = CompensationGrantVerifier | CompensationActionVerifier


class Verifiers(msgspec.Struct, frozen=True, kw_only=True):
    """Both verifiers, and how many seconds each of them has."""

    grant: CompensationGrantVerifier
    action: CompensationActionVerifier
    limit_s: float = 5.0

    async def verdicts(self, question: Question, threads: RunSync) -> Verdicts:
        """What both say to this question. The second is asked only if the first said yes."""
        grant = await self._says_yes(self.grant, question, threads)
        action = grant and await self._says_yes(self.action, question, threads)
        return question.answered(grant=grant, action=action)

    async def _says_yes(self, verifier: _Verifier, question: Question, threads: RunSync) -> bool:
        task = asyncio.ensure_future(_asked(verifier, question, threads))
        try:
            await asyncio.wait({task}, timeout=self.limit_s)
            return task.done() and not task.cancelled() and task.result() is True
        finally:
            task.cancel()


async def _asked(verifier: _Verifier, question: Question, threads: RunSync) -> object:
    """What it said; an exception says no."""
    try:
        if inspect.iscoroutinefunction(verifier):
            return await _awaited(verifier(question))
        return await _awaited(await threads(partial(_said, verifier, question)))
    except (Exception, SystemExit):
        return False


def _said(verifier: _Verifier, question: Question) -> object:
    try:
        return verifier(question)
    except (Exception, SystemExit):
        return False


async def _awaited(said: object) -> object:
    return await said if isinstance(said, Awaitable) else said
