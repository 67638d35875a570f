"""A record against its floor: the whole table, and why the order of writing is the only one."""

import itertools
from typing import Final, NamedTuple

import pytest
from msgspec.structs import replace

from amends.contracts.worker_identity import Fingerprint
from amends.sealed.anchors import Floor, check_held
from amends.sealed.envelopes import NOTHING, Snapshot
from amends.sealed.opening import Standing, judge, require_both
from amends.testing.refusals import refused_with


def hash_of(number: int) -> Fingerprint:
    return Fingerprint(f"{number:064x}")


def snapshot(revision: int) -> Snapshot:
    return Snapshot(
        revision=revision,
        previous=hash_of(revision - 1),
        fence=1,
        payload=b"",
        commitment=hash_of(revision),
    )


FLOOR: Final = Floor(5, hash_of(5), 2)

pytestmark = pytest.mark.rule("ST-2")


def test_the_same_revision_and_hash_go_on() -> None:
    assert judge(snapshot(5), FLOOR) is Standing.LEVEL


def test_exactly_one_chained_revision_ahead_is_finished() -> None:
    assert judge(snapshot(6), FLOOR) is Standing.ONE_AHEAD


@pytest.mark.parametrize(
    ("local", "code"),
    [
        (snapshot(4), "sealed.rolled_back"),
        (snapshot(1), "sealed.rolled_back"),
        (replace(snapshot(5), commitment=hash_of(9)), "sealed.forked"),
        (replace(snapshot(6), previous=hash_of(9)), "sealed.ahead"),
        (replace(snapshot(6), previous=NOTHING), "sealed.ahead"),
        (snapshot(7), "sealed.ahead"),
        (replace(snapshot(7), previous=hash_of(5)), "sealed.ahead"),
        (replace(snapshot(6), fence=2), "sealed.ahead"),
        (replace(snapshot(6), fence=3), "sealed.ahead"),
    ],
)
def test_every_other_record_is_an_alarm(local: Snapshot, code: str) -> None:
    with refused_with(code):
        judge(local, FLOOR)


def test_what_is_missing_is_never_made_by_itself() -> None:
    local = snapshot(5)
    assert require_both(local, FLOOR) == (local, FLOOR)
    with refused_with("sealed.local_lost"):
        require_both(None, FLOOR)
    with refused_with("sealed.unanchored"):
        require_both(local, None)
    for floor in (None, Floor(0, NOTHING, 1)):
        with refused_with("sealed.not_initialised"):
            require_both(None, floor)


@pytest.mark.rule("ST-3")
@pytest.mark.parametrize(
    ("found", "code"),
    [
        (replace(FLOOR, fence=3), "sealed.fenced"),
        (replace(FLOOR, fence=1), "sealed.fenced"),
        (replace(FLOOR, revision=6), "sealed.anchor_moved"),
        (replace(FLOOR, commitment=NOTHING), "sealed.anchor_moved"),
        (None, "sealed.anchor_moved"),
    ],
)
def test_a_writer_that_no_longer_stands_where_it_thinks_stops(
    found: Floor | None, code: str
) -> None:
    check_held(FLOOR, FLOOR)
    with refused_with(code):
        check_held(found, FLOOR)


# ── the order ────────────────────────────────────────────────────────────────────────────────────


class Disk(NamedTuple):
    """What survives: the record's revision, the floor's, and how often somebody acted."""

    record: int
    floor: int
    acted: int


Step = str
ORDERS: Final = tuple(itertools.permutations(("snapshot", "anchor", "act")))


def after(order: tuple[Step, ...], crash: int) -> Disk:
    """What is there when a writer of revision 2 dies after so many of its steps."""
    done = order[:crash]
    return Disk(
        record=2 if "snapshot" in done else 1,
        floor=2 if "anchor" in done else 1,
        acted=1 if "act" in done else 0,
    )


def opens(disk: Disk) -> int | None:
    """The revision that is served, or None: an alarm, from which only a person leads on."""
    if disk.record < disk.floor or disk.record > disk.floor + 1:
        return None
    return disk.record


def is_live(order: tuple[Step, ...]) -> bool:
    """Whether a plain crash, at any step, leaves something that opens by itself."""
    return all(opens(after(order, crash)) is not None for crash in range(4))


def is_safe(order: tuple[Step, ...]) -> bool:
    """Whether nobody acts again: after any crash, and with an old copy of the record put back."""
    for crash in range(4):
        disk = after(order, crash)
        for served in (opens(disk), opens(disk._replace(record=1))):
            if disk.acted and served == 1:
                return False
    return True


def test_only_snapshot_then_anchor_then_acting_is_safe_and_live() -> None:
    assert [order for order in ORDERS if is_safe(order) and is_live(order)] == [
        ("snapshot", "anchor", "act")
    ]
    assert [order for order in ORDERS if is_safe(order)] != [("snapshot", "anchor", "act")]
