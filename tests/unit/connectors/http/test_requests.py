"""What an attempt is told becomes the request that is sent."""

from typing import Any
from urllib.parse import parse_qsl

import msgspec
import pytest

from amends.connectors.http import HttpDeclaration
from amends.connectors.http.checks import checked_forms
from amends.connectors.http.messages import Outgoing
from amends.connectors.http.requests import facts_of, outgoing
from amends.connectors.http.templates import Unfit
from amends.contracts.declarations import DataContract
from amends.contracts.enums import Handler
from amends.contracts.ids import TenantId
from amends.contracts.json_types import Json
from amends.contracts.principals import Identity
from amends.contracts.secrets import Credential, Secret
from tests.unit.connectors.http.payments import (
    CAPABILITY,
    CHARGED,
    KEY,
    ORDER,
    REFUND,
    called,
    changed,
    declared,
    execute,
    operation,
)

URL = "https://api.example.test/base/"


def _outgoing(declaration: HttpDeclaration, more: Any = None, **facts: Any) -> Outgoing:
    forms, call = checked_forms(declaration), called(**facts)
    request = forms.execute.request
    return outgoing(request, URL, facts_of(call), call.credential, more or {})


def _sent(more: Any = None, facts: Any = None, **changes: Any) -> Outgoing:
    told = declared(URL, execute=execute(lookup=None, match={}, **changes))
    return _outgoing(told, more, **(facts or {}))


def test_a_charge_is_sent_with_its_key_its_types_and_its_credential() -> None:
    sent = _sent()
    assert (sent.method, sent.url) == ("POST", "https://api.example.test/base/v1/charges")
    assert sent.body == (b'{"amount":500,"currency":"eur","metadata":{"key":"key_1"}}')
    assert sent.headers["idempotency-key"] == KEY
    assert sent.headers["content-type"] == "application/json"
    (secret,) = sent.secret_headers
    assert (secret.name, secret.before, secret.after) == ("authorization", "Bearer ", "")
    assert secret.secret == Secret("tok")


def test_the_same_facts_give_the_same_bytes() -> None:
    turned = dict(reversed(ORDER.items()))
    assert _sent(facts={"input": turned}).body == _sent().body


def test_a_path_and_a_query_are_filled_in() -> None:
    sent = _sent(
        path="/v1/{attempt.tenant}/{input.note}:capture/",
        query={"created[gte]": "{input.amount}", "q": "{input.lines?}"},
        facts={"input": {**ORDER, "note": "a/b"}},
        more={"starting_after": "ch 1"},
    )
    assert sent.url == (
        "https://api.example.test/base/v1/t1/a%2Fb:capture/?created%5Bgte%5D=500"
        "&starting_after=ch%201"
    )


def test_a_parameter_of_paging_takes_the_place_of_one_that_is_declared() -> None:
    sent = _sent(query={"offset": "0", "limit": "2"}, more={"offset": "4"})
    assert sent.url.endswith("?limit=2&offset=4")


def test_a_form_is_sent_as_a_form() -> None:
    sent = _sent(encoding="form", facts={"input": {**ORDER, "note": "a&b"}})
    assert sent.headers["content-type"] == "application/x-www-form-urlencoded"
    assert sent.body is not None
    assert dict(parse_qsl(sent.body.decode())) == {
        "amount": "500",
        "currency": "eur",
        "metadata[key]": KEY,
        "metadata[note]": "a&b",
    }


def test_a_request_without_a_body_has_none() -> None:
    for body in (None, "{input.note?}"):
        sent = _sent(body=body)
        assert sent.body is None
        assert "content-type" not in sent.headers


def test_headers_of_a_request_replace_the_provider_s_in_whatever_case() -> None:
    told = declared(
        URL,
        provider={"headers": {"X-Note": "a", "Accept": "text/plain", "X-Gone": "{input.note?}"}},
        execute=execute(
            lookup=None,
            match={},
            headers={"x-note": "b {input.amount}", "Content-Type": "application/merge+json"},
        ),
        preview=None,
        compensate=None,
    )
    sent = _outgoing(told)
    assert sent.headers["x-note"] == "b 500"
    assert sent.headers["accept"] == "text/plain"
    assert sent.headers["content-type"] == "application/merge+json"
    assert "x-gone" not in sent.headers
    assert sent.secret_headers == ()


