"""The codes of what goes wrong on the way to a provider and back, and what each means.

An error that is made here holds a code, its text, and details such as statuses, ids and single
words; never a URL, a header, or anything of a body but an id or a code.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from amends.contracts.enums import ErrorCategory
from amends.contracts.json_types import Json
from amends.contracts.outcomes import ErrorInfo

# before anything is sent
UNREACHABLE: Final = "connector.unreachable"
HANDLER_MISSING: Final = "connector.handler_missing"
GIVEN_UP: Final = "connector.given_up"
REFERENCE_MISSING: Final = "connector.reference_missing"
VALUE_UNFIT: Final = "connector.value_unfit"
CREDENTIAL_MISSING: Final = "credential.missing"
CREDENTIAL_INVALID: Final = "credential.invalid"

# after that
ANSWER_LOST: Final = "connector.answer_lost"
TIMED_OUT: Final = "sla.timeout_exceeded"
REFUSED: Final = "provider.failed"
CONFLICT: Final = "provider.conflict"
PARTIAL: Final = "provider.partial"
SERVER_ERROR: Final = "provider.server_error"
REDIRECTED: Final = "connector.redirect_refused"
STATUS_UNCERTAIN: Final = "connector.status_uncertain"
ANSWER_UNREADABLE: Final = "connector.answer_unreadable"
ANSWER_MISMATCH: Final = "connector.answer_mismatch"
STATE_UNKNOWN: Final = "connector.state_unknown"

# in a look-up
LOOKUP_UNDECLARED: Final = "connector.lookup_undeclared"
LOOKUP_UNREADABLE: Final = "connector.lookup_unreadable"
LOOKUP_MISMATCH: Final = "connector.lookup_mismatch"
LOOKUP_AMBIGUOUS: Final = "connector.lookup_ambiguous"
LOOKUP_GONE: Final = "connector.lookup_gone"
LOOKUP_INCOMPLETE: Final = "connector.lookup_incomplete"

_TEXTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        UNREACHABLE: "There was no connection to the provider, so nothing was sent.",
        HANDLER_MISSING: "No request is declared for this.",
        GIVEN_UP: "The attempt was given up before anything was sent.",
        REFERENCE_MISSING: "A reference of the declaration leads nowhere, so nothing was sent.",
        VALUE_UNFIT: "A value does not fit where the declaration puts it, so nothing was sent.",
        CREDENTIAL_MISSING: "The provider credential is missing, so nothing was sent.",
        CREDENTIAL_INVALID: "The credential cannot be sent in a header, so nothing was sent.",
        ANSWER_LOST: "The request may have arrived, and there was no whole answer.",
        TIMED_OUT: "The provider did not answer in time.",
        REFUSED: "The provider refused.",
        CONFLICT: "The provider says that this is there already; whose it is, it does not say.",
        PARTIAL: "The provider did only a part of it.",
        SERVER_ERROR: "The provider failed; whether before or after the effect is not known.",
        REDIRECTED: "The provider pointed elsewhere. That was not followed.",
        STATUS_UNCERTAIN: "The provider's status says nothing certain of the effect.",
        ANSWER_UNREADABLE: "The provider's answer cannot be read, so it cannot be compared.",
        ANSWER_MISMATCH: "The provider's answer is not about what was asked for.",
        STATE_UNKNOWN: "The provider's state is none of those that are declared.",
        LOOKUP_UNDECLARED: "No look-up is declared for what is known of the effect.",
        LOOKUP_UNREADABLE: "The look-up cannot be read, which says nothing of the effect.",
        LOOKUP_MISMATCH: "What the look-up found is not what was asked for; a person has to look.",
        LOOKUP_AMBIGUOUS: "The look-up found our key more than once; a person has to look.",
        LOOKUP_GONE: "The provider says that it is gone, so it was there; a person has to look.",
        LOOKUP_INCOMPLETE: "The list was not read to its end, so nothing follows from it.",
    }
)


def told(
    code: str,
    details: Mapping[str, Json] | None = None,
    *,
    category: ErrorCategory = ErrorCategory.CONNECTOR,
    retryable: bool = False,
) -> ErrorInfo:
    """The error of a listed code."""
    return ErrorInfo(
        code=code,
        message=_TEXTS[code],
        category=category,
        retryable=retryable,
        details=dict(details or {}),
    )
