"""Journals as bytes: one form for each format, and nothing else is taken."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from amends.contracts.worker_payload import Pending, Running, Succeeded, ToolPayload
from amends.journal.document import decode_journal, encode_journal
from amends.journal.observation import observe_operation, without_body
from amends.journal.records import Journal, open_journal, require_record
from amends.journal.rulings import archive, resolve_operation
from amends.testing.refusals import refused_with
from tests.unit.journal.stage import (
    DONE,
    FORMATS,
    LIMITS,
    RULING,
    SCOPE,
    head,
    inverse_key_of,
    key_of,
    pending,
    succeeded,
    undoing,
    undone,
)

LIMIT = 256 * 1024


def some_journals() -> list[Journal]:
    ruled = resolve_operation(pending(), key_of(), DONE, RULING, LIMITS, old_run_gone=False)
    headed = replace(ruled.records[0], head=head(3, 5))
    return [
        *(open_journal(SCOPE, format_version=version) for version in FORMATS),
        *(make(format_version=version) for make in (pending, undoing, undone)
          for version in FORMATS),
        archive(undone(), key_of()),
        observe_operation(pending(), key_of(), Running()),
        replace(ruled, records=(headed,), frozen=key_of(), releases=(RULING,)),
    ]  # fmt: skip


@pytest.mark.rule("WJ-1")
@pytest.mark.parametrize("journal", some_journals())
def test_what_is_written_is_read_back(journal: Journal) -> None:
    assert decode_journal(encode_journal(journal), max_bytes=LIMIT) == journal


def test_integers_and_floats_stay_apart_in_a_stored_output() -> None:
    output = Succeeded(ToolPayload.json([1, 1.0, 2**64 - 1, -0.0]))
    data = encode_journal(observe_operation(pending(), key_of(), output))
    assert b"[1,1.0,18446744073709551615,-0.0]" in data
    stored = decode_journal(data, max_bytes=LIMIT)
    assert require_record(stored, key_of()).state == output


DATA = encode_journal(undone())


@pytest.mark.rule("GR-ID-1")
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        DATA + b" ",
        DATA.replace(b'"scope":', b'"scope":"x","scope":'),
        DATA.replace(b'{"format_version"', b'{"more":1,"format_version"'),
        DATA.replace(b'"tenant-release"', b'"\xff"'),
        DATA.replace(b"true", b"NaN"),
        b"[" * 60_000,
        b"x" * (LIMIT + 1),
    ],
    ids=["empty", "list", "space", "twice", "unknown", "utf-8", "nan", "deep", "large"],
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with refused_with("journal.malformed"):
        decode_journal(data, max_bytes=LIMIT)


def with_record_of(change: dict[str, object]) -> Callable[[Journal], Journal]:
    return lambda journal: replace(journal, records=(replace(journal.records[0], **change),))


def with_inverse_of(change: dict[str, object]) -> Callable[[Journal], Journal]:
    def changed(journal: Journal) -> Journal:
        [record] = journal.records
        assert record.compensation is not None
        held = replace(record.compensation, **change)
        return replace(journal, records=(replace(record, compensation=held),))

    return changed


INCOHERENT: dict[str, Callable[[Journal], Journal]] = {
    "format": lambda journal: replace(journal, format_version=4),
    "scope": lambda journal: replace(journal, scope="No Token"),
    "tool": with_record_of({"tool": "No Token"}),
    "operation key": with_record_of({"operation_key": inverse_key_of()}),
    "input": with_record_of({"input_fingerprint": "x"}),
    "undone although not done": with_record_of({"state": Pending()}),
    "compensation key": with_inverse_of({"compensation_key": key_of()}),
    "inverse input": with_inverse_of({"input_fingerprint": "x"}),
    "grant": with_inverse_of({"grant_fingerprint": "x"}),
    "one operation twice": lambda journal: replace(journal, records=journal.records * 2),
    "one inverse twice": lambda journal: replace(
        journal,
        records=(journal.records[0], replace(journal.records[0], operation_key=key_of(2))),
    ),
}


@pytest.mark.rule("WJ-1", "GR-ID-2")
@pytest.mark.parametrize("version", FORMATS)
@pytest.mark.parametrize("change", list(INCOHERENT.values()), ids=list(INCOHERENT))
def test_a_journal_that_contradicts_itself_is_refused(
    change: Callable[[Journal], Journal], version: int
) -> None:
    data = encode_journal(change(undone(format_version=version)))
    with refused_with("journal.malformed"):
        decode_journal(data, max_bytes=LIMIT)


@pytest.mark.parametrize(
    "change",
    [
        {"room": 1},
        {"inverse_room": 1},
        {"head": head(1, 1)},
        {"ruling": RULING},
        {"archived": True},
        {"state": without_body(DONE)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_format_2_says_nothing_that_format_3_added(change: dict[str, object]) -> None:
    journal = with_record_of(change)(succeeded(format_version=2))
    with refused_with("journal.malformed"):
        decode_journal(encode_journal(journal), max_bytes=LIMIT)
