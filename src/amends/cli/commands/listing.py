"""`amends tx list`: a page of transactions. A row that cannot be read is shown and ends nothing."""

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from cyclopts import Parameter

from amends.cli.options import DEFAULTS, Options

if TYPE_CHECKING:
    from rich.text import Text

    from amends.cli.answers import Answer
    from amends.cli.paper import Paper
    from amends.cli.session import Session
    from amends.contracts.documents import TransactionRecord
    from amends.contracts.json_types import JsonObject
    from amends.stores.port import Page, Stored, Unreadable

StatusName: TypeAlias = Literal[
    "dry_run_completed",
    "planned",
    "prepared",
    "committing",
    "committed",
    "compensating",
    "compensated",
    "failed",
    "outcome_unknown",
    "reconciling",
    "reconciled",
    "rollback_not_supported",
]


def list_transactions(
    *,
    status: StatusName | None = None,
    capability: str | None = None,
    limit: Annotated[int, Parameter(help="How many at most, up to 200.")] = 20,
    after: Annotated[str | None, Parameter(help="Where the page before this one ended.")] = None,
    options: Options = DEFAULTS,
) -> int:
    """List transactions, newest first.

    Parameters
    ----------
    status
        Only those with this durable status.
    capability
        Only those of this capability.
    """
    from amends.cli.inputs import optional_identifier
    from amends.cli.session import act

    where = {"status": status, "capability_id": optional_identifier(capability, "capability_id")}
    given = {name: value for name, value in where.items() if value is not None}

    async def work(session: "Session") -> "Answer":
        page = await session.amends.list(where=given, after=after, limit=limit)
        return _answer(page, session.options.again())

    return act(options, work, looks=True)


def _answer(page: "Page[TransactionRecord]", again: str) -> "Answer":
    from amends.cli.answers import Answer

    data: JsonObject = {"items": [_document(item) for item in page.items], "next": page.next}
    return Answer(data=data, tell=lambda paper: _tell(paper, page, again))


def _tell(paper: "Paper", page: "Page[TransactionRecord]", again: str) -> None:
    if not page.items:
        paper.line("There are no such transactions.")
        return
    header = ("TRANSACTION", "STATUS", "UPDATED", "CAPABILITY")
    paper.rows([_row(paper, item) for item in page.items], header)
    if page.next is not None:
        paper.line((f"More: amends tx list --after {page.next} {again}".rstrip(), "dim"))


def _row(
    paper: "Paper", item: "Stored[TransactionRecord] | Unreadable"
) -> "tuple[str | Text, ...]":
    from amends.cli.paper import clean, status
    from amends.stores.port import Stored

    if not isinstance(item, Stored):
        return clean(item.id), "unreadable", "-", clean(item.reason)
    record = item.document
    more = "  ".join(filter(None, (record.capability_id, record.attention, record.frozen)))
    updated = paper.time(record.updated_at)
    return clean(record.transaction_id), status(_status(record)), updated, clean(more)


def _status(record: "TransactionRecord") -> str:
    from amends.transactions.projection import wire_status

    return wire_status(record, None, waiting=False).value


def _document(item: "Stored[TransactionRecord] | Unreadable") -> "JsonObject":
    from amends.contracts.times import format_instant
    from amends.stores.port import Stored

    if not isinstance(item, Stored):
        return {"transaction_id": item.id, "unreadable": item.reason}
    record = item.document
    return {
        "transaction_id": record.transaction_id,
        "action_id": record.action_id,
        "plan_id": record.plan.plan_id if record.plan else None,
        "capability_id": record.capability_id,
        "mode": record.mode.value,
        "status": _status(record),
        "verdict": record.verdict.value if record.verdict else None,
        "owner": {"id": record.principal.id, "kind": record.principal.kind.value},
        "attention": record.attention,
        "frozen": record.frozen,
        "revision": record.revision,
        "created_at": format_instant(record.created_at),
        "updated_at": format_instant(record.updated_at),
    }
