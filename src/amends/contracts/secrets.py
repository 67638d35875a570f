"""A secret that prints nothing, compares in constant time and cannot be stored by accident."""

import hmac
from collections.abc import Callable
from datetime import datetime
from typing import NoReturn, Protocol

import msgspec

from amends.contracts.errors import Misuse
from amends.contracts.ids import CapabilityId, TenantId
from amends.contracts.principals import PrincipalRef


class Secret:
    """Holds a value that only `reveal()` gives back. Not hashable, picklable, or encodable."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself, for the one place that sends it."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(
            self._value.encode("utf-8", "surrogatepass"),
            other._value.encode("utf-8", "surrogatepass"),
        )

    __hash__ = None  # type: ignore[assignment]  # a hash would let secrets land in sets and logs

    def __reduce__(self) -> NoReturn:
        raise Misuse("secret.not_storable", "A secret cannot be pickled or copied.")


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """A provider credential with what gates may know of it."""

    secret: Secret
    issuer: str = ""
    scopes: tuple[str, ...] = ()
    expires_at: datetime | None = None


class CredentialSource(Protocol):
    """Finds the provider credential for one attempt; called anew for each, never cached here."""

    def credential(
        self, capability: CapabilityId, tenant: TenantId, principal: PrincipalRef
    ) -> Credential | None:
        """The credential to use now, or none."""
        ...


CredentialFunction = Callable[[CapabilityId, TenantId, PrincipalRef], Credential | None]
