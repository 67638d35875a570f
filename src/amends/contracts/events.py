"""What a provider says on its own account: the content of a webhook, once it was authenticated.

Evidence may confirm or settle an unknown outcome. It never executes, never makes a record, and
never moves one back. Checking the sender's signature is the application's part.
"""

from enum import StrEnum

import msgspec

from amends.contracts.json_types import Json
from amends.contracts.outcomes import ErrorInfo


class Said(StrEnum):
    """What an event says of the effect."""

    APPLIED = "applied"
    PARTIAL = "partial"
    NOT_APPLIED = "not_applied"


class ProviderEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event. `event_id` is the provider's own and makes a repeated delivery a no-op.

    It is matched by the provider key that Amends sent, else by the provider's operation id.
    """

    provider: str
    event_id: str
    said: Said
    provider_key: str | None = None
    operation_id: str | None = None
    output: Json = None
    error: ErrorInfo | None = None
