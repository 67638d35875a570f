"""The host's sequence, over a worker's real shell and one wire."""

import pytest

from amends.contracts.worker_payload import Succeeded
from amends.ledger.records import LedgerState
from amends.ledger.recovery import Recovery
from tests.unit.worker.stage import DONE, GRANT, INPUT, INTENT, INVERSE, NONCE, SCOPE, Both


async def test_an_operation_is_recorded_dispatched_and_its_end_is_durable() -> None:
    both = Both()
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    async with both.channel() as channel:
        assert await workflow.dispatch(channel, key, INPUT) == DONE
    assert workflow.ledger.operations[0].state is LedgerState.SUCCEEDED
    assert (await both.workflow()).ledger == workflow.ledger
    assert both.ends is None


@pytest.mark.rule("INT-6")
async def test_an_operation_is_compensated_once_and_then_reported() -> None:
    both = Both()
    workflow, key = await both.succeeded()
    target = workflow.target(key, SCOPE, GRANT, INVERSE)
    inverse = await workflow.record_compensation(target, NONCE)
    async with both.channel() as channel:
        assert isinstance(await workflow.compensate(channel, target), Succeeded)
    assert both.provider.effects == {key: 1, inverse: 1}
    assert workflow.recovery(key) is Recovery.REPORT
