"""The second act: a release that a contained worker publishes, and a withdrawal that is cut short.

Invariants: what is told was just observed; effects are counted in the register that the worker
writes, and not in any record of ours. Where this machine cannot contain a worker, the act says so
and goes on.
"""

import threading
from datetime import timedelta
from pathlib import Path
from typing import Final

import msgspec

from amends import (
    CapabilityGrant,
    OriginalEffect,
    Principal,
    Result,
    Settings,
    WorkerCapability,
    WorkerProcess,
    blocking,
    worker_capability,
)
from amends.blocking import Portal
from amends.cli.demo.scene import Scene
from amends.cli.demo.stage import ALICE
from amends.containment.provisions import FileRoot
from amends.contracts.principals import DEFAULT_TENANT
from amends.contracts.worker_grant import Resource, ResourceKind
from amends.ledger.targets import Question

OLGA: Final = Principal.named("olga", kind="operator")
SHELF: Final = Resource(ResourceKind.FILE_ROOT, "shelf")
ADAPTERS: Final = "amends.cli.demo.release_adapter:release"


class Release(msgspec.Struct, frozen=True):
    """What is published."""

    version: str


class Withdrawal(msgspec.Struct, frozen=True):
    """Why it is taken back."""

    reason: str


def served_by(worker: WorkerProcess, timeout: timedelta | None = None) -> WorkerCapability:
    """The capability: one grant, one verifier, and at most one withdrawal."""
    release = worker_capability(
        "release.publish",
        worker=worker,
        grant=CapabilityGrant("release.publish", max_compensations=1, resources=(SHELF,)),
        input=Release,
        inverse=Withdrawal,
        title="Publish a release",
        timeout=timeout,
    )

    @release.verify_compensation
    def is_a_withdrawal(question: Question, original: OriginalEffect) -> bool:
        asked = question.payload.value
        return isinstance(asked, dict) and asked.keys() == {"reason"} and bool(original.output)

    return release


class Shelf:
    """The place of the effects: a folder that only the worker writes to."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder: Final = folder
        self._hold = folder / "hold"

    def hold(self, *, on: bool) -> None:
        """Have a withdrawal stand still behind its effect, or let the next one pass."""
        self._hold.touch() if on else self._hold.unlink()

    def count(self, word: str) -> int:
        """How many effects of this kind the register has."""
        register = self.folder / "register"
        lines = register.read_text("utf-8").splitlines() if register.exists() else []
        return sum(line.startswith(f"{word} ") for line in lines)


def tell_of_releases(scene: Scene) -> None:
    """Publish, withdraw, kill, offer again, and count.

    Raises `Unavailable` when the machine is too slow for it.
    """
    shelf = Shelf(scene.stage.file("shelf"))
    worker = WorkerProcess(
        ADAPTERS,
        scene.stage.file("worker"),
        provisions={SHELF: FileRoot(str(shelf.folder), writable=True)},
        environment={"AMENDS_DEMO_SHELF": str(shelf.folder)},
        code=(),
    )
    worker.initialise(DEFAULT_TENANT)
    url = f"sqlite:///{scene.stage.file('releases.db')}"
    settings = Settings(recover=False)
    release = served_by(worker)
    with blocking.open(url, [release], principal=ALICE, settings=settings) as alice:
        published = _publish(scene, alice, release, worker)
        withdrawn = _cut_short(scene, alice, published, worker, shelf)
        _offer_again(scene, alice, published, withdrawn)
    _count(scene, shelf)


def _publish(
    scene: Scene, alice: Portal, release: WorkerCapability, worker: WorkerProcess
) -> Result:
    scene.teller.chapter("Worker", "Alice publishes a release. A worker does it, a process apart.")
    published = alice.execute(release, Release(version="1.2.3"))
    report = worker.report
    scene.seen.release.contained = report is not None and report.contained
    scene.step(scene.seen.release.timeline, "The release is out.", published)
    scene.teller.found(report.summary if report else "Nobody looked at its container.")
    return published


def _cut_short(
    scene: Scene, alice: Portal, published: Result, worker: WorkerProcess, shelf: Shelf
) -> Result:
    scene.teller.chapter("Withdrawal", "She takes it back, and the worker dies in the middle.")
    shelf.hold(on=True)
    ended: list[Result] = []
    reason = Withdrawal(reason="It does not start.")
    asking = threading.Thread(
        target=lambda: ended.append(alice.compensate(published, reason)), daemon=True
    )
    asking.start()
    try:
        scene.patience.until(lambda: shelf.count("withdrawn") > 0, awaited="The withdrawal …")
        pid = worker.kill()
    finally:
        shelf.hold(on=False)
        asking.join(scene.patience.left_s)
    scene.seen.release.killed = pid is not None
    scene.teller.found(f"kill -9 {pid}", "killed" if pid else "ended", "red")
    told = "It was sent, and no answer came. Did it happen? Unknown."
    scene.step(scene.seen.release.timeline, told, ended[0], "yellow")
    scene.refuse(
        "Alice simply asks for it again.",
        lambda: alice.compensate(published, reason),
        scene.seen.release.refused,
    )
    return ended[0]


def _offer_again(scene: Scene, alice: Portal, published: Result, withdrawn: Result) -> None:
    scene.teller.chapter(
        "Existing", "Olga offers the same intent again: the same key, a fresh permit, a new worker."
    )
    found = alice.acting_as(OLGA).reconcile(withdrawn, insist=True)
    told = "Its journal has the key: existing. It looks the status up, and runs nothing."
    scene.step(scene.seen.release.timeline, told, found)
    scene.refuse(
        "Alice asks for another withdrawal.",
        lambda: alice.compensate(published, Withdrawal(reason="Once more, to be sure.")),
        scene.seen.release.refused,
    )


def _count(scene: Scene, shelf: Shelf) -> None:
    seen = scene.seen.release
    seen.published, seen.withdrawn = shelf.count("published"), shelf.count("withdrawn")
    scene.teller.counted(
        f"In the register: {seen.published} published, {seen.withdrawn} withdrawn."
    )
