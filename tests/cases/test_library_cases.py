"""Public failures of approvals, compensations, revisions and locks, replayed through the library.

Codes of the cases are mapped to ours: *approval_mismatch* is `approval.mismatch`, *not_eligible* is
`transaction.compensation_target_not_completed`, *revision_conflict* is
`transaction.revision_conflict` for records and `approval.stale` for approval requests.
"""

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import pytest

from amends import Amends, ApprovalPolicy, Attempt, NotApplied, Principal, Result, capability
from amends.contracts.declarations import ExecutionContract
from amends.contracts.enums import Status
from amends.contracts.outcomes import ErrorInfo, Uncertain
from amends.testing.refusals import refused_with
from amends.testing.workbench import Workbench
from tests.acceptance.children import SAME_CODE
from tests.unit.runtime.desk import DONE, UNSURE, Desk, action, ask

REQUESTER: Final = Principal.named("alice")
APPROVER: Final = Principal.named("bob", scopes=("amends:approve",))
WAIT_S: Final = 30.0

# ── APR-01: what was approved is not what is in the file any more ────────────────────────────────


@dataclass
class Script:
    """A script to run, and the digest of what whoever asks has seen in it."""

    path: str
    sha256: str


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@asynccontextmanager
async def scripts(ran: list[str]) -> AsyncIterator[Amends]:
    """A capability over files that anybody may change: it runs exactly the bytes that were meant.

    The file is read once. What is compared is what is run.
    """

    @capability("ops.run", side_effects=["code_execution"], approval=ApprovalPolicy())
    async def run(script: Script, _attempt: Attempt) -> dict[str, str]:
        content = await asyncio.to_thread(Path(script.path).read_bytes)
        if hashlib.sha256(content).hexdigest() != script.sha256:
            raise NotApplied("ops.content_changed")
        ran.append(content.decode())
        return {"ran": script.sha256}

    async with Amends.open("memory:", [run], principal=REQUESTER, recover=False) as amends:
        yield amends


@pytest.mark.case("APR-01")
async def test_a_file_rewritten_while_its_approval_waits_does_not_run(tmp_path: Path) -> None:
    path, ran = tmp_path / "deploy.sh", list[str]()
    path.write_text("echo harmless")
    seen = Script(str(path), digest_of(path))
    async with scripts(ran) as amends:
        waiting = await amends.execute("ops.run", seen)
        path.write_text("rm -rf everything")
        request = await amends.acting_as(APPROVER).approve(waiting)
        assert request.input is not None
        assert msgspec.json.decode(request.input, type=Script) == seen
        done = await amends.resume(waiting)
        assert done.error is not None
        assert (done.status, done.error.code) == ("failed", "ops.content_changed")
        assert ran == []


@pytest.mark.case("APR-01")
async def test_an_approval_of_one_content_is_not_an_approval_of_another(tmp_path: Path) -> None:
    path, ran = tmp_path / "deploy.sh", list[str]()
    path.write_text("echo harmless")
    async with scripts(ran) as amends:
        waiting = await amends.execute("ops.run", Script(str(path), digest_of(path)))
        await amends.acting_as(APPROVER).approve(waiting)
        path.write_text("rm -rf everything")
        with refused_with("action.id_conflict"):
            await amends.resume(waiting, Script(str(path), digest_of(path)))
        anew = await amends.execute("ops.run", Script(str(path), digest_of(path)))
        assert anew.status == "requires_human"
        assert (await amends.approval(waiting)).status == "approved"
        path.write_text("echo harmless")
        assert (await amends.resume(waiting)).status == "committed"
        assert ran == ["echo harmless"]


# ── CMP-05: what is to be offset may still be under way ──────────────────────────────────────────

BOUNDED: Final = ExecutionContract(lookup_by_key=True, in_flight_horizon_ms=1_000)


