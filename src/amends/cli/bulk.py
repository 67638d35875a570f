"""Committing all open plans of the caller, one after the other, exactly as listed before.

Invariants: what will be claimed is listed before anybody says yes, and what is left out is listed
with the reason; nothing else is claimed. After a failure or an unknown outcome the rest stays
planned, unless told otherwise: whatever stopped one may stop them all.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

import msgspec

from amends.cli import exits
from amends.cli.answers import Answer
from amends.cli.asking import Deed, confirm
from amends.cli.commits import waiting_commit
from amends.cli.output import error_document
from amends.cli.paper import Paper, clean, status
from amends.cli.results import Wanted, shortfall, words
from amends.cli.session import Session, new_action_id
from amends.contracts.codes import CODES
from amends.contracts.documents import TransactionPlan, TransactionRecord
from amends.contracts.enums import Status, WireStatus
from amends.contracts.errors import AmendsError, OutcomeUnknown, Unavailable
from amends.contracts.json_types import Json, JsonObject
from amends.contracts.results import Result
from amends.stores.port import Stored


@dataclass(frozen=True, kw_only=True)
class Bulk:
    """What narrows the plans down. `metadata` is compared with that of the planning action."""

    capability_id: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    keep_going: bool = False
    yes: bool = False


@dataclass(frozen=True)
class Skipped:
    """A plan that is left out, and the code that says why."""

    plan: TransactionPlan
    code: str

    def document(self) -> JsonObject:
        """As JSON."""
        return _named(self.plan) | {"code": self.code, "message": CODES[self.code].message}


@dataclass
class Done:
    """What became of the plans so far."""

    to_do: list[TransactionPlan]
    results: list[Result] = field(default_factory=list)
    refused: list[tuple[TransactionPlan, AmendsError]] = field(default_factory=list)
    interrupted: bool = False

    @property
    def errors(self) -> list[AmendsError]:
        """Everything that is not as it was asked for; what nobody knows comes first."""
        found = [shortfall(one, Wanted.EFFECT) for one in self.results]
        errors = [one for one in found if one is not None]
        errors += [error for _, error in self.refused]
        return sorted(errors, key=lambda error: not isinstance(error, OutcomeUnknown))

    @property
    def failed(self) -> bool:
        """Whether something went wrong; to wait for an approval is not wrong."""
        waiting = {one.status for one in self.results} <= _FINE
        return bool(self.refused) or not waiting


_FINE = frozenset({WireStatus.COMMITTED, WireStatus.REQUIRES_HUMAN})


async def commit_all(session: Session, bulk: Bulk) -> Answer:
    """List, ask, and commit one after the other."""
    plans: list[TransactionPlan] = []
    skipped: list[Skipped] = []
    async for plan, code in _candidates(session, bulk):
        if code is None:
            plans.append(plan)
        else:
            skipped.append(Skipped(plan, code))
    plans.sort(key=lambda plan: plan.created_at)
    _list(session.notes, plans, skipped)
    done = Done(plans)
    if plans:
        confirm(Deed.COMMIT, session.stop, session.notes, yes=bulk.yes)
        await _commit(session, done, keep_going=bulk.keep_going)
    return _answer(session, done, skipped)


async def _candidates(
    session: Session, bulk: Bulk
) -> AsyncIterator[tuple[TransactionPlan, str | None]]:
    """The caller's plans that are meant, each with the code that leaves it out, if any does."""
    now = datetime.now(UTC)
    seen = {}
    async for record in _records(session, bulk, status=Status.PLANNED.value):
        seen[record.transaction_id] = record
    async for record in _records(session, bulk, status=None):
        seen.setdefault(record.transaction_id, record)
    for record in seen.values():
        plan = record.plan
        if plan is not None and await _is_meant(session, bulk, record, plan, now):
            yield plan, _reason(session, record, plan, now)


async def _records(
    session: Session, bulk: Bulk, *, status: str | None
) -> AsyncIterator[TransactionRecord]:
    """The caller's own: all that are planned, or those among the newest that are not any more."""
    where = {"status": status, "capability_id": bulk.capability_id}
    given = {name: value for name, value in where.items() if value is not None}
    after = None
    while True:
        page = await session.amends.list(where=given, after=after)
        for item in page.items:
            if isinstance(item, Stored) and item.document.principal == session.caller.principal.ref:
                yield item.document
        after = page.next
        if after is None or status is None:
            return


