"""The points of an attempt are reached in their order, each once, and asking is not disturbed."""

from pathlib import Path
from typing import Final

import pytest

from amends.contracts.enums import Mode
from amends.testing import faults
from amends.testing.crash_points import CrashPoint, request_of
from amends.testing.errands import (
    AnyErrand,
    Commit,
    Compensate,
    Execute,
    Plan,
    Reconcile,
    Step,
    Sweep,
    run_errand,
)
from amends.testing.provider_api import Request
from amends.testing.till import Setup, open_till

LOST: Final = (faults.acknowledgement(),)
CASES: Final[list[tuple[Mode, tuple[AnyErrand, ...], AnyErrand, tuple[faults.Fault, ...]]]] = [
    (Mode.EXECUTE, (), Execute(action_id="act_1"), ()),
    (
        Mode.COMMIT,
        (Plan(action_id="act_p", transaction_id="txn_1"),),
        Commit(action_id="act_1", plan_id="plan:txn_1"),
        (),
    ),
    (
        Mode.COMPENSATE,
        (Execute(action_id="act_t"),),
        Compensate(action_id="act_1", transaction_id="txn_1", target="act_t"),
        (),
    ),
    (
        Mode.RECONCILE,
        (Execute(action_id="act_t", transaction_id="txn_1"), Step(milliseconds=6_000)),
        Reconcile(action_id="act_1", transaction_id="txn_1"),
        LOST,
    ),
    (
        Mode.RECONCILE,
        (Execute(action_id="act_t", transaction_id="txn_1"), Step(milliseconds=6_000)),
        Sweep(),
        LOST,
    ),
]


@pytest.mark.parametrize(("mode", "before", "deed", "script"), CASES)
async def test_each_attempt_passes_every_point_once_and_in_order(
    tmp_path: Path,
    mode: Mode,
    before: tuple[AnyErrand, ...],
    deed: AnyErrand,
    script: tuple[faults.Fault, ...],
) -> None:
    passed: list[CrashPoint] = []
    own = request_of(mode)

    def note(point: CrashPoint, request: Request | None) -> None:
        if request in (None, own):
            passed.append(point)

    setup = Setup(store=str(tmp_path / "a.db"), ledger=str(tmp_path / "l.jsonl"), script=script)
    async with open_till(setup, reached=note) as till:
        for errand in before:
            await run_errand(till, errand)
        passed.clear()
        answer = await run_errand(till, deed)
        assert answer.code is None
        assert await till.check() == []
    assert passed == list(CrashPoint)


async def test_a_preview_and_a_refusal_claim_and_settle_nothing(tmp_path: Path) -> None:
    """A preview asks the provider, though, and that can be watched."""
    passed: set[Request | None] = set()
    setup = Setup(store=str(tmp_path / "a.db"), ledger=str(tmp_path / "l.jsonl"))
    async with open_till(setup, reached=lambda _, request: passed.add(request)) as till:
        plan = Plan(action_id="act_p", transaction_id="txn_1")
        assert (await run_errand(till, plan)).heard == "planned"
        refused = await run_errand(till, Commit(action_id="act_1", plan_id="plan:txn_2"))
        assert refused.code == "transaction.plan_not_found"
    assert passed == {Request.VALIDATE}
