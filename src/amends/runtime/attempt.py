"""The one module that enters a connector, and the one place that reads its exceptions.

From the moment of entering, among exceptions only the declared `NotApplied` and `Partial` are
definite (TX-SETTLE-4). Everything else, a malformed answer and a cancellation included, is
uncertain: nobody can say from here what the provider did. A handler's `sys.exit` is its exception
too: it ends no process that has other actions under way, and no command with a code of its own.
"""

import asyncio
from typing import Final

from amends.connectors.port import Attempt, Checkpoint, Connector, HandRuling, KeepsAccounts
from amends.connectors.signals import Signal
from amends.contracts.codes import coded
from amends.contracts.enums import ErrorCategory
from amends.contracts.errors import AmendsError
from amends.contracts.outcomes import (
    Applied,
    ErrorInfo,
    Failure,
    NotApplied,
    NotFound,
    Outcome,
    Partial,
    Pending,
    ProviderOperation,
    Uncertain,
)
from amends.contracts.secrets import Credential
from amends.runtime.running import Running
from amends.runtime.soundness import sound, without_echo

_OUTCOMES: Final = (Applied, NotApplied, Partial, Failure, Uncertain, Pending, NotFound)
INTERRUPTED: Final = "transaction.attempt_interrupted"
TIMEOUT: Final = "sla.timeout_exceeded"
UNCLASSIFIED: Final = "transaction.unclassified_exception"
INVALID: Final = "transaction.provider_answer_invalid"


async def enter(connector: Connector, running: Running, checkpoint: Checkpoint) -> Outcome:
    """Make the one connector call of an attempt; never raises but for a dying process."""
    attempt = Attempt(running.call, checkpoint, running.cancelled)
    try:
        answer: object = await connector.carry_out(attempt)
    except Signal as signal:
        return _reported(signal.outcome, attempt.credential)
    except asyncio.CancelledError:
        return uncertain(INTERRUPTED)
    except AmendsError as error:
        return uncertain(UNCLASSIFIED, error.code)
    except (Exception, SystemExit) as error:  # its text may carry secrets: only its type is kept
        return uncertain(UNCLASSIFIED, type(error).__name__)
    return _reported(answer, attempt.credential)


async def enter_preview(connector: Connector, attempt: Attempt, timeout_ms: int) -> Outcome:
    """Ask a connector for a preview, which must have no effect and holds no claim."""
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            answer: object = await connector.carry_out(attempt)
    except Signal as signal:
        return _reported(signal.outcome, attempt.credential)
    except TimeoutError:
        return uncertain(TIMEOUT)
    except asyncio.CancelledError:
        if _is_cancelled():
            raise
        return uncertain(INTERRUPTED)
    except (Exception, SystemExit) as error:  # as above
        return uncertain(UNCLASSIFIED, type(error).__name__)
    return _reported(answer, attempt.credential)


async def hand_over(connector: KeepsAccounts, ruling: HandRuling) -> ProviderOperation | None:
    """Have a connector take a person's ruling into its own accounts; see `KeepsAccounts`.

    Raises what it raises, and `Unavailable` (`transaction.settle_not_recorded`) for anything that
    has no code.
    """
    try:
        return await connector.rule(ruling)
    except AmendsError:
        raise
    except Exception as error:  # as above
        raise coded(
            "transaction.settle_not_recorded", {"exception": type(error).__name__}
        ) from None


def _is_cancelled() -> bool:
    """Whether it is the caller who goes away, rather than a handler that gives itself up."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _reported(answer: object, credential: Credential | None) -> Outcome:
    """What was reported, if it is an outcome at all and can be read."""
    if not isinstance(answer, _OUTCOMES):
        return uncertain(INVALID)
    try:
        told = sound(answer)
        return told if credential is None else without_echo(told, credential.secret)
    except Exception:  # foreign objects may do anything when they are looked at
        return uncertain(INVALID)


def uncertain(code: str, exception: str | None = None) -> Uncertain:
    """An outcome that says nothing certain, with the type of what was raised, if anything."""
    return Uncertain(
        error=ErrorInfo(
            code=code,
            category=ErrorCategory.CONNECTOR,
            details={"exception": exception} if exception else {},
        )
    )


def never_dispatched(code: str) -> NotApplied:
    """The attempt itself proved that the connector was not entered."""
    return NotApplied(error=ErrorInfo(code=code, category=ErrorCategory.TEMPORARY, retryable=False))
