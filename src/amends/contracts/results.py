"""What a caller gets back: what happened, what is known of the effect, and what can be done next.

A `Result` cannot be misread as success: `output` gives a value only where the effect is known to be
there, and raises the coded error that explains why not everywhere else.
"""

from datetime import datetime
from typing import Final

import msgspec

from amends.contracts.codes import CODES, coded
from amends.contracts.enums import Mode, ResultStatus, Verdict, WireStatus
from amends.contracts.errors import AmendsError, ProviderFailed
from amends.contracts.ids import ActionId, ApprovalId, CapabilityId, PlanId, TransactionId
from amends.contracts.json_types import Json, JsonText
from amends.contracts.outcomes import ErrorInfo, ProviderOperation

_RUNNING: Final = frozenset({WireStatus.PREPARED, WireStatus.COMMITTING, WireStatus.COMPENSATING})
_NOT_WHOLE: Final = frozenset({Verdict.PARTIAL, Verdict.NOT_COMMITTED})


class NextStep(msgspec.Struct, frozen=True):
    """One thing that can be done now: the call's name and a sentence for people."""

    call: str
    text: str


_AGAIN: Final = "Nothing happened, and it may be asked for again."


class Result(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The current projection of one action.

    `status` says where the transaction stands, `verdict` what is known of the effect. `replayed`
    is true when nothing was done for this request, since its answer existed. `output_invalid` is a
    code that asks for attention although the effect is there.
    """

    status: WireStatus
    mode: Mode
    action_id: ActionId
    transaction_id: TransactionId
    capability_id: CapabilityId
    revision: int | None = None
    verdict: Verdict | None = None
    result_status: ResultStatus | None = None
    plan_id: PlanId | None = None
    plan_expires_at: datetime | None = None
    approval_id: ApprovalId | None = None
    approval_required: bool = False
    replayed: bool = False
    raw_output: JsonText | None = None
    output_hash: str | None = None
    output_redacted: bool = False
    output_invalid: str | None = None
    error: ErrorInfo | None = None
    provider_operation: ProviderOperation | None = None
    cursor: str | None = None
    reconcile_after: datetime | None = None
    attention: str | None = None
    warnings: tuple[str, ...] = ()
    next: tuple[NextStep, ...] = ()

    @property
    def effect_is_there(self) -> bool:
        """Whether the effect is known to have happened, in full."""
        return self.verdict is Verdict.COMMITTED

    @property
    def output(self) -> Json:
        """The stored output.

        Raises the coded error of the outcome (`OutcomeUnknown`, `ProviderFailed`, `Refused`) when
        this result does not carry one, so that a missing or partial effect is never taken for a
        success; what a partial one left is in `raw_output`.
        """
        if self.raw_output is None or self.verdict in _NOT_WHOLE:
            raise self.explanation()
        decoded: Json = msgspec.json.decode(self.raw_output)
        return decoded

    def explanation(self) -> AmendsError:
        """The error that says why there is no output."""
        details: dict[str, Json] = {
            "status": self.status.value,
            "transaction_id": self.transaction_id,
            "action_id": self.action_id,
        }
        code, error = self._code(), self.error
        if error is None or code != error.code:
            return coded(code, details)
        if error.details:
            details["provider_details"] = dict(error.details)
        if code in CODES:
            return coded(code, details)
        again = error.retryable and self.verdict is Verdict.NOT_COMMITTED
        return ProviderFailed(
            code,
            error.message or "The provider refused.",
            details=details,
            next_step=_AGAIN if again else CODES["provider.failed"].next_step,
        )

    def _code(self) -> str:
        if self.status in (WireStatus.OUTCOME_UNKNOWN, WireStatus.RECONCILING):
            return "transaction.outcome_unknown"
        if self.status in _RUNNING:
            return "transaction.in_progress"
        if self.status is WireStatus.REQUIRES_HUMAN:
            return "approval.required"
        if self.status is WireStatus.CANCELLED:
            return "action.cancelled"
        if self.error is not None:
            return self.error.code
        return self.output_invalid or "result.no_output"
