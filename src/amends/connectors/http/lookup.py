"""Looking an effect up: by its id where that is known, else through a list by our key.

What is found must carry our key or the recorded id, and agree with the declared comparisons, before
its state is believed. "Not found" is said only of an object that the provider does not know under
its id, and of a list that was read in this very run from its first page to its last. Everything
else says nothing, and a list that was not finished is gone on with from its last good page. Such a
run cannot end in "not found", since an effect may meanwhile have come to stand on a page before
it: it begins anew.

| the look-up shows | is told as |
|---|---|
| our object | what its state says |
| an object with our key or id that does not agree, or two of them on one page | uncertain |
| no object, or the end of the whole list | not found |
| that it is gone (410) | uncertain: it was there once |
| anything that cannot be read, or a part of the list | uncertain, with a cursor |

Deliberately not here: what "not found" proves, and when to look again.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias, assert_never

from amends.connectors.http import codes
from amends.connectors.http.classify import Classification, Sight
from amends.connectors.http.codes import told
from amends.connectors.http.failures import Context, body_of, error_of, unanswered, unsent
from amends.connectors.http.forms import ByIdForm, ByKeyForm, LookUpForm, RequestForm
from amends.connectors.http.messages import Answer, NoAnswer, NotSent, Reply
from amends.connectors.http.objects import agrees, judge_object, operation_of
from amends.connectors.http.pages import Page, parameters, read_page
from amends.connectors.http.reading import Unreadable, at
from amends.contracts.json_types import Json
from amends.contracts.outcomes import ErrorInfo, NotFound, Outcome, Pending, Uncertain

FROM_THE_START: Final = "amends:from-the-start"
"""The cursor of a list that has to be read anew; no other cursor is ours."""

Ask: TypeAlias = Callable[[RequestForm, Mapping[str, str]], Awaitable[Reply]]
"""Sends a request of a look-up, with further parameters of its query."""

TimeIsShort: TypeAlias = Callable[[], bool]


async def look_up(
    form: LookUpForm, context: Context, ask: Ask, time_is_short: TimeIsShort
) -> Outcome:
    """What the provider knows of the effect."""
    call = context.call
    if form.by_id is not None and call.provider_operation is not None:
        return await _by_id(form, form.by_id, context, ask)
    if form.by_key is not None and call.provider_key is not None:
        return await _Search(form, form.by_key, context, ask, time_is_short).run()
    return Uncertain(error=told(codes.LOOKUP_UNDECLARED))


async def _by_id(form: LookUpForm, way: ByIdForm, context: Context, ask: Ask) -> Outcome:
    reply = await ask(way.request, {})
    if not isinstance(reply, Answer):
        return Uncertain(error=_unheard(reply))
    sight = _sight(way.statuses, reply)
    match sight:
        case Sight.FOUND:
            return _found_by_id(form, way, reply, context)
        case Sight.PENDING:
            return Pending(retry_after_ms=context.delay_ms(reply))
        case Sight.NOT_FOUND:
            return NotFound()
        case Sight.GONE:
            return _unclear(codes.LOOKUP_GONE, reply, context)
        case Sight.UNREADABLE:
            return _unclear(codes.LOOKUP_UNREADABLE, reply, context)
        case _:
            assert_never(sight)


def _sight(statuses: Classification[Sight], answer: Answer) -> Sight:
    return statuses.of(answer.status).word


def _found_by_id(form: LookUpForm, way: ByIdForm, answer: Answer, context: Context) -> Outcome:
    try:
        item = at(body_of(answer), way.at)
    except Unreadable as unreadable:
        return _unclear(codes.LOOKUP_UNREADABLE, answer, context, unreadable.flaw)
    if not isinstance(item, dict) or not item:
        return _unclear(codes.LOOKUP_UNREADABLE, answer, context, "no_object")
    asked, found = context.call.provider_operation, operation_of(form.object, item, answer, context)
    if asked is not None and found is not None and asked.operation_id != found.operation_id:
        return _unclear(codes.LOOKUP_MISMATCH, answer, context)
    return _judge(form, item, answer, context)


def _judge(form: LookUpForm, item: Json, answer: Answer, context: Context) -> Outcome:
    if not agrees(item, context.expected):
        return _unclear(codes.LOOKUP_MISMATCH, answer, context)
    return judge_object(form.object, item, answer, context)


def _unclear(code: str, answer: Answer, context: Context, flaw: str | None = None) -> Uncertain:
    return Uncertain(
        error=error_of(answer, code, context, flaw=flaw),
        retry_after_ms=context.delay_ms(answer),
    )


def _unheard(reply: NotSent | NoAnswer) -> ErrorInfo:
    return unanswered(reply) if isinstance(reply, NoAnswer) else unsent(reply)


class _Search:
    """One run through a list, of a bounded number of pages.

    `_next` is the cursor of the page to read, `_good` that of the last page that could be read; the
    first page has none.
    """

    def __init__(
        self,
        form: LookUpForm,
        way: ByKeyForm,
        context: Context,
        ask: Ask,
        time_is_short: TimeIsShort,
    ) -> None:
        self._form = form
        self._way = way
        self._context = context
        self._ask = ask
        self._time_is_short = time_is_short
        kept = context.call.cursor
        self._next = None if kept == FROM_THE_START else kept
        self._is_whole = self._next is None
        self._good: str | None = None

    async def run(self) -> Outcome:
        """Read page after page until the effect is found, or the run has to end."""
        seen = {self._next}
        for _ in range(self._way.max_pages):
            if self._time_is_short():
                return self._stop("time", self._next)
            page = await self._read()
            if not isinstance(page, Page):
                return page
            self._good, self._next = self._next, page.next
            if page.next is None:
                return NotFound() if self._is_whole else self._stop("not_whole", None)
            if page.next in seen:
                return self._stop("repeated_cursor", self._good)
            seen.add(page.next)
        return self._stop("page_limit", self._next)

    async def _read(self) -> Page | Outcome:
        """The next page; or the outcome, where our item is on it or it cannot be read."""
        reply = await self._ask(self._way.request, parameters(self._way.paging, self._next))
        if not isinstance(reply, Answer):
            return self._stopped_by(_unheard(reply), None)
        sight = _sight(self._way.statuses, reply)
        if sight is Sight.NOT_FOUND:
            return Page([], None)
        if sight is not Sight.FOUND:
            return self._unreadable(reply, None)
        try:
            page = read_page(self._way, body_of(reply), self._next)
        except Unreadable as unreadable:
            return self._unreadable(reply, unreadable.flaw)
        ours = [item for item in page.items if self._is_ours(item)]
        if len(ours) > 1:
            return _unclear(codes.LOOKUP_AMBIGUOUS, reply, self._context)
        return _judge(self._form, ours[0], reply, self._context) if ours else page

    def _is_ours(self, item: Json) -> bool:
        return at(item, self._way.key) == self._context.call.provider_key

    def _unreadable(self, answer: Answer, flaw: str | None) -> Outcome:
        error = error_of(answer, codes.LOOKUP_UNREADABLE, self._context, flaw=flaw)
        return self._stopped_by(error, self._context.delay_ms(answer))

    def _stopped_by(self, error: ErrorInfo, delay_ms: int | None) -> Uncertain:
        """A page failed: the last good one is read again, since its continuation may have ended."""
        return Uncertain(error=error, retry_after_ms=delay_ms, cursor=self._good or FROM_THE_START)

    def _stop(self, reason: str, cursor: str | None) -> Uncertain:
        error = told(codes.LOOKUP_INCOMPLETE, {"reason": reason})
        return Uncertain(error=error, cursor=cursor or FROM_THE_START)
