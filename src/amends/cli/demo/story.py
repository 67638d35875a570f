"""The story of one payment, from dry run to receipts, and of one release, told as a user would.

Invariants: what is told is what was just observed, in the record, at the provider or in the
operating system. A chapter that does not go as it should leaves its mark in `Seen`, and the end
says so. Nothing outlives the story but the files in its folder.
"""

from pathlib import Path
from typing import Final

from amends import Result
from amends.blocking import Portal
from amends.cli.demo import capability, evidence
from amends.cli.demo.capability import TIME_LIMIT, Order, Refund
from amends.cli.demo.race import two_racers
from amends.cli.demo.releases import tell_of_releases
from amends.cli.demo.scene import Scene
from amends.cli.demo.seen import Seen
from amends.cli.demo.stage import ALICE, BOB, GRACE_MS
from amends.contracts.limits import RETRY_AFTER_MS

ORDER: Final = Order(amount_minor=4900, currency="eur")
LEASE_S: Final = TIME_LIMIT.total_seconds() + GRACE_MS / 1000
LOOK_UP_AFTER_S: Final = RETRY_AFTER_MS / 1000


def tell(scene: Scene) -> Seen:
    """Plan and approve; race and crash; open again, find out, make good, and prove it. Then the
    second act: a release, a worker, and a withdrawal that is cut short.

    Raises `Unavailable` when the machine is too slow for it, or a process of it fails.
    """
    _begin(scene)
    with scene.opened() as alice:
        waiting = _approve(scene, alice)
    _crash(scene, waiting)
    with scene.opened() as alice:
        charged = _find_out(scene, alice, waiting)
        refunded = _refund(scene, alice, charged)
        _prove(scene, alice, charged, refunded)
    tell_of_releases(scene)
    _end(scene)
    return scene.seen


def _begin(scene: Scene) -> None:
    scene.teller.title(
        "One payment of 49.00 EUR, a crash at the worst moment, and one refund.",
        "The provider is localstripe, a stateful fake of the Stripe API in a process of its own at "
        f"{scene.stage.provider_address}. It has no search, and it ignores idempotency keys: a "
        "charge that is sent twice is taken twice.",
    )


def _approve(scene: Scene, alice: Portal) -> Result:
    teller = scene.teller
    teller.chapter("Dry run", "Alice asks what a charge would do.")
    tried = alice.dry_run(scene.charge, ORDER)
    scene.enter("It would be allowed, with an approval. Nothing was sent.", tried)

    teller.chapter("Plan", "She plans it: exactly this input, to be committed once.")
    plan = scene.enter("The plan is stored.", alice.plan(scene.charge, ORDER))

    teller.chapter("Approval", "She commits the plan, which is a high risk.")
    waiting = scene.enter("It waits for a second person.", alice.commit(plan))
    scene.refuse("Alice approves it herself.", lambda: alice.approve(waiting))
    alice.acting_as(BOB).approve(waiting, reason="Agreed with the customer.")
    teller.found("Bob approves it. That alone runs nothing.")
    scene.count()
    return waiting


def _crash(scene: Scene, waiting: Result) -> None:
    teller, seen = scene.teller, scene.seen
    teller.chapter("Race", "Two processes go on with the approved commit at the same moment.")
    with two_racers(scene.stage, waiting.action_id, scene.patience) as race:
        winner = race.run()
        teller.found(f"Process {winner.pid} claims the plan and calls the provider.")
        code = race.refusal_of_loser(winner)
        seen.refused.append(code)
        teller.refused(f"Process {race.loser(winner).pid} comes second.", code)

        teller.chapter("Crash", "The provider has taken the money. Its answer is not stored yet.")
        seen.killed = race.kill(winner)
        teller.found(f"kill -9 {winner.pid}", "killed" if seen.killed else "ended", "red")
    scene.count()


def _find_out(scene: Scene, alice: Portal, waiting: Result) -> Result:
    def look() -> Result:
        return alice.get(waiting, include_result=True).result

    scene.teller.chapter("Restart", "Amends is opened again on the same database.")
    scene.enter("It finds the attempt of the dead process in flight.", look(), "yellow")
    unknown = scene.wait("The dead process still holds its lease …", LEASE_S, look, {"committing"})
    scene.enter("The lease has run out. Did the money move? Unknown.", unknown, "yellow")
    scene.refuse("Alice simply tries again.", lambda: alice.resume(waiting))

    scene.teller.chapter(
        "Reconciliation", "Nothing is sent again. The provider's list is read, page by page."
    )
    is_open = {"outcome_unknown", "reconciling"}
    found = scene.wait("The look-up is due in a moment …", LOOK_UP_AFTER_S, look, is_open)
    scene.enter(f"There is a charge with our key: {_operation(found)}", found)
    scene.count()
    return found


def _refund(scene: Scene, alice: Portal, charged: Result) -> Result:
    scene.teller.chapter("Refund", "A new action with an approval of its own: Alice asks for it.")
    asked = alice.compensate(charged, Refund(reason="The customer changed their mind."))
    scene.enter("It waits for a second person.", asked)
    alice.acting_as(BOB).approve(asked, reason="Within two weeks.")
    refunded = alice.wait_for_approval(asked, timeout_s=scene.patience.left_s)
    scene.enter(f"Bob approves it, Alice goes on: {_operation(refunded)}", refunded)
    again = Refund(reason="Once more, to be sure.")
    scene.refuse("Alice asks for a second refund.", lambda: alice.compensate(charged, again))
    scene.count()
    return refunded


def _prove(scene: Scene, alice: Portal, charged: Result, refunded: Result) -> None:
    teller, seen, stage = scene.teller, scene.seen, scene.stage
    teller.chapter("Receipts", "Every step left one, chained by hash and signed.")
    receipts = alice.receipts(charged)
    total = len(receipts) + len(alice.receipts(refunded))
    seen.receipts_verified = alice.verify(charged).ok and alice.verify(refunded).ok
    teller.found(
        f"{total} receipts are checked.",
        *(("verified", "green") if seen.receipts_verified else ("do not verify", "red")),
    )
    true, false = stage.file("receipts.json"), stage.file("receipts-tampered.json")
    evidence.write_receipts(true, receipts)
    evidence.write_receipts(false, evidence.with_other_approver(receipts, ALICE.ref))
    keys = evidence.public_keys(stage)
    faults = evidence.check_file(false, keys).findings
    seen.tamper_detected = evidence.check_file(true, keys).ok and bool(faults)
    told = f"receipt {faults[0].position + 1}: {faults[0].code}" if faults else "it verifies"
    teller.say("Then a copy is changed: Alice has approved her own payment.")
    teller.found("The tampered copy does not verify.", told, "red")


def _end(scene: Scene) -> None:
    counted = f"{scene.tally[0].upper()}{scene.tally[1:]}, as the provider counts."
    if scene.seen.ok:
        scene.teller.end(
            counted,
            "green",
            "Two racing processes, a kill -9, a blind retry and a second request for a refund "
            "did not change that.",
            "One release was withdrawn once, through the death of its worker.",
            f"What a user writes for this: {_shown(Path(capability.__file__))}",
        )
    else:
        scene.teller.end(f"{counted} Not everything went as it should.", "red")


def _operation(result: Result) -> str:
    operation = result.provider_operation
    return operation.operation_id if operation else "none"


def _shown(path: Path) -> Path:
    """The path as people would type it here."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
