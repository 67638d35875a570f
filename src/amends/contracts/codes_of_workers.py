"""What contracts between host and worker, and the channel between them, answer with."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from amends.contracts.code import Code
from amends.contracts.errors import Misuse, OutcomeUnknown, PeerViolation, Refused, Unavailable

_NEW_SESSION: Final = "Close the channel and open a new session."
_LOOK: Final = "Open a new session and look it up, under the same key and no other."
_CLOSE: Final = "Close the channel; look up what was asked before under a new session."

WORKER_CODES: Final[Mapping[str, Code]] = MappingProxyType(
    {
        # words that both sides share
        "worker.token_invalid": Code(
            Refused,
            "A name is not a token.",
            "Use 1 to 128 of a-z, 0-9, '.', '_' and '-'.",
        ),
        "worker.fingerprint_invalid": Code(
            Refused, "A fingerprint is not 64 lower-case hex digits.", "Send it as it was made."
        ),
        "worker.operation_key_invalid": Code(
            Refused,
            "An operation key is no token, or looks like the key of a compensation.",
            "Derive the key; it begins with op-.",
        ),
        "worker.compensation_key_invalid": Code(
            Refused,
            "A compensation key does not have the derived form.",
            "Derive the key; it is cmp- and 64 hex digits.",
        ),
        "worker.nonce_invalid": Code(
            Refused, "The nonce is empty or too long.", "Use 1 to 128 bytes, and keep them."
        ),
        "worker.plan_invalid": Code(
            Refused,
            "The workflow plan does not have the required form.",
            "Give 1 to 1024 steps with unique ids, each with at most 1 MiB of source.",
        ),
        "worker.grant_invalid": Code(
            Refused, "The grant does not have the required form.", "Mend the field that is named."
        ),
        "worker.grant_widened": Code(
            Refused,
            "A grant can be narrowed, and never widened.",
            "Ask whoever gave the grant for a wider one.",
        ),
        "worker.manifest_invalid": Code(
            Refused,
            "The manifest does not have the required form.",
            "Give at most 128 grants, each for another tool.",
        ),
        "worker.payload_invalid": Code(
            Refused, "The payload does not have the required form.", "Mend what is named."
        ),
        "worker.message_invalid": Code(
            Refused, "The message does not have the required form.", "Mend what is named."
        ),
        # authority and budgets: the channel stays whole
        "worker.tool_not_granted": Code(
            Refused, "No grant of this session names the tool.", "Open a session that grants it."
        ),
        "worker.format_not_granted": Code(
            Refused, "The grant asks for another format.", "Send the payload in that format."
        ),
        "worker.input_too_large": Code(
            Refused, "The input is larger than the grant allows.", "Send less."
        ),
        "worker.output_too_large": Code(
            Refused,
            "The output is larger than the grant allows.",
            "Record it by digest and size, and answer so.",
        ),
        "worker.calls_spent": Code(
            Refused, "The grant allows no more calls in this session.", "Open a new session."
        ),
        "worker.compensations_spent": Code(
            Refused,
            "The grant allows no compensation, or no more of them in this session.",
            "Open a session whose grant allows it.",
        ),
        "worker.lookups_spent": Code(
            Refused, "This session allows no more look-ups.", "Open a new session."
        ),
        "worker.requests_spent": Code(
            Refused, "This session allows no more requests.", "Open a new session."
        ),
        "worker.request_repeated": Code(
            Refused, "This request id was used in this session.", "Use a new request id."
        ),
        "worker.grant_mismatch": Code(
            Refused,
            "The request stands on another grant than the session's.",
            "Fail closed: a stored intent is never moved to another grant by itself.",
        ),
        "worker.tenant_mismatch": Code(
            Refused, "The request names another tenant scope.", "Ask a worker of that scope."
        ),
        "worker.session_mismatch": Code(
            Refused,
            "The message names another session or protocol version.",
            "Make it for the session that it is sent in.",
        ),
        "worker.head_required": Code(
            Refused,
            "Version 6 asks for the ledger's head in this request, and version 5 knows none.",
            "Give the head of the ledger exactly where the version has it.",
        ),
        "worker.frame_too_large": Code(
            Refused, "The frame would be larger than 1 MiB.", "Send less in one message."
        ),
        "worker.status_unknown_to_version": Code(
            Refused,
            "This protocol version cannot say that.",
            "Use version 6, or report a status that version 5 has.",
        ),
        # the shells of both sides
        "worker.contract_missing": Code(
            Refused,
            "The adapter declares no contract, so nothing durable is dispatched to it.",
            "Declare how its outcomes can be looked up.",
        ),
        "worker.handler_missing": Code(
            Refused, "The worker has no handler for this.", "Ask a worker whose adapter has one."
        ),
        "worker.session_used": Code(
            Refused, "A session of this name was served before.", "Draw a new name and a new key."
        ),
        "worker.rejected": Code(
            Refused,
            "The worker refused the request; nothing was done.",
            "See the worker's own code.",
        ),
        "worker.tenant_unserved": Code(
            Refused, "No worker is named for this tenant.", "Name its address, or another tenant."
        ),
        "worker.journal_elsewhere": Code(
            Unavailable,
            "The worker's journal is on another machine, and cannot be ruled on from here.",
            "Rule on it there with amends worker resolve, then reconcile the transaction here.",
        ),
        "worker.given_up": Code(
            Refused,
            "The attempt was given up before anything was recorded.",
            "Ask again, if it is still wanted.",
        ),
        "worker.failed": Code(
            Refused,
            "The worker knows that the effect did not happen.",
            "Begin a new transaction if it is still wanted; this one is not tried again.",
        ),
        "worker.cancelled": Code(
            OutcomeUnknown,
            "The worker stopped, and does not promise that nothing happened.",
            "A person has to find out.",
        ),
        "worker.compensation_not_admitted": Code(
            OutcomeUnknown,
            "The intent to compensate is recorded, and the worker never had it.",
            "Reconcile it by hand, which offers the same intent again.",
        ),
        "worker.lookup_unsupported": Code(
            OutcomeUnknown,
            "This worker's protocol cannot look a compensation up.",
            "Reconcile it by hand, which offers the same intent again.",
        ),
        "worker.no_answer": Code(
            OutcomeUnknown,
            "The request was sent, and no answer came: nobody knows whether it was carried out.",
            _LOOK,
        ),
        "worker.indeterminate_operation": Code(
            OutcomeUnknown, "The operation may have happened; what came of it is not known.", _LOOK
        ),
        "worker.indeterminate_compensation": Code(
            OutcomeUnknown,
            "The inverse effect may have happened; what came of it is not known.",
            "Open a new session and look it up. This never allows another key or a second run.",
        ),
        # the channel
        "channel.lost": Code(Unavailable, "The channel to the peer has ended.", _NEW_SESSION),
        "channel.malformed": Code(
            PeerViolation, "The peer's bytes are not a frame of this version.", _CLOSE
        ),
        "channel.too_large": Code(PeerViolation, "The peer's frame is too large.", _CLOSE),
        "channel.truncated": Code(
            PeerViolation, "The channel ended in the middle of a frame.", _CLOSE
        ),
        "channel.not_authentic": Code(
            PeerViolation, "A frame is not from this peer in this session.", _CLOSE
        ),
        "channel.out_of_sequence": Code(
            PeerViolation, "A frame was lost, repeated or moved.", _CLOSE
        ),
        "channel.message_malformed": Code(
            PeerViolation, "An authentic frame holds no message of this version.", _CLOSE
        ),
        "channel.message_unexpected": Code(
            PeerViolation, "The peer may not send this message now.", _CLOSE
        ),
        "channel.answer_unasked": Code(
            PeerViolation, "The peer answered what nobody asked.", _CLOSE
        ),
        "channel.answer_mismatch": Code(
            PeerViolation, "The peer's answer does not repeat the request.", _CLOSE
        ),
        "channel.session_mismatch": Code(
            PeerViolation, "The peer speaks for another session, tenant or version.", _CLOSE
        ),
        "channel.poisoned": Code(
            PeerViolation, "The channel was poisoned before; nothing more passes.", _NEW_SESSION
        ),
        "channel.bootstrap_malformed": Code(
            PeerViolation, "The bootstrap preamble does not have the required form.", _NEW_SESSION
        ),
        # the program
        "misuse.channel_state": Code(
            Misuse, "This cannot be sent in the session's state.", "See the table of sessions."
        ),
        "misuse.channel_secret": Code(
            Misuse, "A session key is 32 bytes that are not all zero.", "Draw it at random."
        ),
        "misuse.channel_nonce": Code(
            Misuse, "A greeting takes 32 fresh random bytes.", "Draw them for each session."
        ),
        "misuse.request_unknown": Code(
            Misuse, "No request with this id waits for an answer.", "Answer each request once."
        ),
        "misuse.request_uncharged": Code(
            Misuse,
            "A request was answered before it was charged to its budget.",
            "Charge it once it is eligible, then admit it and persist that.",
        ),
        "misuse.adapter_invalid": Code(
            Misuse,
            "The adapter does not have the required form.",
            "Mend what is named; see the guide for adapter authors.",
        ),
        "misuse.verifier_twice": Code(
            Misuse, "The capability has a verifier already.", "Register one for each capability."
        ),
        "misuse.permit_required": Code(
            Misuse, "A compensation is sent with a permit only.", "Let the workflow compensate."
        ),
        "misuse.answer_kind": Code(
            Misuse, "This is no answer to that kind of request.", "Answer as its record says."
        ),
    }
)
