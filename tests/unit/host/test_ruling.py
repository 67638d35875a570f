"""A hand settlement of what a worker carried out: journal, then ledger, then transaction."""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

import pytest
from msgspec.structs import replace

from amends import worker_capability
from amends.contracts.codes import coded
from amends.contracts.declarations import Capability
from amends.contracts.enums import Handler, Status, Verdict, WireStatus
from amends.contracts.errors import AmendsError, Refused, Unavailable
from amends.contracts.results import Result
from amends.contracts.worker_grant import CapabilityGrant
from amends.contracts.worker_payload import Cancelled, Failed, Succeeded, ToolPayload
from amends.host.link import EntryRuling
from amends.host.verifiers import Verifiers
from amends.host.workflow import Workflow
from amends.journal.closing import NO_INPUT
from amends.journal.records import JournalCompensation, JournalRecord
from amends.ledger.document import encode_ledger
from amends.ledger.plans import make_plan
from amends.ledger.records import Ledger, LedgerOperation, LedgerState, with_operation
from amends.ledger.targets import Stage
from amends.stores.port import Accepted, ChangeSet, Lost
from amends.testing.durable import Moment
from amends.testing.provider import ScriptedProvider
from amends.testing.workbench import CHARGE, TENANT, Workbench, charging
from amends.transactions.hashing import intent_digest
from tests.unit.host.loop_worker import SCOPE, WITHDRAWAL, Withdrawal, World
from tests.unit.host.test_connector import LATER_S, TOOL, executed, hangs_up, refusal
from tests.unit.worker.stage import GRANT

FOUND: Final = {"reference": "ticket 7", "note": "it is in the provider's log"}
RISKY: Final = {**FOUND, "accept_risk": True}
HAPPENED: Final = (Verdict.COMMITTED, Succeeded(ToolPayload.json({})), LedgerState.SUCCEEDED)
DID_NOT: Final = (Verdict.NOT_COMMITTED, Failed(FOUND["note"]), LedgerState.FAILED)
PARTLY: Final = (Verdict.PARTIAL, *HAPPENED[1:])
EFFECT: Final = "of the effect"
INVERSE: Final = "of its inverse"


def unhelpful(**how: object) -> World:
    """A world whose provider can never tell what became of anything."""
    world = World(**how)  # type: ignore[arg-type]  # handed on
    world.worker.provider.found = lambda _: None
    return world


async def lost(world: World, bench: Workbench, which: str) -> Result:
    """An effect, or an inverse, of which nobody heard."""
    if which == EFFECT:
        world.worker.provider.after = hangs_up(world)
        return await executed(bench)
    done = await executed(bench)
    world.worker.provider.after = hangs_up(world)
    return await bench.alice.compensate(done, WITHDRAWAL)


async def settled(bench: Workbench, unknown: Result, verdict: Verdict) -> Result:
    return await bench.olga.settle(unknown.transaction_id, verdict, **RISKY)  # type: ignore[arg-type]  # as told


def operation(world: World) -> LedgerOperation:
    (found,) = world.worker.ledger_of_all.operations
    return found


def in_ledger(world: World, which: str) -> LedgerState:
    entry = operation(world) if which == EFFECT else operation(world).compensation
    assert entry is not None
    return entry.state


def in_journal(world: World, which: str) -> JournalRecord | JournalCompensation:
    (record,) = world.worker.kept.records
    entry = record if which == EFFECT else record.compensation
    assert entry is not None
    return entry


@pytest.mark.rule("INT-3")
@pytest.mark.parametrize("found", [HAPPENED, DID_NOT, PARTLY], ids=lambda found: str(found[0]))
@pytest.mark.parametrize("which", [EFFECT, INVERSE])
async def test_a_ruling_ends_journal_and_ledger_before_the_transaction(
    which: str, found: tuple[Verdict, Succeeded | Failed, LedgerState]
) -> None:
    verdict, ending, state = found
    world = unhelpful()
    async with world.bench() as bench:
        unknown = await lost(world, bench, which)
        ruled = await settled(bench, unknown, verdict)
        record = await bench.record(unknown)
        code = await refusal(bench.olga.reconcile(unknown, insist=True))
    entry = in_journal(world, which)
    assert (ruled.status, ruled.verdict) == (WireStatus.RECONCILED, verdict)
    assert in_ledger(world, which) is state
    assert entry.state == ending
    assert entry.ruling is not None
    assert (entry.ruling.who, entry.ruling.evidence) == ("operator:olga", "ticket 7")
    assert record.ruling is not None
    assert code == "transaction.reconcile_state_invalid"


