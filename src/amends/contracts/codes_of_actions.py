"""What gates, approvals, results and the runtime itself answer with."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from amends.contracts.code import SAME_ACTION, Code
from amends.contracts.errors import (
    Conflict,
    Misuse,
    ProviderFailed,
    Refused,
    Unavailable,
)

ACTION_CODES: Final[Mapping[str, Code]] = MappingProxyType(
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
        "identity.principal_unknown": Code(
            Refused,
            "There is no such principal any more.",
            "Ask whoever looks after the principals.",
        ),
        "identity.source_failed": Code(
            Unavailable,
            "Nobody can say what the principal holds now, so nothing was done for it.",
            "Try again when the source of principals answers.",
            True,
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
        "policy.limit_exceeded": Code(
            Refused,
            "A limit of the policy is used up for now.",
            "Send the same action again after the time in the details.",
            True,
        ),
        "policy.limit_too_small": Code(
            Refused,
            "This alone is more than a limit of the policy ever allows.",
            "Ask for less, or have the limit changed.",
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
            SAME_ACTION,
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
        "approval.no_longer_granted": Code(
            Refused,
            "Those who approved could not approve it now, so the approval was not used.",
            "Cancel the action, and ask again with a new one.",
        ),
        "delegation.not_found": Code(
            Refused, "There is no such delegation for this principal.", "Check the delegation id."
        ),
        "delegation.not_allowed": Code(
            Refused,
            "This principal may neither make nor revoke this delegation.",
            "Ask its delegator or an operator.",
        ),
        "delegation.to_oneself": Code(
            Refused,
            "A delegation to oneself lends nothing.",
            "Name somebody else as the delegate.",
        ),
        "delegation.span_invalid": Code(
            Refused,
            "A delegation ends after it begins and after now, and within 366 days.",
            "Choose another end.",
        ),
        "delegation.scope_invalid": Code(
            Refused,
            "A delegation names 1 to 50 capabilities, with * for anything.",
            "Write them as in payments.* or payments.charge.",
        ),
        "delegation.revoked": Code(
            Refused, "The delegation was revoked.", "Ask its delegator for another one."
        ),
        "delegation.not_current": Code(
            Refused,
            "The delegation has not begun, or it has ended.",
            "Ask its delegator for another one.",
        ),
        "delegation.out_of_scope": Code(
            Refused,
            "The delegation does not reach so far: another capability, or a higher risk.",
            "Ask somebody who may decide this request.",
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
            Conflict, "Too many others changed the same record.", SAME_ACTION, True
        ),
    }
)
