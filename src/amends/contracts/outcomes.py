"""What a connector reports about one attempt. A closed union; rules turn it into a status.

`Failure` is what a handler *returns*; exceptions are classified in one place in the runtime, where
only the declared definite ones stay definite. `NotFound` is a look-up's word and is not proof of
absence by itself.
"""

from typing import Final

import msgspec

from amends.contracts.enums import ErrorCategory
from amends.contracts.ids import ProviderOperationId
from amends.contracts.json_types import Json

WORKER: Final = "worker"
"""The provider that references of worker operations name."""


class ProviderOperation(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a provider accepted, in the provider's own words."""

    provider: str
    operation_id: ProviderOperationId
    request_id: str | None = None


class ErrorInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A failure as it is stored and shown: coded, redacted, and honest about retrying."""

    code: str
    message: str = ""
    category: ErrorCategory = ErrorCategory.PERMANENT
    retryable: bool = False
    details: dict[str, Json] = {}


class Applied(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The effect is there."""

    output: object = None
    operation: ProviderOperation | None = None


class NotApplied(msgspec.Struct, frozen=True, kw_only=True):
    """Declared definite: nothing happened at the provider."""

    error: ErrorInfo
    operation: ProviderOperation | None = None


class Partial(msgspec.Struct, frozen=True, kw_only=True):
    """Declared definite: some of the effect is there."""

    error: ErrorInfo
    output: object = None
    operation: ProviderOperation | None = None


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A failure that the handler returned; its code and details say whether it is certain."""

    error: ErrorInfo
    operation: ProviderOperation | None = None
    cursor: str | None = None


class Uncertain(msgspec.Struct, frozen=True, kw_only=True):
    """Nobody knows whether the effect is there.

    `attention` names why a person is needed where no look-up can find out.
    """

    error: ErrorInfo
    retry_after_ms: int | None = None
    operation: ProviderOperation | None = None
    cursor: str | None = None
    attention: str | None = None


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """The provider is still at it: accepted, running, 202."""

    retry_after_ms: int | None = None
    operation: ProviderOperation | None = None
    cursor: str | None = None


class NotFound(msgspec.Struct, frozen=True, kw_only=True):
    """A look-up did not find the effect. `voided`: the provider now refuses our key for good."""

    voided: bool = False
    cursor: str | None = None


Outcome = Applied | NotApplied | Partial | Failure | Uncertain | Pending | NotFound
