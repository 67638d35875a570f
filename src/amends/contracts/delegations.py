"""The durable delegation: somebody lends the own word in approvals, for a while and in bounds."""

from datetime import datetime

from amends.contracts.documents import Document
from amends.contracts.enums import Risk
from amends.contracts.ids import DelegationId
from amends.contracts.principals import PrincipalRef


class Delegation(Document, frozen=True, kw_only=True):
    """One principal's word, lent to another until `ends_at` or until it is revoked.

    It lends what the delegator holds: `roles`, `groups` and `may_approve` are those held when it
    was made, and serve where no source of principals says what is held now. `capabilities` are
    names in which `*` stands for anything. A delegated word cannot be delegated further.
    """

    delegation_id: DelegationId
    delegator: PrincipalRef
    delegator_names: tuple[str, ...]
    roles: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    may_approve: bool = False
    delegate: PrincipalRef
    capabilities: tuple[str, ...]
    max_risk: Risk
    starts_at: datetime
    ends_at: datetime
    reason: str = ""
    made_by: PrincipalRef
    revoked_at: datetime | None = None
    revoked_by: PrincipalRef | None = None
    revocation: str = ""
