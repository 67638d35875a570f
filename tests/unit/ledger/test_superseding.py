"""A stranded intent moves to another grant by an explicit act, under its unchanged key."""

import itertools
from contextlib import suppress

import pytest
from msgspec.structs import replace

from amends.contracts.errors import Refused
from amends.contracts.worker_grant import CapabilityGrant, grant_fingerprint
from amends.ledger.compensations import observe_compensation, propose_compensation
from amends.ledger.document import decode_ledger, encode_ledger
from amends.ledger.permits import PermitDesk
from amends.ledger.records import Ledger, LedgerCompensation, LedgerState, require_operation
from amends.ledger.superseding import supersede_grant
from amends.ledger.targets import Stage, check_intent
from amends.testing.refusals import refused_with
from tests.unit.ledger.stage import (
    GRANT,
    NONCE,
    NOW,
    Sealer,
    intended,
    ledger_with,
    permit_for,
    yes,
)

LATER_GRANT = GRANT.with_compensation_limit(2)

pytestmark = pytest.mark.rule("GR-4")


def held_in(ledger: Ledger, key: str) -> LedgerCompensation:
    held = require_operation(ledger, key).compensation
    assert held is not None
    return held


def test_an_intent_goes_on_under_the_new_grant_with_its_old_key() -> None:
    ledger, target, key = intended()
    later = replace(target, grant=LATER_GRANT)
    with refused_with("ledger.compensation_drifted"):
        check_intent(ledger, later)
    moved = supersede_grant(
        ledger, target.operation_key, LATER_GRANT, who="olga", why="the limit was raised"
    )
    assert moved.revision == ledger.revision + 1
    [step] = held_in(moved, target.operation_key).superseded
    assert (step.who, step.why) == ("olga", "the limit was raised")
    assert (step.old, step.new) == (grant_fingerprint(GRANT), grant_fingerprint(LATER_GRANT))
    assert decode_ledger(encode_ledger(moved)) == moved
    desk, sealer = PermitDesk(), Sealer()
    permit = permit_for(desk, moved, later)
    verdicts = yes(moved, later, Stage.SEAL)
    desk.redeem(permit, moved, later, verdicts, sealer, request_id="c-1", now=NOW)
    [request] = sealer.sealed
    assert request.compensation_key == key
    assert request.grant_fingerprint == grant_fingerprint(LATER_GRANT)


def test_the_old_grant_serves_no_more_and_no_second_intent_is_recorded() -> None:
    ledger, target, _ = intended()
    moved = supersede_grant(ledger, target.operation_key, LATER_GRANT, who="o", why="w")
    with refused_with("ledger.compensation_drifted"):
        check_intent(moved, target)
    for grant in (GRANT, LATER_GRANT):
        with refused_with("ledger.compensation_exists"):
            propose_compensation(moved, replace(target, grant=grant), NONCE)


def test_each_change_is_an_act_of_its_own() -> None:
    ledger, target, _ = intended()
    once = supersede_grant(ledger, target.operation_key, LATER_GRANT, who="o", why="w")
    twice = supersede_grant(once, target.operation_key, GRANT, who="o", why="w")
    assert len(held_in(twice, target.operation_key).superseded) == 2
    assert decode_ledger(encode_ledger(twice)) == twice
    check_intent(twice, target)


@pytest.mark.parametrize(
    ("grant", "who", "why", "code"),
    [
        (GRANT, "olga", "why", "ledger.supersede_refused"),
        (LATER_GRANT, " ", "why", "ledger.supersede_refused"),
        (LATER_GRANT, "olga", "x" * 2001, "ledger.supersede_refused"),
        (GRANT.with_compensation_limit(0), "olga", "why", "ledger.compensation_not_granted"),
        (
            CapabilityGrant("other.tool", max_compensations=1),
            "olga",
            "why",
            "ledger.grant_tool_mismatch",
        ),
    ],
)
def test_what_does_not_say_who_why_and_to_which_grant_is_refused(
    grant: CapabilityGrant, who: str, why: str, code: str
) -> None:
    ledger, target, _ = intended()
    with refused_with(code):
        supersede_grant(ledger, target.operation_key, grant, who=who, why=why)


def superseded_until_full(ledger: Ledger, key: str) -> Ledger:
    """A ledger that takes not one letter more."""
    grants = itertools.cycle([LATER_GRANT, GRANT])
    grant = next(grants)
    for length in range(2000, 0, -1):
        with suppress(Refused):
            while True:
                ledger = supersede_grant(ledger, key, grant, who="o", why="w" * length)
                grant = next(grants)
    return ledger


@pytest.mark.rule("HL-4")
def test_what_a_full_ledger_holds_can_be_written_down_however_it_ends() -> None:
    ledger, target, _ = intended()
    full = superseded_until_full(ledger, target.operation_key)
    assert len(held_in(full, target.operation_key).superseded) > 10
    grant = held_in(full, target.operation_key).grant_fingerprint
    other = LATER_GRANT if grant == grant_fingerprint(GRANT) else GRANT
    with refused_with("ledger.full"):
        supersede_grant(full, target.operation_key, other, who="o", why="w")
    for state in (LedgerState.RUNNING, LedgerState.CANCELLED):
        full = observe_compensation(full, target.operation_key, state)
    assert decode_ledger(encode_ledger(full)) == full


def test_only_an_open_intent_is_superseded() -> None:
    ledger, target, _ = intended()
    ended = observe_compensation(ledger, target.operation_key, LedgerState.FAILED)
    with refused_with("ledger.supersede_refused"):
        supersede_grant(ended, target.operation_key, LATER_GRANT, who="o", why="w")
    bare, key = ledger_with()
    with refused_with("ledger.compensation_unknown"):
        supersede_grant(bare, key, LATER_GRANT, who="o", why="w")


def test_a_ledger_says_in_its_format_that_a_grant_was_superseded() -> None:
    ledger, target, _ = intended()
    moved = supersede_grant(ledger, target.operation_key, LATER_GRANT, who="o", why="w")
    assert (ledger.format_version, moved.format_version) == (2, 3)
    held = held_in(moved, target.operation_key)
    [step] = held.superseded
    for spoilt in (
        replace(moved, format_version=2),
        with_held(moved, replace(held, grant_fingerprint=step.old)),
        with_held(moved, replace(held, superseded=(step, step))),
        with_held(moved, replace(held, superseded=(replace(step, old="x"),))),
    ):
        with refused_with("ledger.malformed"):
            decode_ledger(encode_ledger(spoilt))


def with_held(ledger: Ledger, held: LedgerCompensation) -> Ledger:
    [operation] = ledger.operations
    return replace(ledger, operations=(replace(operation, compensation=held),))
