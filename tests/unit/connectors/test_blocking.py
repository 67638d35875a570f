"""A checkpoint that blocks waits for the loop, and never for itself."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from amends.connectors.blocking import BlockingAttempt
from amends.connectors.function import FunctionConnector
from amends.connectors.port import Checkpoint
from amends.contracts.enums import Handler
from amends.contracts.errors import AmendsError, Misuse, Refused
from amends.contracts.outcomes import ProviderOperation
from amends.simulation import World
from amends.testing.connector_stage import OPERATION, a_call, an_attempt


async def _written(_operation: ProviderOperation, _cursor: str | None) -> None:
    await asyncio.sleep(0)


async def test_a_malformed_reference_is_refused_before_it_is_written() -> None:
    attempt = BlockingAttempt(an_attempt(a_call()))
    with pytest.raises(Refused) as caught:
        await asyncio.to_thread(attempt.checkpoint, "", "op_1")
    assert caught.value.code == "input.invalid_id"


async def test_a_checkpoint_in_the_loops_own_thread_is_refused_instead_of_hanging() -> None:
    attempt = BlockingAttempt(an_attempt(a_call(), _written))
    with pytest.raises(Misuse) as caught:
        attempt.checkpoint("scripted", "op_1")
    assert caught.value.code == "connector.checkpoint_deadlock"


def test_a_plain_handler_in_a_simulation_runs_inline_but_cannot_block_for_a_checkpoint() -> None:
    def handler(value: dict[str, int], attempt: BlockingAttempt) -> str:
        if value["amount"] == 1:
            return "done"
        attempt.checkpoint(OPERATION.provider, OPERATION.operation_id)
        return "unreachable"

    async def scenario(_world: World) -> None:
        connector = FunctionConnector({Handler.EXECUTE: handler})
        await connector.carry_out(an_attempt(a_call(input={"amount": 1}), _written))
        with pytest.raises(Misuse, match="checkpoint_deadlock"):
            await connector.carry_out(an_attempt(a_call(input={"amount": 2}), _written))
        connector.close()

    World(1).run(scenario)


def test_a_checkpoint_after_the_loop_has_ended_is_unavailable() -> None:
    with asyncio.Runner() as runner:
        attempt = runner.run(_blocking(_written))
    assert _error_in_a_thread(attempt)() == "connector.loop_closed"


def test_a_checkpoint_that_is_never_written_is_given_up_when_the_loop_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("amends.connectors.blocking._LOOK_AGAIN_S", 0.01)
    begun = asyncio.Event()

    async def hang(_operation: ProviderOperation, _cursor: str | None) -> None:
        begun.set()
        await asyncio.Event().wait()

    loop = asyncio.new_event_loop()
    error = _error_in_a_thread(loop.run_until_complete(_blocking(hang)))
    loop.run_until_complete(begun.wait())
    loop.run_until_complete(asyncio.sleep(0.05))
    (left,) = asyncio.all_tasks(loop)
    loop.close()
    assert error() == "connector.loop_closed"
    left._log_destroy_pending = False  # type: ignore[attr-defined]  # it is meant to be left
    left.get_coro().close()  # so that nothing warns of it


async def _blocking(checkpoint: Checkpoint) -> BlockingAttempt:
    return BlockingAttempt(an_attempt(a_call(), checkpoint))


def _error_in_a_thread(attempt: BlockingAttempt) -> Callable[[], str]:
    """Begin a checkpoint in a thread; call the answer to wait for the code of its error."""
    codes: list[str] = []

    def checkpoint() -> None:
        try:
            attempt.checkpoint("scripted", "op_1")
        except AmendsError as error:
            codes.append(error.code)

    thread = threading.Thread(target=checkpoint)
    thread.start()

    def code() -> str:
        thread.join()
        return codes[0]

    return code