async def _is_meant(
    session: Session,
    bulk: Bulk,
    record: TransactionRecord,
    plan: TransactionPlan,
    now: datetime,
) -> bool:
    """Whether the plan belongs to the request; without one, whether it is or could be open."""
    if not bulk.metadata:
        return record.status is Status.PLANNED or now < plan.expires_at
    view = await session.amends.get(action_id=plan.action_id)
    return bulk.metadata.items() <= view.metadata.items()


def _reason(
    session: Session, record: TransactionRecord, plan: TransactionPlan, now: datetime
) -> str | None:
    if record.status is not Status.PLANNED:
        code = record.error.code if record.error else ""
        return code if code in CODES else "transaction.plan_not_committable"
    if record.frozen is not None:
        return "transaction.frozen"
    if now >= plan.expires_at:
        return "transaction.plan_expired"
    if plan.snapshot.input is None:
        return "action.input_required"
    if session.engine.environment.registry.find(plan.capability_id) is None:
        return "capability.not_found"
    return None


def _list(notes: Paper, plans: list[TransactionPlan], skipped: list[Skipped]) -> None:
    notes.line(f"To commit: {len(plans)}")
    notes.rows([(f"  {clean(plan.plan_id)}", clean(plan.capability_id)) for plan in plans])
    if skipped:
        notes.line(f"Skipped: {len(skipped)}")
        notes.rows([(f"  {clean(one.plan.plan_id)}", one.code) for one in skipped])


async def _commit(session: Session, done: Done, *, keep_going: bool) -> None:
    while done.to_do:
        try:
            await _next(session, done)
        except (KeyboardInterrupt, exits.Ended):
            done.interrupted = True
        if done.interrupted or (done.failed and not keep_going):
            return


async def _next(session: Session, done: Done) -> None:
    """Commit the next plan, or go on with the commit of it that has waited for an approval."""
    plan = done.to_do[0]
    waiting = await waiting_commit(session, plan)
    action_id = waiting.action_id if waiting else new_action_id()
    amends, capability = session.amends, session.capability(plan.capability_id)
    ask = (
        partial(amends.resume, action_id)
        if waiting
        else partial(amends.commit, plan.plan_id, action_id=action_id)
    )
    doing: dict[str, Json] = {"action_id": action_id, "transaction_id": plan.transaction_id}
    at_most_ms = capability.service_level.timeout_ms
    try:
        session.stop.check()
        result = await session.carry(ask(), doing, at_most_ms=at_most_ms)
        done.results.append(result)
    except AmendsError as error:
        done.refused.append((plan, error))
    done.to_do.pop(0)


def _answer(session: Session, done: Done, skipped: list[Skipped]) -> Answer:
    errors = done.errors
    error = errors[0] if errors else None
    if error is None and done.interrupted:
        error = Unavailable(
            "cli.interrupted",
            "Interrupted; what is listed as not begun is still planned.",
            next_step="Run the command again for the rest.",
        )
    data: JsonObject = {
        "results": [session.results.document(one) for one in done.results],
        "refused": [_named(plan) | {"error": error_document(why)} for plan, why in done.refused],
        "not_begun": [_named(plan) for plan in done.to_do],
        "skipped": [one.document() for one in skipped],
    }

    def tell(paper: Paper) -> None:
        for one in done.results:
            paper.line(clean(one.plan_id), "  ", status(one.status), "  ", words(one))
        for plan, why in done.refused:
            paper.line(clean(plan.plan_id), "  ", ("refused", "red"), f"  {why}")
        for plan in done.to_do:
            paper.line(clean(plan.plan_id), "  ", ("not begun", "dim"))
        if not (done.results or done.refused or done.to_do):
            paper.line("There is no plan of yours to commit.")

    code = exits.INTERRUPTED if done.interrupted and not errors else None
    return Answer(data=data, tell=tell, error=error, exit_code=code)


def _named(plan: TransactionPlan) -> JsonObject:
    named: JsonObject = msgspec.to_builtins(
        {
            "plan_id": plan.plan_id,
            "transaction_id": plan.transaction_id,
            "capability_id": plan.capability_id,
        }
    )
    return named
