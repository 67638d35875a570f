"""A real worker in a real container: killed behind its inverse, found again, finished."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from amends.containment.description import Containment, describe
from amends.containment.entering import Contain
from amends.containment.findings import ContainmentReport
from amends.containment.provisions import FileRoot
from amends.containment.this_python import this_python
from amends.contracts.errors import OutcomeUnknown, Unavailable
from amends.contracts.worker_grant import CapabilityGrant, Resource, ResourceKind
from amends.contracts.worker_payload import Succeeded
from amends.host.channel import WorkerChannel
from amends.protocol.bootstrap import Bootstrap, SessionKey
from amends.transports.children import ChildWorker
from amends.wiring.contained import start_contained
from tests.acceptance.containers import need_namespaces
from tests.acceptance.test_worker_processes import PLACE, ROOT, WAIT_S, Place, until
from tests.unit.worker.stage import INPUT, INTENT, INVERSE, NONCE, SCOPE, Both

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux's")

PAGES = Resource(ResourceKind.FILE_ROOT, "pages")
GRANT = CapabilityGrant("release.publish", max_compensations=1, resources=(PAGES,))
ABSENT = ("/nowhere/bwrap",)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    need_namespaces("ourselves")
    made = Place(tmp_path)
    assert made.amends("init").returncode == 0
    pages = tmp_path / "pages"
    pages.mkdir()
    made.effects = pages / "effects"
    return made


def containment_of(place: Place, hang: str) -> Containment:
    told = {"AMENDS_TEST_EFFECTS": str(place.effects), "AMENDS_TEST_HANG": hang}
    program = this_python(code=[ROOT], state=[place.state], environment=told)
    provided = {PAGES: FileRoot(str(place.effects.parent), writable=True)}
    return describe(program, [GRANT], provided)


@asynccontextmanager
async def contained(
    place: Place, hang: str = "", contain: Contain = Contain.REQUIRED, tool: tuple[str, ...] = ()
) -> AsyncIterator[tuple[WorkerChannel, ChildWorker, ContainmentReport]]:
    place.sessions += 1
    bootstrap = Bootstrap(f"session-{place.sessions}", SessionKey(os.urandom(32)))
    command = [sys.executable, "-m", "amends", "worker", "run", PLACE, *place.options()]
    child, report = await start_contained(
        command, bootstrap, containment_of(place, hang), contain, bubblewrap=tool or None
    )
    channel = WorkerChannel(
        child.transport,
        bootstrap,
        [GRANT],
        tenant_scope=SCOPE,
        nonce=os.urandom(32),
        open_limit_s=WAIT_S,
    )
    try:
        async with channel:
            yield channel, child, report
    finally:
        await child.stop(WAIT_S)


@pytest.mark.rule("INT-5", "WS-3")
@pytest.mark.fault(29, 51, 59)
async def test_a_contained_worker_that_is_killed_behind_its_inverse_is_found_existing(
    place: Place,
) -> None:
    both = Both()
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    async with contained(place, "cmp") as (channel, child, report):
        assert report.contained
        assert isinstance(await workflow.dispatch(channel, key, INPUT), Succeeded)
        target = workflow.target(key, SCOPE, GRANT, INVERSE)
        inverse = await workflow.record_compensation(target, NONCE)
        compensating = asyncio.ensure_future(workflow.compensate(channel, target))
        await until(2, place)
        child.kill()
        with pytest.raises(OutcomeUnknown, match="no_answer"):
            await compensating
    assert child.process.returncode == -signal.SIGKILL
    async with contained(place) as (channel, child, _):
        assert isinstance(await workflow.compensate(channel, target), Succeeded)
    assert child.process.returncode == 0
    assert place.lines() == [key, inverse]


async def test_without_bubblewrap_required_starts_nothing(place: Place) -> None:
    with pytest.raises(Unavailable) as caught:
        async with contained(place, tool=ABSENT):
            raise AssertionError("it was started")
    assert caught.value.code == "containment.unavailable"


@pytest.mark.parametrize("contain", [Contain.IF_POSSIBLE, Contain.OFF])
async def test_without_a_container_a_worker_runs_and_its_report_says_so(
    place: Place, contain: Contain
) -> None:
    both = Both()
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    async with contained(place, contain=contain, tool=ABSENT) as (channel, _, report):
        assert not report.contained
        assert report.summary.startswith("Not contained: ")
        assert isinstance(await workflow.dispatch(channel, key, INPUT), Succeeded)