# ── the order, cut at each step ──────────────────────────────────────────────────────────────────


class Cuts:
    """Tells each write of the three, in order, and ends the process at one of them."""

    STEPS: Final = tuple(
        f"{moment} {place}"
        for place in ("journal", "ledger", "transaction")
        for moment in ("before", "after")
    )

    def __init__(self, world: World, bench: Workbench, at: str) -> None:
        self.seen: list[str] = []
        self._at = at
        world.worker.journal.at = self._watching("journal")
        for ledger in world.worker.ledgers.values():
            ledger.at = self._watching("ledger")
        self._commit = bench.store.commit
        bench.store.commit = self._written  # type: ignore[method-assign]  # this host's disk

    def _watching(self, place: str) -> Callable[[Moment, bytes], None]:
        return lambda moment, _: self._tell(f"{moment.value} {place}")

    async def _written(self, change_set: ChangeSet) -> Accepted | Lost:
        self._tell("before transaction")
        answer = await self._commit(change_set)
        self._tell("after transaction")
        return answer

    def _tell(self, step: str) -> None:
        self.seen.append(step)
        if step == self._at:
            raise OSError("the host died")


@pytest.mark.rule("INT-3")
@pytest.mark.parametrize("which", [EFFECT, INVERSE])
async def test_each_of_the_three_is_durable_before_the_next(which: str) -> None:
    world = unhelpful()
    async with world.bench() as bench:
        unknown = await lost(world, bench, which)
        cuts = Cuts(world, bench, at="never")
        await settled(bench, unknown, Verdict.COMMITTED)
    assert tuple(cuts.seen) == Cuts.STEPS


@pytest.mark.rule("INT-3")
@pytest.mark.parametrize("found", [HAPPENED, DID_NOT], ids=lambda found: str(found[0]))
@pytest.mark.parametrize("step", Cuts.STEPS)
@pytest.mark.parametrize("which", [EFFECT, INVERSE])
async def test_a_ruling_that_was_cut_short_is_made_again_and_ends_the_same(
    which: str, step: str, found: tuple[Verdict, Succeeded | Failed, LedgerState]
) -> None:
    verdict, ending, state = found
    world = unhelpful()
    async with world.bench() as bench:
        unknown = await lost(world, bench, which)
        effects = list(world.effects)
        Cuts(world, bench, step)
        with pytest.raises((OSError, Unavailable)):
            await settled(bench, unknown, verdict)
        world.worker.journal.at = None
        for ledger in world.worker.ledgers.values():
            ledger.at = None
        await bench.restart()
        if step == "after transaction":
            assert (await bench.record(unknown)).verdict is verdict
        else:
            assert (await bench.record(unknown)).status is Status.OUTCOME_UNKNOWN
            await settled(bench, unknown, verdict)
        assert (await bench.record(unknown)).verdict is verdict
    assert (in_journal(world, which).state, in_ledger(world, which)) == (ending, state)
    assert world.effects == effects


@pytest.mark.rule("INT-3")
@pytest.mark.parametrize("step", ["after journal", "after ledger"])
async def test_what_a_ruling_left_half_done_is_also_found_by_the_scheduler(step: str) -> None:
    world = unhelpful()
    async with world.bench() as bench:
        unknown = await lost(world, bench, INVERSE)
        Cuts(world, bench, step)
        with pytest.raises(Unavailable):
            await settled(bench, unknown, Verdict.COMMITTED)
        world.worker.journal.at = None
        for ledger in world.worker.ledgers.values():
            ledger.at = None
        await bench.restart()
        bench.wait(LATER_S)
        await bench.sweep()
        record = await bench.record(unknown)
    assert (record.status, record.verdict) == (Status.RECONCILED, Verdict.COMMITTED)
    assert in_ledger(world, INVERSE) is LedgerState.SUCCEEDED


