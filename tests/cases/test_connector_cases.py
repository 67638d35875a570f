"""Public failures at the connector, replayed over HTTP through the whole library.

Each runs against a provider on loopback that keeps books of its own, and ends with what the record
says and what really happened. Codes of the cases are mapped to ours: *provider_conflict* is
`provider.conflict`, *redirect_refused* is `connector.redirect_refused`, *uncertain_outcome* is the
status `outcome_unknown`.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from amends import (
    Amends,
    AmendsError,
    Attempt,
    ExecutionContract,
    NotApplied,
    Principal,
    Result,
    capability,
)
from amends.connectors.http import (
    ByToken,
    Effect,
    HttpConnector,
    LookUp,
    Meaning,
    State,
    http_capability,
)
from amends.connectors.http.connector import utc_now
from amends.connectors.port import Connector
from amends.contracts.declarations import Capability
from amends.contracts.enums import RetrySafety, Verdict, WireStatus
from amends.contracts.ids import CapabilityId, TenantId
from amends.contracts.json_types import Json
from amends.contracts.limits import RETRY_AFTER_MS
from amends.contracts.principals import PrincipalRef
from amends.contracts.secrets import Credential, Secret
from amends.testing.http_provider import Break, HttpFault, HttpProvider
from tests.acceptance.children import SAME_CODE
from tests.unit.connectors.http.certificates import self_signed
from tests.unit.connectors.http.payments import (
    BY_KEY,
    CAPABILITY,
    LOOKUP,
    ORDER,
    changed,
    declared,
    execute,
)

CHARGE = CAPABILITY.id
OPERATOR = Principal.named("olga", scopes=("*", "amends:operate", "amends:approve"))
TOKENS = changed(BY_KEY, paging=ByToken(parameter="after", next="/next"))


class Held:
    """A credential source that gives what it was made with."""

    def __init__(self, value: str = "tok") -> None:
        self._secret = Secret(value)

    def credential(
        self, capability: CapabilityId, tenant: TenantId, principal: PrincipalRef
    ) -> Credential | None:
        return Credential(secret=self._secret)


@asynccontextmanager
async def _opened(
    built: tuple[Capability, Connector], *, url: str = "memory:", credential: str = "tok"
) -> AsyncIterator[Amends]:
    """The library over one capability, for an operator; nothing is looked up by itself."""
    try:
        async with Amends.open(
            url, [built], principal=OPERATOR, credentials=Held(credential), recover=False
        ) as amends:
            yield amends
    finally:
        if isinstance(built[1], HttpConnector):
            await built[1].aclose()


@asynccontextmanager
async def _serving(
    *script: HttpFault,
    reads: Iterable[HttpFault] = (),
    big_ids: bool = False,
    url: str = "memory:",
    credential: str = "tok",
    clock: Callable[[], datetime] = utc_now,
    **parts: Any,
) -> AsyncIterator[tuple[HttpProvider, Amends]]:
    """A provider whose requests go as scripted, and the library over its capability."""
    async with HttpProvider(script, reads=reads, big_ids=big_ids) as provider:
        built = http_capability(declared(provider.url, **parts), clock=clock)
        async with _opened(built, url=url, credential=credential) as amends:
            yield provider, amends


async def _refusal(asking: Any) -> AmendsError:
    with pytest.raises(AmendsError) as caught:
        await asking
    return caught.value


def _error(result: Result) -> tuple[str, dict[str, Json]]:
    assert result.error is not None
    return result.error.code, result.error.details


def _is_unknown(result: Result) -> bool:
    return result.status is WireStatus.OUTCOME_UNKNOWN and result.raw_output is None


async def _looked_up(amends: Amends, result: Result) -> Result:
    return await amends.reconcile(result.transaction_id, insist=True)


def _page(*items: Json, next: Json = None) -> HttpFault:
    body = msgspec.json.encode({"data": list(items), "next": next})
    return HttpFault(status=200, body=body)


@pytest.mark.case("DUP-05")
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
@pytest.mark.parametrize("resets", [False, True])
async def test_a_connection_that_dies_after_the_request_does_not_send_it_twice(
    method: str, resets: bool
) -> None:
    dies = HttpFault(breaks=Break.AFTER_REQUEST, resets=resets)
    effect = execute(method=method)
    for script in ([dies], [HttpFault(), dies]):  # on a new connection, and on a kept one
        async with _serving(*script, execute=effect) as (provider, amends):
            for _ in script[1:]:
                await amends.execute(CHARGE, ORDER)
            lost = await amends.execute(CHARGE, ORDER)
        assert _is_unknown(lost)
        assert _error(lost) == ("connector.answer_lost", {"reason": "connection_lost"})
        assert len(provider.requests) == len(script)
        assert {seen.connection for seen in provider.requests} == {1}


@pytest.mark.case("DUP-07")
async def test_only_a_handler_s_own_word_that_nothing_was_sent_is_a_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)

    async def fails(order: dict[str, int], attempt: Attempt) -> bool:
        if order["n"] == 0:
            raise ConnectionError("Authorization: Bearer tok-CANARY")
        raise NotApplied("card.declined")

    declare = capability("pay", input_schema={"type": "object"})
    async with _opened(declare(fails).build(), url=f"sqlite:///{tmp_path}/a.db") as amends:
        unclassified = await amends.execute("pay", {"n": 0})
        declined = await amends.execute("pay", {"n": 1})
    assert _is_unknown(unclassified)
    assert _error(unclassified) == (
        "transaction.unclassified_exception",
        {"exception": "ConnectionError"},
    )
    assert "CANARY" not in f"{unclassified!r}{caplog.text}"
    assert _files_with_secrets(tmp_path) == []
    assert (declined.status, declined.verdict) == (WireStatus.FAILED, Verdict.NOT_COMMITTED)


@pytest.mark.case("DUP-07")
@pytest.mark.parametrize(
    "fault",
    [
        HttpFault(status=200, body=b"false"),
        HttpFault(status=599, body=b""),
        HttpFault(breaks=Break.IN_HEADERS),
    ],
)
async def test_an_answer_that_nobody_understands_is_not_a_failure(fault: HttpFault) -> None:
    async with _serving(fault) as (_, amends):
        assert _is_unknown(await amends.execute(CHARGE, ORDER))


DEFINITE_429 = execute(statuses={"429": Meaning.NOT_APPLIED_RETRYABLE})
KEYED = changed(
    CAPABILITY, execution=ExecutionContract(retry_safety=RetrySafety.SAFE_WITH_IDEMPOTENCY_KEY)
)
LIMITED = HttpFault(effect=False, status=429, headers=(("Retry-After", "2"),))
TOLD: dict[str, Any] = {"action_id": "act_1", "transaction_id": "txn_1", "idempotency_key": "k1"}


@pytest.mark.case("DUP-10")
async def test_a_retry_after_a_definite_429_carries_the_same_provider_key() -> None:
    async with _serving(LIMITED, capability=KEYED, execute=DEFINITE_429) as (provider, amends):
        limited = await amends.execute(CHARGE, ORDER, **TOLD)
        done = await amends.execute(CHARGE, ORDER, **TOLD)
    assert _error(limited) == ("provider.failed", {"status": 429, "retry_after_ms": 2000})
    assert (limited.status, done.status) == (WireStatus.FAILED, WireStatus.COMMITTED)
    first, second = provider.requests
    assert first.key == second.key != ""
    assert first.body == second.body
    assert len(provider.effects()) == 1


@pytest.mark.case("DUP-10")
async def test_a_429_that_is_not_declared_as_definite_is_not_retried() -> None:
    async with _serving(LIMITED, capability=KEYED) as (provider, amends):
        assert _is_unknown(await amends.execute(CHARGE, ORDER, **TOLD))
        refusal = await _refusal(amends.execute(CHARGE, ORDER, **TOLD))
    assert refusal.code == "transaction.reconciliation_required"
    assert len(provider.requests) == 1


@pytest.mark.case("DUP-10")
async def test_an_amended_input_under_an_old_key_is_refused_before_any_network_call() -> None:
    amended = {**ORDER, "amount": 501}
    async with _serving(LIMITED, capability=KEYED, execute=DEFINITE_429) as (provider, amends):
        await amends.execute(CHARGE, ORDER, **TOLD)
        same_action = await _refusal(amends.execute(CHARGE, amended, **TOLD))
        other = TOLD | {"action_id": "act_2"}
        same_transaction = await _refusal(amends.execute(CHARGE, amended, **other))
    assert same_action.code == "action.id_conflict"
    assert same_transaction.code == "transaction.execution_contract_mismatch"
    assert len(provider.requests) == 1


@pytest.mark.case("P5X-01")
@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_a_server_error_after_the_effect_is_unknown_and_is_not_called_again(
    status: int,
) -> None:
    async with _serving(HttpFault(status=status)) as (provider, amends):
        unknown = await amends.execute(CHARGE, ORDER, action_id="a", transaction_id="t")
        refusal = await _refusal(amends.execute(CHARGE, ORDER, action_id="a", transaction_id="t"))
        assert len(provider.requests) == 1
        found = await _looked_up(amends, unknown)
    assert _is_unknown(unknown)
    assert _error(unknown)[0] == "provider.server_error"
    assert refusal.code == "transaction.reconciliation_required"
    assert found.verdict is Verdict.COMMITTED
    assert len(provider.effects()) == 1


@pytest.mark.case("P5X-01")
async def test_a_server_error_is_definite_where_the_connector_s_contract_says_so() -> None:
    effect = execute(statuses={"503": Meaning.NOT_APPLIED})
    async with _serving(HttpFault(effect=False, status=503), execute=effect) as (_, amends):
        failed = await amends.execute(CHARGE, ORDER)
    assert (failed.status, failed.verdict) == (WireStatus.FAILED, Verdict.NOT_COMMITTED)


CONFLICT_IS_DEFINITE = execute(statuses={"409": Meaning.NOT_APPLIED})


@pytest.mark.case("SEM-02")
async def test_a_name_that_somebody_else_holds_is_a_definite_conflict_and_is_left_alone() -> None:
    taken = HttpFault(effect=False, status=409, body=b'{"id": "ch_foreign"}')
    async with _serving(taken, execute=CONFLICT_IS_DEFINITE) as (provider, amends):
        foreign = provider.enter("charge", 9, metadata={"key": "of somebody else"})
        failed = await amends.execute(CHARGE, ORDER)
        refusal = await _refusal(amends.compensate(failed, {}))
    assert (failed.status, failed.verdict) == (WireStatus.FAILED, Verdict.NOT_COMMITTED)
    assert _error(failed)[0] == "provider.conflict"
    assert failed.provider_operation is None
    assert refusal.code == "transaction.compensation_target_not_completed"
    assert provider.books == [foreign]
    assert len(provider.requests) == 1


@pytest.mark.case("SEM-02")
async def test_a_conflict_while_an_earlier_attempt_is_open_is_unknown_until_a_look_up() -> None:
    window = changed(CAPABILITY, execution=ExecutionContract(provider_dedup_window_ms=86_400_000))
    script = [HttpFault(breaks=Break.AFTER_REQUEST), HttpFault(effect=False, status=409)]
    not_yet = HttpFault(status=200, body=b'{"data": [], "has_more": false}')
    async with _serving(
        *script, reads=[not_yet], capability=window, execute=CONFLICT_IS_DEFINITE
    ) as (provider, amends):
        lost = await amends.execute(CHARGE, ORDER)
        not_seen = await _looked_up(amends, lost)
        redriven = await _looked_up(amends, lost)
    assert [seen.method for seen in provider.requests] == ["POST", "GET", "POST"]
    assert _is_unknown(not_seen)
    assert _is_unknown(redriven)
    assert _error(redriven)[0] == "provider.conflict"
    assert len(provider.effects()) == 1


@pytest.mark.case("SEM-03")
@pytest.mark.parametrize("status", [301, 302, 303])
async def test_a_redirect_to_a_page_that_answers_200_is_not_a_success(status: int) -> None:
    headers = (("Location", "/v1/charges?ok=CANARY"),)
    moved = HttpFault(effect=False, status=status, headers=headers)
    async with _serving(moved) as (provider, amends):
        unknown = await amends.execute(CHARGE, ORDER)
    assert _is_unknown(unknown)
    assert _error(unknown) == ("connector.redirect_refused", {"status": status})
    assert [seen.method for seen in provider.requests] == ["POST"]
    assert "CANARY" not in repr(unknown)


@pytest.mark.case("SEM-04")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_to_another_host_sends_nothing_there(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    async with HttpProvider() as evil:
        moved = HttpFault(status=status, headers=(("Location", f"{evil.url}/collect"),))
        serving = _serving(moved, reads=[moved], credential="tok-CANARY")
        async with serving as (provider, amends):
            unknown = await amends.execute(CHARGE, ORDER)
            looked_up = await _looked_up(amends, unknown)
    assert evil.requests == []
    assert len(provider.requests) == 2
    assert _error(unknown) == ("connector.redirect_refused", {"status": status})
    assert _is_unknown(looked_up)
    assert "CANARY" not in f"{unknown!r}{looked_up!r}{caplog.text}"


def _shown_by_command(url: str, transaction_id: str) -> bytes:
    """What `amends tx show --json` prints."""
    command = [sys.executable, "-m", "amends", "tx", "show", transaction_id, "--json"]
    env = {**os.environ, "PYTHONPATH": SAME_CODE, "AMENDS_STORE": url}
    return subprocess.run(command, env=env, check=True, capture_output=True).stdout


@pytest.mark.case("CAN-11")
async def test_a_64_bit_id_keeps_its_digits_through_record_result_and_look_up(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    serving = _serving(HttpFault(status=202), big_ids=True, url=url)
    async with serving as (provider, amends):
        pending = await amends.execute(CHARGE, ORDER)
        view = await amends.get(pending)
        found = await _looked_up(amends, pending)
        refund = await amends.compensate(pending, {})
    shown = await asyncio.to_thread(_shown_by_command, url, pending.transaction_id)
    assert b'"operation_id": "9007199254740993"' in shown
    assert provider.books[0].id == 9007199254740993
    assert _is_unknown(pending)
    for seen in (pending, found):
        assert seen.provider_operation is not None
        assert seen.provider_operation.operation_id == "9007199254740993"
        assert '"9007199254740993"' in msgspec.json.encode(seen).decode()
    assert "operation_id='9007199254740993'" in repr(view)
    assert found.output == {**provider.books[0].shown(), "id": "9007199254740993"}
    assert provider.requests[1].target == "/v1/charges/9007199254740993"
    assert b'"charge":"9007199254740993"' in provider.requests[2].body
    assert refund.verdict is Verdict.COMMITTED


MINOR_UNITS: dict[str, Any] = {
    "capability": changed(
        CAPABILITY,
        input_schema={
            "type": "object",
            "required": ["amount", "currency", "exponent"],
            "additionalProperties": False,
            "properties": {
                "amount": {"type": "integer", "minimum": 1},
                "currency": {"enum": ["eur", "jpy", "bhd"]},
                "exponent": {"enum": [0, 2, 3]},
            },
        },
    ),
    "execute": Effect(
        path="/v1/charges",
        body={
            "amount": "{input.amount}",
            "currency": "{input.currency}",
            "exponent": "{input.exponent}",
        },
    ),
    "compensate": None,
    "preview": None,
}


@pytest.mark.case("AMT-01")
@pytest.mark.parametrize("amount", [78.43, 19.99, 8.165, 1e-9, "10.00", -0.0, -600, 0, True, None])
async def test_an_amount_that_is_no_whole_number_of_minor_units_is_refused(amount: Json) -> None:
    async with _serving(**MINOR_UNITS) as (provider, amends):
        told = {"amount": amount, "currency": "eur", "exponent": 2}
        refusal = await _refusal(amends.execute(CHARGE, told))
    assert refusal.code == "input.schema_mismatch"
    assert "/amount" in str(refusal.details)
    assert provider.requests == []


@pytest.mark.case("AMT-01")
@pytest.mark.parametrize(
    ("amount", "currency", "exponent"), [(600, "jpy", 0), (1234, "bhd", 3), (7843, "eur", 2)]
)
async def test_the_approver_is_shown_the_very_number_that_the_provider_is_sent(
    amount: int, currency: str, exponent: int
) -> None:
    told = {"amount": amount, "currency": currency, "exponent": exponent}
    canonical = f'{{"amount":{amount},"currency":"{currency}","exponent":{exponent}}}'
    async with _serving(**MINOR_UNITS) as (provider, amends):
        asking = amends.acting_as(Principal.named("ann"))
        waiting = await asking.execute(CHARGE, told, approval_required=True)
        shown = repr(await amends.get(waiting))
        await amends.approve(waiting)
        done = await asking.wait_for_approval(waiting)
    assert done.status is WireStatus.COMMITTED
    assert canonical in shown
    assert provider.requests[0].body == canonical.encode()


def _files_with_secrets(directory: Path) -> list[Path]:
    return [file for file in directory.iterdir() if b"CANARY" in file.read_bytes()]


@pytest.mark.case("SEC-03")
@pytest.mark.parametrize("credential", ["tok-CANARY\n", "tok-CANARYü", "CANARY\r\nX: y"])
async def test_a_credential_that_cannot_be_sent_is_a_typed_error_without_its_value(
    credential: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    url = f"sqlite:///{tmp_path}/a.db"
    async with _serving(url=url, credential=credential) as (provider, amends):
        failed = await amends.execute(CHARGE, ORDER)
    assert _error(failed) == ("credential.invalid", {"reference": "credential"})
    assert failed.verdict is Verdict.NOT_COMMITTED
    assert provider.requests == []
    assert "CANARY" not in f"{failed!r}{caplog.text}"
    assert _files_with_secrets(tmp_path) == []


@pytest.mark.case("SEC-03")
async def test_neither_a_bad_proxy_nor_a_tls_failure_shows_a_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(0)
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://user:CANARY@127.0.0.1:1")
    database = tmp_path / "database"
    database.mkdir()
    async with HttpProvider(tls=self_signed(tmp_path)) as provider:
        built = http_capability(declared(provider.url))
        url = f"sqlite:///{database}/a.db"
        async with _opened(built, url=url, credential="tok-CANARY") as amends:
            failed = await amends.execute(CHARGE, ORDER)
    assert _error(failed) == ("connector.unreachable", {"reason": "tls"})
    assert failed.error is not None
    assert failed.error.retryable
    assert provider.requests == []
    assert "CANARY" not in f"{failed!r}{caplog.text}"
    assert _files_with_secrets(database) == []


@pytest.mark.case("EVC-01")
@pytest.mark.parametrize(
    ("fault", "hidden"),
    [
        (HttpFault(status=202), HttpFault(status=404)),
        (
            HttpFault(breaks=Break.AFTER_REQUEST),
            HttpFault(status=200, body=b'{"data": [], "has_more": false}'),
        ),
    ],
)
async def test_an_object_that_is_not_shown_yet_is_not_taken_for_one_that_was_never_made(
    fault: HttpFault, hidden: HttpFault
) -> None:
    async with _serving(fault, reads=[hidden] * 3) as (provider, amends):
        result = await amends.execute(CHARGE, ORDER)
        for _ in range(3):
            result = await _looked_up(amends, result)
            assert _is_unknown(result)
            assert result.verdict is None
            assert result.reconcile_after is not None
            assert result.reconcile_after > datetime.now(UTC)
        found = await _looked_up(amends, result)
    assert found.verdict is Verdict.COMMITTED
    assert len(provider.effects()) == 1


@pytest.mark.case("EVC-01")
async def test_not_found_proves_absence_only_past_a_horizon_with_a_strong_look_up() -> None:
    horizon = changed(CAPABILITY, execution=ExecutionContract(in_flight_horizon_ms=1000))
    weak = declared("http://127.0.0.1:9", capability=horizon, compensate=None)
    with pytest.raises(AmendsError, match=r"execute\.lookup\.strong"):
        http_capability(weak)
    strong = execute(lookup=changed(LOOKUP, strong=True))
    lost = HttpFault(effect=False, breaks=Break.AFTER_REQUEST)
    async with _serving(lost, capability=horizon, execute=strong, compensate=None) as (
        provider,
        amends,
    ):
        unknown = await amends.execute(CHARGE, ORDER)
        early = await _looked_up(amends, unknown)
    assert _is_unknown(unknown)
    assert _is_unknown(early)
    assert provider.effects() == []


def _ours(**changes: Json) -> Json:
    return {"id": "ch_1", **ORDER, "metadata": {"key": "of another"}, **changes}


NOT_FOUND_YET = "transaction.absence_not_proven"
UNREADABLE = "connector.lookup_unreadable"
BY_TOKEN = execute(lookup=changed(LOOKUP, by_key=TOKENS))


@pytest.mark.case("EVC-03")
@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (_page(), NOT_FOUND_YET),
        (HttpFault(status=200, body=b'{"data": null}'), UNREADABLE),
        (HttpFault(status=200, body=b"{}"), UNREADABLE),
        (HttpFault(status=204), UNREADABLE),
        (HttpFault(status=404), UNREADABLE),
        (HttpFault(status=410), UNREADABLE),
        (HttpFault(status=403), UNREADABLE),
        (_page(_ours()), NOT_FOUND_YET),
    ],
)
async def test_what_a_look_up_by_key_does_not_show_is_never_taken_for_not_done(
    answer: HttpFault, code: str
) -> None:
    lost = HttpFault(breaks=Break.AFTER_REQUEST)
    async with _serving(lost, reads=[answer], execute=BY_TOKEN) as (_, amends):
        unknown = await amends.execute(CHARGE, ORDER)
        looked_up = await _looked_up(amends, unknown)
    assert _is_unknown(looked_up)
    assert looked_up.verdict is None
    assert _error(looked_up)[0] == code


@pytest.mark.case("EVC-03")
@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (404, "", NOT_FOUND_YET),
        (410, "", "connector.lookup_gone"),
        (403, "", UNREADABLE),
        (204, "", UNREADABLE),
        (200, {}, UNREADABLE),
        (200, {"items": []}, "connector.lookup_mismatch"),
        (200, _ours(amount=1), "connector.lookup_mismatch"),
        (200, _ours(id="ch_of_another_tenant"), "connector.lookup_mismatch"),
    ],
)
async def test_what_a_look_up_by_id_does_not_show_is_never_taken_for_not_done(
    status: int, body: Json, code: str
) -> None:
    answer = HttpFault(status=status, body=msgspec.json.encode(body))
    async with _serving(HttpFault(status=202), reads=[answer]) as (_, amends):
        pending = await amends.execute(CHARGE, ORDER)
        looked_up = await _looked_up(amends, pending)
    assert _is_unknown(looked_up)
    assert looked_up.verdict is None
    assert _error(looked_up)[0] == code


PAGED = execute(lookup=LookUp(by_key=changed(TOKENS, max_pages=3)))
LOST = HttpFault(breaks=Break.AFTER_REQUEST)


@pytest.mark.case("PAG-02")
@pytest.mark.parametrize(
    ("reads", "cursor"),
    [
        ([_page(next="c1"), _page(next="c2"), _page(next="c1")], "c2"),
        ([_page(next="c1"), _page(next="c1")], "c1"),
        ([_page(next="c1"), _page(next="c2"), HttpFault(status=500)], "c1"),
        ([_page(next="c1"), _page(next="c2"), _page(next="c3")], "c3"),
    ],
)
async def test_a_scan_that_was_not_finished_concludes_nothing_and_is_gone_on_with(
    reads: list[HttpFault], cursor: str
) -> None:
    async with _serving(LOST, reads=[*reads, _page()], execute=PAGED) as (provider, amends):
        unknown = await amends.execute(CHARGE, ORDER)
        stopped = await _looked_up(amends, unknown)
        assert len(provider.requests) == 1 + len(reads)
        gone_on = await _looked_up(amends, unknown)
    assert _is_unknown(stopped)
    assert stopped.cursor == cursor
    assert provider.requests[-1].target.endswith(f"after={cursor}")
    assert _is_unknown(gone_on)


@pytest.mark.case("PAG-03")
async def test_our_operation_is_found_behind_an_empty_page_with_a_continuation() -> None:
    async with _serving(LOST, reads=[_page(next="c1")], execute=PAGED) as (provider, amends):
        unknown = await amends.execute(CHARGE, ORDER)
        found = await _looked_up(amends, unknown)
    assert found.verdict is Verdict.COMMITTED
    assert [seen.method for seen in provider.requests] == ["POST", "GET", "GET"]


BATCH: dict[str, Any] = {
    "capability": changed(CAPABILITY, input_schema={"type": "object"}),
    "execute": Effect(
        path="/v1/batches",
        body={"items": "{input.items}", "key": "{attempt.provider_key}"},
        operation_id="/id",
        match={"/key": "{attempt.provider_key}"},
        state=State(at="/status", applied=("done",), partial=("stopped",)),
        lookup=LookUp(by_key=changed(BY_KEY, path="/v1/batches", key="/key", paging=None)),
    ),
    "compensate": Effect(path="/v1/undo", body={"items": "{original.output.done}"}),
    "preview": None,
}


@pytest.mark.case("BAT-02")
async def test_a_batch_that_broke_off_claims_nothing_and_undoes_only_what_is_proven_done() -> None:
    breaks_off = HttpFault(effect=False, breaks=Break.AFTER_REQUEST, resets=True)
    undoes = HttpFault(effect=False, status=200, body=b"{}")
    pages: list[HttpFault] = []
    async with _serving(breaks_off, undoes, reads=_later(pages), **BATCH) as (provider, amends):
        unknown = await amends.execute(CHARGE, {"items": [1, 2, 3, 4, 5, 6]})
        too_early = await _refusal(amends.compensate(unknown, {}))
        sent = msgspec.json.decode(provider.requests[0].body)
        batch = {"id": "b1", "key": sent["key"], "status": "stopped", "done": [1, 2, 3, 4]}
        pages.append(_page(batch))
        partly = await _looked_up(amends, unknown)
        undone = await amends.compensate(unknown, {})
    assert _is_unknown(unknown)
    assert _error(unknown) == ("connector.answer_lost", {"reason": "connection_lost"})
    assert too_early.code == "transaction.compensation_target_not_completed"
    assert (partly.status, partly.verdict) == (WireStatus.RECONCILED, Verdict.PARTIAL)
    assert partly.raw_output is not None
    assert msgspec.json.decode(partly.raw_output) == batch
    assert undone.verdict is Verdict.COMMITTED
    assert provider.requests[-1].body == b'{"items":[1,2,3,4]}'


def _later(faults: list[HttpFault]) -> Iterator[HttpFault]:
    """Faults that are put into the list while the provider is running."""
    while faults:
        yield faults.pop(0)


NOW = datetime(2026, 10, 21, 7, 27, tzinfo=UTC)
DEFAULT_S = RETRY_AFTER_MS / 1000


@pytest.mark.case("RTA-01")
@pytest.mark.parametrize(
    ("values", "expected_s"),
    [
        (["Wed, 21 Oct 2026 07:28:00 GMT"], 60),
        (["Wednesday, 21-Oct-26 07:28:00 GMT"], 60),
        (["Wed Oct 21 07:28:00 2026"], 60),
        (["120"], 120),
        ([" 120 "], 120),
        (["Wed, 21 Oct 2015 07:28:00 GMT"], 0),
        (["-5"], DEFAULT_S),
        ([""], DEFAULT_S),
        (["1.5"], DEFAULT_S),
        (["1e3"], DEFAULT_S),
        (["+5"], DEFAULT_S),
        (["١٢"], DEFAULT_S),
        (["120", "60"], DEFAULT_S),
    ],
)
async def test_retry_after_moves_the_next_look_up_or_is_ignored_and_nothing_else(
    values: list[str], expected_s: float
) -> None:
    headers = tuple(("Retry-After", value) for value in values)
    fault = HttpFault(status=503, headers=headers)
    async with _serving(fault, clock=lambda: NOW) as (_, amends):
        before = datetime.now(UTC)
        unknown = await amends.execute(CHARGE, ORDER)
        took_s = (datetime.now(UTC) - before).total_seconds()
    assert _is_unknown(unknown)
    code, details = _error(unknown)
    assert code == "provider.server_error"
    assert details.get("retry_after_ignored", False) is (expected_s == DEFAULT_S)
    assert unknown.reconcile_after is not None
    delay_s = (unknown.reconcile_after - before).total_seconds()
    assert 0 <= delay_s - expected_s <= took_s
