"""The connector contract over plain Python functions, written as `async def` and as `def`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from amends.connectors.blocking import BlockingAttempt
from amends.connectors.function import FunctionConnector
from amends.connectors.port import Attempt
from amends.contracts.enums import Handler
from amends.contracts.json_types import JsonObject
from amends.testing.connector_contract import CarryOut, ConnectorContract
from amends.testing.connector_stage import Stage

ANY_OBJECT: JsonObject = {"type": "object"}
EVERY_SCHEMA = dict.fromkeys(Handler, ANY_OBJECT)


class TestAsyncFunctions(ConnectorContract):
    """Handlers that run in the event loop."""

    @asynccontextmanager
    async def opened(self, stage: Stage) -> AsyncIterator[CarryOut]:
        async def handler(value: dict[str, object], attempt: Attempt) -> object:
            return await stage.enter(value, attempt)

        yield FunctionConnector(dict.fromkeys(Handler, handler), schemas=EVERY_SCHEMA).carry_out


class TestPlainFunctions(ConnectorContract):
    """Handlers that run in threads."""

    @asynccontextmanager
    async def opened(self, stage: Stage) -> AsyncIterator[CarryOut]:
        def handler(value: dict[str, object], attempt: BlockingAttempt) -> object:
            return stage.enter_blocking(value, attempt)

        connector = FunctionConnector(dict.fromkeys(Handler, handler), schemas=EVERY_SCHEMA)
        yield connector.carry_out
        connector.close()


@pytest.mark.rule("TX-CHECKPOINT-1")
@pytest.mark.parametrize("kind", [TestAsyncFunctions, TestPlainFunctions])
async def test_a_checkpoint_is_written_before_the_handler_goes_on(
    kind: type[TestAsyncFunctions | TestPlainFunctions],
) -> None:
    """The promise of the rule that is the connector's to keep."""
    await kind().test_a_checkpoint_is_durable_before_the_handler_goes_on()
