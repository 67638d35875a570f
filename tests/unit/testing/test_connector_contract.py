"""The connector contract can fail: each way of breaking it is caught by a promise."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

import msgspec
import pytest

from amends.connectors import port, signals
from amends.connectors.port import Attempt
from amends.contracts import outcomes
from amends.contracts.outcomes import ErrorInfo, Outcome, ProviderOperation
from amends.testing.connector_contract import CarryOut, ConnectorContract
from amends.testing.connector_stage import OPERATION, Stage, a_call, an_attempt

Way: TypeAlias = Callable[[Stage, Attempt], Awaitable[Outcome]]


async def _honestly(stage: Stage, attempt: Attempt) -> Outcome:
    if attempt.cancelled.is_set():
        return outcomes.NotApplied(error=ErrorInfo(code="given_up"))
    try:
        value = await stage.enter(attempt.call.input, attempt)
    except signals.Signal as signal:
        return signal.outcome
    return value if isinstance(value, Outcome) else outcomes.Applied(output=value)


async def _taking_errors_for_refusals(stage: Stage, attempt: Attempt) -> Outcome:
    try:
        return await _honestly(stage, attempt)
    except Exception:
        return outcomes.NotApplied(error=ErrorInfo(code="failed"))


async def _trying_twice(stage: Stage, attempt: Attempt) -> Outcome:
    try:
        return await _honestly(stage, attempt)
    except Exception:
        return await _honestly(stage, attempt)


async def _dropping_checkpoints(stage: Stage, attempt: Attempt) -> Outcome:
    async def forget(_operation: ProviderOperation, _cursor: str | None) -> None: ...

    return await _honestly(stage, Attempt(attempt.call, forget, attempt.cancelled))


async def _writing_checkpoints_later(stage: Stage, attempt: Attempt) -> Outcome:
    writing: list[asyncio.Future[None]] = []

    async def later(operation: ProviderOperation, cursor: str | None) -> None:
        written = attempt._checkpoint(operation, cursor)
        writing.append(asyncio.ensure_future(written))

    outcome = await _honestly(stage, Attempt(attempt.call, later, attempt.cancelled))
    await asyncio.gather(*writing)
    return outcome


async def _under_a_key_of_its_own(stage: Stage, attempt: Attempt) -> Outcome:
    call = msgspec.structs.replace(attempt.call, provider_key="own")
    return await _honestly(stage, Attempt(call, attempt._checkpoint, attempt.cancelled))


async def _without_a_credential(stage: Stage, attempt: Attempt) -> Outcome:
    call = msgspec.structs.replace(attempt.call, credential=None)
    return await _honestly(stage, Attempt(call, attempt._checkpoint, attempt.cancelled))


async def _deaf_to_cancellation(stage: Stage, attempt: Attempt) -> Outcome:
    return await _honestly(stage, Attempt(attempt.call, attempt._checkpoint, asyncio.Event()))


async def _shielded(stage: Stage, attempt: Attempt) -> Outcome:
    running = asyncio.ensure_future(_honestly(stage, attempt))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        running.cancel()
        return outcomes.Applied()


async def _for_the_first_tenant(stage: Stage, attempt: Attempt) -> Outcome:
    first = stage.seen[0].attempt if stage.seen else attempt
    return await _honestly(stage, first)


async def _with_the_input_as_text(stage: Stage, attempt: Attempt) -> Outcome:
    call = msgspec.structs.replace(attempt.call, input=str(attempt.call.input))
    return await _honestly(stage, Attempt(call, attempt._checkpoint, attempt.cancelled))


class Contract(ConnectorContract):
    """The contract over one way of carrying out."""

    def __init__(self, way: Way) -> None:
        self.way = way

    @asynccontextmanager
    async def opened(self, stage: Stage) -> AsyncIterator[CarryOut]:
        async def carry_out(attempt: Attempt) -> Outcome:
            return await self.way(stage, attempt)

        yield carry_out

    async def broken(self, monkeypatch: pytest.MonkeyPatch) -> set[str]:
        """The promises that are not kept."""
        monkeypatch.setattr("amends.testing.connector_contract.PATIENCE_S", 0.05)
        promises = [name for name in dir(self) if name.startswith("test_")]
        return {name for name in promises if not await self._keeps(name)}

    async def _keeps(self, name: str) -> bool:
        try:
            await getattr(self, name)()
        except Exception:
            return False
        return True


async def test_an_honest_connector_keeps_every_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await Contract(_honestly).broken(monkeypatch) == set()


@pytest.mark.parametrize(
    ("way", "words"),
    [
        (_taking_errors_for_refusals, "any_other_exception"),
        (_trying_twice, "not_entered_again"),
        (_dropping_checkpoints, "refused_checkpoint"),
        (_writing_checkpoints_later, "durable_before"),
        (_under_a_key_of_its_own, "preview_sees_no_provider_key"),
        (_without_a_credential, "credential"),
        (_deaf_to_cancellation, "cancelled_before"),
        (_deaf_to_cancellation, "should_stop"),
        (_shielded, "claims_nothing"),
        (_for_the_first_tenant, "two_attempts_at_once"),
        (_with_the_input_as_text, "with_the_input"),
    ],
)
async def test_a_connector_that_breaks_the_contract_is_caught(
    way: Way, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = await Contract(way).broken(monkeypatch)
    assert [name for name in broken if words in name]


async def test_a_checkpoint_that_no_test_expects_fails_it() -> None:
    attempt = an_attempt(a_call())
    assert isinstance(attempt, port.Attempt)
    with pytest.raises(AssertionError):
        await attempt.checkpoint(OPERATION.provider, OPERATION.operation_id)
