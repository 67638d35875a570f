"""A declaration with a fault is refused when it is made, under the field that has it."""

import sys
from datetime import date
from typing import Any

import msgspec
import pytest

from amends.connectors.http import (
    ById,
    ByKey,
    ByLastItem,
    ByOffset,
    ByToken,
    HttpDeclaration,
    LookUp,
    Meaning,
    Preview,
    Sight,
    State,
    http_capability,
)
from amends.contracts.declarations import (
    Capability,
    CompensationContract,
    CredentialPolicy,
    ExecutionContract,
    TransactionContract,
)
from amends.contracts.enums import CompensationMode, Fidelity, Handler, Mode, SideEffect
from amends.contracts.errors import Misuse
from amends.contracts.ids import CapabilityId
from amends.transactions.registration import check_declaration
from tests.unit.connectors.http.payments import (
    BY_KEY,
    CAPABILITY,
    DECLARATION,
    EXECUTE,
    LOOKUP,
    REFUND,
    changed,
    declared,
    execute,
)


def _faults(declaration: HttpDeclaration) -> list[str]:
    with pytest.raises(Misuse) as caught:
        http_capability(declaration)
    assert caught.value.code == "connector.declaration_invalid"
    faults = caught.value.details["faults"]
    assert isinstance(faults, list)
    assert str(faults[0]) in caught.value.message
    assert str(faults[0]).startswith(str(caught.value.details["field"]))
    return [str(fault) for fault in faults]


def _fields(declaration: HttpDeclaration) -> list[str]:
    return [fault.split(" ", 1)[0] for fault in _faults(declaration)]


def _derived(declaration: HttpDeclaration = DECLARATION) -> Capability:
    capability, _ = http_capability(declaration)
    check_declaration(capability)
    return capability


@pytest.mark.parametrize(
    ("field", "provider"),
    [
        ("provider.name", {"name": ""}),
        ("provider.name", {"name": "a\nb"}),
        ("provider.error_code", {"error_code": "code"}),
        ("provider.request_id_header", {"request_id_header": "Request Id"}),
        ("provider.connect_timeout_ms", {"connect_timeout_ms": 0}),
        ("provider.max_answer_bytes", {"max_answer_bytes": 1 << 40}),
        ("provider.statuses.4", {"statuses": {"4": Meaning.UNCERTAIN}}),
        ("provider.statuses.302", {"statuses": {"302": Meaning.APPLIED}}),
        ("provider.headers.Authorization", {"headers": {"Authorization": "Bearer sk_live"}}),
        ("provider.headers.X-Api-Key", {"headers": {"X-Api-Key": "k"}}),
        ("provider.headers.Host", {"headers": {"Host": "evil.test"}}),
        ("provider.headers.X(", {"headers": {"X(": "a"}}),
        ("provider.headers.X-Note", {"headers": {"X-Note": "a\r\nb"}}),
        ("provider.headers.X-Note", {"headers": {"X-Note": "{"}}),
        ("provider.headers.X-Note", {"headers": {"X-Note": "{credential}{attempt.tenant}"}}),
        ("provider.headers.X-Note", {"headers": {"X-Note": "{credential.a}"}}),
        ("provider.headers.X-Note", {"headers": {"X-Note": "{credential?}"}}),
    ],
)
def test_a_fault_of_the_provider_is_found(field: str, provider: dict[str, Any]) -> None:
    assert _fields(declared("http://127.0.0.1:9", provider=provider)) == [field]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:9",
        "ftp://example.test",
        "https://",
        "https://user:pass@example.test",
        "https://example.test?a=1",
        "https://example.test#a",
        "https://example.test:port",
        "https://example.test:99999",
        "https://exa mple.test",
        "https://example.test/{input.amount}",
        "https://example.test/a/../b",
        "https://example.test\\@evil.test",
        "https://exämple.test",
        "https://[::1",
    ],
)
def test_a_base_url_is_a_scheme_a_host_a_port_and_a_path(url: str) -> None:
    assert "provider.base_url" in _fields(declared(url))


@pytest.mark.parametrize(
    "url", ["http://example.test", "http://10.0.0.1:8080", "http://localhost.test"]
)
def test_a_credential_is_not_sent_unencrypted_to_another_host(url: str) -> None:
    assert _fields(declared(url)) == ["provider.base_url"]
    http_capability(declared(url, provider={"allow_plain_http": True}))
    http_capability(declared(url, provider={"headers": {}}))


