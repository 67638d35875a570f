"""What may be kept of a reply that is no success: codes, statuses, ids and delays.

Nothing that is made here holds a URL, a header, or more of a body than an id or a code.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

import msgspec
from msgspec import UnsetType

from amends.connectors.http import codes
from amends.connectors.http.codes import told
from amends.connectors.http.declaration import Provider
from amends.connectors.http.messages import TIMEOUT, Answer, NoAnswer, NotSent
from amends.connectors.http.reading import Unreadable, at, read_json
from amends.connectors.http.retry_after import retry_after_ms
from amends.connectors.port import Call
from amends.contracts import limits
from amends.contracts.enums import ErrorCategory
from amends.contracts.errors import Refused
from amends.contracts.ids import check_opaque
from amends.contracts.json_types import Json
from amends.contracts.outcomes import ErrorInfo

_PROVIDER_CODE: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}", re.ASCII)
_CATEGORIES: Final[Mapping[int, ErrorCategory]] = {
    401: ErrorCategory.AUTH,
    402: ErrorCategory.ECONOMIC,
    403: ErrorCategory.AUTH,
    429: ErrorCategory.TEMPORARY,
}


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer is judged by, beside the form of its request."""

    call: Call
    provider: Provider
    clock: Callable[[], datetime]
    expected: Mapping[str, Json]

    def delay_ms(self, answer: Answer) -> int | None:
        """How long the provider asks to wait, if it does."""
        return retry_after_ms(answer.header("retry-after"), self.clock())


def unsent(reply: NotSent) -> ErrorInfo:
    """The error of a request that certainly did not leave; it may be tried again."""
    return told(
        codes.UNREACHABLE,
        {"reason": reply.reason},
        category=ErrorCategory.TRANSPORT,
        retryable=True,
    )


def unanswered(reply: NoAnswer) -> ErrorInfo:
    """The error of a request that may have arrived."""
    code = codes.TIMED_OUT if reply.reason == TIMEOUT else codes.ANSWER_LOST
    return told(code, {"reason": reply.reason}, category=ErrorCategory.TRANSPORT)


def body_of(answer: Answer) -> Json | UnsetType:
    """The value of an answer's body. Raises `Unreadable`."""
    if answer.flaw:
        raise Unreadable(answer.flaw)
    return read_json(answer.body)


def request_id(answer: Answer, context: Context) -> str | None:
    """What the provider calls this request, where it says so in a form that can be kept."""
    name = context.provider.request_id_header
    values = [] if name is None else answer.header(name)
    try:
        return check_opaque(values[0], "request_id", length=limits.ID_LENGTH) if values else None
    except Refused:
        return None


def error_of(
    answer: Answer,
    code: str,
    context: Context,
    *,
    retryable: bool = False,
    flaw: str | None = None,
) -> ErrorInfo:
    """An error with what may be kept of an answer."""
    details: dict[str, Json | None] = {
        "status": answer.status,
        "provider_code": _provider_code(answer, context.provider.error_code),
        "request_id": request_id(answer, context),
        "retry_after_ms": context.delay_ms(answer),
        "flaw": flaw,
    }
    if details["retry_after_ms"] is None and answer.header("retry-after"):
        details["retry_after_ignored"] = True
    return told(
        code,
        {name: detail for name, detail in details.items() if detail is not None},
        category=_category(code, answer.status),
        retryable=retryable,
    )


def _category(code: str, status: int) -> ErrorCategory:
    """A refusal is the provider's; anything else lies between it and us."""
    if code != codes.REFUSED:
        return ErrorCategory.CONNECTOR
    return _CATEGORIES.get(status, ErrorCategory.PERMANENT)


def _provider_code(answer: Answer, pointer: str | None) -> str | None:
    """The provider's own word for a refusal, if it looks like a code."""
    if pointer is None:
        return None
    try:
        code = at(body_of(answer), pointer)
    except Unreadable:
        return None
    return code if isinstance(code, str) and _PROVIDER_CODE.fullmatch(code) else None
