"""Grants narrowed, and the purses of a session."""

from typing import Any

import pytest

from amends.contracts.errors import AmendsError
from amends.contracts.worker_grant import (
    CapabilityGrant,
    Manifest,
    Resource,
    ResourceKind,
    grant_fingerprint,
)
from amends.contracts.worker_payload import PayloadFormat, ToolPayload
from amends.protocol.attenuation import attenuate, check_within
from amends.protocol.budget import MAX_LOOKUPS, MAX_LOOKUPS_OF_TOOL, MAX_REQUESTS, Budget
from amends.protocol.table import MessageKind as K
from amends.protocol.versions import Version
from tests.unit.protocol.pair import GRANT, GRANTS, HASH, SESSION, TENANT, changed, message_of

FILES = tuple(Resource(ResourceKind.FILE_ROOT, f"root-{number}") for number in range(3))
WIDE = CapabilityGrant("pay", PayloadFormat.JSON, 5, 100, 100, 2, FILES)


def code_of(call: Any) -> str:
    with pytest.raises(AmendsError) as caught:
        call()
    return caught.value.code


def budget_of(*grants: CapabilityGrant) -> Budget:
    return Budget(Manifest(6, SESSION, grants or GRANTS), TENANT)


def spend(budget: Budget, message: Any) -> None:
    budget.reserve(message)
    budget.charge(message)


def other(kind: K, **changes: Any) -> Any:
    message = message_of(kind)
    return type(message)(changed(message.request, **changes))


class TestAttenuation:
    @pytest.mark.rule("GR-2")
    def test_every_limit_goes_down_and_compensations_to_none(self) -> None:
        narrow = attenuate(
            WIDE,
            max_calls=1,
            max_input_bytes=1,
            max_output_bytes=1,
            max_compensations=0,
            resources=FILES[:1],
        )
        assert narrow == CapabilityGrant("pay", PayloadFormat.JSON, 1, 1, 1, 0, FILES[:1])
        assert attenuate(WIDE) == WIDE
        assert grant_fingerprint(narrow) != grant_fingerprint(WIDE)

    @pytest.mark.rule("GR-2")
    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("max_calls", 6),
            ("max_input_bytes", 101),
            ("max_output_bytes", 101),
            ("max_compensations", 3),
            ("resources", [*FILES, Resource(ResourceKind.SECRET, "root-0")]),
        ],
    )
    def test_nothing_grows(self, field: str, value: Any) -> None:
        with pytest.raises(AmendsError) as caught:
            attenuate(WIDE, **{field: value})
        assert caught.value.code == "worker.grant_widened"
        assert caught.value.details == {"field": field}

    @pytest.mark.rule("GR-2")
    def test_tool_and_format_stay(self) -> None:
        for inner in (changed(WIDE, tool="refund"), changed(WIDE, format=PayloadFormat.TEXT)):
            assert code_of(lambda inner=inner: check_within(WIDE, inner)) == "worker.grant_widened"

    @pytest.mark.rule("GR-1", "GR-2")
    def test_calls_cannot_be_narrowed_to_none(self) -> None:
        assert code_of(lambda: attenuate(WIDE, max_calls=0)) == "worker.grant_invalid"


