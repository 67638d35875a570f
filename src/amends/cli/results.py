"""Results in plain words, and whether they are what was asked for.

Invariants: what is not known is never put as a success or a failure; a result is asked for by one
of `Wanted`, and falls short with the coded error that explains it.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, assert_never

import msgspec

from amends.cli.answers import Answer
from amends.cli.paper import Paper, clean, status
from amends.cli.shown import Values
from amends.cli.steps import Step, documents, next_steps
from amends.contracts.codes import CODES, coded
from amends.contracts.documents import TransactionPlan
from amends.contracts.enums import IN_FLIGHT, Mode, ResultStatus, Verdict, WireStatus
from amends.contracts.errors import AmendsError, Conflict
from amends.contracts.json_types import Json, JsonObject
from amends.contracts.outcomes import ErrorInfo
from amends.contracts.results import Result
from amends.transactions.projection import CONTRADICTED

WORDS: Final[Mapping[WireStatus, str]] = MappingProxyType(
    {
        WireStatus.DRY_RUN_COMPLETED: "This was a dry run. Nothing has happened.",
        WireStatus.PLANNED: "It is planned. Nothing has happened yet.",
        WireStatus.PREPARED: "It is being carried out.",
        WireStatus.COMMITTING: "It is being carried out.",
        WireStatus.COMMITTED: "It is done: the effect is there.",
        WireStatus.COMPENSATING: "The compensation is being carried out.",
        WireStatus.COMPENSATED: "It is compensated. The first effect is offset, not erased.",
        WireStatus.FAILED: "It failed, and nothing happened.",
        WireStatus.OUTCOME_UNKNOWN: "Nobody knows yet: it may have happened. Do not repeat it.",
        WireStatus.RECONCILING: "The provider is being asked what happened.",
        WireStatus.RECONCILED: "The provider was asked.",
        WireStatus.ROLLBACK_NOT_SUPPORTED: "This cannot be rolled back.",
        WireStatus.REQUIRES_HUMAN: "Somebody has to approve it. Nothing has happened yet.",
        WireStatus.CANCELLED: "It is cancelled. Nothing has happened.",
    }
)
_FOUND: Final[Mapping[Verdict, str]] = MappingProxyType(
    {
        Verdict.COMMITTED: "It has been found out: the effect is there.",
        Verdict.NOT_COMMITTED: "It has been found out: nothing happened.",
        Verdict.PARTIAL: "It has been found out: a part of the effect is there.",
    }
)
_PARTLY: Final = "It failed, and a part of the effect is there."
_STILL_PLANNED: Final = "It is cancelled. The plan itself can still be committed."
FLYING: Final = frozenset(WireStatus(one.value) for one in IN_FLIGHT)
"""An attempt is running, or was when its process ended."""


class Wanted(Enum):
    """What a command was asked for."""

    PREVIEW = "a dry run"
    PLAN = "a plan"
    EFFECT = "an effect that is there"
    CERTAINTY = "an outcome that is known"
    CANCELLATION = "an action that was stopped in time"
    ANYTHING = "whatever it is"


_OF_MODE: Final = MappingProxyType({"reconcile": Mode.RECONCILE, "compensate": Mode.COMPENSATE})
"""Steps that only some capabilities admit."""

_CONTRADICTED: Final = "Later evidence speaks against what is recorded. An operator has to rule."


def words(result: Result) -> str:
    """What happened, in a sentence."""
    if result.attention == CONTRADICTED:
        return _CONTRADICTED
    if result.status is WireStatus.RECONCILED and result.verdict is not None:
        return _FOUND[result.verdict]
    if result.status is WireStatus.FAILED and result.verdict is Verdict.PARTIAL:
        return _PARTLY
    if result.status is WireStatus.PLANNED and _is_cancelled(result):
        return _STILL_PLANNED
    return WORDS[result.status]


def shortfall(result: Result, wanted: Wanted) -> AmendsError | None:
    """Why a result is not what was asked for; none where it is."""
    if _meets(result, wanted):
        return None
    if result.status in FLYING:
        return coded("transaction.in_progress", _where(result))
    if wanted is Wanted.CANCELLATION and result.status is not WireStatus.OUTCOME_UNKNOWN:
        return _too_late(result)
    return result.explanation()


def _meets(result: Result, wanted: Wanted) -> bool:
    match wanted:
        case Wanted.PREVIEW:
            return result.status is WireStatus.DRY_RUN_COMPLETED
        case Wanted.PLAN:
            return result.status is WireStatus.PLANNED
        case Wanted.EFFECT:
            return result.effect_is_there
        case Wanted.CERTAINTY:
            return result.status is WireStatus.RECONCILED
        case Wanted.CANCELLATION:
            return _is_cancelled(result)
        case Wanted.ANYTHING:
            return True
        case _:
            assert_never(wanted)


def _is_cancelled(result: Result) -> bool:
    return result.result_status is ResultStatus.CANCELLED


def _too_late(result: Result) -> AmendsError:
    return Conflict(
        "cli.not_cancelled",
        "It had ended before it could be cancelled.",
        details=_where(result),
        next_step="Look at how it ended.",
    )


def _listed(details: Mapping[str, Json]) -> str:
    """Details in one line: the provider's own code, its status, what it asks for."""
    shown = (f"{name}={_word(one)}" for name, one in details.items())
    return "  ".join(shown)


