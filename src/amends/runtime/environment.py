"""Everything the engine is given from outside, so that the real code runs in a simulator too."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Protocol

import msgspec

from amends.contracts import limits
from amends.contracts.codes import coded
from amends.contracts.errors import AmendsError
from amends.contracts.ids import FENCE_PREFIX, CapabilityId, Fence
from amends.contracts.principals import Caller
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
    returns a number in [0, 1). `spill` keeps what the store refuses; none where nothing can.
    `grace_ms` is how long after its time limit an attempt still owns its record, and how long a
    late answer is waited for.
    """

    store: Store
    registry: Registry
    policy: Policy
    signer: Signer | None
    credentials: CredentialSource | None
    ids: Ids
    owner: str
    jitter: Callable[[], float]
    spawn: Spawn
    spill: Spill | None = None
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
        except Exception:  # a source's own errors may carry the secret: none is kept
            raise coded("credential.unavailable") from None

    def fence(self) -> Fence:
        """A fence that no attempt had before."""
        return Fence(self.ids(FENCE_PREFIX))