@pytest.mark.parametrize(
    "url",
    ["http://localhost:8", "http://127.3.2.1", "http://[::1]:8/v1/", "https://example.test/a"],
)
def test_loopback_and_https_take_a_credential(url: str) -> None:
    http_capability(declared(url))


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("execute.path", {"path": "v1"}),
        ("execute.path", {"path": "/v1/../x"}),
        ("execute.path", {"path": "/v1/./x"}),
        ("execute.path", {"path": "/v1?limit=1"}),
        ("execute.path", {"path": "/v1/a b"}),
        ("execute.path", {"path": "/v1/{input.amount?}"}),
        ("execute.path", {"path": "/v1/{input.amuont}"}),
        ("execute.path", {"path": "/v1/{credential}"}),
        ("execute.query.key", {"query": {"key": "{credential}"}}),
        ("execute.query.id", {"query": {"id": "{operation.id}"}}),
        ("execute.body", {"body": {"key": "{attempt.provider_key} {credential}"}}),
        ("execute.body", {"body": {"a": "{attempt.secret}{attempt.provider_key}"}}),
        ("execute.body", {"body": {"a": "{attempt}{attempt.provider_key}"}}),
        ("execute.body", {"body": {"a": "{nobody.a}{attempt.provider_key}"}}),
        ("execute.body", {"body": {"a": "{identity.tenant}{attempt.provider_key}"}}),
        ("execute.body", {"body": {"a": 2**60, "b": "{attempt.provider_key}"}}),
        ("execute.headers.Content-Length", {"headers": {"Content-Length": "1"}}),
        ("execute.headers.X-Token", {"headers": {"X-Token": "secret"}}),
        ("execute.headers.X", {"headers": {"X": "{input.amuont}"}}),
        ("execute.idempotency_header", {"idempotency_header": "Key:"}),
        ("execute.statuses.900", {"statuses": {"900": Meaning.PENDING}}),
        ("execute.object", {"object": "data"}),
        ("execute.operation_id", {"operation_id": "id"}),
        ("execute.state.at", {"state": State(at="status", applied=("done",))}),
        ("execute.state", {"state": State(at="/status", applied=())}),
        ("execute.state", {"state": State(at="/s", applied=("a",), pending=("a",))}),
        ("execute.match", {"match": {"amount": "{input.amount}"}}),
        ("execute.match./amount", {"match": {"/amount": "{input.amuont}"}}),
        ("execute.match", {"match": {"/amount": "{input.amount?}"}}),
    ],
)
def test_a_fault_of_the_effect_is_found(field: str, changes: dict[str, Any]) -> None:
    fields = _fields(declared("http://127.0.0.1:9", execute=execute(lookup=None, **changes)))
    assert fields == [field]


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("execute.body", {"method": "GET"}),
        ("execute.method", {"method": "GET", "body": None}),
        ("execute.body", {"encoding": "form", "body": ["a"]}),
        ("execute.body", {"encoding": "form", "body": None}),
    ],
)
def test_a_request_that_http_cannot_make_is_refused(field: str, changes: dict[str, Any]) -> None:
    fields = _fields(declared("http://127.0.0.1:9", execute=execute(lookup=None, **changes)))
    assert field in fields


def test_a_capability_that_only_reads_may_use_get() -> None:
    reads = changed(CAPABILITY, side_effects=(SideEffect.READ,))
    effect = execute(method="GET", body=None, lookup=None)
    http_capability(declared("http://127.0.0.1:9", capability=reads, execute=effect))


@pytest.mark.parametrize(
    ("field", "lookup"),
    [
        ("execute.lookup", LookUp()),
        ("execute.lookup.match", changed(LOOKUP, match={})),
        ("execute.lookup.match", changed(LOOKUP, match={"/a": "{operation.id?}"})),
        ("execute.lookup.operation_id", changed(LOOKUP, operation_id="id")),
        ("execute.lookup.by_id", changed(LOOKUP, by_id=ById(path="/v1/charges"))),
        (
            "execute.lookup.by_id.object",
            changed(LOOKUP, by_id=ById(path="/v1/{operation.id}", object="a")),
        ),
        (
            "execute.lookup.by_id.statuses.x",
            changed(LOOKUP, by_id=ById(path="/v1/{operation.id}", statuses={"x": Sight.GONE})),
        ),
        ("execute.lookup.by_key.items", changed(LOOKUP, by_key=changed(BY_KEY, items="data"))),
        ("execute.lookup.by_key.key", changed(LOOKUP, by_key=changed(BY_KEY, key="key"))),
        ("execute.lookup.by_key.max_pages", changed(LOOKUP, by_key=changed(BY_KEY, max_pages=0))),
        (
            "execute.lookup.by_key.paging.next",
            changed(LOOKUP, by_key=changed(BY_KEY, paging=ByToken(parameter="c", next="n"))),
        ),
        (
            "execute.lookup.by_key.paging.id",
            changed(LOOKUP, by_key=changed(BY_KEY, paging=ByLastItem(parameter="c", id="n"))),
        ),
        (
            "execute.lookup.by_key.paging.more",
            changed(
                LOOKUP, by_key=changed(BY_KEY, paging=ByLastItem(parameter="c", id="", more="n"))
            ),
        ),
        (
            "execute.lookup.by_key.paging.total",
            changed(LOOKUP, by_key=changed(BY_KEY, paging=ByOffset(parameter="c", total="n"))),
        ),
        (
            "execute.lookup.by_key.paging.parameter",
            changed(LOOKUP, by_key=changed(BY_KEY, paging=ByOffset(parameter=""))),
        ),
    ],
)
def test_a_fault_of_a_look_up_is_found(field: str, lookup: LookUp) -> None:
    assert _fields(declared("http://127.0.0.1:9", execute=execute(lookup=lookup))) == [field]


