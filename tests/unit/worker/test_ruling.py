"""What an operator journals by hand (WS-3)."""

import pytest

from amends.contracts.errors import AmendsError, Refused
from amends.contracts.worker_messages import Indeterminate
from amends.contracts.worker_payload import Failed
from amends.journal.capacity import JournalLimits
from amends.journal.document import encode_journal
from amends.journal.records import Ruling
from amends.journal.rulings import reseated
from amends.worker.ruling import resolve, unfreeze
from tests.unit.worker.stage import DONE, INPUT, INTENT, Both
from tests.unit.worker.test_shell import fails

LIMITS = JournalLimits()
RULING = Ruling(who="olga", why="it is in the provider's log", evidence="ticket 7")


@pytest.mark.rule("WS-3")
async def test_an_open_inverse_is_ended_by_hand_and_then_answered() -> None:
    both = Both()
    workflow, target = await both.intended()
    both.provider.after = fails
    both.provider.found = lambda _: None
    async with both.channel() as channel:
        assert await workflow.compensate(channel, target) == Indeterminate()
    held = both.kept.records[0].compensation
    assert held is not None
    keys = target.operation_key, held.compensation_key
    resolve(both.journal.open(), LIMITS, *keys, DONE, RULING, old_run_gone=False)
    async with both.channel() as channel:
        assert await workflow.compensate(channel, target) == DONE
    with pytest.raises(Refused, match="entry_closed"):
        resolve(both.journal.open(), LIMITS, *keys, DONE, RULING, old_run_gone=True)
    assert both.provider.entered["compensate"] == 1


@pytest.mark.rule("WS-3")
async def test_nobody_says_that_an_original_did_not_happen_before_its_worker_is_gone() -> None:
    both = Both()
    both.provider.after = fails
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    async with both.channel() as channel:
        await workflow.dispatch(channel, key, INPUT)
    ended = Failed("it is not there")
    with pytest.raises(Refused, match="absence_unproven"):
        resolve(both.journal.open(), LIMITS, key, None, ended, RULING, old_run_gone=False)
    resolve(both.journal.open(), LIMITS, key, None, ended, RULING, old_run_gone=True)
    assert both.kept.records[0].state == ended


async def test_a_journal_that_was_reseated_admits_again_once_it_is_released() -> None:
    both = Both()
    both.journal.payload = encode_journal(reseated(both.kept, RULING, LIMITS))
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    async with both.channel() as channel:
        with pytest.raises(AmendsError) as caught:
            await workflow.dispatch(channel, key, INPUT)
    assert caught.value.details["code"] == "journal.frozen"
    unfreeze(both.journal.open(), LIMITS, RULING)
    async with both.channel() as channel:
        assert await workflow.dispatch(channel, key, INPUT) == DONE
