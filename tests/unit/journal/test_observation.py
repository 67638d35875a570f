"""What adapters report and look-ups find: forward only, and never against an ending."""

import itertools
from collections.abc import Callable
from typing import Final

import pytest
from msgspec.structs import replace

from amends.contracts.worker_grant import grant_fingerprint
from amends.contracts.worker_messages import (
    CompensationState,
    Indeterminate,
    NoRecord,
    TerminalRecord,
)
from amends.contracts.worker_payload import (
    Cancelled,
    Failed,
    Pending,
    Running,
    Status,
    StoredState,
    Succeeded,
    SucceededOversize,
    ToolPayload,
)
from amends.journal.admission import Existing, admit_compensation
from amends.journal.document import decode_journal, encode_journal
from amends.journal.observation import (
    learn_compensation,
    learn_operation,
    observe_compensation,
    observe_operation,
    without_body,
)
from amends.journal.observation import (
    succeeded as success,
)
from amends.journal.records import Journal, Ruling, open_journal, require_record, with_record
from amends.journal.reports import compensation_state, report_of
from amends.journal.rulings import (
    archive,
    release,
    reseated,
    resolve_compensation,
    resolve_operation,
    supersede_grant,
)
from amends.testing.refusals import refused_with
from tests.unit.journal.stage import (
    DONE,
    GRANT,
    LIMITS,
    RULING,
    SCOPE,
    admit,
    admit_inverse,
    inverse,
    inverse_key_of,
    key_of,
    operation,
    pending,
    succeeded,
    undoing,
    undone,
)

OTHER = Succeeded(ToolPayload.json({"done": False}))
STATES: list[Status] = [
    Running(), DONE, OTHER, without_body(DONE), Failed("no"), Failed("other"), Cancelled()
]  # fmt: skip


def follows(before: StoredState, after: Status) -> bool:
    if before == after or (before == without_body(DONE) and after == DONE):
        return True
    return before == Pending() or (before == Running() and after != Running())


def in_state(state: StoredState) -> Journal:
    journal = pending()
    return with_record(journal, replace(require_record(journal, key_of()), state=state))


@pytest.mark.parametrize(("before", "after"), list(itertools.product([Pending(), *STATES], STATES)))
def test_a_state_is_followed_as_the_rule_says_and_an_ending_never_contradicted(
    before: StoredState, after: Status
) -> None:
    journal = in_state(before)
    if not follows(before, after):
        with refused_with("journal.contradicted"):
            observe_operation(journal, key_of(), after)
        return
    moved = observe_operation(journal, key_of(), after)
    ended = before == after or before == without_body(DONE)
    assert require_record(moved, key_of()).state == (before if ended else after)


def test_an_inverse_moves_alone() -> None:
    journal = undoing()
    moved = observe_compensation(journal, key_of(), inverse_key_of(), Running())
    assert compensation_state(moved, key_of(), inverse_key_of()) == Running()
    assert require_record(moved, key_of()).state == DONE
    assert observe_compensation(moved, key_of(), inverse_key_of(), Running()) is moved
    with refused_with("journal.compensation_unknown"):
        observe_compensation(journal, key_of(), inverse_key_of(2), Running())
    with refused_with("journal.compensation_unknown"):
        observe_compensation(succeeded(), key_of(), inverse_key_of(), Running())


@pytest.mark.rule("WS-2")
def test_an_output_over_the_limit_is_a_success_with_digest_and_size() -> None:
    payload = ToolPayload.json(["x" * 100])
    exact = replace(GRANT, max_output_bytes=payload.size)
    assert success(payload, exact) == Succeeded(payload)
    with refused_with("worker.format_not_granted"):
        success(ToolPayload.text("x"), exact)
    over = success(payload, replace(exact, max_output_bytes=payload.size - 1))
    assert isinstance(over, SucceededOversize)
    assert over.size == payload.size
    observed = observe_operation(pending(), key_of(), over)
    assert require_record(observed, key_of()).state == over


def test_a_journal_of_version_5_has_no_words_for_an_oversize_output() -> None:
    with refused_with("journal.format_cannot_say"):
        observe_operation(pending(format_version=2), key_of(), without_body(DONE))


