"""Delegations: lending the own word in approvals, for a while and in bounds (AP-1, AP-4).

A delegation lends what its delegator holds, never what somebody lent to the delegator: it is read
off the principal, and delegations are no part of that. So there are no chains and no cycles. Whose
word it is does not change: it counts as the delegator's, once, and not for the delegator's own
requests.

Deliberately not here: which words meet a policy (`approval_rules`).
"""

import re
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from amends.contracts.codes import coded
from amends.contracts.delegations import Delegation
from amends.contracts.enums import PrincipalKind, Risk
from amends.contracts.errors import AmendsError
from amends.contracts.ids import CapabilityId, DelegationId
from amends.contracts.persons import names_in, names_of, same_person
from amends.contracts.principals import APPROVE_SCOPE, Identity, Principal, PrincipalRef

LONGEST: Final = timedelta(days=366)
MOST_PATTERNS: Final = 50
_PATTERN: Final = re.compile(r"[A-Za-z0-9*][A-Za-z0-9._:*-]{0,127}", re.ASCII)
_RISKS: Final = tuple(Risk)


def may_approve(principal: Principal) -> bool:
    """Whether the tenant lets it approve: by a scope granted by name, or as operator."""
    return APPROVE_SCOPE in principal.scopes or principal.kind is PrincipalKind.OPERATOR


class Lending(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be lent, to whom, and in which bounds.

    `delegate_names` are folded names of the delegate that are known beside its id.
    """

    delegate: PrincipalRef
    delegate_names: tuple[str, ...] = ()
    capabilities: tuple[str, ...]
    max_risk: Risk
    starts_at: datetime
    ends_at: datetime
    reason: str


def lend(
    delegation_id: DelegationId,
    delegator: Principal,
    lending: Lending,
    by: Principal,
    now: datetime,
    identity: Identity | None = None,
) -> Delegation:
    """A new delegation of what `delegator` holds.

    `by` is the delegator, or an operator who acts for somebody absent. Raises
    `delegation.not_allowed`, `delegation.to_oneself`, `delegation.span_invalid` or
    `delegation.scope_invalid`.
    """
    names = names_of(delegator, identity)
    if by.ref != delegator.ref and not by.is_operator:
        raise coded("delegation.not_allowed")
    if by.tenant != delegator.tenant or by.kind is PrincipalKind.RECOVERY:
        raise coded("delegation.not_allowed")
    to = (*names_in(lending.delegate), *lending.delegate_names)
    if same_person(names, to) or (by.ref != delegator.ref and same_person(names_of(by), to)):
        raise coded("delegation.to_oneself")
    _check_bounds(lending, now)
    return Delegation(
        tenant=delegator.tenant,
        revision=1,
        created_at=now,
        updated_at=now,
        delegation_id=delegation_id,
        delegator=delegator.ref,
        delegator_names=names,
        roles=delegator.roles,
        groups=delegator.groups,
        may_approve=may_approve(delegator),
        delegate=lending.delegate,
        capabilities=lending.capabilities,
        max_risk=lending.max_risk,
        starts_at=lending.starts_at,
        ends_at=lending.ends_at,
        reason=lending.reason,
        made_by=by.ref,
    )


def _check_bounds(lending: Lending, now: datetime) -> None:
    begins = max(lending.starts_at, now)
    if not begins < lending.ends_at <= begins + LONGEST:
        raise coded("delegation.span_invalid")
    patterns = lending.capabilities
    if not 0 < len(patterns) <= MOST_PATTERNS or not all(map(_PATTERN.fullmatch, patterns)):
        raise coded("delegation.scope_invalid")


def revoke(delegation: Delegation, by: Principal, reason: str, now: datetime) -> Delegation:
    """The delegation taken back by its delegator, or by an operator.

    What was approved under it and is not used yet counts no more. Raises `delegation.not_found`
    for another tenant's principal, `delegation.not_allowed` and `delegation.revoked`.
    """
    if by.tenant != delegation.tenant:
        raise coded("delegation.not_found")
    if not by.is_operator and not same_person(names_of(by), delegation.delegator_names):
        raise coded("delegation.not_allowed")
    if delegation.revoked_at is not None:
        raise _about("delegation.revoked", delegation)
    return _revoked(delegation, by.ref, reason, now)


def _revoked(delegation: Delegation, by: PrincipalRef, reason: str, now: datetime) -> Delegation:
    return msgspec.structs.replace(
        delegation,
        revision=delegation.revision + 1,
        updated_at=max(now, delegation.updated_at),
        revoked_at=now,
        revoked_by=by,
        revocation=reason,
    )


def void(delegation: Delegation, by: PrincipalRef, reason: str, now: datetime) -> Delegation | None:
    """The delegation taken back since its store was restored, or none where it lends nothing.

    What was revoked after the backup would otherwise lend again (TX-LEASE-3).
    """
    if delegation.revoked_at is not None or now >= delegation.ends_at:
        return None
    return _revoked(delegation, by, reason, now)


def renewed(delegation: Delegation, delegator: Principal) -> Delegation:
    """The delegation with what its delegator holds now."""
    return msgspec.structs.replace(
        delegation,
        delegator_names=tuple(sorted({*delegation.delegator_names, *names_of(delegator)})),
        roles=delegator.roles,
        groups=delegator.groups,
        may_approve=may_approve(delegator),
    )


def check_lends(
    delegation: Delegation,
    to: Principal,
    capability_id: CapabilityId,
    risk: Risk,
    now: datetime,
) -> None:
    """Let a delegation be used by this principal, on such a request, now.

    Raises `delegation.not_found`, also where it lends to somebody else; `delegation.revoked`,
    `delegation.not_current` or `delegation.out_of_scope`.
    """
    if delegation.tenant != to.tenant or delegation.delegate != to.ref:
        raise coded("delegation.not_found")
    if delegation.revoked_at is not None:
        raise _about("delegation.revoked", delegation)
    if not delegation.starts_at <= now < delegation.ends_at:
        raise _about("delegation.not_current", delegation)
    within = any(fnmatchcase(capability_id, one) for one in delegation.capabilities)
    if not within or _RISKS.index(risk) > _RISKS.index(delegation.max_risk):
        raise _about("delegation.out_of_scope", delegation)


def _about(code: str, delegation: Delegation) -> AmendsError:
    return coded(code, {"delegation_id": delegation.delegation_id, "revision": delegation.revision})
