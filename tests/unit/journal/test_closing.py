"""Closing an entry for good: what stands, what is put in, and what contradicts."""

from typing import Final

import pytest
from msgspec.structs import replace

from amends.contracts.errors import Conflict, Refused
from amends.contracts.worker_identity import Fingerprint
from amends.contracts.worker_payload import (
    Cancelled,
    Failed,
    Pending,
    Running,
    StoredState,
    Succeeded,
    SucceededOversize,
    Terminal,
    ToolPayload,
)
from amends.journal.capacity import JournalLimits
from amends.journal.closing import NO_INPUT, Closing, close_entry
from amends.journal.document import decode_journal, encode_journal
from amends.journal.records import (
    FORMAT_5,
    Journal,
    JournalCompensation,
    JournalRecord,
    Ruling,
    open_journal,
)

KEY: Final = "op-" + "1" * 64
INVERSE: Final = "cmp-" + "2" * 64
GRANT: Final = Fingerprint("3" * 64)
INPUT: Final = Fingerprint("4" * 64)
TOOL: Final = "release.publish"
RULING: Final = Ruling(who="olga", why="it is in the log", evidence="ticket 7")
HAPPENED: Final = Succeeded(ToolPayload.json({}))
DID_NOT: Final = Failed("it is not there")
LARGE: Final = SucceededOversize(INPUT, 70_000)
LIMITS: Final = JournalLimits()


def journal(state: StoredState | None = None, inverse: StoredState | None = None) -> Journal:
    if state is None:
        return open_journal("tenant")
    held = None
    if inverse is not None:
        held = JournalCompensation(
            compensation_key=INVERSE,  # type: ignore[arg-type]  # has the form
            input_fingerprint=INPUT,
            grant_fingerprint=GRANT,
            state=inverse,
        )
    record = JournalRecord(
        tool=TOOL,
        operation_key=KEY,  # type: ignore[arg-type]  # has the form
        input_fingerprint=INPUT,
        state=state,
        compensation=held,
    )
    return replace(open_journal("tenant"), records=(record,))


def closing(ending: Terminal = HAPPENED, **how: object) -> Closing:
    told = {
        "tool": TOOL,
        "operation_key": KEY,
        "ending": ending,
        "ruling": RULING,
        "old_run_gone": True,
    }
    return Closing(**{**told, **how})  # type: ignore[arg-type]  # tests say anything


def inverse(ending: Terminal = HAPPENED, **how: object) -> Closing:
    return closing(ending, **{"compensation_key": INVERSE, "grant": GRANT, **how})


def state_in(after: Journal, asked: Closing) -> StoredState:
    (record,) = after.records
    if asked.compensation_key is None:
        return record.state
    assert record.compensation is not None
    return record.compensation.state


@pytest.mark.rule("INT-3")
@pytest.mark.parametrize("make", [closing, inverse])
@pytest.mark.parametrize("ending", [HAPPENED, DID_NOT, Cancelled()])
@pytest.mark.parametrize("before", [Pending(), Running(), None])
def test_what_is_open_or_never_came_is_ended_with_the_ruling(
    before: StoredState | None, ending: Terminal, make: object
) -> None:
    asked: Closing = make(ending)  # type: ignore[operator]  # both are functions
    start = journal(before) if make is closing else journal(HAPPENED, before)
    closed = close_entry(start, asked, LIMITS)
    assert closed.ending == state_in(closed.journal, asked) == ending
    (record,) = closed.journal.records
    entry = record if make is closing else record.compensation
    assert entry is not None
    assert entry.ruling == RULING
    assert (entry.input_fingerprint == NO_INPUT) == (before is None)
    encoded = encode_journal(closed.journal)
    assert decode_journal(encoded, max_bytes=100_000) == closed.journal
    assert close_entry(closed.journal, asked, LIMITS) == closed


def standing(stands: Terminal, make: object) -> Journal:
    return journal(stands) if make is closing else journal(HAPPENED, stands)


