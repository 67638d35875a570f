"""Who asks. Tenant and principal come from authentication only, never from a payload."""

from collections.abc import Iterable
from typing import Final, Protocol

import msgspec

from amends.contracts.enums import PrincipalKind
from amends.contracts.errors import Refused
from amends.contracts.ids import PrincipalId, TenantId, check_identifier

DEFAULT_TENANT: Final = "default"
OPERATE_SCOPE: Final = "amends:operate"
"""See what others began, and look it up, cancel and withdraw it for them."""

SETTLE_SCOPE: Final = "amends:settle"
"""Rule by hand: on unknown outcomes, and on evidence that contradicts a settled one."""

RELEASE_SCOPE: Final = "amends:release"
"""Release what a restore froze."""

HOLD_SCOPE: Final = "amends:hold"
"""Place a legal hold on a transaction, and lift it."""

RETAIN_SCOPE: Final = "amends:retain"
"""Rewrite what was kept for as long as its capability says."""

APPROVE_SCOPE: Final = "amends:approve"
ANY_SCOPE: Final = "*"


class PrincipalRef(msgspec.Struct, frozen=True, gc=False):
    """A principal as records keep it: enough to compare and to name."""

    id: PrincipalId
    kind: PrincipalKind


class Principal(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An authenticated (or, in the library, asserted) principal with what it holds now.

    `persons` say who is behind it, where one person has several principals: they are one voice in
    approvals, and none of them approves what another of them asked for.
    """

    id: PrincipalId
    tenant: TenantId
    kind: PrincipalKind = PrincipalKind.USER
    scopes: tuple[str, ...] = (ANY_SCOPE,)
    roles: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    persons: tuple[str, ...] = ()

    @classmethod
    def named(
        cls,
        id: str,
        *,
        tenant: str = DEFAULT_TENANT,
        kind: PrincipalKind | str = PrincipalKind.USER,
        scopes: Iterable[str] = (ANY_SCOPE,),
        roles: Iterable[str] = (),
        groups: Iterable[str] = (),
        persons: Iterable[str] = (),
    ) -> "Principal":
        """A principal from plain strings, as an embedding program asserts it.

        Raises `Refused`: `input.invalid_id` for an id, tenant or person not well-formed, and
        `input.invalid_value` for a kind that there is not.
        """
        return cls(
            id=PrincipalId(check_identifier(id, "principal_id")),
            tenant=TenantId(check_identifier(tenant, "tenant")),
            kind=_kind_of(kind),
            scopes=tuple(scopes),
            roles=tuple(roles),
            groups=tuple(groups),
            persons=tuple(check_identifier(one, "principal_person") for one in persons),
        )

    @property
    def ref(self) -> PrincipalRef:
        """The part that records keep."""
        return PrincipalRef(self.id, self.kind)

    def holds(self, scope: str) -> bool:
        """Whether the principal was granted this scope, or all of them."""
        return scope in self.scopes or ANY_SCOPE in self.scopes

    @property
    def is_operator(self) -> bool:
        """Whether it may look at what others began, and cancel, withdraw and look it up for them.

        The wildcard scope does not make an operator: that power is granted by name. What an
        operator may besides is a scope each (`may`).
        """
        return self.kind is PrincipalKind.OPERATOR or OPERATE_SCOPE in self.scopes

    def may(self, power: str) -> bool:
        """Whether it was granted this power of operators by name.

        `power` is one of the scopes above. The wildcard grants it to principals of kind operator,
        and to nobody else.
        """
        wildcard = self.kind is PrincipalKind.OPERATOR and ANY_SCOPE in self.scopes
        return wildcard or power in self.scopes


class Identity(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The identity context of one action: on whose external account it acts."""

    tenant: TenantId
    external_account: str | None = None
    subject: str | None = None


class Caller(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Everything authentication established about one request.

    `asserted` is true where the embedding program merely says who it is (TX-VIEW-0);
    `trusted` admits the planless direct commit, which no public envelope reaches.
    """

    principal: Principal
    identity: Identity | None = None
    asserted: bool = False
    trusted: bool = False

    @property
    def tenant(self) -> TenantId:
        """The tenant that everything this caller reads or writes belongs to."""
        return self.principal.tenant


class PrincipalSource(Protocol):
    """What principals hold now: asked anew whenever something is admitted, decided or claimed."""

    def principal(self, tenant: TenantId, ref: PrincipalRef) -> Principal | None:
        """The principal as it is now, or none where there is no such one any more.

        Answers at once; whatever it raises counts as a no.
        """
        ...


def _kind_of(kind: PrincipalKind | str) -> PrincipalKind:
    try:
        return PrincipalKind(kind)
    except ValueError:
        raise Refused(
            "input.invalid_value",
            f"kind has to be one of: {', '.join(PrincipalKind)}.",
            details={"field": "kind"},
            next_step="Send one of the values it may have.",
        ) from None