@pytest.mark.case("CMP-05")
async def test_nothing_is_offset_while_the_original_runs_or_is_unknown() -> None:
    entered, goes_on = asyncio.Event(), asyncio.Event()

    async def slow(_attempt: Attempt) -> object:
        entered.set()
        await goes_on.wait()
        return UNSURE

    desk = Desk([slow], reconcile=[DONE], compensate=[DONE])
    async with Workbench(served=[desk.served(execution=BOUNDED)]) as bench:
        running = asyncio.create_task(ask(bench, action(id="act_1", transaction="txn_1")))
        await entered.wait()
        await _is_not_offset(bench)
        goes_on.set()
        assert (await running).status == "outcome_unknown"
        await _is_not_offset(bench)
        bench.wait(60)
        assert (await bench.alice.reconcile("txn_1")).status == "reconciled"
        assert (await bench.alice.compensate("act_1")).status == "compensated"
        with refused_with("transaction.compensation_exists"):
            await bench.alice.compensate("act_1")


async def _is_not_offset(bench: Workbench) -> None:
    with refused_with("transaction.compensation_target_not_completed"):
        await bench.alice.compensate("act_1")


@pytest.mark.case("CMP-05")
async def test_an_original_closed_as_not_executed_is_never_sent_or_offset_afterwards() -> None:
    """The word of the operator is the tombstone: the same action is answered, not sent again."""
    desk = Desk([UNSURE], reconcile=[DONE], compensate=[DONE])
    async with Workbench(served=[desk.served(execution=BOUNDED)]) as bench:
        await ask(bench, action(id="act_1", transaction="txn_1"))
        bench.wait(3_600)
        closed = await bench.olga.settle(
            "txn_1", "not_committed", reference="ticket 7", note="not on the statement"
        )
        assert closed.verdict == "not_committed"
        with refused_with("transaction.compensation_target_not_committed"):
            await bench.alice.compensate("act_1")
        with refused_with("transaction.execute_state_invalid"):
            await ask(bench, action(id="act_1", transaction="txn_1"))
        assert len(desk.seen) == 1


# ── CAS-01: whoever looked at an older revision decides nothing ──────────────────────────────────

BAD_REVISIONS: Final = ["latest", "3", "", -1, 3.0, float("nan"), True, [3], b"3"]


async def settled(bench: Workbench, seen: object) -> Result:
    return await bench.olga.settle(
        "txn_1",
        "committed",
        reference="ticket 7",
        note="on the statement",
        seen_revision=seen,  # type: ignore[arg-type]  # as a program without types sends it
    )


@pytest.mark.case("CAS-01")
async def test_a_ruling_on_a_revision_that_has_passed_overwrites_nothing() -> None:
    desk = Desk([UNSURE], reconcile=[Uncertain(error=ErrorInfo(code="still_unsure"))])
    async with Workbench(served=[desk.served()]) as bench:
        seen = (await ask(bench, action(id="act_1", transaction="txn_1"))).revision
        bench.wait(60)
        moved = await bench.olga.reconcile("txn_1")
        assert moved.revision is not None
        assert seen is not None
        assert moved.revision > seen
        before = await bench.snapshot()
        with refused_with("transaction.revision_conflict") as caught:
            await settled(bench, seen)
        assert caught.error.details["revision"] == moved.revision
        assert caught.error.details["status"] == moved.status
        assert await bench.snapshot() == before
        assert (await settled(bench, moved.revision)).verdict == "committed"


@pytest.mark.case("CAS-01")
async def test_an_approver_who_saw_an_older_request_decides_nothing() -> None:
    served = Desk().served(approval=ApprovalPolicy())
    async with Workbench(served=[served]) as bench:
        waiting = await ask(bench, action(id="act_1"))
        seen = (await bench.bob.approval(waiting)).revision
        decided = await bench.bob.approve(waiting, seen_revision=seen)
        before = await bench.snapshot()
        for answer in (bench.bob.approve, bench.bob.deny, bench.bob.revoke):
            with refused_with("approval.stale") as caught:
                await answer(waiting, seen_revision=seen)
            assert caught.error.details["revision"] == decided.revision
        assert await bench.snapshot() == before