# ── what is refused changes nothing ──────────────────────────────────────────────────────────────


def kept_of(world: World) -> tuple[bytes, ...]:
    worker = world.worker
    return (worker.journal.payload, *(one.payload for one in worker.ledgers.values()))


async def stays(world: World, bench: Workbench, unknown: Result, verdict: Verdict) -> str:
    """The code that a ruling is refused with, which leaves all three as they were."""
    before = kept_of(world), await bench.record(unknown)
    code = await refusal(settled(bench, unknown, verdict))
    assert (kept_of(world), await bench.record(unknown)) == before
    return code


@pytest.mark.rule("INT-3")
async def test_a_journal_that_cannot_be_reached_leaves_everything_as_it_was() -> None:
    world = unhelpful()
    async with world.bench() as bench:
        unknown = await lost(world, bench, INVERSE)
        world.worker.down = coded("sealed.locked")
        assert await stays(world, bench, unknown, Verdict.COMMITTED) == "sealed.locked"


@pytest.mark.rule("INT-3")
@pytest.mark.parametrize("who", ["alice", "nobody"])
async def test_who_may_not_rule_reaches_neither_journal_nor_ledger(who: str) -> None:
    world = unhelpful()
    async with world.bench() as bench:
        unknown = await lost(world, bench, EFFECT)
        before, fences = kept_of(world), world.worker.journal.fence
        asker = bench.alice if who == "alice" else bench.eve
        with pytest.raises(Refused):
            await asker.settle(unknown.transaction_id, Verdict.COMMITTED, **RISKY)  # type: ignore[arg-type]  # as told
    assert (kept_of(world), world.worker.journal.fence) == (before, fences)


@pytest.mark.rule("INT-3")
async def test_a_person_cannot_contradict_what_the_journal_has() -> None:
    world = unhelpful()
    async with world.bench() as bench:
        unknown = await lost(world, bench, EFFECT)
        await settled_in_journal(world, Verdict.COMMITTED)
        assert await stays(world, bench, unknown, Verdict.NOT_COMMITTED) == "journal.contradicted"
        assert (await settled(bench, unknown, Verdict.COMMITTED)).verdict is Verdict.COMMITTED


async def settled_in_journal(world: World, verdict: Verdict) -> None:
    """The worker found it out, and the host has not heard."""

    ending = HAPPENED[1] if verdict is Verdict.COMMITTED else DID_NOT[1]
    (record,) = world.worker.kept.records
    ruling = EntryRuling(
        tool=TOOL,
        operation_key=record.operation_key,
        ending=ending,
        who="w",
        why="w",
        evidence="w",
    )
    await world.worker.rule(TENANT, ruling)


@pytest.mark.rule("INT-3")
async def test_nor_what_the_ledger_has_and_then_the_journal_is_not_even_asked() -> None:
    world = unhelpful()
    async with world.bench() as bench:
        unknown = await lost(world, bench, EFFECT)
        found = operation(world)
        ended = with_operation(
            world.worker.ledger_of_all, replace(found, state=LedgerState.SUCCEEDED)
        )
        write(world, ended)
        fences = world.worker.journal.fence
        code = await stays(world, bench, unknown, Verdict.NOT_COMMITTED)
    assert code == "ledger.transition_refused"
    assert world.worker.journal.fence == fences


def write(world: World, ledger: Ledger) -> None:
    (kept,) = world.worker.ledgers.values()
    kept.payload = encode_ledger(ledger)


async def test_a_capability_that_is_gone_cannot_be_settled_past_its_worker() -> None:
    world = unhelpful()
    async with world.bench() as bench:
        unknown = await lost(world, bench, EFFECT)
        other = World(grant=CapabilityGrant("other.tool", max_compensations=1))
        await bench.restart([(other_named(other), other.capability.build()[1])])
        code = await stays(world, bench, unknown, Verdict.COMMITTED)
    assert code == "transaction.settle_needs_capability"


def other_named(world: World) -> Capability:
    return replace(world.capability.build()[0], id="other.tool")


