"""Admission: dispatch once, then existing for ever, and anything else refused."""

import pytest
from msgspec.structs import replace

from amends.contracts.worker_grant import CapabilityGrant, grant_fingerprint
from amends.contracts.worker_identity import worker_input_fingerprint
from amends.contracts.worker_payload import (
    Cancelled,
    Failed,
    Pending,
    Running,
    Status,
    SucceededOversize,
    ToolPayload,
)
from amends.journal.admission import (
    Dispatch,
    Existing,
    admit_compensation,
    admit_operation,
)
from amends.journal.capacity import JournalLimits
from amends.journal.observation import observe_compensation, observe_operation
from amends.journal.records import Journal, find_record, open_journal, require_record
from amends.journal.rulings import release
from amends.testing.refusals import refused_with
from tests.unit.journal.stage import (
    DONE,
    FORMATS,
    GRANT,
    LIMITS,
    RULING,
    SCOPE,
    admit,
    admit_inverse,
    dispatched,
    frozen_by,
    head,
    inverse,
    inverse_key_of,
    key_of,
    operation,
    pending,
    succeeded,
    undoing,
    undone,
)

OTHER_INPUT = ToolPayload.json({"other": 1})
OVERSIZE = SucceededOversize(worker_input_fingerprint(b"x"), 70_000)


@pytest.mark.parametrize("version", FORMATS)
def test_a_new_operation_is_dispatched_pending(version: int) -> None:
    journal = pending(format_version=version)
    assert require_record(journal, key_of()).state == Pending()
    assert "1.2.3" not in repr(journal)


@pytest.mark.parametrize("version", FORMATS)
@pytest.mark.parametrize("state", [None, Running(), DONE, Failed("no"), Cancelled()])
def test_the_same_operation_again_is_existing_with_its_stored_state(
    version: int, state: Status | None
) -> None:
    journal = pending(format_version=version)
    if state is not None:
        journal = observe_operation(journal, key_of(), state)
    assert admit(journal) == Existing(journal, state or Pending())


def test_an_operation_key_stands_for_one_tool_and_input() -> None:
    journal = pending()
    with refused_with("journal.operation_differs"):
        admit(journal, replace(operation(), payload=OTHER_INPUT))
    other = CapabilityGrant("other.tool")
    with refused_with("journal.operation_differs"):
        admit_operation(journal, replace(operation(), tool="other.tool"), other, LIMITS)
    with refused_with("journal.tool_mismatch"):
        admit_operation(journal, operation(), other, LIMITS)


@pytest.mark.rule("GR-ID-2")
def test_an_original_cannot_look_like_a_compensation() -> None:
    good = operation()
    with refused_with("worker.operation_key_invalid"):
        replace(good, operation_key=inverse_key_of())


# ── the inverse ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("WJ-2")
@pytest.mark.parametrize("version", FORMATS)
def test_the_first_inverse_of_a_succeeded_original_is_dispatched_pending(version: int) -> None:
    admission = admit_inverse(succeeded(format_version=version))
    assert isinstance(admission, Dispatch)
    held = require_record(admission.journal, key_of()).compensation
    assert held is not None
    assert held.state == Pending()


@pytest.mark.rule("WJ-2")
@pytest.mark.parametrize("version", FORMATS)
@pytest.mark.parametrize("state", [None, Running(), DONE, Failed("no"), Cancelled()])
def test_exactly_the_same_inverse_again_is_existing(version: int, state: Status | None) -> None:
    journal = undoing(format_version=version)
    if state is not None:
        journal = observe_compensation(journal, key_of(), inverse_key_of(), state)
    assert admit_inverse(journal) == Existing(journal, state or Pending())


def test_an_original_whose_output_was_too_large_can_be_compensated() -> None:
    journal = observe_operation(pending(), key_of(), OVERSIZE)
    assert isinstance(admit_inverse(journal), Dispatch)


@pytest.mark.fault(48)
@pytest.mark.rule("WJ-2")
@pytest.mark.parametrize("state", [None, Running(), Failed("no"), Cancelled()])
def test_an_original_that_did_not_succeed_has_no_inverse(state: Status | None) -> None:
    journal = pending()
    if state is not None:
        journal = observe_operation(journal, key_of(), state)
    with refused_with("journal.requires_succeeded"):
        admit_inverse(journal)


@pytest.mark.rule("WJ-2")
@pytest.mark.parametrize("started", [False, True], ids=["none yet", "existing"])
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"tenant_scope": "tenant-other"}, "journal.scope_mismatch"),
        ({"operation_key": "op-unknown"}, "journal.operation_unknown"),
        ({"tool": "other.tool"}, "journal.tool_mismatch"),
        ({"grant_fingerprint": "0" * 64}, "journal.grant_mismatch"),
    ],
)
def test_another_scope_operation_tool_or_grant_is_refused(
    started: bool, change: dict[str, object], code: str
) -> None:
    journal = undone() if started else succeeded()
    with refused_with(code):
        admit_inverse(journal, replace(inverse(), **change))