class TestBudget:
    @pytest.mark.rule("GR-5")
    def test_calls_of_both_kinds_come_out_of_one_purse(self) -> None:
        budget = budget_of()
        for number in range(GRANT.max_calls):
            kind = K.INVOKE if number % 2 else K.DISPATCH_OPERATION
            spend(budget, other(kind, request_id=f"r-{number}"))
        for kind in (K.INVOKE, K.DISPATCH_OPERATION):
            assert (
                code_of(lambda k=kind: budget.reserve(other(k, request_id="new")))
                == "worker.calls_spent"
            )
        spend(budget, other(K.COMPENSATE_OPERATION, request_id="undo"))

    @pytest.mark.rule("GR-5")
    def test_an_operation_that_is_sent_again_spends_a_call(self) -> None:
        budget = budget_of(changed(GRANT, max_calls=1))
        spend(budget, message_of(K.DISPATCH_OPERATION))
        again = other(K.DISPATCH_OPERATION, request_id="r-2")
        assert code_of(lambda: budget.reserve(again)) == "worker.calls_spent"

    @pytest.mark.rule("GR-5")
    def test_a_compensation_that_is_sent_again_exactly_spends_nothing(self) -> None:
        grant = changed(GRANT, max_compensations=1)
        budget = budget_of(grant)
        names = {"grant_fingerprint": grant_fingerprint(grant)}
        for number in range(5):
            spend(budget, other(K.COMPENSATE_OPERATION, request_id=f"r-{number}", **names))
        changes: list[dict[str, Any]] = [
            {"compensation_key": "cmp-" + "f" * 64},
            {"operation_key": "op-2"},
            {"payload": ToolPayload.json({"amount": 6})},
        ]
        for one in changes:
            message = other(K.COMPENSATE_OPERATION, request_id="r-9", **names, **one)
            assert code_of(lambda m=message: budget.reserve(m)) == "worker.compensations_spent"

    @pytest.mark.rule("GR-1", "GR-5")
    def test_no_compensation_unless_the_grant_says_so(self) -> None:
        grant = changed(GRANT, max_compensations=0)
        message = other(K.COMPENSATE_OPERATION, grant_fingerprint=grant_fingerprint(grant))
        code = code_of(lambda: budget_of(grant).reserve(message))
        assert code == "worker.compensations_spent"

    @pytest.mark.rule("GR-5")
    @pytest.mark.parametrize("kind", [K.RECONCILE_OPERATION, K.COMPENSATION_STATE_REQUEST])
    def test_look_ups_have_a_purse_for_each_tool_and_one_for_all(self, kind: K) -> None:
        grants = tuple(CapabilityGrant(f"t-{number}") for number in range(5))
        budget, asked = budget_of(*grants), 0
        prints = {grant.tool: grant_fingerprint(grant) for grant in grants}

        def ask(tool: str) -> Any:
            names = {"tool": tool, "request_id": f"r-{asked}"}
            if kind is K.COMPENSATION_STATE_REQUEST:
                names["grant_fingerprint"] = prints[tool]
            return other(kind, **names)

        for grant in grants[:4]:
            for _ in range(MAX_LOOKUPS_OF_TOOL):
                spend(budget, ask(grant.tool))
                asked += 1
            assert code_of(lambda: budget.reserve(ask("t-0"))) == "worker.lookups_spent"
        assert asked == MAX_LOOKUPS
        assert code_of(lambda: budget.reserve(ask("t-4"))) == "worker.lookups_spent"

    @pytest.mark.rule("GR-5")
    def test_request_ids_are_used_once_and_there_are_so_many(self) -> None:
        budget = budget_of()
        for number in range(MAX_REQUESTS):
            spend(budget, other(K.CANCEL, request_id=f"r-{number}"))
        assert code_of(lambda: budget.reserve(message_of(K.CANCEL))) == "worker.request_repeated"
        new = other(K.CANCEL, request_id="new")
        assert code_of(lambda: budget.reserve(new)) == "worker.requests_spent"
        budget.release("r-0")
        budget.reserve(new)

    @pytest.mark.rule("GR-5", "GR-6")
    @pytest.mark.parametrize(
        ("kind", "changes", "code"),
        [
            (K.INVOKE, {"session_id": "session-2"}, "worker.session_mismatch"),
            (K.INVOKE, {"protocol_version": 5}, "worker.session_mismatch"),
            (K.INVOKE, {"tool": "refund"}, "worker.tool_not_granted"),
            (K.INVOKE, {"payload": ToolPayload.text("x")}, "worker.format_not_granted"),
            (K.INVOKE, {"payload": ToolPayload.json(["x" * 20_000])}, "worker.input_too_large"),
            (K.COMPENSATE_OPERATION, {"tenant_scope": "tenant-b"}, "worker.tenant_mismatch"),
            (K.COMPENSATE_OPERATION, {"grant_fingerprint": HASH}, "worker.grant_mismatch"),
            (K.COMPENSATION_STATE_REQUEST, {"tenant_scope": "b"}, "worker.tenant_mismatch"),
            (K.COMPENSATION_STATE_REQUEST, {"grant_fingerprint": HASH}, "worker.grant_mismatch"),
            (K.RECONCILE_OPERATION, {"tool": "refund"}, "worker.tool_not_granted"),
        ],
    )
    def test_a_refusal_changes_nothing(self, kind: K, changes: dict[str, Any], code: str) -> None:
        budget = budget_of(changed(GRANT, max_calls=1))
        grant = {"grant_fingerprint": grant_fingerprint(changed(GRANT, max_calls=1))}
        named = grant if kind in {K.COMPENSATE_OPERATION, K.COMPENSATION_STATE_REQUEST} else {}
        wrong = other(kind, **(named | changes))
        for _ in range(3):
            assert code_of(lambda: budget.reserve(wrong)) == code
        spend(budget, other(kind, **named))

    def test_the_same_names_hold_in_version_5(self) -> None:
        budget = Budget(Manifest(5, SESSION, GRANTS), TENANT)
        spend(budget, message_of(K.DISPATCH_OPERATION, Version.LINES))
