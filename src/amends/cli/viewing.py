"""One transaction on one page: what happened when, by whom, and why something was refused.

Invariants: everything shown is as it was recorded; what was never recorded is not guessed.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec
from rich.text import Text

from amends.app.amends import Amends
from amends.cli.answers import Answer
from amends.cli.paper import Paper, clean, status
from amends.cli.results import FLYING, Results, words
from amends.cli.steps import documents
from amends.contracts.codes import coded
from amends.contracts.documents import GateVerdict, Refusal
from amends.contracts.errors import Refused
from amends.contracts.evidence import Receipt, ReceiptType
from amends.contracts.json_types import Json, JsonObject
from amends.contracts.redaction import Redactor
from amends.contracts.times import after_ms
from amends.runtime.reading import View

TRANSACTION: Final = "transaction"
PLAN: Final = "plan"
ACTION: Final = "action"
ANY_KIND: Final = (TRANSACTION, PLAN, ACTION)
LEFT: Final = "Its process has gone, and nobody knows yet whether it happened."
_TYPE_WIDTH: Final = max(len(one.value) for one in ReceiptType)
_MARKS: Final = {"allow": ("✓", "green"), "deny": ("✗", "red")}


async def find(
    amends: Amends,
    id_: str,
    kinds: Sequence[str] = ANY_KIND,
    *,
    include_result: bool = False,
    include_receipts: bool = False,
) -> View:
    """The transaction that an id of one of these kinds belongs to, tried in their order.

    Raises `Refused` (`transaction.not_found`).
    """
    for kind in kinds:
        try:
            return await amends.get(
                id_ if kind == TRANSACTION else None,
                plan_id=id_ if kind == PLAN else None,
                action_id=id_ if kind == ACTION else None,
                include_result=include_result,
                include_receipts=include_receipts,
            )
        except Refused:
            continue
    raise coded("transaction.not_found")


class Views:
    """Shows views."""

    def __init__(self, results: Results) -> None:
        self._results = results
        self._values = results.values

    def document(self, view: View) -> JsonObject:
        """A view as JSON, with inputs as they may be shown."""
        document: JsonObject = msgspec.to_builtins(view)
        document["result"] = self._results.document(view.result, view.plan)
        document["next"] = documents(self._results.steps(view.result))
        document["metadata"] = _metadata(view)
        plan, approval = document["plan"], document["approval"]
        if view.plan is not None and isinstance(plan, dict):
            plan["snapshot"] = self._snapshot(view)
            plan["validation"] = self._validation(view)
        if view.approval is not None and isinstance(approval, dict):
            capability_id = view.approval.capability_id
            approval["input"] = self._values.show(capability_id, view.approval.input, view.plan)
        return document

    def _snapshot(self, view: View) -> JsonObject:
        assert view.plan is not None
        snapshot = view.plan.snapshot
        return {
            "redacted": snapshot.redacted,
            "input_hash": snapshot.input_hash,
            "input": self._values.show(view.plan.capability_id, snapshot.input, view.plan),
        }

    def _validation(self, view: View) -> Json:
        assert view.plan is not None
        validation = view.plan.validation
        if validation is None:
            return None
        document: JsonObject = msgspec.to_builtins(validation)
        shown = self._values.show(view.plan.capability_id, validation.output, view.plan)
        return document | {"output": shown}

    def tell(self, paper: Paper, view: View) -> None:
        """A view for people."""
        result = view.result
        paper.line((clean(result.transaction_id), "bold"), "  ", status(result.status))
        paper.line(words(result))
        lease_end = lease_end_of(view)
        if lease_end is not None and lease_end <= datetime.now(UTC):
            paper.line((LEFT, "yellow"))
        self._facts(paper, view)
        tell_receipts(paper, view.receipts)
        tell_gates(paper, view.verdicts)
        self._found(paper, view)
        self._results.tell_steps(paper, result)

    def _facts(self, paper: Paper, view: View) -> None:
        paper.field("capability", clean(view.result.capability_id), f"  {view.result.mode}")
        paper.field("owner", clean(f"{view.owner.id} ({view.owner.kind})"))
        self._results.facts(paper, view.result, view.plan)
        if view.plan is not None:
            shown = self._snapshot(view)["input"]
            text = "[redacted]" if view.plan.snapshot.redacted else _text(shown)
            paper.field("input", clean(text))
        for key, value in _metadata(view).items():
            paper.field("metadata", clean(f"{key}={value}"))
        self._attempts(paper, view)

    def _attempts(self, paper: Paper, view: View) -> None:
        lease_end = lease_end_of(view)
        if lease_end is not None and view.attempt is not None:
            until = f"{view.attempt.owner} owns it until {paper.time(lease_end)}"
            paper.field("attempt", f"{view.attempts}  ", clean(until))
        elif view.attempts:
            paper.field("attempts", str(view.attempts))
        if view.frozen is not None:
            paper.field("frozen", (clean(view.frozen), "yellow"))
        if view.hold is not None and view.hold.placed:
            held = f"{view.hold.reason} ({view.hold.by.id}, {paper.time(view.hold.at)})"
            paper.field("held", clean(held))
        if view.forgotten_at is not None:
            paper.field("forgotten", f"at {paper.time(view.forgotten_at)}; what happened stays")

    def _found(self, paper: Paper, view: View) -> None:
        """What was learnt beside the provider's answers: evidence, corrections, rulings."""
        if not (view.evidence or view.corrections or view.ruling):
            return
        paper.heading("Evidence")
        for one in view.evidence:
            operation = one.operation.operation_id if one.operation else ""
            text = " ".join(filter(None, (one.kind, one.code, operation)))
            paper.line(f"  {paper.time(one.at)}  ", clean(text))
        for correction in view.corrections:
            ruled = correction.ruling or f'open; amends rule {correction.correction_id} "…"'
            text = f"{correction.correction_id} {correction.evidence.kind}: {ruled}"
            paper.line(f"  {paper.time(correction.created_at)}  ", clean(text))
        if view.ruling is not None:
            by = f"{view.ruling.by.id} ruled {view.ruling.verdict}: "
            text = f"{by}{view.ruling.note} ({view.ruling.reference})"
            paper.line(f"  {paper.time(view.ruling.at)}  ", clean(text))


