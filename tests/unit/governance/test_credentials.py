"""The credential gate: its conditions alone, in order, and at the instant of expiry."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from amends.contracts.declarations import CredentialPolicy
from amends.contracts.secrets import Credential, Secret
from amends.governance.credentials import check_credential
from amends.testing.builders import NOW
from amends.testing.refusals import refused_with

POLICY = CredentialPolicy(
    required=True, accepted_issuers=("vault", "kms"), required_scopes=("charge", "refund")
)
GOOD = Credential(
    secret=Secret("sk_test"),
    issuer="vault",
    scopes=("refund", "charge", "more"),
    expires_at=NOW + timedelta(microseconds=1),
)


def test_a_credential_that_meets_everything_passes() -> None:
    check_credential(POLICY, GOOD, NOW)
    check_credential(POLICY, replace(GOOD, expires_at=None, issuer="kms"), NOW)
    check_credential(CredentialPolicy(), replace(GOOD, issuer="anybody", scopes=()), NOW)


def test_only_a_required_credential_may_not_be_missing() -> None:
    check_credential(replace(POLICY, required=False), None, NOW)
    with refused_with("credential.missing"):
        check_credential(POLICY, None, NOW)


FAULTS: list[tuple[str, dict[str, object]]] = [
    ("credential.issuer_not_accepted", {"issuer": "elsewhere"}),
    ("credential.scope_missing", {"scopes": ("charge",)}),
    ("credential.expired", {"expires_at": NOW}),
]


@pytest.mark.parametrize("first", range(len(FAULTS)))
def test_the_first_condition_that_fails_speaks(first: int) -> None:
    credential = GOOD
    for _, change in FAULTS[first:]:
        credential = replace(credential, **change)
    with refused_with(FAULTS[first][0]):
        check_credential(POLICY, credential, NOW)
    with refused_with(FAULTS[first][0]):
        check_credential(POLICY, replace(GOOD, **FAULTS[first][1]), NOW)


def test_a_credential_that_is_given_is_checked_although_none_is_required() -> None:
    with refused_with("credential.expired"):
        check_credential(CredentialPolicy(), replace(GOOD, expires_at=NOW), NOW)


def test_the_refusal_names_the_scopes_that_are_missing_and_never_the_secret() -> None:
    with refused_with("credential.scope_missing") as caught:
        check_credential(POLICY, replace(GOOD, scopes=()), NOW)
    assert caught.error.details == {"scopes": ["charge", "refund"]}
    assert "sk_test" not in f"{caught.error} {caught.error.details}"
