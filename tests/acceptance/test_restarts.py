"""Plans across restarts and time zones: committed once, until they expire, wherever that is."""

import re
import signal
from datetime import UTC, datetime
from typing import Final

import msgspec
import pytest

from amends.testing.errands import Commit, Plan, Step, run_errand
from amends.testing.till import Setup, open_till
from tests.acceptance.children import Child, effects, stored

PLAN: Final = Plan(action_id="act_plan", transaction_id="txn_1")
ZONES: Final = ("America/New_York", "Asia/Kolkata", "UTC", "Pacific/Kiritimati")
STARTS: Final = (
    datetime(2026, 6, 1, 12, 0, tzinfo=UTC),
    datetime(2026, 3, 8, 6, 50, tzinfo=UTC),
    datetime(2026, 11, 1, 5, 50, tzinfo=UTC),
)
"""An ordinary day, and plans whose life lies across the hour that New York loses or has twice."""

INSTANT: Final = re.compile(r'"(\d{4}-\d\d-\d\dT[^"]*)"')


def commit(action_id: str, plan_id: str = "plan:txn_1") -> Commit:
    return Commit(action_id=action_id, plan_id=plan_id)


@pytest.mark.case("PLN-01")
@pytest.mark.rule("TX-COMMIT-4", "TX-ACT-1", "TX-CLAIM-1")
async def test_a_committed_plan_is_not_committed_again_by_anybody_ever(setup: Setup) -> None:
    """Not by the same action, not by another one, not by another process after a kill."""

    def check(child: Child, another: str) -> None:
        (again,) = child.ask(commit("act_first"))
        assert (again.status, again.replayed, again.action_id) == ("committed", True, "act_first")
        (refused,) = child.ask(commit(another))
        assert refused.code == "transaction.plan_not_committable"
        assert refused.status == "committed"
        assert effects(setup) == 1

    with Child(setup) as first:
        first.ask(PLAN)
        (done,) = first.ask(commit("act_first"))
        assert (done.status, done.replayed) == ("committed", False)
        check(first, "act_second")
        first.send(signal.SIGKILL)
        assert first.death() == -signal.SIGKILL
    with Child(setup) as second:
        check(second, "act_third")
    async with open_till(setup) as till:
        assert (await run_errand(till, commit("act_third"))).code is not None
        assert await till.check() == []
    assert effects(setup) == 1


@pytest.mark.case("TIM-01")
@pytest.mark.rule("TX-COMMIT-7", "TX-PLAN-2")
@pytest.mark.parametrize("start", STARTS, ids=str)
@pytest.mark.parametrize("zone", ZONES)
async def test_a_plan_expires_at_the_same_instant_in_every_time_zone(
    setup: Setup, zone: str, start: datetime
) -> None:
    """Fifteen minutes: a second before the end it can be committed, at the end not any more."""
    setup = msgspec.structs.replace(setup, starts_at=start)
    with Child(setup, environment={"TZ": zone}) as child:
        plans = [Plan(action_id=f"act_p{n}", transaction_id=f"txn_{n}") for n in (1, 2, 3)]
        child.ask(*plans)
        heard = []
        for n, wait_ms in ((1, 899_000), (2, 1_000), (3, 1_000)):
            child.ask(Step(milliseconds=wait_ms))
            heard.append(child.ask(commit(f"act_{n}", f"plan:txn_{n}"))[0].heard)
    assert heard == ["committed", "transaction.plan_expired", "transaction.plan_expired"]
    assert effects(setup) == 1
    async with open_till(setup) as till:
        found = await stored(till, "txn_2")
        assert found is not None
        assert found.document.plan is not None
        assert found.document.plan.expires_at == start.replace(
            hour=start.hour + (start.minute + 15) // 60, minute=(start.minute + 15) % 60
        )
        instants = INSTANT.findall(msgspec.json.encode(found.document).decode())
        assert instants
        assert all(instant.endswith("Z") for instant in instants)
