"""Everything the engine is given from outside, so that the real code runs in a simulator too."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Protocol

import msgspec

from amends.contracts import limits
from amends.contracts.codes import coded
from amends.contracts.enums import PrincipalKind
from amends.contracts.errors import AmendsError
from amends.contracts.ids import FENCE_PREFIX, CapabilityId, Fence, TenantId
from amends.contracts.principals import Caller, Principal, PrincipalRef, PrincipalSource
from amends.contracts.secrets import Credential, CredentialSource
from amends.governance.policy import Policy
from amends.receipts.signing import Signer
from amends.runtime.heard import Heard
from amends.runtime.registry import Registry
from amends.stores.port import Store


class Ids(Protocol):
    """Makes identifiers: the prefix and a UUIDv7 in hex."""

    def __call__(self, prefix: str) -> str:
        """A new identifier, different from all others."""
        ...


class Spill(Protocol):
    """Keeps, outside the store, a settlement that the store refused, until it can be stored."""

    async def keep(self, heard: Heard) -> str:
        """Where it is kept, in words for people; it survives a crash when this returns.

        Raises `Unavailable` (`spill.unavailable`).
        """
        ...


Spawn = Callable[[Coroutine[object, object, None]], "asyncio.Task[None]"]


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """One runtime's surroundings.

    `owner` names this incarnation of the process: a restarted one is somebody else. `jitter`
    returns a number in [0, 1). `principals` says what principals hold now; without it,
    callers hold what they are said to. `spill` keeps what the store refuses, where anything can.
    `ready` raises why nothing new may be begun at the moment, where something outside knows that.
    `grace_ms` is how long after its time limit an attempt still owns its record, and how long a
    late answer is waited for.
    """

    store: Store
    registry: Registry
    policy: Policy
    signer: Signer | None
    credentials: CredentialSource | None
    principals: PrincipalSource | None = None
    ids: Ids
    owner: str
    jitter: Callable[[], float]
    spawn: Spawn
    spill: Spill | None = None
    ready: Callable[[], None] | None = None
    grace_ms: int = limits.LEASE_GRACE_MS

    def credential(self, capability: CapabilityId, caller: Caller) -> Credential | None:
        """The provider credential for one attempt, resolved anew.

        Raises `Unavailable` (`credential.unavailable`) when the source fails.
        """
        if self.credentials is None:
            return None
        try:
            return self.credentials.credential(capability, caller.tenant, caller.principal.ref)
        except AmendsError:
            raise
        except (Exception, SystemExit):  # a source's own errors may carry the secret: none is kept
            raise coded("credential.unavailable") from None

    def principal(self, tenant: TenantId, ref: PrincipalRef) -> Principal | None:
        """What a principal holds now; none where there is no such one any more (AP-5).

        Only where there is a source of principals. Raises `Unavailable` (`identity.source_failed`)
        when it fails.
        """
        assert self.principals is not None
        try:
            found = self.principals.principal(tenant, ref)
        except (Exception, SystemExit):  # a source that cannot answer has not said yes
            raise coded("identity.source_failed") from None
        same = isinstance(found, Principal) and found.tenant == tenant and found.ref == ref
        return found if same else None

    def renewed(self, caller: Caller) -> Caller:
        """The caller with what the principal holds now, where a source of principals says so.

        Who authentication found behind it stays behind it.

        Raises `Refused` (`identity.principal_unknown`), and as `principal`.
        """
        if self.principals is None or caller.principal.kind is PrincipalKind.RECOVERY:
            return caller
        principal = self.principal(caller.tenant, caller.principal.ref)
        if principal is None:
            raise coded("identity.principal_unknown")
        persons = tuple(dict.fromkeys((*principal.persons, *caller.principal.persons)))
        principal = msgspec.structs.replace(principal, persons=persons)
        return msgspec.structs.replace(caller, principal=principal)

    def fence(self) -> Fence:
        """A fence that no attempt had before."""
        return Fence(self.ids(FENCE_PREFIX))
