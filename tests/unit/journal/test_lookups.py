"""Look-ups: answered from what is stored, also while nothing is admitted."""

import pytest
from msgspec.structs import replace

from amends.contracts.worker_messages import CompensationStateRequest, ReconciliationRequest
from amends.contracts.worker_payload import Pending
from amends.journal.lookups import Found, find_compensation, find_operation
from amends.journal.records import open_journal, require_record
from amends.testing.refusals import refused_with
from tests.unit.journal.stage import (
    DONE,
    GRANT,
    SCOPE,
    SESSION,
    head,
    inverse,
    key_of,
    pending,
    succeeded,
    undoing,
    undone,
)

ABOUT_ORIGINAL = ReconciliationRequest(
    protocol_version=6,
    session_id=SESSION,
    request_id="l-1",
    tool=GRANT.tool,
    operation_key=key_of(),
)
ABOUT_INVERSE = CompensationStateRequest(
    protocol_version=6,
    session_id=SESSION,
    request_id="l-2",
    tool=GRANT.tool,
    operation_key=key_of(),
    compensation_key=inverse().compensation_key,
    tenant_scope=SCOPE,
    grant_fingerprint=inverse().grant_fingerprint,
)

pytestmark = pytest.mark.rule("WS-3", "FR-5")


def test_what_is_stored_is_found() -> None:
    empty = open_journal(SCOPE)
    assert find_operation(empty, ABOUT_ORIGINAL) == Found(empty, None)
    assert find_operation(pending(), ABOUT_ORIGINAL) == Found(pending(), Pending())
    assert find_operation(succeeded(), ABOUT_ORIGINAL) == Found(succeeded(), DONE)
    assert find_compensation(empty, ABOUT_INVERSE) == Found(empty, None)
    assert find_compensation(succeeded(), ABOUT_INVERSE) == Found(succeeded(), None)
    assert find_compensation(undoing(), ABOUT_INVERSE) == Found(undoing(), Pending())
    assert find_compensation(undone(), ABOUT_INVERSE) == Found(undone(), DONE)


def test_what_is_not_exactly_asked_about_is_refused() -> None:
    with refused_with("journal.tool_mismatch"):
        find_operation(pending(), replace(ABOUT_ORIGINAL, tool="other.tool"))
    for change, code in (
        ({"tenant_scope": "tenant-other"}, "journal.scope_mismatch"),
        ({"tool": "other.tool"}, "journal.tool_mismatch"),
        ({"compensation_key": "cmp-" + "0" * 64}, "journal.compensation_differs"),
        ({"grant_fingerprint": "0" * 64}, "journal.compensation_differs"),
    ):
        with refused_with(code):
            find_compensation(undone(), replace(ABOUT_INVERSE, **change))


def test_a_look_up_moves_the_head_on_and_never_back() -> None:
    journal = find_operation(undone(), replace(ABOUT_ORIGINAL, head=head(3, 5))).journal
    assert require_record(journal, key_of()).head == head(3, 5)
    with refused_with("journal.head_stale"):
        find_compensation(journal, replace(ABOUT_INVERSE, head=head(2, 5)))


def test_a_contradiction_freezes_the_journal_and_is_answered_all_the_same() -> None:
    journal = find_operation(undone(), replace(ABOUT_ORIGINAL, head=head(3, 5))).journal
    found = find_compensation(journal, replace(ABOUT_INVERSE, head=head(3, 5, "b")))
    assert found.state == DONE
    assert found.journal.frozen == key_of()
    again = find_operation(found.journal, replace(ABOUT_ORIGINAL, head=head(3, 5)))
    assert again == Found(found.journal, DONE)


def test_version_5_keeps_no_heads_of_look_ups_either() -> None:
    journal = pending(format_version=2)
    asked = replace(ABOUT_ORIGINAL, head=head(3, 5))
    assert find_operation(journal, asked) == Found(journal, Pending())