def lease_end_of(view: View) -> datetime | None:
    """Until when an attempt owns the record, by its own word; none where none does."""
    attempt = view.attempt
    if attempt is None or view.result.status not in FLYING:
        return None
    return after_ms(attempt.started_at, attempt.lease_ms)


def viewed(results: Results, view: View) -> Answer:
    """The answer that shows a view."""
    views = Views(results)
    return Answer(data=views.document(view), tell=lambda paper: views.tell(paper, view))


def tell_receipts(paper: Paper, receipts: Sequence[Receipt]) -> None:
    """The timeline: what happened when, by whom."""
    if not receipts:
        return
    paper.heading("Timeline")
    paper.rows([receipt_row(paper, one) for one in receipts])


def receipt_row(paper: Paper, receipt: Receipt) -> tuple[str | Text, ...]:
    """One step of the timeline."""
    step = receipt.step
    more = []
    if step.attempt is not None:
        more.append(f"attempt {step.attempt}")
    if step.operation is not None:
        more.append(f"{step.operation.provider} {step.operation.operation_id}")
    more += [one for one in (step.verdict, step.approval_id, step.code) if one is not None]
    what = status(step.type.value)
    what.pad_right(_TYPE_WIDTH - len(what))
    return (f"  {paper.time(step.at)}", what, clean(step.actor.id), clean("  ".join(more)))


def tell_gates(paper: Paper, verdicts: Sequence[GateVerdict]) -> None:
    """What the gates said, in order; the last one says why something was refused."""
    if not verdicts:
        return
    paper.heading("Gates")
    paper.rows([_gate_row(one) for one in verdicts])


def _gate_row(verdict: GateVerdict) -> tuple[str | Text, ...]:
    mark, style = _MARKS.get(verdict.answer, ("?", "magenta"))
    text = "  ".join(filter(None, (verdict.code, verdict.reason, ", ".join(verdict.rules))))
    return Text.assemble("  ", (mark, style), f" {verdict.gate}"), clean(text)


def refusal_document(refusal: Refusal) -> JsonObject:
    """A request that was refused before it was accepted, as JSON."""
    document: JsonObject = msgspec.to_builtins(refusal)
    return document


def tell_refusal(paper: Paper, refusal: Refusal) -> None:
    """A request that was refused before it was accepted, for people."""
    paper.line((clean(refusal.action_id or refusal.refusal_id), "bold"), "  ", ("refused", "red"))
    paper.line("It was refused before anything was accepted. Nothing has happened.")
    paper.field("code", (refusal.code, "red"))
    paper.field("capability", clean(refusal.capability_id or "-"), f"  {refusal.mode or ''}")
    paper.field("asked by", clean(refusal.principal.id), f" at {paper.time(refusal.created_at)}")
    tell_gates(paper, refusal.verdicts)


def _metadata(view: View) -> JsonObject:
    """Metadata as it may be shown; what a caller put there by mistake is hidden (RD-2)."""
    shown = Redactor().json(view.metadata)
    assert isinstance(shown, dict)
    return {clean(key): _shown(one) for key, one in shown.items()}


def _shown(value: Json) -> Json:
    return clean(value) if isinstance(value, str) else value


def _text(shown: Json) -> str:
    return msgspec.json.encode(shown).decode()