def _word(value: Json) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _where(result: Result) -> dict[str, Json]:
    return {
        "status": result.status.value,
        "transaction_id": result.transaction_id,
        "action_id": result.action_id,
    }


class Results:
    """Tells results; `again` are the options that next commands have to repeat."""

    def __init__(self, values: Values, again: str) -> None:
        self.values = values
        self._again = again

    def steps(self, result: Result) -> tuple[Step, ...]:
        """What can be done about a result now, as commands to type that its capability admits."""
        return tuple(
            step
            for step in next_steps(result, self._again)
            if step.call not in _OF_MODE
            or self.values.admits(result.capability_id, _OF_MODE[step.call])
        )

    def answer(self, result: Result, wanted: Wanted, plan: TransactionPlan | None = None) -> Answer:
        """The answer of a command that came to this result."""
        return Answer(
            data=self.document(result, plan),
            tell=lambda paper: self.tell(paper, result, plan),
            error=shortfall(result, wanted),
        )

    def document(self, result: Result, plan: TransactionPlan | None = None) -> JsonObject:
        """A result as JSON; the output as it may be shown, and next steps with their commands."""
        document: JsonObject = msgspec.to_builtins(result)
        del document["raw_output"]
        document["output"] = self.values.show(result.capability_id, result.raw_output, plan)
        document["says"] = words(result)
        document["next"] = documents(self.steps(result))
        return document

    def tell(self, paper: Paper, result: Result, plan: TransactionPlan | None = None) -> None:
        """A result for people: what happened, what is known, what can be done."""
        paper.line(status(result.status), "  ", words(result))
        self.facts(paper, result, plan)
        self.tell_steps(paper, result)

    def brief(self, paper: Paper, result: Result) -> None:
        """What is about to be acted upon, in two lines."""
        paper.line((clean(result.transaction_id), "bold"), "  ", clean(result.capability_id))
        paper.line(status(result.status), "  ", words(result))

    def facts(self, paper: Paper, result: Result, plan: TransactionPlan | None = None) -> None:
        """What a result knows, name by name."""
        paper.field("transaction", clean(result.transaction_id))
        paper.field("action", clean(result.action_id))
        if result.plan_id is not None and result.plan_expires_at is not None:
            until = f"  expires {paper.time(result.plan_expires_at)}"
            paper.field("plan", clean(result.plan_id), (until, "dim"))
        if result.approval_id is not None:
            paper.field("approval", clean(result.approval_id))
        if result.provider_operation is not None:
            operation = result.provider_operation
            paper.field("provider", clean(f"{operation.provider} {operation.operation_id}"))
        if result.raw_output is not None:
            shown = self.values.show(result.capability_id, result.raw_output, plan)
            paper.field("output", clean(msgspec.json.encode(shown).decode()))
        self._troubles(paper, result)

    def _troubles(self, paper: Paper, result: Result) -> None:
        if result.error is not None:
            self._error(paper, result.error)
        if result.output_invalid is not None:
            paper.field("attention", (clean(result.output_invalid), "yellow"))
        if result.attention is not None:
            paper.field("attention", (clean(result.attention), "yellow"))
        if result.reconcile_after is not None and result.status is WireStatus.OUTCOME_UNKNOWN:
            paper.field("look-up", f"from {paper.time(result.reconcile_after)}")
        for warning in result.warnings:
            paper.field("warning", (clean(warning), "yellow"))
        if result.replayed:
            paper.field("note", "This had been answered before; nothing was done for it now.")

    def _error(self, paper: Paper, error: ErrorInfo) -> None:
        """What was recorded of a failure; a code of ours without a text has one in the list."""
        listed = CODES.get(error.code)
        said = error.message or (listed.message if listed else "")
        paper.field("error", (clean(f"{error.code}  {said}".rstrip()), "red"))
        if error.details:
            paper.field("", (clean(_listed(error.details)), "red"))

    def tell_steps(self, paper: Paper, result: Result) -> None:
        """What can be done next, as commands to type."""
        steps = self.steps(result)
        if steps:
            paper.heading("Next")
            paper.rows([(f"  {step.command}", (step.text)) for step in steps])
