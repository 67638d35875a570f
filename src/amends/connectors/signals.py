"""The exceptions by which a handler says how its attempt ended.

Among exceptions only `NotApplied` and `Partial` are definite (TX-SETTLE-4); whatever else escapes
a handler, Amends does not know whether the effect is there.
"""

from collections.abc import Mapping

from amends.contracts import outcomes
from amends.contracts.enums import ErrorCategory
from amends.contracts.json_types import Json
from amends.contracts.outcomes import ErrorInfo, Outcome, ProviderOperation


class Signal(Exception):
    """A handler's own word on the outcome; carries the outcome it stands for."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(type(outcome).__name__)
        self.outcome = outcome


class NotApplied(Signal):
    """Nothing happened at the provider, and that is certain: a declined card, a 4xx before work.

    A look-up that found the very request, refused, names it as `operation`: that proves absence.
    """

    def __init__(
        self,
        code: str,
        message: str = "",
        *,
        retryable: bool = False,
        category: ErrorCategory = ErrorCategory.CONNECTOR,
        details: Mapping[str, Json] | None = None,
        operation: ProviderOperation | None = None,
    ) -> None:
        error = ErrorInfo(
            code=code,
            message=message,
            retryable=retryable,
            category=category,
            details=dict(details or {}),
        )
        super().__init__(outcomes.NotApplied(error=error, operation=operation))


class Partial(Signal):
    """Some of the effect is there, and that is certain; it may be compensated (TX-COMP-1)."""

    def __init__(
        self,
        code: str,
        message: str = "",
        *,
        output: Json = None,
        operation: ProviderOperation | None = None,
        details: Mapping[str, Json] | None = None,
    ) -> None:
        flags: dict[str, Json] = {"side_effects_committed": True, "compensation_required": True}
        error = ErrorInfo(code=code, message=message, details={**(details or {}), **flags})
        super().__init__(outcomes.Partial(error=error, output=output, operation=operation))


class Pending(Signal):
    """The provider accepted the work and has not finished it: look again later."""

    def __init__(
        self,
        *,
        retry_after_ms: int | None = None,
        operation: ProviderOperation | None = None,
        cursor: str | None = None,
    ) -> None:
        super().__init__(
            outcomes.Pending(retry_after_ms=retry_after_ms, operation=operation, cursor=cursor)
        )


class NotFound(Signal):
    """A look-up did not find the effect. That alone is no proof of absence (TX-RECON-3).

    `voided`: the provider has now invalidated our key, so that the effect can no longer happen.
    """

    def __init__(self, *, voided: bool = False, cursor: str | None = None) -> None:
        super().__init__(outcomes.NotFound(voided=voided, cursor=cursor))
