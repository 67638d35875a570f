"""Room: an effect that was admitted can always be recorded."""

import pytest
from msgspec.structs import replace

from amends.contracts.worker_grant import CapabilityGrant, grant_fingerprint
from amends.contracts.worker_identity import Fingerprint
from amends.contracts.worker_messages import MAX_COUNTER, LedgerHead
from amends.contracts.worker_payload import (
    MAX_FAILURE_BYTES,
    Failed,
    Status,
    Succeeded,
    ToolPayload,
)
from amends.journal.admission import admit_compensation, admit_operation
from amends.journal.capacity import (
    HEAD_ROOM,
    LIMITS_5,
    JournalLimits,
    inverse_room,
    outcome_room,
    used_bytes,
)
from amends.journal.document import encode_journal
from amends.journal.observation import observe_compensation, observe_operation
from amends.journal.records import Journal, open_journal
from amends.journal.rulings import archive, reseated, resolve_operation
from amends.testing.refusals import refused_with
from tests.unit.journal.stage import (
    DONE,
    GRANT,
    RULING,
    SCOPE,
    admit,
    dispatched,
    inverse,
    inverse_key_of,
    key_of,
    operation,
    pending,
    succeeded,
)

SMALL = replace(GRANT, max_output_bytes=64)
WORST_JSON: list[Status] = [
    Succeeded(ToolPayload.json(["x" * 60])),
    Failed("\x01" * MAX_FAILURE_BYTES),
]


@pytest.mark.rule("WJ-3")
@pytest.mark.parametrize("status", WORST_JSON)
def test_the_largest_outcome_fits_into_what_admission_set_aside(status: Status) -> None:
    before = used_bytes(dispatched(admit_operation(open_journal(SCOPE), operation(), SMALL, LARGE)))
    journal = dispatched(admit_operation(open_journal(SCOPE), operation(), SMALL, LARGE))
    assert used_bytes(observe_operation(journal, key_of(), status)) <= before


LARGE = JournalLimits()


@pytest.mark.rule("WJ-3")
def test_a_text_of_control_characters_fits_too() -> None:
    text = CapabilityGrant.text(GRANT.tool).with_compensation_limit(1)
    journal = dispatched(admit_operation(open_journal(SCOPE), operation(), text, LARGE))
    before = used_bytes(journal)
    worst = Succeeded(ToolPayload.text("\x01" * text.max_output_bytes))
    assert used_bytes(observe_operation(journal, key_of(), worst)) <= before


@pytest.mark.rule("WJ-3")
def test_one_later_inverse_with_its_largest_outcome_fits_too() -> None:
    journal = observe_operation(pending(), key_of(), DONE)
    before = used_bytes(journal)
    undoing = dispatched(admit_compensation(journal, inverse(), GRANT, LARGE))
    assert used_bytes(undoing) <= before
    worst = Failed("\x01" * MAX_FAILURE_BYTES)
    ended = observe_compensation(undoing, key_of(), inverse_key_of(), worst)
    assert used_bytes(ended) <= before
    assert used_bytes(ended) == len(encode_journal(ended)) + 2 * HEAD_ROOM


@pytest.mark.rule("WJ-3")
def test_admission_stops_before_the_room_is_gone() -> None:
    limits = JournalLimits(max_bytes=400_000)
    journal = open_journal(SCOPE)
    for number in (1, 2, 3):
        journal = dispatched(admit_operation(journal, operation(number), GRANT, limits))
    with refused_with("journal.full"):
        admit_operation(journal, operation(4), GRANT, limits)
    assert used_bytes(journal) <= limits.max_bytes


def test_what_failed_needs_no_room_for_an_inverse() -> None:
    journal = observe_operation(pending(), key_of(), Failed("no"))
    assert used_bytes(journal) == len(encode_journal(journal)) + 2 * HEAD_ROOM


@pytest.mark.rule("WJ-3")
def test_heads_that_move_on_and_a_freeze_never_meet_the_limit() -> None:
    journal = pending()
    before = used_bytes(journal)
    largest = LedgerHead(MAX_COUNTER, MAX_COUNTER, Fingerprint("f" * 64))
    found = admit(journal, operation(at=largest))
    longest = replace(found.journal, frozen="k" * 128)
    assert len(encode_journal(longest)) - len(encode_journal(journal)) <= 2 * HEAD_ROOM
    assert len(encode_journal(longest)) <= before


@pytest.mark.rule("WJ-3")
def test_a_ruling_needs_its_room() -> None:
    journal = pending()
    tight = JournalLimits(max_bytes=used_bytes(journal) - outcome_room(GRANT))
    with refused_with("journal.full"):
        resolve_operation(journal, key_of(), DONE, RULING, tight, old_run_gone=True)
    with refused_with("journal.full"):
        reseated(journal, RULING, tight)


def test_a_grant_without_compensations_sets_nothing_aside_for_one() -> None:
    assert inverse_room(GRANT.with_compensation_limit(0)) == 0
    assert inverse_room(GRANT) > outcome_room(GRANT)


def filled(limits: JournalLimits) -> Journal:
    journal = open_journal(SCOPE)
    for number in range(1, limits.max_records + 1):
        small = admit_operation(journal, operation(number), SMALL, limits)
        journal = observe_operation(dispatched(small), key_of(number), Failed("no"))
    return journal


@pytest.mark.rule("WJ-1")
def test_live_records_are_counted_and_archived_ones_are_not() -> None:
    journal = filled(LARGE)
    with refused_with("journal.full"):
        admit(journal, operation(99))
    dispatched(admit(archive(journal, key_of(1)), operation(99)))


def test_version_5_counts_only_what_is_stored() -> None:
    journal = succeeded(format_version=2)
    assert used_bytes(journal) == len(encode_journal(journal))
    request = replace(inverse(), grant_fingerprint=grant_fingerprint(GRANT))
    dispatched(admit_compensation(journal, request, GRANT, LIMITS_5))
