"""Ledgers as bytes: one form, and nothing else is taken."""

import json
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from amends.contracts.worker_identity import Fingerprint
from amends.ledger.document import decode_ledger, encode_ledger
from amends.ledger.plans import open_ledger
from amends.ledger.records import MAX_BYTES, Ledger, LedgerState, Supersession
from amends.testing.refusals import refused_with
from tests.unit.ledger.stage import PLAN, intended

FULL = intended()[0]
DATA = encode_ledger(FULL)
HASH = Fingerprint("a" * 64)


@pytest.mark.rule("HL-1")
def test_what_is_written_is_read_back() -> None:
    for ledger in (open_ledger(PLAN), FULL):
        assert decode_ledger(encode_ledger(ledger)) == ledger


@pytest.mark.rule("HL-1")
def test_the_members_stand_in_their_order() -> None:
    tree = json.loads(DATA)
    assert list(tree) == ["format_version", "revision", "plan_fingerprint", "operations"]
    [operation] = tree["operations"]
    assert list(operation) == (
        "step_id tool operation_key input_fingerprint state compensation".split()
    )
    assert list(operation["compensation"]) == (
        "compensation_key input_fingerprint tenant_scope grant_fingerprint state".split()
    )


@pytest.mark.rule("GR-ID-1")
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        DATA + b" ",
        DATA.replace(b'"revision":', b'"revision":1,"revision":'),
        DATA.replace(b'{"format_version"', b'{"more":1,"format_version"'),
        DATA.replace(b":2,", b":2.0,", 1),
        DATA.replace(b'"publish"', b'"\xff"'),
        b"[" * 60_000,
        b"x" * (MAX_BYTES + 1),
    ],
    ids=["empty", "list", "space", "twice", "unknown", "float", "utf-8", "deep", "large"],
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with refused_with("ledger.malformed"):
        decode_ledger(data)


def with_operations(change: dict[str, object]) -> Callable[[Ledger], Ledger]:
    return lambda ledger: replace(
        ledger, operations=tuple(replace(one, **change) for one in ledger.operations)
    )


def with_compensation(change: dict[str, object]) -> Callable[[Ledger], Ledger]:
    def changed(ledger: Ledger) -> Ledger:
        [one] = ledger.operations
        assert one.compensation is not None
        return replace(
            ledger, operations=(replace(one, compensation=replace(one.compensation, **change)),)
        )

    return changed


def with_a_second(change: dict[str, object]) -> Callable[[Ledger], Ledger]:
    def changed(ledger: Ledger) -> Ledger:
        [one] = ledger.operations
        return replace(ledger, revision=9, operations=(one, replace(one, **change)))

    return changed


INCOHERENT: dict[str, Callable[[Ledger], Ledger]] = {
    "format": lambda ledger: replace(ledger, format_version=3),
    "revision too low": lambda ledger: replace(ledger, revision=1),
    "plan": lambda ledger: replace(ledger, plan_fingerprint="x"),
    "step": with_operations({"step_id": ""}),
    "tool": with_operations({"tool": "No Token"}),
    "operation key": with_operations({"operation_key": "cmp-" + "0" * 64}),
    "input": with_operations({"input_fingerprint": "x"}),
    "compensated failure": with_operations({"state": LedgerState.FAILED}),
    "compensation key": with_compensation({"compensation_key": "op-" + "0" * 64}),
    "inverse input": with_compensation({"input_fingerprint": "x"}),
    "tenant": with_compensation({"tenant_scope": "No Token"}),
    "grant": with_compensation({"grant_fingerprint": "x"}),
    "one operation twice": with_a_second({"compensation": None}),
    "one inverse twice": with_a_second({"operation_key": "op-" + "0" * 64}),
    "too many": lambda ledger: with_so_many(ledger, 65),
}


def with_so_many(ledger: Ledger, count: int) -> Ledger:
    return replace(
        ledger,
        revision=99,
        operations=tuple(
            replace(ledger.operations[0], operation_key=f"op-{number:064x}", compensation=None)
            for number in range(count)
        ),
    )


@pytest.mark.rule("HL-1")
def test_a_ledger_takes_sixty_four_operations() -> None:
    full = with_so_many(FULL, 64)
    assert decode_ledger(encode_ledger(full)) == full


@pytest.mark.rule("HL-1")
def test_a_ledger_of_more_bytes_than_the_limit_is_refused_though_nothing_else_is_wrong() -> None:
    [one] = FULL.operations
    assert one.compensation is not None
    why = 65_000 - len(DATA)
    step = Supersession(who="o", why="w" * why, old=HASH, new=one.compensation.grant_fingerprint)
    long = with_compensation({"superseded": (step,)})(replace(FULL, format_version=3))
    assert decode_ledger(encode_ledger(long)) == long
    step = replace(step, why="w" * (why + 1_000))
    with refused_with("ledger.malformed"):
        decode_ledger(encode_ledger(with_compensation({"superseded": (step,)})(long)))


@pytest.mark.rule("HL-1", "HL-2")
@pytest.mark.parametrize("change", list(INCOHERENT.values()), ids=list(INCOHERENT))
def test_a_ledger_that_contradicts_itself_is_refused(change: Callable[[Ledger], Ledger]) -> None:
    with refused_with("ledger.malformed"):
        decode_ledger(encode_ledger(change(FULL)))
