"""Shapes and SQL say the same, and every question that is asked often has an index."""

from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from amends.contracts.approvals import ApprovalRequest
from amends.contracts.documents import ActionDocument, Document, TransactionRecord
from amends.contracts.errors import Misuse
from amends.stores.shapes import ENCODER, SHAPES, Shape, shape_of
from amends.stores.sqlite.connection import connect, create
from amends.stores.sqlite.statements import CHAIN, FEED, LAST, STATEMENTS, TAIL
from amends.testing.clock import FixedClock
from amends.testing.store_documents import one_of_each

ALL = list(SHAPES.values())


@pytest.fixture
def file(tmp_path: Path) -> apsw.Connection:
    create(tmp_path / "a.db")
    return connect(tmp_path / "a.db", FixedClock()).connection


def _plan(file: apsw.Connection, sql: str, marks: int) -> str:
    rows = file.execute(f"EXPLAIN QUERY PLAN {sql}", ("1",) * marks)
    return "; ".join(str(row[3]) for row in rows)


@pytest.mark.parametrize("shape", ALL, ids=lambda shape: shape.table)
def test_a_table_has_the_columns_of_its_shape_between_due_time_and_body(
    shape: Shape[Any], file: apsw.Connection
) -> None:
    names = [row[1] for row in file.execute(f"PRAGMA table_info({shape.table})")]
    fixed = ["seq", "tenant", "id", "revision", "created_at", "updated_at", "due_at"]
    assert names == [*fixed, *shape.columns, "body"]


@pytest.mark.parametrize("document", one_of_each(), ids=lambda one: type(one).__name__)
def test_a_document_of_each_type_fits_its_shape(document: Document) -> None:
    shape = shape_of(type(document))
    assert len(shape.values(document)) == len(shape.columns)
    assert shape.id_of(document) == getattr(document, shape.id)
    assert shape.decoder.decode(ENCODER.encode(document)) == document
    assert set(shape.unique) <= set(shape.columns)


def test_the_documents_to_try_stores_with_are_of_every_type() -> None:
    assert {type(document) for document in one_of_each()} == set(SHAPES)


def test_a_type_that_is_not_stored_is_named() -> None:
    class Note(Document, frozen=True, kw_only=True):
        text: str

    with pytest.raises(Misuse, match="Note"):
        shape_of(Note)


def test_statuses_are_stored_by_their_names() -> None:
    record, *_ = one_of_each()
    assert msgspec.json.decode(ENCODER.encode(record))["status"] == "planned"
    assert shape_of(type(record)).values(record)[0] == "planned"


@pytest.mark.parametrize("shape", ALL, ids=lambda shape: shape.table)
def test_reading_one_and_what_is_due_take_an_index(
    shape: Shape[Any], file: apsw.Connection
) -> None:
    sql = STATEMENTS[shape.type]
    for one in (sql.get, sql.revision):
        assert f"SEARCH {shape.table} USING INDEX {shape.table}_by_id" in _plan(file, one, 2)
    assert _plan(file, sql.due, 4) == (
        f"SEARCH {shape.table} USING INDEX {shape.table}_by_due (due_at>? AND due_at<?)"
    )


@pytest.mark.parametrize(
    ("type_", "filters", "index"),
    [
        (TransactionRecord, [], "transactions_by_tenant"),
        (TransactionRecord, ["status"], "transactions_by_status"),
        (TransactionRecord, ["operation_id"], "transactions_by_operation"),
        (ActionDocument, [], "actions_by_tenant"),
        (ActionDocument, ["transaction_id"], "actions_by_transaction"),
        (ApprovalRequest, [], "approvals_by_tenant"),
        (ApprovalRequest, ["status"], "approvals_by_status"),
        (ApprovalRequest, ["action_id"], "approvals_by_action"),
    ],
)
def test_a_listing_takes_an_index_and_sorts_nothing(
    type_: type[Document], filters: list[str], index: str, file: apsw.Connection
) -> None:
    plan = _plan(file, STATEMENTS[type_].page(filters), 3 + len(filters))
    assert f"USING INDEX {index} " in plan
    assert "TEMP B-TREE" not in plan


def test_plans_and_receipts_are_found_by_an_index(file: apsw.Connection) -> None:
    find = STATEMENTS[TransactionRecord].find["plan_id"]
    assert "USING INDEX transactions_by_plan" in _plan(file, find, 2)
    for sql, marks in ((TAIL, 3), (LAST, 2), (CHAIN, 4)):
        plan = _plan(file, sql, marks)
        assert "USING INDEX receipts_by_chain" in plan
        assert "TEMP B-TREE" not in plan
    assert _plan(file, FEED, 2) == "SEARCH receipts USING INTEGER PRIMARY KEY (rowid>?)"
