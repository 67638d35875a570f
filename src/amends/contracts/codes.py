"""Every code that gates, rules and the runtime answer with: family, what happened, what to do.

One table, printed into the reference. Codes of stores, schemas and parsing carry their texts where
they are raised, since these speak of positions and files.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from amends.contracts.errors import (
    AmendsError,
    Conflict,
    Corrupt,
    Misuse,
    OutcomeUnknown,
    ProviderFailed,
    Refused,
    Unavailable,
)
from amends.contracts.json_types import Json


class Code(NamedTuple):
    """What one code means and what its reader can do."""

    family: type[AmendsError]
    message: str
    next_step: str
    retryable: bool = False


_RECONCILE: Final = "Do not repeat it: reconcile the transaction."
_SAME_ACTION: Final = "Send the same action again later; it will not run twice."

CODES: Final[Mapping[str, Code]] = MappingProxyType(
    {
        # actions and envelopes
        "action.id_conflict": Code(
            Conflict,
            "This action id was used for a different request.",
            "Use a new action id for a new intent.",
        ),
        "action.not_found": Code(Refused, "There is no such action.", "Check the action id."),
        "action.metadata_too_large": Code(
            Refused, "The metadata is too large.", "Send less metadata."
        ),
        "action.principal_mismatch": Code(
            Refused,
            "requested_by is not the authenticated principal.",
            "Send the request as the principal that asks for it.",
        ),
        "action.transaction_mismatch": Code(
            Refused,
            "The request and its action name different transactions.",
            "Name the same transaction in both, or leave it out of the action.",
        ),
        "action.input_required": Code(
            Refused,
            "The stored input is redacted, so it has to be supplied again.",
            "Send the same action with the same input.",
        ),
        "action.cancelled": Code(
            Refused, "The action was cancelled before its claim.", "Use a new action id."
        ),
        "view.selector_invalid": Code(
            Refused,
            "A view is selected by exactly one of transaction id, plan id and action id.",
            "Give exactly one of them.",
        ),
        "capability.not_found": Code(
            Refused, "There is no such capability.", "Register it, or check its id."
        ),
        "capability.invalid": Code(
            Misuse, "The capability's declaration has faults.", "Mend every fault that is listed."
        ),
        "capability.twice": Code(
            Misuse, "A capability with this id is registered already.", "Register it once."
        ),
        "capability.handler_missing": Code(
            Refused, "The capability has no handler for this.", "Add the handler to the capability."
        ),
        # gates
        "identity.tenant_mismatch": Code(
            Refused,
            "The identity context names another tenant.",
            "Use an identity of the tenant that was authenticated.",
        ),
        "credential.missing": Code(
            Refused, "The provider credential is missing.", "Configure a credential source.", True
        ),
        "credential.issuer_not_accepted": Code(
            Refused, "The credential's issuer is not accepted.", "Use an accepted issuer."
        ),
        "credential.scope_missing": Code(
            Refused, "The credential lacks a required scope.", "Use a credential with that scope."
        ),
        "credential.expired": Code(
            Refused, "The provider credential has expired.", "Renew the credential.", True
        ),
        "credential.unavailable": Code(
            Unavailable,
            "The credential source failed.",
            "Repair the source, then send again.",
            True,
        ),
        "policy.denied": Code(
            Refused, "Policy does not allow this.", "Ask for the missing scope, or do not do it."
        ),
        # idempotency
        "idempotency.key_required": Code(
            Refused, "This capability needs an idempotency key.", "Send one key per intent."
        ),
        "idempotency.key_unsupported": Code(
            Refused, "This capability takes no idempotency key.", "Send the request without a key."
        ),
        "idempotency.key_invalid": Code(
            Refused,
            "The idempotency key is blank or too long.",
            "Use 1 to 255 characters without control characters.",
        ),
        "idempotency.input_mismatch": Code(
            Conflict,
            "This idempotency key belongs to a different request.",
            "Use a new key for a new intent.",
        ),
        "idempotency.in_progress": Code(
            Conflict,
            "The request that holds this idempotency key has not ended.",
            _SAME_ACTION,
            True,
        ),
        "idempotency.conflict": Code(
            Conflict,
            "This idempotency key was used before.",
            "Look the earlier action up, or use a new key for a new intent.",
        ),
        "idempotency.account_required": Code(
            Refused,
            "Keys of this capability are scoped to an external account, and none is given.",
            "Send an identity with an external account.",
        ),
        # contract
        "transaction.mode_not_supported": Code(
            Refused, "The capability does not admit this mode.", "Use one of its supported modes."
        ),
        "transaction.id_conflict": Code(
            Conflict, "This transaction id is taken.", "Use another transaction id."
        ),
        "transaction.plan_id_conflict": Code(
            Conflict, "This plan id is taken.", "Use another plan id."
        ),
        "transaction.not_found": Code(
            Refused, "There is no such transaction.", "Check the transaction id."
        ),
        "transaction.rollback_not_supported": Code(
            Refused, "This capability cannot be rolled back.", "Handle the consequences by hand."
        ),
        "transaction.id_required": Code(
            Refused, "A transaction id is needed here.", "Name the transaction."
        ),
        "transaction.compensation_for_required": Code(
            Refused,
            "A compensation must name the action it offsets.",
            "Set compensation_for to the action id of the original effect.",
        ),
        "transaction.transition_refused": Code(
            Conflict,
            "The transaction's status does not admit this event.",
            "Look at the transaction: its status is in the details.",
        ),
        # plan binding, in the order in which it is checked
        "transaction.plan_required": Code(
            Refused, "A commit needs a plan id.", "Plan first, then commit that plan."
        ),
        "transaction.plan_not_found": Code(
            Refused, "There is no such plan.", "Check the plan id, or plan again."
        ),
        "transaction.plan_capability_mismatch": Code(
            Refused, "The plan is for another capability.", "Commit with the planned capability."
        ),
        "transaction.plan_not_committable": Code(
            Conflict,
            "The plan cannot be committed in its present status.",
            "Look at the transaction: its status is in the details.",
        ),
        "transaction.plan_missing_payload": Code(
            Corrupt, "The record has no plan.", "Plan again under a new transaction id."
        ),
        "transaction.plan_principal_mismatch": Code(
            Refused, "The plan belongs to another principal.", "Commit as the planning principal."
        ),
        "transaction.plan_expired": Code(Refused, "The plan has expired.", "Plan again."),
        "transaction.plan_transaction_mismatch": Code(
            Refused,
            "The plan belongs to another transaction.",
            "Name the planned transaction, or none.",
        ),
        "transaction.plan_input_hash_mismatch": Code(
            Refused, "The input is not the one that was planned.", "Plan the new input."
        ),
        "transaction.plan_identity_missing": Code(
            Refused,
            "The identity is present on only one of plan and commit.",
            "Commit with the identity context that planned.",
        ),
        "transaction.plan_tenant_mismatch": Code(
            Refused, "The identity's tenant differs from the plan's.", "Commit in that tenant."
        ),
        "transaction.plan_external_account_mismatch": Code(
            Refused,
            "The external account differs from the plan's.",
            "Commit on the planned account.",
        ),
        "transaction.plan_governance_changed": Code(
            Refused, "What governs this capability changed after planning.", "Plan again."
        ),
        "transaction.plan_already_claimed": Code(
            Conflict,
            "Another action has claimed this plan.",
            "Look at the transaction to see how that claim ended.",
        ),
        # execution
        "transaction.execution_contract_mismatch": Code(
            Conflict,
            "The transaction was begun with a different request.",
            "Use a new transaction id for a new intent.",
        ),
        "transaction.execute_state_invalid": Code(
            Conflict,
            "The transaction cannot be executed in its present status.",
            "Look at the transaction: its status is in the details.",
        ),
        "transaction.retry_denied": Code(
            Refused,
            "The failed attempt may not be repeated.",
            "Use a new transaction if the intent still stands.",
        ),
        "transaction.reconciliation_required": Code(
            OutcomeUnknown, "The effect may have happened.", _RECONCILE
        ),
        "transaction.in_progress": Code(
            Conflict, "An attempt is running.", "Wait for it to end, or look at it.", True
        ),
        "transaction.frozen": Code(
            Refused,
            "The transaction is frozen, since its store was restored or failed over.",
            "An operator has to release it.",
        ),
        "transaction.not_frozen": Code(
            Conflict, "The transaction is not frozen.", "Look at the transaction."
        ),
        "transaction.record_contradictory": Code(
            Corrupt,
            "The stored record contradicts itself, so nothing is done with it.",
            "Export its receipts and have a person compare them with the provider.",
        ),
        "transaction.outcome_unknown": Code(
            OutcomeUnknown, "Nobody knows yet whether the effect happened.", _RECONCILE
        ),
        "transaction.provider_answer_invalid": Code(
            OutcomeUnknown, "The connector's answer says nothing certain.", _RECONCILE
        ),
        "transaction.attempt_abandoned": Code(
            OutcomeUnknown, "The attempt's lease ran out without an answer.", _RECONCILE
        ),
        "transaction.attempt_interrupted": Code(
            OutcomeUnknown, "The attempt was interrupted before it answered.", _RECONCILE
        ),
        "transaction.unclassified_exception": Code(
            OutcomeUnknown,
            "The connector raised an exception that says nothing certain.",
            _RECONCILE,
        ),
        "transaction.not_dispatched": Code(
            Unavailable,
            "The licence to call the provider had run out before the call, so nothing was sent.",
            "Begin anew if the intent still stands.",
        ),
        "sla.timeout_exceeded": Code(
            OutcomeUnknown, "The provider did not answer in time.", _RECONCILE
        ),
        "transaction.preview_failed": Code(
            Refused, "The provider refused the preview.", "Change the input and plan again."
        ),
        "transaction.settlement_not_stored": Code(
            OutcomeUnknown,
            "The provider answered, but the store could not keep the answer.",
            _RECONCILE,
        ),
        # checkpoints
        "transaction.checkpoint_refused": Code(
            Refused, "No reference can be recorded now.", "Record it only inside an attempt."
        ),
        "transaction.provider_operation_conflict": Code(
            Conflict,
            "A different provider operation is already recorded.",
            "This may be a second effect: an operator has to look.",
        ),
        # reconciliation
        "transaction.reconcile_state_invalid": Code(
            Conflict,
            "Only an unknown outcome can be reconciled.",
            "Look at the transaction: its status is in the details.",
        ),
        "transaction.provider_operation_required": Code(
            Refused,
            "Nothing is known by which the provider could be asked.",
            "An operator has to look at the provider and settle it with evidence.",
        ),
        "transaction.reconcile_not_due": Code(
            Refused, "It is too early to look again.", "Wait until the time in the details.", True
        ),
        "transaction.reconcile_not_allowed": Code(
            Refused,
            "Only its owner or an operator reconciles a transaction.",
            "Ask its owner or an operator.",
        ),
        "transaction.provider_operation_not_accepted": Code(
            Refused,
            "A provider operation may be supplied by operators only.",
            "Ask an operator.",
        ),
        "transaction.reconcile_unsupported": Code(
            Refused,
            "The capability offers no way to ask the provider.",
            "An operator has to settle it with evidence.",
        ),
        # settling by hand
        "transaction.settle_state_invalid": Code(
            Conflict,
            "Only an unknown outcome can be settled by hand.",
            "Look at the transaction: its status is in the details.",
        ),
        "transaction.settle_not_allowed": Code(
            Refused, "Settling by hand needs an operator.", "Ask an operator."
        ),
        "transaction.settle_evidence_required": Code(
            Refused, "Settling by hand needs a reference and a note.", "Say what was found, where."
        ),
        "transaction.settle_risk_not_accepted": Code(
            Refused,
            "An earlier request may still be under way, so absence is not proven.",
            "Wait for the horizon, or accept the risk explicitly.",
        ),
        "transaction.revision_conflict": Code(
            Conflict, "The transaction changed meanwhile.", "Look at it again, then decide."
        ),
        # compensation
        "transaction.compensation_not_supported": Code(
            Refused, "The capability declares no compensation.", "Offset the effect by hand."
        ),
        "transaction.compensation_target_not_found": Code(
            Refused, "There is no such target action.", "Name the action of the original effect."
        ),
        "transaction.compensation_target_mismatch": Code(
            Refused, "The target belongs to another capability.", "Name the target's capability."
        ),
        "transaction.compensation_target_invalid": Code(
            Refused, "A compensation is never a target.", "Name the original action."
        ),
        "transaction.compensation_target_not_completed": Code(
            Refused, "The target did not complete.", "Only a known effect can be offset."
        ),
        "transaction.compensation_target_not_committed": Code(
            Refused, "The target's record is not committed.", "Only a known effect can be offset."
        ),
        "transaction.compensation_window_expired": Code(
            Refused, "The window for compensating has passed.", "Offset the effect by hand."
        ),
        "transaction.compensation_time_unknown": Code(
            Refused,
            "The window cannot be judged, since nothing says when the effect happened.",
            "An operator has to offset it by hand.",
        ),
        "transaction.compensation_exists": Code(
            Conflict,
            "Every permitted compensation of this target is taken.",
            "Look at the compensation that holds it.",
        ),
        "transaction.compensation_frozen": Code(
            Refused,
            "Contradicting evidence froze compensations of this target.",
            "An operator has to rule on the evidence.",
        ),
        "transaction.compensation_capability_unavailable": Code(
            Refused,
            "The compensating capability is not registered or cannot compensate.",
            "Register it with a handler.",
        ),
        "evidence.not_allowed": Code(
            Refused,
            "Only operators and holders of amends:evidence bring provider events.",
            "Bring them as a principal that may.",
        ),
        # corrections
        "correction.not_found": Code(
            Refused, "There is no such correction.", "Check the correction id."
        ),
        "correction.ruling_not_allowed": Code(
            Refused, "Ruling on a correction needs an operator.", "Ask an operator."
        ),
        "correction.ruling_required": Code(
            Refused, "A ruling needs words.", "Say what was found, where, and what follows."
        ),
        # cancelling and withdrawing
        "transaction.withdraw_state_invalid": Code(
            Conflict, "Only a plan that waits can be withdrawn.", "Look at the transaction."
        ),
        "transaction.withdraw_not_allowed": Code(
            Refused, "Only its requester or an operator withdraws a plan.", "Ask one of them."
        ),
        "transaction.plan_withdrawn": Code(
            Refused, "The plan was withdrawn.", "Plan again if the intent still stands."
        ),
        "action.cancel_not_allowed": Code(
            Refused, "Only its requester or an operator cancels an action.", "Ask one of them."
        ),
        # approvals
        "approval.required": Code(
            Refused, "This needs an approval.", "Wait for the approval, then send it again."
        ),
        "approval.not_found": Code(
            Refused, "There is no such approval request.", "Check the approval id."
        ),
        "approval.stale": Code(
            Conflict,
            "The approval request changed since it was read.",
            "Look at the current request, then decide.",
        ),
        "approval.closed": Code(
            Conflict, "The approval request takes no further decision.", "Look at how it ended."
        ),
        "approval.not_allowed": Code(
            Refused, "This principal may not decide this request.", "Ask somebody who may."
        ),
        "approval.separation_of_duties": Code(
            Refused, "Requesters do not approve their own requests.", "Ask somebody else."
        ),
        "approval.already_decided": Code(
            Conflict, "This principal has already decided.", "Others have to decide."
        ),
        "approval.evidence_required": Code(
            Refused, "The policy asks for evidence with the decision.", "Give what it lists."
        ),
        "approval.denied": Code(
            Refused, "The request was denied.", "Use a new action if the intent still stands."
        ),
        "approval.expired": Code(
            Refused, "The approval expired before it was used.", "Ask again with a new action."
        ),
        "approval.revoked": Code(
            Refused, "The approval was revoked.", "Ask again with a new action."
        ),
        "approval.withdrawn": Code(
            Refused, "The request was withdrawn.", "Ask again with a new action."
        ),
        "approval.mismatch": Code(
            Refused,
            "The approval is for something else than what would run.",
            "Ask for the approval of this action.",
        ),
        "approval.consumed": Code(
            Refused, "The approval was used already.", "An approval serves one execution."
        ),
        "approval.frozen": Code(
            Refused,
            "The approval request is frozen, since its store was restored or failed over.",
            "An operator has to release its transaction.",
        ),
        "approval.wait_timeout": Code(
            Conflict, "Nobody has decided yet.", "Wait again; the request stands.", True
        ),
        # outcomes of previews and provider answers
        "provider.failed": Code(
            ProviderFailed, "The provider refused.", "Read the provider's code in the details."
        ),
        "output.schema_mismatch": Code(
            ProviderFailed,
            "The effect is there, but its output does not fit the schema.",
            "Do not repeat it; mend the schema or read the provider's record.",
        ),
        "output.not_storable": Code(
            ProviderFailed,
            "The effect is there, but its output cannot be stored.",
            "Do not repeat it; read the provider's record.",
        ),
        "transaction.effect_absent": Code(
            ProviderFailed,
            "The effect is not there, and nothing that was sent can still bring it about.",
            "Use a new transaction if the intent still stands.",
        ),
        "transaction.effect_partial": Code(
            ProviderFailed,
            "Only a part of the effect is there.",
            "Do not repeat it: compensate it, or complete it by hand.",
        ),
        "result.no_output": Code(
            Misuse, "This result has no output.", "Look at its status before its output."
        ),
        "runtime.closed": Code(
            Unavailable, "Amends is shutting down.", "Send the same action again later.", True
        ),
        "store.contended": Code(
            Conflict, "Too many others changed the same record.", _SAME_ACTION, True
        ),
    }
)


def coded(
    code: str, details: Mapping[str, Json] | None = None, *, message: str | None = None
) -> AmendsError:
    """The error of a listed code, of its family, with its texts."""
    entry = CODES[code]
    return entry.family(code, message or entry.message, details=details, next_step=entry.next_step)