@pytest.mark.case("SEC-03")
@pytest.mark.parametrize(
    ("credential", "code"),
    [
        (None, "credential.missing"),
        ("tok-CANARY\n", "credential.invalid"),
        ("tok-CANARYü", "credential.invalid"),
        ("tok-CANARY\r\nX: y", "credential.invalid"),
        (" CANARY", "credential.invalid"),
        ("", "credential.invalid"),
        ("CANARY" * 4000, "credential.invalid"),
    ],
)
def test_a_credential_that_cannot_be_sent_stops_the_request_without_being_shown(
    credential: str | None, code: str
) -> None:
    held = None if credential is None else Credential(secret=Secret(credential))
    with pytest.raises(Unfit) as caught:
        _sent(facts={"credential": held})
    assert (caught.value.code, caught.value.reference) == (code, "credential")
    assert "CANARY" not in repr(caught.value)


def test_references_reach_what_an_attempt_is_told() -> None:
    identity = Identity(tenant=TenantId("t1"), external_account="acct_1", subject=None)
    original = changed(CHARGED, operation=operation("op_0"), input=ORDER, provider_key="key_0")
    body: Json = {
        "attempt": [
            "{attempt.tenant}",
            "{attempt.principal}",
            "{attempt.transaction_id}",
            "{attempt.action_id}",
            "{attempt.number}",
            "{attempt.fence}",
        ],
        "account": "{identity.external_account}",
        "subject": "{identity.subject?}",
        "original": [
            "{original.output.id}",
            "{original.input.amount}",
            "{original.operation.id}",
            "{original.provider_key}",
            "{original.action_id}",
            "{original.transaction_id}",
        ],
        "whole": "{input}",
    }
    sent = _sent(body=body, facts={"identity": identity, "original": original})
    assert sent.body is not None
    assert msgspec.json.decode(sent.body) == {
        "attempt": ["t1", "ann", "txn_1", "act_1", 1, "fen_1"],
        "account": "acct_1",
        "original": ["ch_1", 500, "op_0", "key_0", "act_0", "txn_0"],
        "whole": ORDER,
    }


@pytest.mark.parametrize(
    ("body", "facts"),
    [
        ("{identity.external_account}", {}),
        ("{original.output.id}", {}),
        ("{original.operation.id}", {"original": CHARGED}),
        ("{attempt.fence}", {"fence": None}),
    ],
)
def test_what_an_attempt_is_not_told_is_missing(body: str, facts: Any) -> None:
    with pytest.raises(Unfit) as caught:
        _sent(body={"a": body}, facts=facts)
    assert (caught.value.code, caught.value.reference) == (
        "connector.reference_missing",
        body.strip("{}"),
    )


def test_a_redacted_input_is_missing_and_a_null_one_is_null() -> None:
    redacting = changed(CAPABILITY, data=DataContract(redaction_required=True))
    assert _sent(body={"a": "{input}"}, facts={"input": None}).body == b'{"a":null}'
    with pytest.raises(Unfit):
        _sent(body={"a": "{input}"}, facts={"input": None, "capability": redacting})


def test_a_refund_refers_to_the_output_of_its_charge() -> None:
    declaration = declared(URL)
    call = called(Handler.COMPENSATE, input={}, original=CHARGED)
    form = checked_forms(declaration).compensate
    assert form is not None
    sent = outgoing(form.request, URL, facts_of(call), call.credential, {})
    assert sent.url.endswith(REFUND.path)
    assert sent.body == b'{"charge":"ch_1","metadata":{"key":"key_1"}}'


def test_a_look_up_asks_for_the_exact_digits_of_an_id() -> None:
    lookup = checked_forms(declared(URL)).execute_lookup
    assert lookup is not None
    assert lookup.by_id is not None
    call = called(Handler.RECONCILE, provider_operation=operation("9007199254740993"))
    sent = outgoing(lookup.by_id.request, URL, facts_of(call), call.credential, {})
    assert sent.url.endswith("/v1/charges/9007199254740993")