@pytest.mark.rule("INT-3")
@pytest.mark.parametrize("make", [closing, inverse])
@pytest.mark.parametrize(
    ("stands", "asked"),
    [
        (LARGE, HAPPENED),
        (HAPPENED, HAPPENED),
        (DID_NOT, Failed("in other words")),
        (Cancelled(), HAPPENED),
        (Cancelled(), DID_NOT),
    ],
)
def test_what_has_ended_that_way_or_as_cancelled_stays(
    stands: Terminal, asked: Terminal, make: object
) -> None:
    before = standing(stands, make)
    closed = close_entry(before, make(asked), LIMITS)  # type: ignore[operator]  # both are functions
    assert closed.journal is before
    assert closed.ending == stands


@pytest.mark.rule("INT-3")
@pytest.mark.parametrize("make", [closing, inverse])
@pytest.mark.parametrize(
    ("stands", "asked"),
    [(HAPPENED, DID_NOT), (LARGE, DID_NOT), (DID_NOT, HAPPENED), (DID_NOT, Cancelled())],
)
def test_what_has_ended_another_way_contradicts(
    stands: Terminal, asked: Terminal, make: object
) -> None:
    with pytest.raises(Conflict, match=r"journal\.contradicted"):
        close_entry(standing(stands, make), make(asked), LIMITS)  # type: ignore[operator]  # both are functions


@pytest.mark.rule("INT-3")
@pytest.mark.parametrize("original", [None, Pending(), DID_NOT])
def test_an_inverse_that_can_never_be_admitted_needs_no_closing(
    original: StoredState | None,
) -> None:
    before = journal(original)
    closed = close_entry(before, inverse(DID_NOT), LIMITS)
    assert (closed.journal, closed.ending) == (before, DID_NOT)


def test_an_entry_that_never_came_takes_no_place_among_those_that_did() -> None:
    full = JournalLimits(max_records=1)
    other = closing(operation_key="op-" + "9" * 64)
    closed = close_entry(journal(HAPPENED), other, full)
    assert len(closed.journal.records) == 2


REFUSED: Final = {
    "another tool": (journal(Pending()), closing(tool="other"), "journal.tool_mismatch"),
    "another inverse": (
        journal(HAPPENED, Pending()),
        inverse(compensation_key="cmp-" + "5" * 64),
        "journal.compensation_unknown",
    ),
    "no evidence": (
        journal(Pending()),
        closing(ruling=replace(RULING, evidence=" ")),
        "journal.ruling_refused",
    ),
    "a run that may go on": (
        journal(Pending()),
        closing(DID_NOT, old_run_gone=False),
        "journal.absence_unproven",
    ),
    "no key": (journal(), closing(operation_key="cmp-"), "worker.operation_key_invalid"),
    "no inverse key": (
        journal(HAPPENED),
        inverse(compensation_key="cmp-1"),
        "worker.compensation_key_invalid",
    ),
    "no grant": (journal(HAPPENED), inverse(grant=None), "worker.fingerprint_invalid"),
    "version 5": (
        open_journal("tenant", format_version=FORMAT_5),
        closing(),
        "journal.ruling_refused",
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_is_refused_raises(why: str) -> None:
    before, asked, code = REFUSED[why]
    with pytest.raises(Refused) as refused:
        close_entry(before, asked, LIMITS)
    assert refused.value.code == code


@pytest.mark.parametrize("asked", [closing(), inverse()])
def test_a_journal_without_room_takes_no_closing(asked: Closing) -> None:
    before = journal(HAPPENED) if asked.compensation_key else journal()
    with pytest.raises(Refused, match=r"journal\.full"):
        close_entry(before, asked, JournalLimits(max_bytes=300))


@pytest.mark.rule("INT-3", "GR-ID-2")
def test_an_inverse_whose_key_another_operation_has_is_not_put_in() -> None:
    other = replace(journal(HAPPENED).records[0], operation_key="op-" + "5" * 64)
    start = journal(HAPPENED, Pending())
    start = replace(start, records=(*start.records, other))
    with pytest.raises(Refused, match="key_taken"):
        close_entry(start, inverse(operation_key=other.operation_key), LIMITS)