# ── look-ups ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("WS-3")
@pytest.mark.parametrize("absent", [Failed("not found"), Cancelled()])
def test_absence_counts_only_once_the_old_run_is_gone(absent: Status) -> None:
    with refused_with("journal.absence_unproven"):
        learn_operation(pending(), key_of(), absent, old_run_gone=False)
    with refused_with("journal.absence_unproven"):
        learn_compensation(undoing(), key_of(), inverse_key_of(), absent, old_run_gone=False)
    learnt = learn_operation(pending(), key_of(), absent, old_run_gone=True)
    assert require_record(learnt, key_of()).state == absent


@pytest.mark.rule("WS-3")
def test_what_a_look_up_finds_done_counts_at_once() -> None:
    learnt = learn_compensation(undoing(), key_of(), inverse_key_of(), DONE, old_run_gone=False)
    assert learnt == undone()
    assert admit_inverse(learnt) == Existing(learnt, DONE)


@pytest.mark.rule("WS-3")
def test_an_ending_is_not_looked_up_again() -> None:
    with refused_with("journal.entry_closed"):
        learn_operation(succeeded(), key_of(), DONE, old_run_gone=True)
    with refused_with("journal.entry_closed"):
        learn_compensation(undone(), key_of(), inverse_key_of(), DONE, old_run_gone=True)


# ── what may be said ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("WS-1", "WS-3")
@pytest.mark.parametrize(
    ("state", "here", "report"),
    [
        (None, True, NoRecord()),
        (None, False, NoRecord()),
        (Pending(), True, Pending()),
        (Pending(), False, Indeterminate()),
        (Running(), True, Running()),
        (Running(), False, Indeterminate()),
        *((ending, here, TerminalRecord(ending))
          for ending in (DONE, without_body(DONE), Failed("no"), Cancelled())
          for here in (True, False)),
    ],
)  # fmt: skip
def test_indeterminate_is_said_of_what_this_session_did_not_see(
    state: StoredState | None, here: bool, report: CompensationState
) -> None:
    assert report_of(state, in_this_session=here) == report


def test_the_state_of_an_unknown_compensation_is_none() -> None:
    assert compensation_state(open_journal(SCOPE), key_of(), inverse_key_of()) is None
    assert compensation_state(succeeded(), key_of(), inverse_key_of()) is None
    assert compensation_state(undone(), key_of(), inverse_key_of(2)) is None


# ── rulings ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("WS-3")
def test_a_person_ends_what_is_open_and_says_why() -> None:
    ended = resolve_operation(pending(), key_of(), DONE, RULING, LIMITS, old_run_gone=False)
    record = require_record(ended, key_of())
    assert (record.state, record.ruling) == (DONE, RULING)
    journal = resolve_compensation(
        undoing(), key_of(), inverse_key_of(), Failed("no"), RULING, LIMITS, old_run_gone=True
    )
    held = require_record(journal, key_of()).compensation
    assert held is not None
    assert (held.state, held.ruling) == (Failed("no"), RULING)
    assert admit_inverse(journal) == Existing(journal, Failed("no"))


@pytest.mark.rule("WS-3")
def test_a_person_neither_reopens_nor_proves_absence_by_saying_so() -> None:
    with refused_with("journal.entry_closed"):
        resolve_operation(succeeded(), key_of(), Failed("no"), RULING, LIMITS, old_run_gone=True)
    with refused_with("journal.absence_unproven"):
        resolve_compensation(
            undoing(), key_of(), inverse_key_of(), Failed("no"), RULING, LIMITS, old_run_gone=False
        )


def resolved(ruling: Ruling) -> Journal:
    return resolve_operation(pending(), key_of(), DONE, ruling, LIMITS, old_run_gone=True)


def resolved_inverse(ruling: Ruling) -> Journal:
    keys = key_of(), inverse_key_of()
    return resolve_compensation(undoing(), *keys, DONE, ruling, LIMITS, old_run_gone=True)


def superseded(ruling: Ruling) -> Journal:
    new = grant_fingerprint(GRANT.with_compensation_limit(2))
    return supersede_grant(undoing(), key_of(), inverse_key_of(), new, ruling, LIMITS)


def released(ruling: Ruling) -> Journal:
    return release(reseated(undoing(), RULING, LIMITS), ruling, LIMITS)


def frozen(ruling: Ruling) -> Journal:
    return reseated(undoing(), ruling, LIMITS)


RULED: Final = (resolved, resolved_inverse, superseded, released, frozen)


