"""The identities, one type each, and how they are made and checked.

They are correlated, never interchangeable. All are unique per tenant. Identifiers are plain ASCII
of a restricted set, so that two that look alike cannot differ, none can climb a path, break a log
line or be mistaken for an option; provider operation ids are the provider's and stay opaque.
"""

import re
from typing import Final, NewType

from amends.contracts import limits
from amends.contracts.errors import Refused

TenantId = NewType("TenantId", str)
PrincipalId = NewType("PrincipalId", str)
CapabilityId = NewType("CapabilityId", str)
ActionId = NewType("ActionId", str)
TransactionId = NewType("TransactionId", str)
PlanId = NewType("PlanId", str)
ProviderOperationId = NewType("ProviderOperationId", str)
ApprovalId = NewType("ApprovalId", str)
DecisionId = NewType("DecisionId", str)
DelegationId = NewType("DelegationId", str)
Fence = NewType("Fence", str)

ACTION_PREFIX: Final = "act_"
TRANSACTION_PREFIX: Final = "txn_"
PLAN_PREFIX: Final = "plan:"
APPROVAL_PREFIX: Final = "apr_"
DECISION_PREFIX: Final = "dec_"
DELEGATION_PREFIX: Final = "del_"
FENCE_PREFIX: Final = "fen_"
REFUSAL_PREFIX: Final = "ref_"
CORRECTION_PREFIX: Final = "cor_"

_IDENTIFIER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*", re.ASCII)
_PRINCIPAL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]*", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def uuid7_hex(unix_ms: int, random_bytes: bytes) -> str:
    """A UUIDv7 (RFC 9562, section 5.7) as 32 hex digits from a time and ten random bytes."""
    return uuid7_at(unix_ms, uuid7_chance(random_bytes))


def uuid7_chance(random_bytes: bytes) -> str:
    """What of a UUIDv7 does not depend on the time: its last 20 digits, version and variant too."""
    rand = int.from_bytes(random_bytes[:10], "big")
    value = 0x7 << 76 | (rand >> 62 & 0xFFF) << 64
    value |= 0b10 << 62 | rand & 0x3FFF_FFFF_FFFF_FFFF
    return f"{value:020x}"


def uuid7_at(unix_ms: int, chance: str) -> str:
    """The UUIDv7 of a time, in milliseconds, from what `uuid7_chance` made; use that only once."""
    return f"{unix_ms & 0xFFFF_FFFF_FFFF:012x}{chance}"


def default_plan_id(transaction_id: TransactionId) -> PlanId:
    """The plan id of a transaction whose caller chose none."""
    return PlanId(PLAN_PREFIX + transaction_id)


def check_identifier(value: object, field: str, *, length: int = limits.ID_LENGTH) -> str:
    """Return `value` if it is a well-formed identifier.

    Raises `Refused` (`input.invalid_id`) naming the field, never the value.
    """
    pattern = _PRINCIPAL if field.startswith("principal") else _IDENTIFIER
    if not isinstance(value, str) or len(value) > length or not pattern.fullmatch(value):
        raise _invalid(field, length)
    return value


def check_plan_id(value: str, transaction_id: TransactionId) -> PlanId:
    """Return a caller-chosen plan id; one that imitates a derived id must be this one's own.

    Raises `Refused` (`input.invalid_id`).
    """
    check_identifier(value, "plan_id")
    if value.startswith(PLAN_PREFIX) and value != default_plan_id(transaction_id):
        raise _invalid("plan_id", limits.ID_LENGTH)
    return PlanId(value)


def check_opaque(value: object, field: str, *, length: int) -> str:
    """Return a foreign, opaque string: non-empty, bounded, without control characters.

    Raises `Refused` (`input.invalid_id`).
    """
    if not isinstance(value, str) or not value.strip() or len(value) > length:
        raise _invalid(field, length)
    if _CONTROL.search(value):
        raise _invalid(field, length)
    return value


def _invalid(field: str, length: int) -> Refused:
    return Refused(
        "input.invalid_id",
        f"{field} is not a well-formed identifier.",
        details={"field": field, "max_length": length},
        next_step="Use letters, digits, '.', '_', ':' and '-', starting with a letter or digit.",
    )