async def test_a_ledger_that_is_gone_is_put_back_first() -> None:
    world = unhelpful()
    async with world.bench() as bench:
        unknown = await lost(world, bench, EFFECT)
        ledgers = dict(world.worker.ledgers)
        world.worker.ledgers.clear()
        code = await stays(world, bench, unknown, Verdict.COMMITTED)
        world.worker.ledgers.update(ledgers)
        assert (await settled(bench, unknown, Verdict.COMMITTED)).verdict is Verdict.COMMITTED
    assert code == "ledger.operation_unknown"


async def test_another_intent_than_the_records_own_is_not_ruled_on() -> None:
    world = unhelpful()
    async with world.bench() as bench:
        unknown = await lost(world, bench, INVERSE)
        found = operation(world)
        assert found.compensation is not None

        other = replace(found.compensation, compensation_key="cmp-" + "0" * 64)
        write(
            world,
            with_operation(world.worker.ledger_of_all, replace(found, compensation=other)),
        )
        code = await stays(world, bench, unknown, Verdict.COMMITTED)
    assert code == "ledger.compensation_exists"


# ── what never came, and what was never recorded ─────────────────────────────────────────────────


@pytest.mark.rule("INT-3")
@pytest.mark.case("CMP-05")
async def test_an_inverse_that_never_came_is_closed_so_that_a_late_offer_finds_its_key_taken() -> (
    None
):
    world = unhelpful()
    world.denies = Stage.SEAL
    async with world.bench() as bench:
        done = await executed(bench)
        undone = await bench.alice.compensate(done, WITHDRAWAL)
        before = world.worker.ledger_of_all
        await settled(bench, undone, Verdict.NOT_COMMITTED)
        entry = in_journal(world, INVERSE)
        world.denies = None
        write(world, before)  # a host that was given up, and knows nothing of the ruling
        code = await offered(world, bench, done)
        again = await refusal(bench.alice.compensate(done, WITHDRAWAL))
    assert (entry.state, entry.input_fingerprint) == (DID_NOT[1], NO_INPUT)
    assert code == "journal.compensation_differs"
    assert again == "transaction.compensation_recovery_required"
    assert world.effects == [1]


async def offered(world: World, bench: Workbench, done: Result) -> str:
    """What an offer of the recorded intent is answered with, on the worker's side."""

    plan = make_plan([("effect", intent_digest(await bench.record(done)))])
    (kept,) = world.worker.ledgers.values()
    workflow = await Workflow.open(
        plan,
        kept.open,
        Verifiers(grant=lambda _: True, action=lambda _: True),
        clock=bench.clock,
    )
    key = workflow.ledger.operations[0].operation_key
    inverse = ToolPayload.json({"undo": "release"})
    async with world.worker.channel(TENANT, GRANT, limit_s=5) as channel:
        target = workflow.target(key, SCOPE, GRANT, inverse)
        with pytest.raises(AmendsError) as refused:
            await workflow.compensate(channel, target)
    return str(refused.value.details["code"])


def dies_writing(world: World, moment: Moment) -> None:
    """This host's disk ends its first write to a ledger."""
    opened = world.worker.ledger

    def watch(seen: Moment, _: bytes) -> None:
        if seen is moment:
            raise OSError("the host died")

    async def failing(*about: object, **how: object) -> object:
        found = await opened(*about, **how)  # type: ignore[arg-type]  # handed on
        for record in world.worker.ledgers.values():
            record.at = watch
        return found

    world.worker.ledger = failing  # type: ignore[method-assign,assignment]  # the disk of this host


def another_host(world: World) -> None:
    del world.worker.ledger
    for record in world.worker.ledgers.values():
        record.at = None


@pytest.mark.rule("INT-3")
async def test_an_original_that_never_came_is_closed_in_the_journal_as_well() -> None:
    world = World(horizon=timedelta(minutes=1))
    dies_writing(world, Moment.AFTER)
    async with world.bench() as bench:
        unknown = await executed(bench)
        another_host(world)
        await bench.restart()
        await settled(bench, unknown, Verdict.NOT_COMMITTED)
        record = await bench.record(unknown)
    entry = in_journal(world, EFFECT)
    assert (entry.state, in_ledger(world, EFFECT)) == (DID_NOT[1], LedgerState.FAILED)
    assert record.provider_operation is not None
    assert str(record.provider_operation.operation_id) == operation(world).operation_key
    assert world.worker.provider.entered == {}


