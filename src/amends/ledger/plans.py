"""The plan that a ledger belongs to: its steps, and the fingerprint that all keys derive from.

A plan is compared by its fingerprint only; its source is never stored in a ledger.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from amends.contracts.codes import coded
from amends.contracts.worker_identity import Fingerprint, plan_fingerprint
from amends.ledger.records import Ledger


class PlanStep(NamedTuple):
    """One step: its id and the text that stands for what it does."""

    step_id: str
    source: str


class WorkflowPlan(msgspec.Struct, frozen=True):
    """An ordered list of steps, 1 to 1024, with ids that differ."""

    steps: tuple[PlanStep, ...]
    fingerprint: Fingerprint

    def has_step(self, step_id: str) -> bool:
        """Whether one of the steps has this id."""
        return any(step.step_id == step_id for step in self.steps)

    def __repr__(self) -> str:
        return f"WorkflowPlan(fingerprint={self.fingerprint!r})"


def make_plan(steps: Sequence[tuple[str, str]]) -> WorkflowPlan:
    """A plan of (step id, source) pairs.

    Raises `Refused` as `plan_fingerprint` does, for steps that are none, too many, alike or large.
    """
    return WorkflowPlan(tuple(PlanStep(*step) for step in steps), plan_fingerprint(steps))


def open_ledger(plan: WorkflowPlan) -> Ledger:
    """A ledger without operations, for a plan that has none yet. It has to be persisted first."""
    return Ledger(plan_fingerprint=plan.fingerprint)


def check_plan(ledger: Ledger, plan: WorkflowPlan) -> None:
    """Raises `Refused` (`ledger.plan_mismatch`) when the ledger belongs to another plan."""
    if ledger.plan_fingerprint != plan.fingerprint:
        raise coded("ledger.plan_mismatch")
