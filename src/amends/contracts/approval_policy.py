"""Approval policies: who must agree, how many of them, for how long.

The rule is a small algebra of tagged structs, so that a policy is data that can be hashed, stored
in a plan and shown. Deciding lives in `governance`.
"""

import msgspec

from amends.contracts import limits
from amends.contracts.ids import PrincipalId


class ByPrincipal(msgspec.Struct, frozen=True, tag="principal"):
    """One of these principals."""

    ids: tuple[PrincipalId, ...]


class ByRole(msgspec.Struct, frozen=True, tag="role"):
    """A principal that holds this role when deciding."""

    role: str


class ByGroup(msgspec.Struct, frozen=True, tag="group"):
    """A principal in this group when deciding."""

    group: str


class ByTenantPolicy(msgspec.Struct, frozen=True, tag="tenant_policy"):
    """Whoever the tenant lets approve: scope `amends:approve`, granted by name, or an operator."""


class AllOf(msgspec.Struct, frozen=True, tag="all"):
    """Every one of these rules is met; one principal may meet several."""

    rules: tuple["ApprovalRule", ...]


class AnyOf(msgspec.Struct, frozen=True, tag="any"):
    """At least one of these rules is met."""

    rules: tuple["ApprovalRule", ...]


class Quorum(msgspec.Struct, frozen=True, tag="quorum"):
    """At least `n` distinct principals, each meeting `of`."""

    n: int
    of: "ApprovalRule"


ApprovalRule = ByPrincipal | ByRole | ByGroup | ByTenantPolicy | AllOf | AnyOf | Quorum


class ApprovalPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Who must approve an action, and under which conditions the approval holds.

    `separation_of_duties` keeps the requester from approving the own request; it is on unless a
    capability turns it off by name. `ttl_ms` bounds request and approval together.
    """

    required: bool = True
    reason: str = ""
    ttl_ms: int = limits.APPROVAL_TTL_MS
    rule: ApprovalRule = ByTenantPolicy()
    minimum_distinct: int = 1
    separation_of_duties: bool = True
    evidence: tuple[str, ...] = ()
    version: str = "1"
