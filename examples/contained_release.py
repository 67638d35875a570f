"""A worker publishes a release, and withdraws it under a permit: the whole sequence of a host."""

import asyncio
import os
import sys
import tempfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from amends.contracts.worker_grant import CapabilityGrant
from amends.contracts.worker_payload import ToolPayload
from amends.host.verifiers import Verifiers
from amends.host.workflow import Workflow
from amends.ledger.operations import OperationIntent
from amends.ledger.plans import make_plan
from amends.ledger.targets import Question
from amends.wiring.hosts import Ledgers, child_worker, worker_command
from amends.wiring.workers import WorkerPlace, initialise_worker

GRANT = CapabilityGrant.json("release.publish").with_compensation_limit(1)
PLAN = make_plan([("publish", "release.publish 1.2.3")])
INPUT = ToolPayload.json({"version": "1.2.3"})
INVERSE = ToolPayload.json({"undo": "release"})


def grant_holds(question: Question) -> bool:
    """Ask your policy, grants and revocations, as they are now."""
    return question.grant == GRANT


def inverse_is_right(question: Question) -> bool:
    """Check exactly this inverse for exactly this operation, without writing it down."""
    return question.payload == INVERSE


async def main(directory: Path) -> None:
    worker = WorkerPlace(directory=directory / "worker", scope="tenant-release")
    initialise_worker(worker)
    command = worker_command("release_adapter:release", worker)
    environment = {
        **os.environ,
        "RELEASE_SHELF": str(directory),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)]),
    }
    with closing(Ledgers.make(directory / "host")) as ledgers:
        ledgers.create("release-42", PLAN)
        workflow = await Workflow.open(
            PLAN,
            ledgers.opener("release-42"),
            Verifiers(grant=grant_holds, action=inverse_is_right),
            clock=lambda: datetime.now(UTC),
        )
        async with child_worker(
            command, [GRANT], tenant_scope=worker.scope, environment=environment
        ) as channel:
            intent = OperationIntent(
                step_id="publish", tool=GRANT.tool, payload=INPUT, nonce=b"release-42:publish:1"
            )
            key = await workflow.record(intent)
            print("published:", await workflow.dispatch(channel, key, INPUT))

            target = workflow.target(key, worker.scope, GRANT, INVERSE)
            await workflow.record_compensation(target, b"release-42:publish:undo:1")
            print("withdrawn:", await workflow.compensate(channel, target))
        print("now:", workflow.recovery(key))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
