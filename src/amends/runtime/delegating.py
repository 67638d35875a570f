"""Delegations as people make, use, see and revoke them, under their own names.

A delegation is one document. It is written by compare-and-set, and nothing of it is ever removed:
who made it, who revoked it, and when, stay. The receipt of a decision that it lent bears its hash.

Deliberately not here: what a delegation lends (`governance.delegations`).
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

from amends.contracts.canonical import record_digest
from amends.contracts.codes import coded
from amends.contracts.delegations import Delegation
from amends.contracts.enums import Risk
from amends.contracts.ids import (
    DELEGATION_PREFIX,
    DelegationId,
    TenantId,
    check_identifier,
)
from amends.contracts.persons import names_of
from amends.contracts.principals import Caller, Principal, PrincipalRef
from amends.contracts.redaction import kept_text
from amends.governance.delegations import Lending, lend, renewed, revoke
from amends.runtime.changes import until_written
from amends.runtime.environment import Environment
from amends.runtime.pages import every
from amends.runtime.texts import check_text
from amends.stores.port import ChangeSet, Insert, Lost, Replace, Stored

_TAG: Final = "amends-delegation-v1"


class Lent(NamedTuple):
    """A delegation with what its delegator holds now, and the hash of it as it is stored."""

    delegation: Delegation
    hash: str


class Delegating:
    """What people may do with delegations."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._store = environment.store

    async def lend(
        self,
        caller: Caller,
        to: PrincipalRef,
        *,
        ends_at: datetime,
        starts_at: datetime | None,
        capabilities: Iterable[str],
        max_risk: Risk,
        reason: str,
        on_behalf_of: PrincipalRef | None,
    ) -> Delegation:
        """Lend the caller's word, or as an operator that of somebody absent; durable on return.

        Raises the codes of `governance.delegations.lend`, and an `input.*` code for an id or a text
        that cannot be stored.
        """
        reason = kept_text(check_text(reason, "reason"), hidden=False)
        check_identifier(to.id, "principal_id")
        caller = self._environment.renewed(caller)
        delegator = self._delegator(caller, on_behalf_of)
        now = await self._store.now()
        lending = Lending(
            delegate=to,
            delegate_names=self._names_of(caller.tenant, to),
            capabilities=tuple(capabilities),
            max_risk=max_risk,
            starts_at=starts_at or now,
            ends_at=ends_at,
            reason=reason,
        )
        id_ = DelegationId(self._environment.ids(DELEGATION_PREFIX))
        identity = caller.identity if delegator is caller.principal else None
        delegation = lend(id_, delegator, lending, caller.principal, now, identity)
        await self._store.commit(ChangeSet(changes=(Insert(delegation),)))
        return delegation

    def _delegator(self, caller: Caller, on_behalf_of: PrincipalRef | None) -> Principal:
        """Whose word is lent; of an absent one a source of principals has to say what it holds."""
        if on_behalf_of is None or on_behalf_of == caller.principal.ref:
            return caller.principal
        if not caller.principal.is_operator or self._environment.principals is None:
            raise coded("delegation.not_allowed")
        return self._known(caller.tenant, on_behalf_of)

    def _names_of(self, tenant: TenantId, to: PrincipalRef) -> tuple[str, ...]:
        """What else the delegate goes by, where anybody can say."""
        if self._environment.principals is None:
            return ()
        return names_of(self._known(tenant, to))

    def _known(self, tenant: TenantId, ref: PrincipalRef) -> Principal:
        found = self._environment.principal(tenant, ref)
        if found is None:
            raise coded("identity.principal_unknown")
        return found

    async def revoke(self, caller: Caller, delegation_id: DelegationId, reason: str) -> Delegation:
        """Take a delegation back; durable on return. Raises as `governance.delegations.revoke`."""
        reason = kept_text(check_text(reason, "reason"), hidden=False)
        caller = self._environment.renewed(caller)

        async def once() -> Delegation | Lost:
            stored = await self._store.get(Delegation, caller.tenant, delegation_id)
            if stored is None:
                raise coded("delegation.not_found")
            revoked = revoke(stored.document, caller.principal, reason, stored.read_at)
            written = await self._store.commit(ChangeSet(changes=(Replace(revoked),)))
            return written if isinstance(written, Lost) else revoked

        return await until_written(once)

    async def usable(self, caller: Caller, delegation_id: DelegationId) -> Lent:
        """A delegation to the caller.

        Raises `delegation.not_found`, `identity.principal_unknown` or `identity.source_failed`.
        """
        found = await self._store.get(Delegation, caller.tenant, delegation_id)
        if found is None or found.document.delegate != caller.principal.ref:
            raise coded("delegation.not_found")
        return Lent(self._as_now(found.document), record_digest(_TAG, found.document))

    def _as_now(self, delegation: Delegation) -> Delegation:
        if self._environment.principals is None:
            return delegation
        return renewed(delegation, self._known(delegation.tenant, delegation.delegator))

    async def seen(self, caller: Caller) -> tuple[Delegation, ...]:
        """The delegations that the caller made or was given, newest first; an operator sees all."""
        return tuple(
            one
            for one in await self._listed(caller.tenant, {})
            if caller.principal.is_operator
            or caller.principal.ref in (one.delegator, one.delegate, one.made_by)
        )

    async def lent_to(self, caller: Caller) -> tuple[Delegation, ...]:
        """The delegations that the caller was given and that are not revoked."""
        listed = await self._listed(caller.tenant, {"delegate": caller.principal.id})
        return tuple(one for one in listed if one.revoked_at is None)

    async def _listed(self, tenant: TenantId, where: dict[str, str]) -> list[Delegation]:
        listed = every(self._store, Delegation, tenant, where)
        return [item.document async for item in listed if isinstance(item, Stored)]