@pytest.mark.parametrize("which", [EFFECT, INVERSE])
async def test_where_no_intent_was_recorded_there_is_nothing_to_resolve(which: str) -> None:
    world = unhelpful()
    async with world.bench() as bench:
        done = await executed(bench) if which == INVERSE else None
        before = world.worker.journal.payload
        dies_writing(world, Moment.BEFORE)
        unknown = (
            await executed(bench)
            if done is None
            else await bench.alice.compensate(done, WITHDRAWAL)
        )
        another_host(world)
        await bench.restart()
        ruled = await settled(bench, unknown, Verdict.NOT_COMMITTED)
    assert ruled.verdict is Verdict.NOT_COMMITTED
    assert world.worker.journal.payload == before


@pytest.mark.rule("INT-2", "INT-3")
async def test_what_was_cancelled_has_ended_and_stays_so_in_both_accounts() -> None:
    world = World()
    world.worker.provider.before = lambda _: Cancelled()
    async with world.bench() as bench:
        unknown = await executed(bench)
        before = kept_of(world)
        ruled = await settled(bench, unknown, Verdict.NOT_COMMITTED)
    assert ruled.verdict is Verdict.NOT_COMMITTED
    assert kept_of(world) == before
    assert in_ledger(world, EFFECT) is LedgerState.CANCELLED


@pytest.mark.rule("INT-3")
async def test_a_cancelled_answer_that_was_lost_comes_from_the_journal_into_the_ledger() -> None:
    world = World()

    def cancelled(call: object) -> object:
        hangs_up_quietly(world)
        return Cancelled()

    world.worker.provider.before = cancelled
    async with world.bench() as bench:
        unknown = await executed(bench)
        assert in_ledger(world, EFFECT) is LedgerState.PENDING
        await settled(bench, unknown, Verdict.COMMITTED)
    assert in_journal(world, EFFECT).state == Cancelled()
    assert in_ledger(world, EFFECT) is LedgerState.CANCELLED


def hangs_up_quietly(world: World) -> None:
    for end in world.worker.wires:
        end.cut()


async def test_a_tool_that_speaks_text_is_settled_with_no_text() -> None:
    text = CapabilityGrant.text(TOOL)
    world = World(grant=text, verified=False)

    world.capability = worker_capability(TOOL, worker=world.worker, grant=text, input=str)
    world.worker.provider.found = lambda _: None
    world.worker.provider.after = hangs_up(world)
    async with world.bench() as bench:
        unknown = await bench.alice.execute(TOOL, "1.2.3")
        await settled(bench, unknown, Verdict.COMMITTED)
    assert in_journal(world, EFFECT).state == Succeeded(ToolPayload.text(""))


@pytest.mark.rule("INT-3")
async def test_what_offsets_another_capabilitys_effect_is_an_original_of_its_own() -> None:
    world = unhelpful()
    offset = worker_capability(
        "release.undo", worker=world.worker, grant=GRANT, input=Withdrawal, horizon=None
    )
    world.worker.provider.found = lambda _: None
    charged = charging(ScriptedProvider())
    compensated = replace(
        charged[0],
        compensation=replace(charged[0].compensation, compensation_capability_id=offset.id),
        compensation_schema=None,
        handlers=tuple(one for one in charged[0].handlers if one is not Handler.COMPENSATE),
    )
    async with Workbench(served=[(compensated, charged[1]), offset.build()]) as bench:
        done = await bench.alice.execute(CHARGE, {"amount": 500})
        world.worker.provider.after = hangs_up(world)
        undone = await bench.alice.compensate(done, WITHDRAWAL)
        assert undone.status is WireStatus.OUTCOME_UNKNOWN
        ruled = await settled(bench, undone, Verdict.COMMITTED)
    assert ruled.verdict is Verdict.COMMITTED
    assert in_journal(world, EFFECT).ruling is not None
    assert in_ledger(world, EFFECT) is LedgerState.SUCCEEDED
