"""Host and worker in a small world, dying and pausing between any two steps of their real shells.

One compensation key has its inverse effect at most once, and both sides end in what happened.
"""

from collections import Counter
from typing import Final

import pytest

from amends.contracts.worker_payload import Pending
from amends.journal.document import decode_journal
from amends.journal.records import Journal
from amends.ledger.document import decode_ledger
from amends.simulation.releases import (
    MAX_BYTES,
    Broken,
    Fate,
    ReleaseWorld,
    Side,
    play,
    play_drawn,
)
from amends.simulation.world import World
from amends.testing.durable import MemoryRecord, Moment
from amends.worker.keeping import JournalKeeper

BATCHES: Final = 20
SIZE: Final = 1_000
WHOLE: Final = play({})
STEPS: Final = {side: WHOLE.world.processes[f"{side}-0"].steps for side in Side}

HOST_WRITES: Final = ("the original", "the original's end", "the intent", "the inverse's end")
WORKER_WRITES: Final = (
    "the original's admission",
    "the original's end",
    "the inverse's admission",
    "the inverse's end",
)


def states(releases: ReleaseWorld) -> tuple[str, str]:
    """How ledger and journal stand, as one word each."""
    ledger = decode_ledger(releases.ledger.payload)
    [operation] = ledger.operations
    held = operation.compensation
    return operation.state.value, "none" if held is None else held.state.value


def test_without_a_fate_everything_happens_once_in_one_round() -> None:
    assert WHOLE.rounds == 1
    assert sorted(WHOLE.effects.values()) == [1, 1]
    assert states(WHOLE) == ("succeeded", "succeeded")


def dies_at_write(side: Side, number: int, moment: Moment) -> ReleaseWorld:
    """A world in which one side dies just before or after its write of this number."""
    world = World()

    async def scenario(world: World) -> ReleaseWorld:
        releases = ReleaseWorld(world, {})
        record: MemoryRecord = releases.ledger if side is Side.HOST else releases.journal
        left = [number]

        def at(when: Moment, _: bytes) -> None:
            if when is moment:
                left[0] -= 1
                if left[0] == -1:
                    world.processes[f"{side}-0"].kill()

        record.at = at
        await releases.play()
        return releases

    return world.run(scenario)


@pytest.mark.rule("WS-1", "WS-3", "HL-2", "PM-4")
@pytest.mark.fault(28, 29, 30, 51)
@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.parametrize("number", range(4), ids=lambda at: WORKER_WRITES[at])
def test_a_worker_that_dies_around_a_write_is_recovered_from(number: int, moment: Moment) -> None:
    releases = dies_at_write(Side.WORKER, number, moment)
    assert releases.seen["a worker died"] == 1
    assert releases.rounds == 2
    never_entered = number in (0, 2) and moment is Moment.AFTER
    original, inverse = states(releases)
    if number == 0 and never_entered:
        assert (original, inverse) == ("failed", "none")
    elif number == 2 and never_entered:
        assert (original, inverse) == ("succeeded", "failed")
    else:
        assert (original, inverse) == ("succeeded", "succeeded")


@pytest.mark.rule("WS-1", "HL-2", "HL-3", "PM-6")
@pytest.mark.fault(28, 51)
@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.parametrize("number", range(4), ids=lambda at: HOST_WRITES[at])
def test_a_host_that_dies_around_a_write_is_recovered_from(number: int, moment: Moment) -> None:
    releases = dies_at_write(Side.HOST, number, moment)
    assert releases.seen["a host died"] == 1
    assert releases.rounds == 2
    assert states(releases) == ("succeeded", "succeeded")
    assert sorted(releases.effects.values()) == [1, 1]


def play_each(side: Side, pause_s: float | None = None) -> list[ReleaseWorld]:
    return [play({(0, side): Fate(step, pause_s)}) for step in range(STEPS[side])]


@pytest.mark.rule("WS-1", "WJ-2", "HL-2", "PM-3")
@pytest.mark.fault(28, 29, 30, 44, 51)
@pytest.mark.parametrize("side", list(Side))
def test_each_side_may_die_before_each_of_its_steps(side: Side) -> None:
    rounds = Counter(releases.rounds for releases in play_each(side))
    assert rounds[2] > STEPS[side] // 2
    assert rounds.keys() <= {1, 2}


@pytest.mark.rule("WS-3", "WS-4")
@pytest.mark.fault(20, 22)
@pytest.mark.parametrize("side", list(Side))
def test_each_side_may_sleep_before_each_of_its_steps_while_others_take_over(side: Side) -> None:
    seen: Counter[str] = Counter()
    for releases in play_each(side, 200.0):
        seen += releases.seen
    assert seen["a worker met its predecessor alive"] > 5
    if side is Side.HOST:
        assert seen["sealed.fenced"] > 0


@pytest.mark.rule("WS-3")
def test_who_is_gone_is_asked_once_the_journal_is_open() -> None:
    """In this schedule a worker starts alone and gets its first word when two more came between."""
    play_drawn(8939)


@pytest.mark.rule("WS-1", "WS-3", "HL-2", "PM-3")
@pytest.mark.parametrize("batch", range(BATCHES))
def test_no_drawn_schedule_doubles_an_effect_or_ends_in_a_lie(batch: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(batch * SIZE, (batch + 1) * SIZE):
        seen += play_drawn(seed).seen
    for what, times in {
        "a host died": SIZE // 8,
        "a worker died": SIZE // 8,
        "a host was left behind": SIZE // 50,
        "a worker met its predecessor alive": SIZE // 50,
        "worker.no_answer": SIZE // 25,
        "sealed.fenced": 1,
    }.items():
        assert seen[what] >= times, what


def test_a_worker_that_acts_before_its_admission_is_durable_would_be_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    persist = JournalKeeper.persist

    async def forgets(keeper: JournalKeeper, journal: Journal) -> None:
        if any(one.state == Pending() for one in journal.records):
            keeper._journal = journal
            return
        await persist(keeper, journal)

    monkeypatch.setattr(JournalKeeper, "persist", forgets)
    with pytest.raises(Broken):
        play_each(Side.WORKER)


def test_what_survives_is_what_the_next_round_reads() -> None:
    journal = decode_journal(WHOLE.journal.payload, max_bytes=MAX_BYTES)
    assert [record.tool for record in journal.records] == ["release.publish"]
