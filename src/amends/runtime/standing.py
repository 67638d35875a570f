"""Whether an approval still stands when it is used (AP-4, AP-5).

Every word that was given is looked at as if it were given now: by a source of principals, where
there is one, and by the delegation it was lent under. A delegation that counts is compared again in
the claim's change set, so that its revocation and the claim cannot both happen.

Deliberately not here: what the rules of a policy mean (`governance.approval_rules`).
"""

from datetime import datetime

from msgspec.structs import replace

from amends.contracts.approvals import Answer, ApprovalRequest, Decision, UnderDelegation
from amends.contracts.delegations import Delegation
from amends.contracts.errors import Refused
from amends.contracts.ids import TenantId
from amends.contracts.persons import names_of
from amends.contracts.principals import Caller, Principal
from amends.governance.approvals import check_still_granted
from amends.governance.delegations import check_lends, may_approve, renewed
from amends.runtime.changes import Draft
from amends.runtime.environment import Environment


async def check_standing(
    environment: Environment,
    request: ApprovalRequest,
    caller: Caller,
    now: datetime,
    draft: Draft,
) -> None:
    """Hold an approved request to what is so now; `draft` then holds only while it stays so.

    Raises `approval.no_longer_granted`, and `identity.source_failed`.
    """
    given = [made for made in request.decisions if made.answer is Answer.APPROVED]
    standing = [await _as_now(environment, request, made, now, draft) for made in given]
    asking = names_of(caller.principal, caller.identity)
    check_still_granted(request, [made for made in standing if made is not None], asking)


async def _as_now(
    environment: Environment,
    request: ApprovalRequest,
    made: Decision,
    now: datetime,
    draft: Draft,
) -> Decision | None:
    """One approval as it would be given now, or none where it could not be."""
    approver = _principal_as_now(environment, request.tenant, made)
    if approver is None:
        return None
    if made.under is None:
        return made if environment.principals is None else _own_word(made, approver)
    lent = await current(environment, request.tenant, made.under)
    if lent is None:
        return None
    try:
        check_lends(lent, approver, request.capability_id, request.risk, now)
    except Refused:
        return None
    draft.guard(Delegation, lent.delegation_id, lent.revision)
    draft.before(lent.ends_at)
    return _lent_word(made, made.under, approver, lent)


def _principal_as_now(
    environment: Environment, tenant: TenantId, made: Decision
) -> Principal | None:
    """The approver as it is now; as it is recorded, where nobody can say more."""
    if environment.principals is not None:
        return environment.principal(tenant, made.approver)
    return Principal(id=made.approver.id, tenant=tenant, kind=made.approver.kind, scopes=())


async def current(
    environment: Environment, tenant: TenantId, under: UnderDelegation
) -> Delegation | None:
    """The delegation with what its delegator holds now; none where that is nobody any more."""
    found = await environment.store.get(Delegation, tenant, under.delegation_id)
    if found is None:
        return None
    delegation = found.document
    if environment.principals is None:
        return delegation
    delegator = environment.principal(tenant, delegation.delegator)
    return None if delegator is None else renewed(delegation, delegator)


def _own_word(made: Decision, approver: Principal) -> Decision:
    return replace(
        made,
        roles=approver.roles,
        groups=approver.groups,
        may_approve=may_approve(approver),
        names=tuple(sorted({*made.names, *names_of(approver)})),
    )


def _lent_word(
    made: Decision, under: UnderDelegation, approver: Principal, lent: Delegation
) -> Decision:
    names = {*made.names, *names_of(approver), *lent.delegator_names}
    return replace(
        made,
        roles=lent.roles,
        groups=lent.groups,
        may_approve=lent.may_approve,
        names=tuple(sorted(names)),
        under=replace(under, names=lent.delegator_names),
    )
