"""What the host's ledger, its permits and the worker's journal answer with."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from amends.contracts.code import Code
from amends.contracts.errors import Conflict, Corrupt, PeerViolation, Refused

_STRANDED: Final = "Fail closed: the intent stays as it was recorded. An operator has to rule."
_ONE_ONLY: Final = "There is one compensation for ever. Look at the one that is recorded."
_NEW_PERMIT: Final = "Issue a new permit for the same intent, after asking both verifiers again."

LEDGER_CODES: Final[Mapping[str, Code]] = MappingProxyType(
    {
        # the host's ledger
        "ledger.plan_mismatch": Code(
            Refused, "The ledger belongs to another plan.", "Load the ledger of this plan."
        ),
        "ledger.step_unknown": Code(
            Refused, "The plan has no such step.", "Name a step of the plan."
        ),
        "ledger.operation_unknown": Code(
            Refused, "The ledger has no such operation.", "Record the operation first."
        ),
        "ledger.input_differs": Code(
            Refused,
            "The input is not the one that the operation was recorded with.",
            "Supply the recorded input; another input is another operation.",
        ),
        "ledger.full": Code(
            Refused, "The ledger has no room for another entry.", "Use another plan, and ledger."
        ),
        "ledger.changed": Code(
            Conflict, "The ledger changed since the proposal.", "Propose again from what it is now."
        ),
        "ledger.transition_refused": Code(
            Conflict,
            "The reported state cannot follow the recorded one.",
            "Nothing was changed. Have a person compare ledger and journal.",
        ),
        "ledger.malformed": Code(
            Corrupt, "The bytes are not a ledger.", "Restore the ledger from its sealed copy."
        ),
        # its one compensation
        "ledger.compensation_requires_succeeded": Code(
            Refused,
            "Only an operation that is known to have succeeded can be compensated.",
            "Look the original up, or have a person find out.",
        ),
        "ledger.compensation_not_granted": Code(
            Refused, "The grant allows no compensation.", "Ask for a grant that allows one."
        ),
        "ledger.compensation_exists": Code(
            Refused, "The operation has another compensation.", _ONE_ONLY
        ),
        "ledger.compensation_unknown": Code(
            Refused, "The ledger has no such compensation.", "Record the compensation first."
        ),
        "ledger.compensation_drifted": Code(
            Refused, "Tenant, grant or input are not those of the recorded intent.", _STRANDED
        ),
        "ledger.supersede_refused": Code(
            Refused,
            "Only an open intent moves to another grant, by a person who says who and why.",
            "Say both, in at most 2000 bytes each, and name the grant that is in force.",
        ),
        "ledger.grant_tool_mismatch": Code(
            Refused,
            "The grant names another tool than the operation's.",
            "Compensate with a grant for the original tool.",
        ),
        "ledger.input_refused": Code(
            Refused,
            "The input's format or size is not what the grant allows.",
            "Send it in the grant's format, within its limit.",
        ),
        "ledger.grant_denied": Code(
            Refused, "The grant verifier did not say yes.", "Nothing was recorded or sent."
        ),
        "ledger.action_denied": Code(
            Refused, "The action verifier did not say yes.", "Nothing was recorded or sent."
        ),
        "ledger.verdicts_elsewhere": Code(
            Refused,
            "The verdicts answer another question.",
            "Ask both verifiers this very question, at this stage.",
        ),
        # answers of a worker
        "ledger.answer_mismatch": Code(
            PeerViolation,
            "The answer does not repeat the request's identity.",
            "Close the channel. The entry stays open; offer it again or look it up.",
        ),
        "ledger.output_refused": Code(
            PeerViolation,
            "The output's format or size is not what the grant allows.",
            "Close the channel. The entry stays open; offer it again or look it up.",
        ),
        # permits
        "permit.spent": Code(Refused, "The permit was used.", _NEW_PERMIT),
        "permit.elsewhere": Code(Refused, "The permit belongs to another desk.", _NEW_PERMIT),
        "permit.expired": Code(Refused, "The permit has expired.", _NEW_PERMIT),
        "permit.drifted": Code(
            Refused, "What the permit is bound to is no longer the same.", _NEW_PERMIT
        ),
        "permit.not_persisted": Code(
            Refused,
            "The receipt is not for exactly this ledger.",
            "Persist the ledger, and use the receipt of that.",
        ),
        "permit.terminal": Code(
            Refused, "It has ended already; there is nothing to send.", "Report what it came to."
        ),
        # the worker's journal
        "journal.scope_mismatch": Code(
            Refused, "The journal belongs to another tenant scope.", "Ask a worker of that scope."
        ),
        "journal.operation_unknown": Code(
            Refused, "The journal has no such operation.", "Check the key; nothing was done."
        ),
        "journal.operation_differs": Code(
            Refused,
            "This operation key stands for another tool or input.",
            "Derive a new key for a new intent.",
        ),
        "journal.tool_mismatch": Code(
            Refused, "The tool is not that of the operation.", "Use the original tool."
        ),
        "journal.requires_succeeded": Code(
            Refused,
            "Only an operation that is known to have succeeded can be compensated.",
            "Look the original up, or have a person find out.",
        ),
        "journal.grant_mismatch": Code(
            Refused, "The request stands on another grant than the session's.", _STRANDED
        ),
        "journal.not_granted": Code(
            Refused, "The session's grant allows no compensation.", "Open a session that does."
        ),
        "journal.compensation_differs": Code(
            Refused, "The operation has a compensation that is not exactly this one.", _ONE_ONLY
        ),
        "journal.compensation_unknown": Code(
            Refused, "The journal has no such compensation.", "Check both keys."
        ),
        "journal.key_taken": Code(
            Refused, "This compensation key belongs to another operation.", "Derive the key."
        ),
        "journal.full": Code(
            Refused,
            "The journal has no room to record what might come of this.",
            "Archive finished records, or raise the journal's limits.",
        ),
        "journal.contradicted": Code(
            Conflict,
            "The reported state contradicts the recorded one.",
            "Nothing was changed. Have a person find out what happened.",
        ),
        "journal.format_cannot_say": Code(
            Refused,
            "The journal's format has no words for this.",
            "Use a journal of version 6.",
        ),
        "journal.head_stale": Code(
            Refused,
            "The host's ledger stands before where it was already seen.",
            "The host was replaced, or its ledger rolled back; have a person look at it.",
        ),
        "journal.heads_contradict": Code(
            Refused,
            "The host told two stories about one revision of its ledger.",
            "Nothing is admitted until an operator rules; look-ups go on.",
        ),
        "journal.frozen": Code(
            Refused,
            "The journal is frozen, since heads of the host contradicted.",
            "An operator has to compare both sides and release it.",
        ),
        "journal.not_frozen": Code(
            Conflict, "The journal is not frozen.", "Nothing is to be done."
        ),
        "journal.entry_closed": Code(
            Refused, "The entry has ended; it is never reopened.", "Report what it came to."
        ),
        "journal.absence_unproven": Code(
            Refused,
            "The old run may still act, so nothing proves that it did not happen.",
            "Wait until the old worker is gone, or its horizon has passed.",
        ),
        "journal.ruling_refused": Code(
            Refused,
            "A ruling needs who, why and evidence, and a journal of version 6.",
            "Say all three, in at most 2000 bytes each.",
        ),
        "journal.supersede_refused": Code(
            Refused,
            "Only an open entry moves to another grant, and only to another one.",
            "Name the grant that is in force.",
        ),
        "journal.archive_refused": Code(
            Refused,
            "Only finished records of a version 6 journal can be archived.",
            "Wait until original and inverse have ended.",
        ),
        "journal.malformed": Code(
            Corrupt, "The bytes are not a journal.", "Restore the journal from its sealed copy."
        ),
    }
)
