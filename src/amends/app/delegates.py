"""Lending the own word in approvals, and taking it back."""

from collections.abc import Iterable
from datetime import datetime

from amends.app.edges import choice_of, instant_of, text_of
from amends.contracts.delegations import Delegation
from amends.contracts.enums import PrincipalKind, Risk
from amends.contracts.ids import DelegationId, PrincipalId
from amends.contracts.principals import Caller, Principal, PrincipalRef
from amends.runtime.delegating import Delegating
from amends.wiring.opening import Runtime

Named = Principal | PrincipalRef | str


class Delegates:
    """Delegations under the caller's own name."""

    def __init__(self, runtime: Runtime, caller: Caller) -> None:
        self._delegating = Delegating(runtime.engine.environment)
        self._lender = caller

    async def delegate(
        self,
        to: Named,
        *,
        ends_at: datetime,
        starts_at: datetime | None = None,
        capabilities: Iterable[str] = ("*",),
        max_risk: Risk | str = Risk.CRITICAL,
        reason: str = "",
        on_behalf_of: Named | None = None,
    ) -> Delegation:
        """Lend the caller's word in approvals until `ends_at`; durable when it returns.

        Who is named by an id alone is a user. `capabilities` are names in which `*` stands for
        anything. An operator may lend the word of somebody absent with `on_behalf_of`, where a
        source of principals says what that one holds. Raises the `delegation.*` codes.
        """
        patterns = [capabilities] if isinstance(capabilities, str) else capabilities
        return await self._delegating.lend(
            self._lender,
            _ref(to, "to"),
            ends_at=instant_of(ends_at, "ends_at"),
            starts_at=None if starts_at is None else instant_of(starts_at, "starts_at"),
            capabilities=tuple(text_of(one, "capabilities") for one in patterns),
            max_risk=choice_of(max_risk, Risk, "max_risk"),
            reason=reason,
            on_behalf_of=None if on_behalf_of is None else _ref(on_behalf_of, "on_behalf_of"),
        )

    async def revoke_delegation(
        self, delegation: Delegation | str, *, reason: str = ""
    ) -> Delegation:
        """Take a delegation back: its delegator, or an operator.

        An approval that was given under it and is not used yet counts no more.
        """
        return await self._delegating.revoke(self._lender, delegation_of(delegation), reason)

    async def delegations(self) -> tuple[Delegation, ...]:
        """The delegations that the caller made or was given, newest first; operators see all."""
        return await self._delegating.seen(self._lender)


def delegation_of(named: Delegation | str) -> DelegationId:
    """The id of a delegation that is named by itself or by its id. Raises as `text_of`."""
    if isinstance(named, Delegation):
        return named.delegation_id
    return DelegationId(text_of(named, "delegation_id"))


def _ref(named: Named, field: str) -> PrincipalRef:
    match named:
        case Principal():
            return named.ref
        case PrincipalRef(id, kind):
            return PrincipalRef(
                PrincipalId(text_of(id, field)), choice_of(kind, PrincipalKind, field)
            )
        case _:
            return PrincipalRef(PrincipalId(text_of(named, field)), PrincipalKind.USER)