@pytest.mark.rule("WS-3", "GR-4")
@pytest.mark.parametrize("missing", ["who", "why", "evidence"])
@pytest.mark.parametrize("rule", RULED, ids=lambda rule: rule.__name__)
def test_every_ruling_says_who_why_and_on_what_evidence(
    rule: Callable[[Ruling], Journal], missing: str
) -> None:
    for text in ("", " ", "x" * 2001, "ü" * 1001):
        with refused_with("journal.ruling_refused"):
            rule(replace(RULING, **{missing: text}))
    assert b"x" * 2000 in encode_journal(rule(replace(RULING, **{missing: "x" * 2000})))


def test_version_5_has_no_place_for_rulings_and_archives() -> None:
    with refused_with("journal.ruling_refused"):
        resolve_operation(
            pending(format_version=2), key_of(), DONE, RULING, LIMITS, old_run_gone=True
        )
    with refused_with("journal.archive_refused"):
        archive(succeeded(format_version=2), key_of())


@pytest.mark.rule("ST-2")
def test_a_journal_that_was_reseated_admits_nothing_until_it_is_released() -> None:
    journal = reseated(undoing(), RULING, LIMITS)
    with refused_with("journal.frozen"):
        admit(journal, operation(2))
    assert admit_inverse(journal) == Existing(journal, Pending())
    assert not isinstance(admit(release(journal, RULING, LIMITS), operation(2)), Existing)


@pytest.mark.rule("GR-4")
def test_an_entry_under_a_superseded_grant_is_found_and_never_dispatched() -> None:
    later = GRANT.with_compensation_limit(2)
    new = grant_fingerprint(later)
    journal = supersede_grant(undoing(), key_of(), inverse_key_of(), new, RULING, LIMITS)
    asked = replace(inverse(), grant_fingerprint=new)
    assert admit_compensation(journal, asked, later, LIMITS) == Existing(journal, Pending())
    with refused_with("journal.compensation_differs"):
        admit_inverse(journal)
    held = require_record(journal, key_of()).compensation
    assert held is not None
    [step] = held.superseded
    assert (step.who, step.old, step.new) == (RULING.who, grant_fingerprint(GRANT), new)
    assert decode_journal(encode_journal(journal), max_bytes=LIMITS.max_bytes) == journal


@pytest.mark.rule("GR-4")
def test_what_has_ended_what_is_the_same_and_version_5_are_not_superseded() -> None:
    old, new = grant_fingerprint(GRANT), grant_fingerprint(GRANT.with_compensation_limit(2))
    for journal, fingerprint, code in (
        (undone(), new, "journal.supersede_refused"),
        (undoing(), old, "journal.supersede_refused"),
        (undoing(format_version=2), new, "journal.ruling_refused"),
        (succeeded(), new, "journal.compensation_unknown"),
    ):
        with refused_with(code):
            supersede_grant(journal, key_of(), inverse_key_of(), fingerprint, RULING, LIMITS)


def test_only_a_frozen_journal_is_released() -> None:
    with refused_with("journal.not_frozen"):
        release(pending(), RULING, LIMITS)


@pytest.mark.rule("WJ-1")
def test_an_archived_record_keeps_its_keys_and_goes_on_answering() -> None:
    journal = archive(undone(), key_of())
    record = require_record(journal, key_of())
    assert record.archived
    assert admit(journal) == Existing(journal, without_body(DONE))
    assert admit_inverse(journal) == Existing(journal, without_body(DONE))
    assert observe_operation(journal, key_of(), DONE) is journal


@pytest.mark.rule("WJ-1")
def test_an_archived_success_may_still_be_compensated_once() -> None:
    journal = archive(succeeded(), key_of())
    assert not isinstance(admit_inverse(journal), Existing)


@pytest.mark.parametrize("journal", [pending(), undoing()], ids=["original", "inverse"])
def test_what_is_open_is_not_archived(journal: Journal) -> None:
    with refused_with("journal.archive_refused"):
        archive(journal, key_of())


def test_an_empty_output_has_nothing_to_let_go() -> None:
    empty = Succeeded(ToolPayload.text(""))
    journal = archive(observe_operation(pending(), key_of(), empty), key_of())
    assert require_record(journal, key_of()).state == empty
    ended = archive(observe_operation(pending(), key_of(), Failed("no")), key_of())
    assert require_record(ended, key_of()).state == Failed("no")
