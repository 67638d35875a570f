"""From the reply to an effect's one request to its outcome: first the status, then the object.

The more careful word counts. A refusal by status is definite in the attempt that could have had the
first effect; in a re-drive, where an earlier request may have had it, only if it is declared. An
answer must agree with what was asked for before anything else of it is believed. One that broke off
is no answer, whatever its status: what stands between us and the provider is not to be relied on.

Deliberately not here: look-ups (`lookup`), and anything that waits.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, assert_never

from msgspec import UNSET

from amends.connectors.http import codes
from amends.connectors.http.classify import Meaning
from amends.connectors.http.failures import Context, body_of, error_of, unanswered, unsent
from amends.connectors.http.forms import EffectForm
from amends.connectors.http.messages import BROKEN_OFF, Answer, NoAnswer, NotSent, Reply
from amends.connectors.http.objects import agrees, judge_object, operation_of
from amends.connectors.http.reading import Unreadable, UnreadableAnswer, at
from amends.connectors.port import Call
from amends.contracts.enums import Handler
from amends.contracts.outcomes import Applied, ErrorInfo, NotApplied, Outcome, Pending, Uncertain

_CONFLICT: Final = 409
_CODES: Final[Mapping[int, str]] = MappingProxyType({3: codes.REDIRECTED, 5: codes.SERVER_ERROR})


def judge_effect(form: EffectForm, reply: Reply, context: Context) -> Outcome:
    """The outcome of the one request of an effect, or of a preview."""
    match reply:
        case NotSent():
            return not_entered(context.call, unsent(reply))
        case NoAnswer():
            return Uncertain(error=unanswered(reply))
        case Answer(flaw=flaw) if flaw == BROKEN_OFF:
            error = error_of(reply, codes.ANSWER_LOST, context, flaw=flaw)
            return Uncertain(error=error, retry_after_ms=context.delay_ms(reply))
        case Answer():
            return _judge_answer(form, reply, context)
        case _:
            assert_never(reply)


def not_entered(call: Call, error: ErrorInfo) -> Outcome:
    """Nothing was sent by this attempt; a look-up or a re-drive has an earlier one to think of."""
    if call.handler is Handler.RECONCILE or call.redrive:
        return Uncertain(error=error)
    return NotApplied(error=error)


def _judge_answer(form: EffectForm, answer: Answer, context: Context) -> Outcome:
    call = context.call
    ruled = form.statuses.of(answer.status)
    is_sole = call.number <= 1 and not call.redrive
    match ruled.word:
        case Meaning.APPLIED:
            return _judge_done(form, answer, context)
        case Meaning.PENDING:
            return _judge_pending(form, answer, context)
        case Meaning.NOT_APPLIED if ruled.declared or not call.redrive:
            return NotApplied(error=error_of(answer, codes.REFUSED, context))
        case Meaning.NOT_APPLIED_RETRYABLE if ruled.declared or not call.redrive:
            return NotApplied(error=error_of(answer, codes.REFUSED, context, retryable=True))
        case Meaning.CONFLICT if is_sole:
            return NotApplied(error=error_of(answer, codes.CONFLICT, context))
        case _:
            return Uncertain(
                error=error_of(answer, _uncertain_code(answer.status, ruled.word), context),
                retry_after_ms=context.delay_ms(answer),
            )


def _uncertain_code(status: int, meaning: Meaning) -> str:
    if status == _CONFLICT or meaning is Meaning.CONFLICT:
        return codes.CONFLICT
    return _CODES.get(status // 100, codes.STATUS_UNCERTAIN)


def _judge_done(form: EffectForm, answer: Answer, context: Context) -> Outcome:
    """A status that says done; without anything to compare, it has the last word."""
    try:
        whole = body_of(answer)
    except Unreadable as unreadable:
        if form.object.state is None and not context.expected:
            seen = UnreadableAnswer(answer.status, unreadable.flaw, len(answer.body))
            return Applied(output=seen)
        error = error_of(answer, codes.ANSWER_UNREADABLE, context, flaw=unreadable.flaw)
        return Uncertain(error=error)
    item = at(whole, form.at)
    if not agrees(item, context.expected):
        return Uncertain(error=error_of(answer, codes.ANSWER_MISMATCH, context))
    if item is UNSET and form.object.state is None:
        return Applied(output=None if whole is UNSET else whole)
    return judge_object(form.object, item, answer, context)


def _judge_pending(form: EffectForm, answer: Answer, context: Context) -> Pending:
    try:
        item = at(body_of(answer), form.at)
    except Unreadable:
        item = UNSET
    return Pending(
        retry_after_ms=context.delay_ms(answer),
        operation=operation_of(form.object, item, answer, context),
    )
