"""What every connector keeps to, as tests that run over any of them.

Subclass `ConnectorContract`, say in `opened` how a connector is built around a `Stage`, and let
pytest collect the subclass. The stage is the provider's end: whatever the connector puts between,
each handler must call `enter` (or `enter_blocking`) with what it was given, and answer with what it
returns or raises.

    class TestMine(ConnectorContract):
        @asynccontextmanager
        async def opened(self, stage):
            yield MyConnector(stage.enter).carry_out

Deliberately not here: what an outcome means for a record, and anything that only one kind of
connector can do.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Final, TypeAlias

from amends.connectors import signals
from amends.connectors.port import Attempt, Call
from amends.contracts import outcomes
from amends.contracts.enums import Handler
from amends.contracts.errors import Conflict
from amends.contracts.outcomes import ErrorInfo, Outcome, ProviderOperation
from amends.testing.connector_stage import (
    CURSOR,
    OPERATION,
    PATIENCE_S,
    Reaction,
    Sighting,
    Stage,
    a_call,
    an_attempt,
)

CarryOut: TypeAlias = Callable[[Attempt], Awaitable[Outcome]]

_SHORT_S: Final = 0.01


class ConnectorContract(ABC):
    """The contract; each method is one promise."""

    @abstractmethod
    def opened(self, stage: Stage) -> AbstractAsyncContextManager[CarryOut]:
        """The `carry_out` of a connector whose four handlers are the stage's."""
        ...

    async def _carried(self, call: Call, reaction: Reaction) -> tuple[Outcome, Stage]:
        stage = Stage()
        stage.reaction = reaction
        async with self.opened(stage) as carry_out:
            return await carry_out(an_attempt(call)), stage

    async def _seen(self, call: Call) -> Sighting:
        _, stage = await self._carried(call, Reaction())
        (sighting,) = stage.seen
        return sighting

    async def test_each_handler_is_entered_once_with_the_input(self) -> None:
        for kind in Handler:
            sighting = await self._seen(a_call(kind, input={"amount": 7}))
            assert (sighting.attempt.call.handler, sighting.input) == (kind, {"amount": 7})

    async def test_a_handler_is_told_whose_attempt_it_carries_out_and_until_when(self) -> None:
        attempt = (await self._seen(a_call())).attempt
        assert (attempt.tenant, attempt.transaction_id, attempt.action_id) == (
            "t1",
            "txn_1",
            "act_1",
        )
        assert (attempt.number, attempt.deadline) == (2, datetime(2026, 1, 1, tzinfo=UTC))
        assert attempt.call.deadline_in_ms == 30_000

    async def test_a_handler_is_told_the_provider_key_and_given_the_credential(self) -> None:
        attempt = (await self._seen(a_call())).attempt
        assert attempt.provider_key == "key_1"
        assert attempt.credential is not None
        assert attempt.credential.secret.reveal() == "tok"

    async def test_a_look_up_is_told_what_is_known_of_the_operation(self) -> None:
        attempt = (await self._seen(a_call(Handler.RECONCILE))).attempt
        assert (attempt.provider_operation, attempt.cursor) == (OPERATION, "page_2")
        assert attempt.provider_key == "key_1"

    async def test_a_compensation_is_told_what_it_offsets(self) -> None:
        original = (await self._seen(a_call(Handler.COMPENSATE))).attempt.original
        assert original is not None
        assert (original.action_id, original.output) == ("act_original", {"operation_id": "op_0"})
        assert original.operation is not None

    async def test_a_preview_sees_no_provider_key(self) -> None:
        assert (await self._seen(a_call(Handler.PREVIEW))).attempt.provider_key == ""

    async def test_a_checkpoint_is_durable_before_the_handler_goes_on(self) -> None:
        durable: list[tuple[ProviderOperation, str | None]] = []
        stage = Stage()
        stage.reaction = Reaction(checkpoint=OPERATION)

        async def checkpoint(operation: ProviderOperation, cursor: str | None) -> None:
            await asyncio.sleep(_SHORT_S)
            durable.append((operation, cursor))
            stage.events.append("durable")

        async with self.opened(stage) as carry_out:
            await carry_out(an_attempt(a_call(), checkpoint))
        assert stage.events == ["entered", "durable", "went on", "ended"]
        assert durable == [(OPERATION, CURSOR)]

    async def test_a_refused_checkpoint_stops_the_handler_with_its_own_error(self) -> None:
        stage = Stage()
        stage.reaction = Reaction(checkpoint=OPERATION)
        async with self.opened(stage) as carry_out:
            error = await _error_of(carry_out, an_attempt(a_call(), _refused))
        assert isinstance(error, Conflict)
        assert error.code == "transaction.provider_operation_conflict"
        assert stage.events == ["entered"]

    async def test_a_plain_answer_is_an_effect_with_that_output(self) -> None:
        outcome, _ = await self._carried(a_call(), Reaction(returns={"id": "ch_1", "amount": 5}))
        assert outcome == outcomes.Applied(output={"id": "ch_1", "amount": 5})

    async def test_every_signal_is_told_as_the_outcome_it_stands_for(self) -> None:
        for signal in (
            signals.NotApplied("card.declined"),
            signals.Partial("batch.partial", output={"done": 1}),
            signals.Pending(retry_after_ms=10, operation=OPERATION),
            signals.NotFound(voided=True, cursor="page_3"),
        ):
            outcome, _ = await self._carried(a_call(), Reaction(raises=signal))
            assert outcome == signal.outcome

    async def test_an_outcome_is_told_as_it_is(self) -> None:
        told = outcomes.Failure(error=ErrorInfo(code="quota"), operation=OPERATION, cursor="c")
        outcome, _ = await self._carried(a_call(), Reaction(returns=told))
        assert outcome == told

    async def test_any_other_exception_is_raised_on_and_the_handler_not_entered_again(self) -> None:
        stage = Stage()
        stage.reaction = Reaction(raises=ConnectionResetError("gone"))
        async with self.opened(stage) as carry_out:
            error = await _error_of(carry_out, an_attempt(a_call()))
        assert isinstance(error, ConnectionResetError)
        assert len(stage.seen) == 1

    async def test_a_handler_sees_that_it_should_stop(self) -> None:
        stage = Stage()
        stage.reaction = Reaction(awaits_cancel=True, raises=signals.NotApplied("stopped"))
        attempt = an_attempt(a_call())
        async with self.opened(stage) as carry_out:
            running = asyncio.ensure_future(carry_out(attempt))
            await stage.is_entered()
            attempt.cancelled.set()
            outcome = await asyncio.wait_for(running, PATIENCE_S)
        assert outcome == signals.NotApplied("stopped").outcome

    async def test_what_was_cancelled_before_the_handler_is_certainly_not_applied(self) -> None:
        stage = Stage()
        attempt = an_attempt(a_call())
        attempt.cancelled.set()
        async with self.opened(stage) as carry_out:
            outcome = await carry_out(attempt)
        assert isinstance(outcome, outcomes.NotApplied)
        assert stage.seen == []

    async def test_cancelling_a_running_attempt_ends_the_wait_and_claims_nothing(self) -> None:
        stage = Stage()
        stage.reaction = Reaction(awaits_cancel=True)
        attempt = an_attempt(a_call())
        async with self.opened(stage) as carry_out:
            running = asyncio.ensure_future(carry_out(attempt))
            await stage.is_entered()
            running.cancel()
            (ended, _) = await asyncio.wait((running,), timeout=PATIENCE_S)
            attempt.cancelled.set()
        assert ended == {running}
        assert running.cancelled()

    async def test_two_attempts_at_once_do_not_see_one_another(self) -> None:
        stage = Stage()
        calls = [a_call(tenant=tenant, input={"of": tenant}) for tenant in ("t1", "t2", "t3")]
        async with self.opened(stage) as carry_out:
            await asyncio.gather(*(carry_out(an_attempt(call)) for call in calls))
        seen = [(one.attempt.tenant, one.input) for one in stage.seen]
        assert sorted(tenant for tenant, _ in seen) == ["t1", "t2", "t3"]
        assert all(value == {"of": tenant} for tenant, value in seen)


async def _refused(_operation: ProviderOperation, _cursor: str | None) -> None:
    raise Conflict("transaction.provider_operation_conflict", "Another one is recorded.")


async def _error_of(carry_out: CarryOut, attempt: Attempt) -> BaseException:
    (ended,) = await asyncio.gather(carry_out(attempt), return_exceptions=True)
    assert isinstance(ended, BaseException), "an error was expected"
    return ended
