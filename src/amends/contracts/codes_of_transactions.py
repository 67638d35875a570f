"""What a transaction's rules answer with, from its contract to its compensation."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from amends.contracts.code import RECONCILE, Code
from amends.contracts.errors import (
    Conflict,
    Corrupt,
    OutcomeUnknown,
    Refused,
    Unavailable,
)

TRANSACTION_CODES: Final[Mapping[str, Code]] = MappingProxyType(
    {
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
            OutcomeUnknown, "The effect may have happened.", RECONCILE
        ),
        "transaction.in_progress": Code(
            Conflict, "An attempt is running.", "Wait for it to end, or look at it.", True
        ),
        "transaction.frozen": Code(
            Refused,
            "The transaction is frozen, after a restore, a failover, or evidence against it.",
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
            OutcomeUnknown, "Nobody knows yet whether the effect happened.", RECONCILE
        ),
        "transaction.provider_answer_invalid": Code(
            OutcomeUnknown, "The connector's answer says nothing certain.", RECONCILE
        ),
        "transaction.absence_not_proven": Code(
            OutcomeUnknown,
            "The look-up does not find the effect, which alone is no proof that it never happens.",
            "Do not repeat it. Look again later, or have an operator settle it who knows better.",
        ),
        "transaction.attempt_abandoned": Code(
            OutcomeUnknown, "The attempt's lease ran out without an answer.", RECONCILE
        ),
        "transaction.attempt_interrupted": Code(
            OutcomeUnknown, "The attempt was interrupted before it answered.", RECONCILE
        ),
        "transaction.unclassified_exception": Code(
            OutcomeUnknown,
            "The connector raised an exception that says nothing certain.",
            RECONCILE,
        ),
        "transaction.not_dispatched": Code(
            Unavailable,
            "The licence to call the provider had run out before the call, so nothing was sent.",
            "Begin anew if the intent still stands.",
        ),
        "sla.timeout_exceeded": Code(
            OutcomeUnknown, "The provider did not answer in time.", RECONCILE
        ),
        "transaction.preview_failed": Code(
            Refused, "The provider refused the preview.", "Change the input and plan again."
        ),
        "transaction.settlement_not_stored": Code(
            OutcomeUnknown,
            "The provider answered, but the store could not keep the answer.",
            "Do not repeat it: run amends doctor where the details name a file, else reconcile.",
        ),
        # checkpoints
        "transaction.checkpoint_refused": Code(
            Refused,
            "This reference cannot be recorded, or not now.",
            "Record it only inside an attempt, and never with the credential in it.",
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
            Refused,
            "Settling by hand needs the scope amends:settle.",
            "Ask an operator who holds it.",
        ),
        "transaction.release_not_allowed": Code(
            Refused,
            "Releasing what was frozen needs the scope amends:release.",
            "Ask an operator who holds it.",
        ),
        "transaction.settle_evidence_required": Code(
            Refused, "Settling by hand needs a reference and a note.", "Say what was found, where."
        ),
        "transaction.settle_risk_not_accepted": Code(
            Refused,
            "An earlier request may still be under way, so absence is not proven.",
            "Wait for the horizon, or accept the risk explicitly.",
        ),
        "transaction.settle_not_recorded": Code(
            Unavailable,
            "The accounts beside the transaction could not take the ruling; it is as it was.",
            "Mend what is named, then settle it again: each step may be repeated.",
        ),
        "transaction.settle_needs_capability": Code(
            Refused,
            "A worker serves this transaction, and its capability is not registered here.",
            "Settle it where it is: the worker's journal and the ledger are resolved first.",
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
            Refused,
            "The target did not complete.",
            "Only a known effect can be offset; reconcile an unknown one first.",
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
        "transaction.compensation_recovery_required": Code(
            Conflict,
            "The one compensation that a worker had for this target came to nothing.",
            "It is not tried again. Offset the effect by hand, outside.",
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
            Refused,
            "Ruling on a correction needs the scope amends:settle.",
            "Ask an operator who holds it.",
        ),
        "correction.unreadable": Code(
            Corrupt,
            "Another correction of the same target cannot be read, so nothing is opened.",
            "Keep the store as it is and have a person look at that correction.",
        ),
        "correction.ruling_required": Code(
            Refused, "A ruling needs words.", "Say what was found, where, and what follows."
        ),
        # legal holds and retention
        "hold.not_allowed": Code(
            Refused,
            "Placing and lifting a legal hold needs the scope amends:hold.",
            "Ask an operator who holds it.",
        ),
        "hold.reason_required": Code(
            Refused, "A hold needs a reason.", "Say which matter it is for, or why it ends."
        ),
        "hold.placed": Code(
            Conflict, "This transaction is held already.", "Look at its hold; it stands."
        ),
        "hold.not_placed": Code(
            Conflict, "This transaction is not held.", "Look at the list of holds."
        ),
        "retention.not_allowed": Code(
            Refused,
            "Rewriting what was kept long enough needs the scope amends:retain.",
            "Ask an operator who holds it.",
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
    }
)
