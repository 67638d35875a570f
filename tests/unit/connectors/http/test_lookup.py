"""Looking effects up, at a provider whose answers are scripted."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from amends.connectors.http import ByOffset, ByToken, State
from amends.connectors.http.lookup import FROM_THE_START
from amends.contracts.declarations import DataContract
from amends.contracts.enums import Handler
from amends.contracts.json_types import Json
from amends.contracts.outcomes import Applied, NotApplied, NotFound, Outcome, Pending, Uncertain
from amends.testing.http_provider import Break, HttpFault, HttpProvider
from tests.unit.connectors.http.payments import (
    BY_KEY,
    CAPABILITY,
    CHARGED,
    KEY,
    LOOKUP,
    ORDER,
    Session,
    changed,
    declared,
    execute,
    operation,
)

OURS: Json = {"id": "ch_7", **ORDER, "metadata": {"key": KEY}}
OTHER: Json = {"id": "ch_6", **ORDER, "metadata": {"key": "key_of_another"}}
KNOWN = {"provider_operation": operation("ch_7")}
TOKENS = changed(BY_KEY, paging=ByToken(parameter="after", next="/next"))


def _answer(value: Json, **fault: Any) -> HttpFault:
    return HttpFault(status=200, body=msgspec.json.encode(value), **fault)


def _page(*items: Json, next: Json = None) -> HttpFault:
    return _answer({"data": list(items), "next": next})


def _by_token(**changes: Any) -> Any:
    return execute(lookup=changed(LOOKUP, by_key=changed(TOKENS, **changes)))


async def _look_up(
    reads: Iterable[HttpFault], effect: Any = None, **facts: Any
) -> tuple[Outcome, HttpProvider]:
    async with HttpProvider(reads=reads) as provider:
        parts = {"execute": effect or execute()}
        capability = facts.pop("declared_capability", CAPABILITY)
        declaration = declared(provider.url, capability=capability, **parts)
        async with Session(declaration) as session:
            facts = {"capability": session.capability, **facts}
            return await session.carry(Handler.RECONCILE, **facts), provider


def _uncertain(outcome: Outcome) -> tuple[str, Json]:
    assert isinstance(outcome, Uncertain)
    details = outcome.error.details
    return outcome.error.code, details.get("reason") or details.get("flaw")


def _asked(provider: HttpProvider) -> list[str]:
    return [seen.target.partition("?")[2] for seen in provider.requests]


# ── by id ────────────────────────────────────────────────────────────────────────────────────────


async def test_what_is_known_by_its_id_is_asked_for_by_its_id() -> None:
    outcome, provider = await _look_up([_answer(OURS)], **KNOWN)
    assert outcome == Applied(output=OURS, operation=operation("ch_7"))
    assert [seen.target for seen in provider.requests] == ["/v1/charges/ch_7"]
    assert provider.requests[0].headers["authorization"] == "Bearer tok"
    assert "idempotency-key" not in provider.requests[0].headers


@pytest.mark.case("CAN-11")
async def test_an_id_beyond_2_53_keeps_its_digits_on_the_way_there_and_back() -> None:
    body = b'{"id": 9007199254740993, "amount": 500, "currency": "eur"}'
    known = operation("9007199254740993")
    outcome, provider = await _look_up([HttpFault(status=200, body=body)], provider_operation=known)
    assert outcome == Applied(output={"id": "9007199254740993", **ORDER}, operation=known)
    assert provider.requests[0].target == "/v1/charges/9007199254740993"


@pytest.mark.case("EVC-03")
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (HttpFault(status=404), NotFound()),
        (HttpFault(status=202), Pending()),
        (HttpFault(status=410), "connector.lookup_gone"),
        (HttpFault(status=403), "connector.lookup_unreadable"),
        (HttpFault(status=204), "connector.lookup_unreadable"),
        (HttpFault(status=500), "connector.lookup_unreadable"),
        (HttpFault(status=302), "connector.lookup_unreadable"),
        (HttpFault(status=200, body=b"<html>"), "connector.lookup_unreadable"),
        (HttpFault(status=200, body=b""), "connector.lookup_unreadable"),
        (_answer({}), "connector.lookup_unreadable"),
        (_answer([]), "connector.lookup_unreadable"),
        (_answer(None), "connector.lookup_unreadable"),
        (_answer({"items": []}), "connector.lookup_mismatch"),
        (_answer({**ORDER, "id": "ch_7", "amount": 501}), "connector.lookup_mismatch"),
        (_answer({**ORDER, "id": "ch_8"}), "connector.lookup_mismatch"),
        (HttpFault(breaks=Break.AFTER_REQUEST), "connector.answer_lost"),
    ],
)
async def test_every_answer_about_one_object_has_its_meaning(
    fault: HttpFault, expected: Outcome | str
) -> None:
    outcome, _ = await _look_up([fault], **KNOWN)
    if isinstance(expected, str):
        assert _uncertain(outcome)[0] == expected
    else:
        assert outcome == expected


async def test_the_state_of_what_is_found_counts() -> None:
    state = State(at="/status", applied=("done",), not_applied=("failed",))
    effect = execute(lookup=changed(LOOKUP, state=state))
    failed, _ = await _look_up(
        [_answer({**ORDER, "id": "ch_7", "status": "failed"})], effect, **KNOWN
    )
    assert isinstance(failed, NotApplied)
    assert failed.operation == operation("ch_7")
    done, _ = await _look_up([_answer({**ORDER, "id": "ch_7", "status": "done"})], effect, **KNOWN)
    assert isinstance(done, Applied)


async def test_the_object_may_stand_deeper_and_be_compared_in_its_own_way() -> None:
    by_id = changed(LOOKUP.by_id, object="/data/charge")
    lookup = changed(
        LOOKUP, by_id=by_id, operation_id="/no", match={"/ref": "{attempt.provider_key}"}
    )
    body: Json = {"data": {"charge": {"no": "ch_7", "ref": KEY}}}
    outcome, _ = await _look_up([_answer(body)], execute(lookup=lookup), **KNOWN)
    assert outcome == Applied(output={"no": "ch_7", "ref": KEY}, operation=operation("ch_7"))


async def test_a_provider_s_delay_is_told() -> None:
    fault = HttpFault(status=503, headers=(("Retry-After", "9"),))
    outcome, _ = await _look_up([fault], **KNOWN)
    assert isinstance(outcome, Uncertain)
    assert outcome.retry_after_ms == 9000


async def test_without_a_connection_nothing_is_known() -> None:
    async with Session(declared("http://127.0.0.1:9")) as session:
        outcome = await session.carry(Handler.RECONCILE, **KNOWN)
    assert _uncertain(outcome) == ("connector.unreachable", "refused")


# ── by key ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.case("PAG-03")
async def test_our_item_is_found_behind_an_empty_page() -> None:
    outcome, provider = await _look_up([_page(next="c1"), _page(OTHER, OURS)], _by_token())
    assert outcome == Applied(output=OURS, operation=operation("ch_7"))
    assert _asked(provider) == ["limit=2", "limit=2&after=c1"]


async def test_not_found_is_said_only_of_a_list_that_was_read_to_its_end() -> None:
    outcome, provider = await _look_up([_page(OTHER, next="c1"), _page(OTHER)], _by_token())
    assert outcome == NotFound()
    assert len(provider.requests) == 2


async def test_a_list_in_pages_by_last_item_and_by_offset_is_read_to_its_end() -> None:
    async with HttpProvider() as provider, Session(declared(provider.url)) as session:
        for number in range(5):
            provider.enter("charge", 1, metadata={"key": f"other_{number}"})
        assert await session.carry(Handler.RECONCILE) == NotFound()
        assert len(provider.requests) == 3
        provider.books.clear()
        mine = provider.enter("charge", 500, metadata={"key": KEY})
        provider.enter("charge", 1, metadata=None)
        provider.enter("charge", 1)
        assert await session.carry(Handler.RECONCILE) == Applied(
            output=mine.shown(), operation=operation(str(mine.id))
        )
    by_offset = changed(BY_KEY, paging=ByOffset(parameter="offset", total="/total"))
    effect = execute(lookup=changed(LOOKUP, by_key=by_offset))
    reads = [_answer({"data": [OTHER, OTHER], "total": 3}), _answer({"data": [OTHER], "total": 3})]
    outcome, provider = await _look_up(reads, effect)
    assert (outcome, _asked(provider)) == (NotFound(), ["limit=2", "limit=2&offset=2"])


@pytest.mark.case("PAG-02")
@pytest.mark.parametrize(
    ("reads", "reason", "cursor"),
    [
        ([_page(next="c1"), _page(next="c2"), _page(next="c1")], "repeated_cursor", "c2"),
        ([_page(next="c1"), _page(next="c1")], "repeated_cursor", "c1"),
        ([_page(next="c1"), _page(next="c2"), HttpFault(status=500)], None, "c1"),
        ([_page(next="c1"), HttpFault(status=500)], None, FROM_THE_START),
        (
            [_page(next="c1"), HttpFault(breaks=Break.AFTER_REQUEST)],
            "connection_lost",
            FROM_THE_START,
        ),
        (
            [_page(next="c1"), _page(next="c2"), HttpFault(status=200, body=b"<html>")],
            "not_json",
            "c1",
        ),
        ([_page(next="c1"), _page(next="c2"), _answer({})], "no_list", "c1"),
        ([_page(next=f"c{n}") for n in range(1, 5)], "page_limit", "c4"),
    ],
)
async def test_a_list_that_was_not_finished_proves_nothing_and_keeps_its_place(
    reads: list[HttpFault], reason: str | None, cursor: str
) -> None:
    outcome, provider = await _look_up(reads, _by_token(max_pages=4))
    code, told = _uncertain(outcome)
    assert isinstance(outcome, Uncertain)
    assert (told, outcome.cursor) == (reason, cursor)
    assert code in {
        "connector.lookup_incomplete",
        "connector.lookup_unreadable",
        "connector.answer_lost",
    }
    assert len(provider.requests) == len(reads)


@pytest.mark.case("PAG-02")
async def test_a_list_is_gone_on_with_where_the_last_run_stopped() -> None:
    outcome, provider = await _look_up([_page(OURS)], _by_token(), cursor="c4")
    assert isinstance(outcome, Applied)
    assert _asked(provider) == ["limit=2&after=c4"]


async def test_a_run_that_did_not_begin_at_the_start_cannot_end_in_not_found() -> None:
    """Meanwhile the effect may have come to stand on a page that an earlier run has read."""
    outcome, _ = await _look_up([_page(OTHER)], _by_token(), cursor="c4")
    assert isinstance(outcome, Uncertain)
    assert (_uncertain(outcome)[1], outcome.cursor) == ("not_whole", FROM_THE_START)
    again, provider = await _look_up([_page(OTHER)], _by_token(), cursor=outcome.cursor)
    assert (again, _asked(provider)) == (NotFound(), ["limit=2"])


async def test_a_kept_cursor_that_the_provider_does_not_take_any_more_begins_anew() -> None:
    outcome, _ = await _look_up([HttpFault(status=400)], _by_token(), cursor="c4")
    assert isinstance(outcome, Uncertain)
    assert outcome.cursor == FROM_THE_START


async def test_a_run_ends_before_its_time_is_up() -> None:
    reads = [_page(next=f"c{n}") for n in range(100)]
    slow = [changed(read, delay_s=0.02) for read in reads]
    outcome, provider = await _look_up(slow, _by_token(max_pages=100), deadline_in_ms=300)
    assert isinstance(outcome, Uncertain)
    assert _uncertain(outcome)[1] in {"time", "timeout"}
    assert outcome.cursor is not None
    assert 1 <= len(provider.requests) < 16


async def test_with_no_time_left_no_page_is_read() -> None:
    outcome, provider = await _look_up([], _by_token(), deadline_in_ms=0)
    assert _uncertain(outcome) == ("connector.lookup_incomplete", "time")
    assert provider.requests == []


@pytest.mark.case("EVC-03")
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (_answer({"data": []}), NotFound()),
        (_answer({"data": None}), "connector.lookup_unreadable"),
        (_answer({}), "connector.lookup_unreadable"),
        (HttpFault(status=204), "connector.lookup_unreadable"),
        (HttpFault(status=404), "connector.lookup_unreadable"),
        (HttpFault(status=410), "connector.lookup_unreadable"),
        (HttpFault(status=403), "connector.lookup_unreadable"),
        (_answer({"data": [OTHER]}), NotFound()),
        (
            _answer({"data": [{**ORDER, "metadata": {"key": KEY}, "amount": 1}]}),
            "connector.lookup_mismatch",
        ),
        (_answer({"data": [OURS, OURS]}), "connector.lookup_ambiguous"),
        (_answer({"data": [None, 5, [], {"metadata": None}]}), NotFound()),
    ],
)
async def test_every_answer_about_a_list_has_its_meaning(
    fault: HttpFault, expected: Outcome | str
) -> None:
    outcome, _ = await _look_up([fault], _by_token())
    if isinstance(expected, str):
        assert _uncertain(outcome)[0] == expected
    else:
        assert outcome == expected


async def test_a_status_can_be_declared_to_mean_that_there_is_no_such_list() -> None:
    outcome, _ = await _look_up([HttpFault(status=404)], _by_token(statuses={"404": "not_found"}))
    assert outcome == NotFound()


# ── what is looked up ────────────────────────────────────────────────────────────────────────────


async def test_a_refund_is_looked_up_among_refunds() -> None:
    async with HttpProvider() as provider, Session(declared(provider.url)) as session:
        provider.enter("refund", 500, metadata={"key": KEY})
        provider.books[0] = changed(provider.books[0], charge="ch_1")
        outcome = await session.carry(Handler.RECONCILE, input={}, original=CHARGED)
        assert isinstance(outcome, Applied)
        assert provider.requests[0].target.startswith("/v1/refunds?")


async def test_a_separate_capability_looks_its_compensations_up_as_its_own_effects() -> None:
    async with HttpProvider() as provider:
        declaration = declared(provider.url, compensate=None)
        async with Session(declaration) as session:
            assert await session.carry(Handler.RECONCILE, original=CHARGED) == NotFound()
    assert provider.requests[0].target.startswith("/v1/charges?")


async def test_without_a_way_to_ask_nothing_is_known() -> None:
    only_by_id = execute(lookup=changed(LOOKUP, by_key=None))
    outcome, provider = await _look_up([], only_by_id)
    assert _uncertain(outcome)[0] == "connector.lookup_undeclared"
    outcome, provider = await _look_up([], execute(lookup=None))
    assert _uncertain(outcome)[0] == "connector.lookup_undeclared"
    assert provider.requests == []


async def test_an_input_that_redaction_has_left_out_cannot_be_compared() -> None:
    redacting = changed(CAPABILITY, data=DataContract(redaction_required=True))
    outcome, provider = await _look_up([], declared_capability=redacting, input=None)
    assert isinstance(outcome, Uncertain)
    assert outcome.error.code == "connector.reference_missing"
    assert outcome.error.details == {"reference": "input.amount"}
    assert provider.requests == []


async def test_an_id_that_could_climb_a_path_is_not_asked_for() -> None:
    outcome, provider = await _look_up([], provider_operation=operation(".."))
    assert _uncertain(outcome)[0] == "connector.value_unfit"
    assert provider.requests == []