def test_a_preview_has_neither_a_provider_key_nor_anything_to_offset() -> None:
    for text in ("{attempt.provider_key}", "{attempt.fence}", "{original.output.id}"):
        preview = Preview(path="/v1/checks", body={"a": text})
        assert _fields(declared("http://127.0.0.1:9", preview=preview)) == ["preview.body"]
    fields = _fields(
        declared(
            "http://127.0.0.1:9",
            preview=Preview(path="/", statuses={"x": Meaning.PENDING}, object="a"),
        )
    )
    assert fields == ["preview.statuses.x", "preview.object"]


@pytest.mark.parametrize(
    ("field", "parts"),
    [
        ("compensate.method", {"compensate": changed(REFUND, method="GET", body=None)}),
        (
            "compensate",
            {
                "capability": changed(
                    CAPABILITY,
                    compensation=CompensationContract(
                        compensation_capability_id=CapabilityId("payments.refund")
                    ),
                )
            },
        ),
        (
            "execute.idempotency_header",
            {
                "capability": changed(
                    CAPABILITY, execution=ExecutionContract(provider_dedup_window_ms=1)
                ),
                "execute": execute(idempotency_header=None, body={}, lookup=None),
            },
        ),
        ("execute.lookup.by_key", {"execute": execute(idempotency_header=None, body={})}),
        (
            "compensate.lookup.by_key",
            {"compensate": changed(REFUND, idempotency_header=None, body={})},
        ),
        (
            "execute.lookup.strong",
            {
                "capability": changed(
                    CAPABILITY, execution=ExecutionContract(in_flight_horizon_ms=1)
                ),
                "compensate": None,
            },
        ),
        (
            "compensate.lookup.strong",
            {
                "capability": changed(
                    CAPABILITY, execution=ExecutionContract(in_flight_horizon_ms=1)
                ),
                "execute": execute(lookup=changed(LOOKUP, strong=True)),
            },
        ),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(field: str, parts: dict[str, Any]) -> None:
    assert field in _fields(declared("http://127.0.0.1:9", **parts))


def test_all_faults_are_told_at_once_and_each_only_once() -> None:
    faults = _faults(
        declared(
            "ftp://example.test",
            provider={"headers": {"Host": "a"}},
            execute=execute(path="v1", operation_id="id"),
        )
    )
    assert [fault.split(" ", 1)[0] for fault in faults] == [
        "provider.headers.Host",
        "execute.path",
        "execute.operation_id",
        "execute.lookup.operation_id",
        "provider.base_url",
    ]


def test_a_reference_into_a_closed_schema_is_checked_as_deep_as_it_says() -> None:
    schema = {
        "properties": {
            "card": {"properties": {"id": {}}, "additionalProperties": False},
            "open": {"properties": {}},
        },
        "additionalProperties": False,
    }
    capability = changed(CAPABILITY, input_schema=schema)
    body = {"a": "{input.card.id}", "b": "{input.open.x}", "c": "{input}"}
    fine = execute(body=body, match={}, lookup=None)
    http_capability(
        declared("http://127.0.0.1:9", capability=capability, execute=fine, preview=None)
    )
    wrong = changed(fine, body={"a": "{input.card.number}"})
    (fault,) = _faults(
        declared("http://127.0.0.1:9", capability=capability, execute=wrong, preview=None)
    )
    assert fault == "execute.body refers to input.card.number, unknown to the schema"


def test_the_capability_offers_what_its_requests_make_possible() -> None:
    capability = _derived()
    assert capability.served_by == "http"
    assert capability.handlers == (
        Handler.EXECUTE,
        Handler.PREVIEW,
        Handler.RECONCILE,
        Handler.COMPENSATE,
    )
    assert capability.execution.lookup_by_key
    assert capability.credential.required
    assert capability.compensation.mode is CompensationMode.SUPPORTED
    assert capability.title == "payments.charge"
    assert capability.transaction is not None
    assert set(capability.transaction.supported_modes) == {
        Mode.EXECUTE,
        Mode.DRY_RUN,
        Mode.PLAN,
        Mode.COMMIT,
        Mode.RECONCILE,
        Mode.COMPENSATE,
    }
    assert capability.transaction.dry_run_fidelity is Fidelity.DOWNSTREAM_VALIDATION


def test_the_capability_offers_nothing_that_no_request_is_declared_for() -> None:
    capability = _derived(
        declared(
            "http://127.0.0.1:9",
            provider={"headers": {}},
            execute=execute(lookup=changed(LOOKUP, by_key=None)),
            compensate=None,
            preview=None,
        )
    )
    assert capability.handlers == (Handler.EXECUTE, Handler.RECONCILE)
    assert not capability.execution.lookup_by_key
    assert not capability.credential.required
    assert capability.compensation.mode is CompensationMode.NOT_REQUIRED
    assert capability.transaction is not None
    assert Mode.COMPENSATE not in capability.transaction.supported_modes
    assert capability.transaction.dry_run_fidelity is Fidelity.POLICY_AND_SCHEMA


def test_a_dedup_window_alone_admits_reconciliation() -> None:
    window = changed(CAPABILITY, execution=ExecutionContract(provider_dedup_window_ms=1000))
    alone = declared(
        "http://127.0.0.1:9",
        capability=window,
        execute=execute(lookup=None),
        compensate=None,
        preview=None,
    )
    contract = _derived(alone).transaction
    assert contract is not None
    assert Mode.RECONCILE in contract.supported_modes


def test_what_a_capability_says_itself_is_kept() -> None:
    contract = TransactionContract(
        supported_modes=(Mode.EXECUTE, Mode.COMPENSATE), requires_plan_before_commit=False
    )
    own = changed(
        CAPABILITY,
        title="Charge",
        transaction=contract,
        compensation=CompensationContract(mode=CompensationMode.BEST_EFFORT),
        credential=CredentialPolicy(required=True),
    )
    capability = _derived(declared("http://127.0.0.1:9", capability=own, provider={"headers": {}}))
    assert (capability.title, capability.transaction) == ("Charge", contract)
    assert capability.compensation.mode is CompensationMode.BEST_EFFORT
    assert capability.credential.required


def test_the_version_changes_with_the_requests_and_with_nothing_else() -> None:
    version = _derived().version
    assert version.startswith("1+http.")
    assert _derived(declared("http://127.0.0.1:9", execute=EXECUTE)).version == version
    assert _derived(
        declared("http://127.0.0.1:9", execute=execute(path="/v2/charges"))
    ).version != (version)
    assert _derived(declared("http://127.0.0.1:10")).version != version


def test_without_aiohttp_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "amends.connectors.http.transport", raising=False)
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(Misuse) as caught:
        http_capability(DECLARATION)
    assert caught.value.code == "connector.extra_missing"
    assert "pip install 'amends[http]'" in caught.value.next_step


@pytest.mark.parametrize(
    ("field", "parts"),
    [
        ("execute.path", {"execute": execute(path=5)}),
        ("execute.method", {"execute": execute(method="CANARY")}),
        ("execute.statuses[...]", {"execute": execute(statuses={"402": "CANARY"})}),
        ("execute.body", {"execute": execute(body={"a": date(2026, 1, 1)}, lookup=None)}),
        ("capability.risk", {"capability": changed(CAPABILITY, risk="CANARY")}),
        ("body", {"execute": execute(body={"a": object()})}),
    ],
)
def test_a_field_of_another_type_is_refused_without_its_value(
    field: str, parts: dict[str, Any]
) -> None:
    faults = _faults(declared("http://127.0.0.1:9", preview=None, **parts))
    assert faults[0].startswith(f"{field} ")
    assert "CANARY" not in faults[0]


def test_plain_words_stand_for_their_meanings() -> None:
    word: Any = "not_applied"
    http_capability(declared("http://127.0.0.1:9", execute=execute(statuses={"402": word})))


def test_a_record_with_an_unknown_field_is_refused_by_its_type() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"path": "/", "items": "/a", "key": "/k", "pages": 3}, ByKey)
