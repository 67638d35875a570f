"""From an answer to an outcome, without a provider."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from amends.connectors.http import Meaning, Provider, State
from amends.connectors.http.checks import checked_forms
from amends.connectors.http.failures import Context
from amends.connectors.http.judging import judge_effect
from amends.connectors.http.messages import Answer, NoAnswer, NotSent, Reply
from amends.connectors.http.objects import expectations
from amends.connectors.http.reading import UnreadableAnswer
from amends.connectors.http.requests import facts_of
from amends.contracts.enums import ErrorCategory, Handler
from amends.contracts.json_types import Json
from amends.contracts.outcomes import Applied, NotApplied, Outcome, Partial, Pending, Uncertain
from amends.transactions.outputs import NOT_STORABLE, store_output
from tests.unit.connectors.http.payments import ORDER, PROVIDER, called, declared, execute

NOW = datetime(2026, 10, 21, 7, 27, tzinfo=UTC)
STATE = State(
    at="/status",
    applied=("succeeded", "true", "7"),
    pending=("pending",),
    not_applied=("failed",),
    partial=("partly",),
)
UNCHECKED: dict[str, Any] = {"match": {}, "lookup": None}


def _judge(reply: Reply, effect: Any = None, provider: Any = None, **facts: Any) -> Outcome:
    told: Provider = msgspec.structs.replace(PROVIDER, **(provider or {}))
    parts = {"provider": None, "execute": effect or execute(lookup=None)}
    declaration = declared("http://127.0.0.1:9", execute=parts["execute"])
    forms = checked_forms(msgspec.structs.replace(declaration, provider=told))
    call = called(facts.pop("handler", Handler.EXECUTE), **facts)
    expected = expectations(forms.execute.object, facts_of(call))
    context = Context(call=call, provider=told, clock=lambda: NOW, expected=expected)
    return judge_effect(forms.execute, reply, context)


def _answer(
    status: int, body: Json | bytes = b"", *headers: tuple[str, str], flaw: str = ""
) -> Answer:
    encoded = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return Answer(status=status, headers=headers, body=encoded, flaw=flaw)


def _error(outcome: Outcome) -> tuple[str, dict[str, Json]]:
    assert isinstance(outcome, NotApplied | Uncertain | Partial)
    assert outcome.error.message
    return outcome.error.code, outcome.error.details


def test_what_was_not_sent_may_be_tried_again() -> None:
    outcome = _judge(NotSent("refused"))
    assert isinstance(outcome, NotApplied)
    assert _error(outcome) == ("connector.unreachable", {"reason": "refused"})
    assert outcome.error.retryable
    assert outcome.error.category is ErrorCategory.TRANSPORT


@pytest.mark.parametrize("facts", [{"redrive": True}, {"handler": Handler.RECONCILE}])
def test_where_an_earlier_request_may_be_under_way_not_sending_proves_nothing(
    facts: dict[str, Any],
) -> None:
    assert isinstance(_judge(NotSent("refused"), **facts), Uncertain)


def test_no_answer_leaves_the_effect_open() -> None:
    assert _error(_judge(NoAnswer("timeout"))) == ("sla.timeout_exceeded", {"reason": "timeout"})
    lost = _judge(NoAnswer("connection_lost"))
    assert isinstance(lost, Uncertain)
    assert _error(lost) == ("connector.answer_lost", {"reason": "connection_lost"})


def test_an_answer_that_agrees_is_an_effect_with_its_reference() -> None:
    body: Json = {**ORDER, "id": "ch_1"}
    outcome = _judge(_answer(201, body, ("request-id", "req_1")))
    assert isinstance(outcome, Applied)
    assert outcome.output == body
    assert outcome.operation is not None
    assert (outcome.operation.provider, outcome.operation.operation_id) == ("scripted", "ch_1")
    assert outcome.operation.request_id == "req_1"


@pytest.mark.parametrize("value", ["", "a\nb", "x" * 200])
def test_a_request_id_that_cannot_be_kept_is_none(value: str) -> None:
    outcome = _judge(_answer(200, {**ORDER, "id": "ch_1"}, ("Request-Id", value)))
    assert isinstance(outcome, Applied)
    assert outcome.operation is not None
    assert outcome.operation.request_id is None


@pytest.mark.fault(9)
@pytest.mark.parametrize(
    "body",
    [
        {"id": "ch_1", "amount": 501, "currency": "eur"},
        {"id": "ch_1", "amount": 500},
        {},
        [],
        b"",
        5,
    ],
)
def test_an_answer_about_something_else_is_uncertain_and_leaves_no_reference(body: Json) -> None:
    outcome = _judge(_answer(200, body))
    assert isinstance(outcome, Uncertain)
    assert _error(outcome)[0] == "connector.answer_mismatch"
    assert outcome.operation is None


@pytest.mark.parametrize(
    ("body", "flaw", "named"),
    [
        (b"<html>", "", "not_json"),
        (b"", "too_large", "too_large"),
        (b"\x1f\x8b", "encoded", "encoded"),
    ],
)
@pytest.mark.rule("TX-SETTLE-5")
def test_an_answer_that_cannot_be_read_is_an_effect_without_an_output(
    body: bytes, flaw: str, named: str
) -> None:
    outcome = _judge(_answer(200, body, flaw=flaw), execute(**UNCHECKED))
    assert outcome == Applied(output=UnreadableAnswer(200, named, len(body)))
    stored = store_output(outcome.output, redact=None, fits=lambda _: True)
    assert (stored.output, stored.invalid) == (None, NOT_STORABLE)


@pytest.mark.rule("TX-SETTLE-4")
@pytest.mark.parametrize("status", [200, 202, 204, 302, 402, 409, 503])
def test_an_answer_that_breaks_off_is_uncertain_whatever_its_status(status: int) -> None:
    cut = _answer(status, b'{"id": "ch_1"', flaw="broken_off")
    for effect in (execute(), execute(**UNCHECKED)):
        outcome = _judge(cut, effect)
        assert isinstance(outcome, Uncertain)
        assert _error(outcome) == (
            "connector.answer_lost",
            {"status": status, "flaw": "broken_off"},
        )


@pytest.mark.parametrize(
    "declared_check", [{"match": {"/amount": "{input.amount}"}}, {"state": STATE}]
)
def test_a_declared_check_that_cannot_be_made_is_not_passed(declared_check: Any) -> None:
    effect = execute(**(UNCHECKED | declared_check))
    outcome = _judge(_answer(200, b"<html>"), effect)
    assert isinstance(outcome, Uncertain)
    assert _error(outcome) == (
        "connector.answer_unreadable",
        {"status": 200, "flaw": "not_json"},
    )


def test_an_answer_without_a_body_is_an_effect_without_an_output() -> None:
    assert _judge(_answer(204), execute(**UNCHECKED)) == Applied()


def test_the_object_is_taken_from_where_it_stands_or_else_the_whole_answer() -> None:
    effect = execute(**UNCHECKED, object="/data")
    assert _judge(_answer(200, {"data": {"id": 7}}), effect).output == {"id": 7}  # type: ignore[union-attr]  # an Applied
    assert _judge(_answer(200, {"id": 7}), effect) == Applied(output={"id": 7})


@pytest.mark.parametrize(
    ("word", "kind", "code"),
    [
        ("succeeded", Applied, None),
        (True, Applied, None),
        (7, Applied, None),
        ("pending", Pending, None),
        ("failed", NotApplied, "provider.failed"),
        ("partly", Partial, "provider.partial"),
        ("Succeeded", Uncertain, "connector.state_unknown"),
        (False, Uncertain, "connector.state_unknown"),
        (None, Uncertain, "connector.state_unknown"),
        ({}, Uncertain, "connector.state_unknown"),
    ],
)
def test_the_provider_s_own_word_counts_where_it_is_declared(
    word: Json, kind: type[Outcome], code: str | None
) -> None:
    body: Json = {"id": "ch_1", "status": word}
    outcome = _judge(_answer(200, body), execute(**UNCHECKED, state=STATE))
    assert type(outcome) is kind
    assert outcome.operation is not None  # type: ignore[union-attr]  # no NotFound is among them
    if code is not None:
        assert _error(outcome)[0] == code
    if isinstance(outcome, Applied | Partial):
        assert outcome.output == body


def test_a_202_is_not_done_and_says_when_to_look() -> None:
    accepted = _answer(202, {"id": "ch_1"}, ("Retry-After", "30"))
    outcome = _judge(accepted)
    assert isinstance(outcome, Pending)
    assert outcome.retry_after_ms == 30_000
    assert outcome.operation is not None
    assert outcome.operation.operation_id == "ch_1"
    assert _judge(_answer(202, b"<html>")) == Pending()


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 410, 412, 413, 422, 451])
def test_a_refusal_is_definite_in_the_attempt_that_could_have_had_the_effect(status: int) -> None:
    body: Json = {"error": {"code": "card_declined", "message": "CANARY"}}
    outcome = _judge(_answer(status, body))
    assert isinstance(outcome, NotApplied)
    assert _error(outcome) == (
        "provider.failed",
        {"status": status, "provider_code": "card_declined"},
    )
    assert not outcome.error.retryable


def test_a_refusal_says_where_it_comes_from() -> None:
    categories = {
        status: _judge(_answer(status)).error.category  # type: ignore[union-attr]  # refusals
        for status in (401, 402, 403, 404, 500)
    }
    assert categories == {
        401: ErrorCategory.AUTH,
        402: ErrorCategory.ECONOMIC,
        403: ErrorCategory.AUTH,
        404: ErrorCategory.PERMANENT,
        500: ErrorCategory.CONNECTOR,
    }


def test_in_a_re_drive_a_refusal_counts_only_if_it_is_declared() -> None:
    """A 401 says of this request that it was refused, and nothing of the earlier one."""
    for status in (401, 402, 404, 422):
        outcome = _judge(_answer(status), redrive=True, number=2)
        assert isinstance(outcome, Uncertain)
        assert _error(outcome)[0] == "connector.status_uncertain"
    for word in (Meaning.NOT_APPLIED, Meaning.NOT_APPLIED_RETRYABLE):
        effect = execute(lookup=None, statuses={"402": word})
        assert isinstance(_judge(_answer(402), effect, redrive=True, number=2), NotApplied)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (100, "connector.status_uncertain"),
        (206, "connector.status_uncertain"),
        (207, "connector.status_uncertain"),
        (302, "connector.redirect_refused"),
        (307, "connector.redirect_refused"),
        (408, "connector.status_uncertain"),
        (409, "provider.conflict"),
        (425, "connector.status_uncertain"),
        (429, "connector.status_uncertain"),
        (499, "connector.status_uncertain"),
        (500, "provider.server_error"),
        (503, "provider.server_error"),
        (600, "connector.status_uncertain"),
    ],
)
def test_a_status_that_says_nothing_certain_is_uncertain(status: int, code: str) -> None:
    outcome = _judge(_answer(status, b"", ("Retry-After", "7"), ("Location", "http://CANARY/")))
    assert isinstance(outcome, Uncertain)
    assert _error(outcome) == (code, {"status": status, "retry_after_ms": 7000})
    assert outcome.retry_after_ms == 7000


def test_too_many_requests_is_definite_and_retryable_where_it_is_declared() -> None:
    effect = execute(lookup=None, statuses={"429": Meaning.NOT_APPLIED_RETRYABLE})
    outcome = _judge(_answer(429, b"", ("Retry-After", "7")), effect)
    assert isinstance(outcome, NotApplied)
    assert outcome.error.retryable
    assert outcome.error.details["retry_after_ms"] == 7000


@pytest.mark.fault(8)
@pytest.mark.parametrize(
    ("facts", "kind"),
    [
        ({"number": 1}, NotApplied),
        ({"number": 2}, Uncertain),
        ({"number": 2, "redrive": True}, Uncertain),
        ({"number": 1, "redrive": True}, Uncertain),
    ],
)
def test_a_conflict_is_definite_only_if_no_earlier_attempt_may_have_caused_it(
    facts: dict[str, Any], kind: type[Outcome]
) -> None:
    for statuses, status in (({"409": "not_applied"}, 409), ({"422": "conflict"}, 422)):
        words = {key: Meaning(word) for key, word in statuses.items()}
        outcome = _judge(_answer(status), execute(lookup=None, statuses=words), **facts)
        assert type(outcome) is kind
        assert _error(outcome)[0] == "provider.conflict"


@pytest.mark.case("RTA-01")
@pytest.mark.parametrize("values", [("soon",), ("1", "2"), ("-5",)])
def test_a_delay_that_is_badly_written_is_ignored_and_noted(values: tuple[str, ...]) -> None:
    headers = [("Retry-After", value) for value in values]
    outcome = _judge(_answer(503, b"", *headers))
    assert isinstance(outcome, Uncertain)
    assert outcome.retry_after_ms is None
    assert _error(outcome) == (
        "provider.server_error",
        {"status": 503, "retry_after_ignored": True},
    )


@pytest.mark.case("RTA-01")
def test_a_date_is_compared_with_the_clock_that_was_given() -> None:
    at = (NOW + timedelta(seconds=90)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    outcome = _judge(_answer(503, b"", ("Retry-After", at)))
    assert isinstance(outcome, Uncertain)
    assert outcome.retry_after_ms == 90_000


@pytest.mark.parametrize(
    "body",
    [b"<html>", {"error": {"code": "Bearer tok CANARY"}}, {"error": {"code": 5}}, {"error": "x"}],
)
def test_what_does_not_look_like_a_code_is_not_kept(body: Json) -> None:
    assert _error(_judge(_answer(402, body)))[1] == {"status": 402}


def test_without_a_place_for_codes_none_is_looked_for() -> None:
    provider = {"error_code": None, "request_id_header": None}
    body: Json = {"error": {"code": "card_declined"}}
    outcome = _judge(_answer(402, body, ("Request-Id", "req_1")), provider=provider)
    assert _error(outcome)[1] == {"status": 402}


def test_a_comparison_with_something_optional_that_is_missing_is_not_made() -> None:
    effect = execute(lookup=None, match={"/amount": "{input.amount}", "/note": "{input.note?}"})
    body: Json = {"amount": 500, "note": "x", "id": "ch_1"}
    assert isinstance(_judge(_answer(200, body), effect), Applied)
    noted = called(input={**ORDER, "note": "y"})
    assert isinstance(_judge(_answer(200, body), effect, input=noted.input), Uncertain)


def test_an_effect_without_a_declared_id_has_no_reference() -> None:
    cases: list[tuple[Any, Json]] = [
        (execute(**UNCHECKED, operation_id=None), {"id": "ch_1"}),
        (execute(**UNCHECKED), {"id": None}),
        (execute(**UNCHECKED), {}),
    ]
    for effect, body in cases:
        outcome = _judge(_answer(200, body), effect)
        assert isinstance(outcome, Applied)
        assert outcome.operation is None
