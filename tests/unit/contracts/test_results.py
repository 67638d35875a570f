"""Results: an output is never given where the effect is not known, and the reason is coded."""

import pytest
from msgspec.structs import replace

from amends.contracts.enums import Mode, Verdict, WireStatus
from amends.contracts.errors import AmendsError, Misuse, OutcomeUnknown, ProviderFailed, Refused
from amends.contracts.json_types import Json, json_text
from amends.contracts.outcomes import ErrorInfo
from amends.contracts.results import Result
from amends.testing.builders import ACTION, CAPABILITY, DECLINED, TRANSACTION
from amends.testing.refusals import refused_with


def result(status: WireStatus = WireStatus.COMMITTED, **changes: object) -> Result:
    made = Result(
        status=status,
        mode=Mode.EXECUTE,
        action_id=ACTION,
        transaction_id=TRANSACTION,
        capability_id=CAPABILITY,
    )
    return replace(made, **changes)


@pytest.mark.parametrize(
    ("text", "output"),
    [('{"id":"ch_1"}', {"id": "ch_1"}), ("null", None), ("0", 0), ('""', ""), ("false", False)],
)
def test_a_stored_output_is_given_even_where_it_is_null_or_false(text: str, output: Json) -> None:
    assert result(raw_output=json_text(text.encode())).output == output


EXPLANATIONS: list[tuple[WireStatus, dict[str, object], str, type[AmendsError]]] = [
    (
        WireStatus.OUTCOME_UNKNOWN,
        {"error": DECLINED},
        "transaction.outcome_unknown",
        OutcomeUnknown,
    ),
    (
        WireStatus.RECONCILING,
        {"output_invalid": "output.not_storable"},
        "transaction.outcome_unknown",
        OutcomeUnknown,
    ),
    (WireStatus.REQUIRES_HUMAN, {"error": DECLINED}, "approval.required", Refused),
    (WireStatus.CANCELLED, {"error": DECLINED}, "action.cancelled", Refused),
    (WireStatus.FAILED, {"error": DECLINED}, "card_declined", ProviderFailed),
    (
        WireStatus.FAILED,
        {"error": ErrorInfo(code="transaction.plan_expired")},
        "transaction.plan_expired",
        Refused,
    ),
    (
        WireStatus.RECONCILED,
        {"error": ErrorInfo(code="transaction.effect_absent")},
        "transaction.effect_absent",
        ProviderFailed,
    ),
    (
        WireStatus.COMMITTED,
        {"output_invalid": "output.not_storable"},
        "output.not_storable",
        ProviderFailed,
    ),
    (WireStatus.COMMITTED, {}, "result.no_output", Misuse),
]


@pytest.mark.parametrize(("status", "changes", "code", "family"), EXPLANATIONS)
def test_a_missing_output_raises_the_coded_reason(
    status: WireStatus, changes: dict[str, object], code: str, family: type[AmendsError]
) -> None:
    shown = result(status, **changes)
    with refused_with(code) as caught:
        assert shown.output
    assert type(caught.error) is family
    assert caught.error.next_step
    assert caught.error.details == {
        "status": status.value,
        "transaction_id": TRANSACTION,
        "action_id": ACTION,
    }


def test_a_providers_own_words_are_shown_and_where_there_are_none_ours() -> None:
    assert result(WireStatus.FAILED, error=DECLINED).explanation().message == DECLINED.message
    silent = result(WireStatus.FAILED, error=ErrorInfo(code="card_declined"))
    assert silent.explanation().message == "The provider refused."


@pytest.mark.parametrize(
    ("code", "retryable", "verdict", "says"),
    [
        ("provider.failed", False, Verdict.NOT_COMMITTED, "Read the provider's code"),
        ("card_declined", False, Verdict.NOT_COMMITTED, "Read the provider's code"),
        ("connector.unreachable", True, Verdict.NOT_COMMITTED, "it may be asked for again"),
        ("half_done", True, Verdict.PARTIAL, "Read the provider's code"),
    ],
)
def test_what_the_provider_said_comes_along_and_a_retry_is_named_where_nothing_happened(
    code: str, retryable: bool, verdict: Verdict, says: str
) -> None:
    told: dict[str, Json] = {"status": 402, "provider_code": "card_declined"}
    error = ErrorInfo(code=code, retryable=retryable, details=told)
    raised = result(WireStatus.FAILED, error=error, verdict=verdict).explanation()
    assert raised.details["provider_details"] == told
    assert raised.details["status"] == "failed"
    assert says in raised.next_step


@pytest.mark.parametrize("status", WireStatus)
def test_no_status_without_an_output_gives_one(status: WireStatus) -> None:
    with pytest.raises(AmendsError):
        assert result(status).output is None


@pytest.mark.parametrize("verdict", [None, *Verdict])
def test_an_effect_is_there_only_with_the_verdict_committed(verdict: Verdict | None) -> None:
    assert result(verdict=verdict).effect_is_there is (verdict is Verdict.COMMITTED)