@pytest.mark.case("CAS-01")
@pytest.mark.parametrize("seen", BAD_REVISIONS, ids=repr)
async def test_what_is_no_revision_is_refused_at_the_edge(seen: object) -> None:
    served = [Desk([UNSURE]).served(), Desk().served("asked", approval=ApprovalPolicy())]
    async with Workbench(served=served) as bench:
        await ask(bench, action(id="act_1", transaction="txn_1"))
        waiting = await ask(bench, action(capability="asked"))
        before = await bench.snapshot()
        bob = bench.bob
        for call in (
            lambda: settled(bench, seen),
            lambda: bob.approve(waiting, seen_revision=seen),  # type: ignore[arg-type]  # untyped
            lambda: bob.deny(waiting, seen_revision=seen),  # type: ignore[arg-type]  # untyped
        ):
            code = "input.invalid_value" if seen == -1 else "input.unsupported_type"
            with refused_with(code) as caught:
                await call()
            assert caught.error.details["field"] == "seen_revision"
        assert await bench.snapshot() == before


@pytest.mark.case("CAS-01")
async def test_without_a_revision_the_status_is_the_condition() -> None:
    """Of two who decide without having looked, one decides; the other meets a decided thing."""
    served = [Desk([UNSURE]).served(), Desk().served("asked", approval=ApprovalPolicy())]
    async with Workbench(served=served) as bench:
        made = await ask(bench, action(id="act_1", transaction="txn_1"))
        answers = await asyncio.gather(
            settled(bench, None), settled(bench, None), return_exceptions=True
        )
        assert sum(isinstance(one, Result) for one in answers) == 1
        with refused_with("transaction.settle_state_invalid"):
            await settled(bench, None)
        assert (await bench.record(made)).status is Status.RECONCILED
        waiting = await ask(bench, action(capability="asked"))
        await bench.bob.approve(waiting)
        with refused_with("approval.closed"):
            await bench.bob.deny(waiting)


# ── FEN-04: a dead owner's child keeps nothing ───────────────────────────────────────────────────

HOST: Final = """
import asyncio, subprocess, sys
from amends import Amends, capability

@capability("ops.run", side_effects=["code_execution"])
async def run(order: dict, attempt) -> dict:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
                             close_fds=False)
    print(child.pid, flush=True)
    await asyncio.sleep(600)
    return {}

async def main():
    async with Amends.open(sys.argv[1], [run], recover=False) as amends:
        await amends.execute("ops.run", {"n": 1}, transaction_id="txn_1")

asyncio.run(main())
"""


@pytest.mark.case("FEN-04")
def test_the_child_of_a_killed_host_does_not_hold_its_store(tmp_path: Path) -> None:
    """The child is told to inherit whatever can be: nothing of the store is among it."""
    url = f"sqlite:///{tmp_path / 'amends.db'}"
    with subprocess.Popen(
        [sys.executable, "-c", HOST, url],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": SAME_CODE},
    ) as host:
        assert host.stdout is not None
        orphan = int(host.stdout.readline())
        try:
            host.send_signal(signal.SIGKILL)
            assert host.wait(WAIT_S) == -signal.SIGKILL
            asyncio.run(_opens_and_writes(url))
            os.kill(orphan, 0)  # it is still there, and held nothing
            assert _inherited(orphan, tmp_path) == []
        finally:
            os.kill(orphan, signal.SIGKILL)


async def _opens_and_writes(url: str) -> None:
    """As the next host does, at once: open the files, read what was left, do something new."""

    @capability("ops.run", side_effects=["code_execution"])
    async def run(_order: dict[str, int], _attempt: Attempt) -> dict[str, str]:
        return {}

    async with asyncio.timeout(5), Amends.open(url, [run], recover=False) as amends:
        assert (await amends.get("txn_1")).result.status == "prepared"
        assert (await amends.execute(run, {"n": 2})).status == "committed"


def _inherited(pid: int, folder: Path) -> list[str]:
    """The files of a folder that a process holds open, where the system tells."""
    held = Path(f"/proc/{pid}/fd")
    if not held.is_dir():
        return []
    targets = [str(one.readlink()) for one in held.iterdir()]
    return [one for one in targets if one.startswith(str(folder))]