@pytest.mark.fault(46, 47)
@pytest.mark.rule("WJ-2", "HL-2")
@pytest.mark.parametrize("journal", [undoing(), undone()], ids=["open", "ended"])
def test_a_second_key_and_a_changed_input_are_refused(journal: Journal) -> None:
    for request, field in (
        (inverse(2), "compensation_key"),
        (replace(inverse(), payload=OTHER_INPUT), "input_fingerprint"),
    ):
        with refused_with("journal.compensation_differs") as caught:
            admit_inverse(journal, request)
        assert caught.error.details == {"field": field}


@pytest.mark.rule("WJ-2", "GR-3")
def test_an_intent_is_not_moved_to_a_later_grant() -> None:
    later = GRANT.with_compensation_limit(2)
    request = replace(inverse(), grant_fingerprint=grant_fingerprint(later))
    with refused_with("journal.compensation_differs") as caught:
        admit_compensation(undoing(), request, later, LIMITS)
    assert caught.error.details == {"field": "grant_fingerprint"}


def test_a_grant_without_compensations_admits_none() -> None:
    none = GRANT.with_compensation_limit(0)
    request = replace(inverse(), grant_fingerprint=grant_fingerprint(none))
    with refused_with("journal.not_granted"):
        admit_compensation(succeeded(), request, none, LIMITS)


@pytest.mark.rule("GR-ID-2")
def test_a_compensation_key_is_unique_in_its_journal() -> None:
    journal = dispatched(admit(undoing(), operation(2)))
    journal = observe_operation(journal, key_of(2), DONE)
    with refused_with("journal.key_taken"):
        admit_inverse(journal, replace(inverse(), operation_key=key_of(2)))


@pytest.mark.rule("WJ-3")
def test_an_inverse_under_a_larger_grant_needs_its_room() -> None:
    larger = replace(GRANT, max_output_bytes=1_000_000)
    request = replace(inverse(), grant_fingerprint=grant_fingerprint(larger))
    with refused_with("journal.full"):
        admit_compensation(succeeded(), request, larger, JournalLimits(max_bytes=500_000))


# ── heads of the host ────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("FR-5")
def test_the_highest_head_is_kept_and_a_lower_or_missing_one_refused() -> None:
    journal = dispatched(admit(open_journal(SCOPE), operation(at=head(3, 5))))
    assert admit(journal, operation(at=head(3, 5))) == Existing(journal, Pending())
    later = admit(journal, operation(at=head(4, 6, "b")))
    assert isinstance(later, Existing)
    assert require_record(later.journal, key_of()).head == head(4, 6, "b")
    for stale in (head(3, 6), head(3, 9), head(4, 5), None):
        with refused_with("journal.head_stale"):
            admit(later.journal, operation(at=stale))


def test_the_first_head_of_an_operation_is_taken_as_it_is() -> None:
    found = admit(pending(), operation(at=head(3, 5)))
    assert isinstance(found, Existing)
    assert require_record(found.journal, key_of()).head == head(3, 5)


@pytest.mark.rule("FR-5")
def test_a_newer_fence_at_the_same_revision_is_no_contradiction() -> None:
    journal = dispatched(admit(open_journal(SCOPE), operation(at=head(3, 5))))
    assert isinstance(admit(journal, operation(at=head(4, 5))), Existing)


@pytest.mark.rule("FR-5")
def test_two_stories_about_one_revision_freeze_every_admission_until_a_person_rules() -> None:
    journal = dispatched(admit(open_journal(SCOPE), operation(at=head(3, 5))))
    journal = observe_operation(journal, key_of(), DONE)
    frozen = frozen_by(admit(journal, operation(at=head(3, 5, "b"))))
    assert frozen.frozen == key_of()
    assert frozen.records == journal.records
    with refused_with("journal.frozen"):
        admit(frozen, operation(2, at=head(3, 6)))
    with refused_with("journal.frozen"):
        admit_inverse(frozen, inverse(at=head(3, 6)))
    assert isinstance(admit(frozen, operation(at=head(3, 5))), Existing)
    thawed = release(frozen, RULING, LIMITS)
    assert thawed.releases == (RULING,)
    assert isinstance(admit_inverse(thawed, inverse(at=head(3, 6))), Dispatch)


@pytest.mark.rule("FR-5")
@pytest.mark.fault(37)
def test_a_ledger_that_was_restored_under_a_newer_fence_freezes_every_admission() -> None:
    journal = dispatched(admit(open_journal(SCOPE), operation(at=head(3, 5))))
    frozen = frozen_by(admit(journal, operation(at=head(4, 4))))
    with refused_with("journal.frozen"):
        admit(frozen, operation(2, at=head(4, 9)))


@pytest.mark.rule("FR-5")
def test_an_inverse_with_a_contradicting_head_is_not_admitted() -> None:
    journal = dispatched(admit(open_journal(SCOPE), operation(at=head(3, 5))))
    journal = observe_operation(journal, key_of(), DONE)
    frozen = frozen_by(admit_inverse(journal, inverse(at=head(3, 5, "b"))))
    record = find_record(frozen, key_of())
    assert record is not None
    assert record.compensation is None


def test_version_5_keeps_no_heads() -> None:
    journal = pending(format_version=2)
    assert admit(journal, operation(at=head(3, 5))) == Existing(journal, Pending())
