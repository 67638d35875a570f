"""Principals: what is granted by a wildcard, and what only by name."""

import pytest

from amends.contracts.enums import PrincipalKind
from amends.contracts.errors import Refused
from amends.contracts.principals import (
    ANY_SCOPE,
    APPROVE_SCOPE,
    HOLD_SCOPE,
    OPERATE_SCOPE,
    RELEASE_SCOPE,
    RETAIN_SCOPE,
    SETTLE_SCOPE,
    Caller,
    Principal,
    PrincipalRef,
)
from amends.testing.builders import TENANT, identity, principal
from amends.testing.refusals import refused_with


@pytest.mark.parametrize(
    ("scopes", "held"),
    [(("pay",), True), ((ANY_SCOPE,), True), ((), False), (("payments",), False), (("pa",), False)],
)
def test_a_scope_is_held_by_name_or_by_the_wildcard(scopes: tuple[str, ...], held: bool) -> None:
    assert principal(scopes=scopes).holds("pay") is held


@pytest.mark.parametrize("kind", PrincipalKind)
@pytest.mark.parametrize("scopes", [(), (ANY_SCOPE,), (APPROVE_SCOPE,), (OPERATE_SCOPE,)])
def test_operating_is_granted_by_name_or_kind_and_never_by_the_wildcard(
    kind: PrincipalKind, scopes: tuple[str, ...]
) -> None:
    expected = kind is PrincipalKind.OPERATOR or OPERATE_SCOPE in scopes
    assert principal(kind=kind, scopes=scopes).is_operator is expected


@pytest.mark.parametrize("kind", PrincipalKind)
@pytest.mark.parametrize("power", [SETTLE_SCOPE, RELEASE_SCOPE, HOLD_SCOPE, RETAIN_SCOPE])
def test_a_power_is_granted_by_name_and_by_the_wildcard_to_operators_alone(
    kind: PrincipalKind, power: str
) -> None:
    assert principal(kind=kind, scopes=(power,)).may(power)
    assert principal(kind=kind, scopes=(ANY_SCOPE,)).may(power) is (kind is PrincipalKind.OPERATOR)
    for scopes in ((), (OPERATE_SCOPE,), (APPROVE_SCOPE,)):
        assert not principal(kind=kind, scopes=scopes).may(power)


def test_records_keep_id_and_kind_of_a_principal() -> None:
    who = principal("alice", kind=PrincipalKind.AGENT, scopes=("pay",), roles=("treasury",))
    assert who.ref == PrincipalRef(who.id, PrincipalKind.AGENT)


def test_a_callers_tenant_is_its_principals_and_not_its_identitys() -> None:
    caller = Caller(principal=principal(), identity=identity(external_account="acct_9"))
    assert caller.tenant == TENANT
    assert (caller.asserted, caller.trusted) == (False, False)


def test_a_principal_made_of_plain_strings_is_checked() -> None:
    made = Principal.named(
        "alice@example.org", tenant="acme", kind="agent", scopes=["pay"], roles={"r"}, groups=("g",)
    )
    assert made == Principal(
        id=made.id,
        tenant=TENANT,
        kind=PrincipalKind.AGENT,
        scopes=("pay",),
        roles=("r",),
        groups=("g",),
    )
    assert Principal.named("alice").tenant == "default"
    for wrong in ({"id": "../alice"}, {"id": "alice", "tenant": "a b"}):
        with refused_with("input.invalid_id"):
            Principal.named(**wrong)


def test_a_kind_that_there_is_not_is_refused_by_name_and_without_the_value() -> None:
    with pytest.raises(Refused) as caught:
        Principal.named("alice", kind="canary")
    assert (caught.value.code, caught.value.details) == ("input.invalid_value", {"field": "kind"})
    assert "canary" not in str(caught.value)
