"""A capability that a worker serves: published, withdrawn once, and never a second time."""

import asyncio
from pathlib import Path

import msgspec

from amends import (
    Amends,
    AmendsError,
    CapabilityGrant,
    OriginalEffect,
    WorkerProcess,
    worker_capability,
)
from amends.containment.provisions import FileRoot
from amends.contracts.worker_grant import Resource, ResourceKind
from amends.ledger.targets import Question

SHELF = Resource(ResourceKind.FILE_ROOT, "shelf")
FOLDER = Path("shelf").absolute()


class Release(msgspec.Struct, frozen=True):
    version: str


class Withdrawal(msgspec.Struct, frozen=True):
    undo: str


worker = WorkerProcess(
    "release_adapter:release",
    state="state",
    provisions={SHELF: FileRoot(str(FOLDER), writable=True)},
    environment={"RELEASE_SHELF": str(FOLDER)},
)
release = worker_capability(
    "release.publish",
    worker=worker,
    grant=CapabilityGrant("release.publish", max_compensations=1, resources=(SHELF,)),
    input=Release,
    inverse=Withdrawal,
)


@release.verify_compensation
def is_a_withdrawal(question: Question, original: OriginalEffect) -> bool:
    """Asked when it is recorded, when it is permitted, and right before it is sealed."""
    return question.payload.value == {"undo": "release"}


async def main() -> None:
    FOLDER.mkdir()
    worker.initialise("default")  # once, by a person
    async with Amends.open("sqlite:///amends.db", [release]) as amends:
        plan = await amends.plan(release, Release(version="1.2.3"))
        published = await amends.commit(plan)
        print("published:", published.status.value)
        withdrawn = await amends.compensate(published, Withdrawal(undo="release"))
        print("withdrawn:", withdrawn.status.value)
        try:
            await amends.compensate(published, Withdrawal(undo="release"))
        except AmendsError as error:
            print("again:", error.code)
    print("on the shelf:", len(list(FOLDER.iterdir())))


if __name__ == "__main__":
    asyncio.run(main())
