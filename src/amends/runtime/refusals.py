"""Entries of requests that were refused before anything was accepted.

An entry says who asked for what and which gate said no. It holds no input, and the action id stays
free (TX-PIPE-4).
"""

from datetime import datetime

from amends.contracts.documents import GateVerdict, Refusal
from amends.contracts.errors import AmendsError, Unavailable
from amends.contracts.ids import REFUSAL_PREFIX, ActionId, check_identifier
from amends.runtime.environment import Environment
from amends.runtime.requests import Request
from amends.stores.port import ChangeSet, Insert


class Refusals:
    """Leaves a trace of every refusal but the scheduler's own, whose record says it already."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    async def note(
        self,
        request: Request,
        passed: tuple[GateVerdict, ...],
        gate: str,
        error: AmendsError,
        now: datetime,
    ) -> None:
        """Keep the verdicts so far and this last one; without a store, the caller just hears it."""
        if request.recovering:
            return
        action = request.action
        entry = Refusal(
            tenant=request.caller.tenant,
            revision=1,
            created_at=now,
            updated_at=now,
            refusal_id=self._environment.ids(REFUSAL_PREFIX),
            action_id=_if_well_formed(action.action_id),
            capability_id=_if_well_formed(action.capability_id),
            mode=action.transaction.mode,
            principal=request.caller.principal.ref,
            code=error.code,
            verdicts=(*passed, denial(gate, error)),
        )
        try:
            await self._environment.store.commit(ChangeSet(changes=(Insert(entry),)))
        except Unavailable:
            return


def denial(gate: str, error: AmendsError) -> GateVerdict:
    """A gate's no. What is wrong with an envelope may quote the input's own keys: code only."""
    reason = "" if gate == "envelope" else error.message
    return GateVerdict(
        gate=gate, answer="deny", code=error.code, reason=reason, rules=_rules_behind(error)
    )


def _rules_behind(error: AmendsError) -> tuple[str, ...]:
    """The rules that a refusal names, so that it can be seen which of them decided (PO-3)."""
    rules, rule = error.details.get("rules"), error.details.get("rule")
    named = rules if isinstance(rules, list) else [rule]
    return tuple(one for one in named if isinstance(one, str))


def _if_well_formed(value: str | None) -> ActionId | None:
    try:
        return None if value is None else ActionId(check_identifier(value, "id"))
    except AmendsError:
        return None
