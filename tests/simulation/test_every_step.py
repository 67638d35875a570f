"""A process dies, or stands still for too long, at every single step of every errand.

Where the small world draws by lot, these sweeps leave nothing out: between any two steps of the
victim lies a point at which it could have been killed. Another process sweeps meanwhile.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec
import pytest

from amends.contracts.documents import TransactionRecord
from amends.contracts.enums import Verdict
from amends.runtime.requests import Request
from amends.simulation import Process
from amends.simulation.client import OLGA
from amends.simulation.promises import Promise
from amends.simulation.town import Town
from amends.testing import faults
from amends.testing.faults import Fault
from tests.simulation.drama import (
    STEADY,
    commit,
    compensate,
    execute,
    look_up,
    perform,
    plan,
    play,
    promise,
)

LONG_S: Final = 60.0
"""Longer than a lease, the horizon after it, and the first look-ups of whoever takes over."""


class Errand(msgspec.Struct, frozen=True, kw_only=True):
    """What the victim does, after what another process did before it; `about` names the record."""

    asks: Request
    about: str
    before: tuple[Request, ...] = ()
    before_fault: Fault = faults.none()
    wait_s: float = 0.0
    kept: Promise = STEADY


KEYED: Final = execute("a1", key="k1")
REDRIVES: Final = promise(looks_up="none", window_ms=300_000)
ERRANDS: Final = {
    "execute": Errand(asks=execute("a1"), about="t-a1"),
    "commit": Errand(asks=commit("a1", "p1"), about="t-p1", before=(plan("p1"),)),
    "compensate": Errand(asks=compensate("c1", "a1"), about="t-c1", before=(execute("a1"),)),
    "reopen": Errand(
        asks=KEYED,
        about="t-a1",
        before=(KEYED,),
        before_fault=faults.connect(),
        kept=promise(safe_to_retry=True),
    ),
    "reconcile": Errand(
        asks=look_up("t-a1", OLGA),
        about="t-a1",
        before=(execute("a1"),),
        before_fault=faults.acknowledgement(),
    ),
    "re-drive": Errand(
        asks=look_up("t-a1", OLGA),
        about="t-a1",
        before=(execute("a1"),),
        before_fault=faults.acknowledgement(),
        kept=REDRIVES,
    ),
}
FAULTS: Final = {
    "none": faults.none(),
    "acknowledgement": faults.acknowledgement(),
    "in flight": faults.body(effect=True, after_s=7.0),
    "connect": faults.connect(),
}


def _pauses(process: Process, *, step: int) -> None:
    process.pause_at(step, LONG_S)


FATES: Final[dict[str, Callable[..., None]]] = {"dies": Process.die_at, "is paused": _pauses}


def run(errand: Errand, fault: Fault, fate: Callable[[Process], None]) -> tuple[Town, int]:
    """Let the victim do its errand under a fault and a fate; how many steps it lived."""
    steps: list[int] = []

    async def acts(town: Town) -> None:
        helper = town.start_host(fated=False, sweeps_every_s=2.0)
        town.weather.foretell(errand.before_fault)
        for request in errand.before:
            await town.ask("before", perform(request), host=helper)
        town.weather.foretell(fault)
        victim = town.start_host(fated=False)
        fate(victim.process)
        await town.ask("victim", perform(errand.asks), host=victim)
        steps.append(victim.process.steps)
        await asyncio.sleep(LONG_S)

    return play(acts, errand.kept), steps[0]


@pytest.mark.rule("TX-EXEC-2", "TX-LEASE-1", "TX-LEASE-2", "TX-PIPE-5", "TX-RECON-2")
@pytest.mark.fault(2, 3, 4, 5, 20)
@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("errand", ERRANDS)
def test_at_every_step_there_is_one_effect_at_most_and_an_honest_end(
    errand: str, fault: str, fate: str
) -> None:
    told = ERRANDS[errand]
    _, steps = run(told, FAULTS[fault], lambda _: None)
    assert steps > 5
    for step in range(steps):
        town, _ = run(told, FAULTS[fault], partial(FATES[fate], step=step))
        record = town.chronicle.document(TransactionRecord, told.about)
        done = [one.arrival.key for one in town.bank.effects()]
        if record is None:
            assert len(done) == len([one for one in told.before if one.action.action_id != "p1"])
        else:
            assert record.verdict in (Verdict.COMMITTED, Verdict.NOT_COMMITTED)
            assert done.count(record.provider_key) == (record.verdict is Verdict.COMMITTED)
