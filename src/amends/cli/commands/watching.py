"""`amends tx watch`: what happens to one transaction, as it happens, until it has ended.

Steps are printed as their receipts appear, so a pipe gets the same lines as a terminal. It only
looks: Ctrl-C ends the looking and nothing else. It ends by itself, too, where nobody recovers what
has been due for a while: looking on would be waiting for nothing.
"""

import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from amends.cli.options import DEFAULTS, Flag, Options

if TYPE_CHECKING:
    from amends.cli.answers import Answer
    from amends.cli.paper import Paper
    from amends.cli.session import Session
    from amends.runtime.reading import View

_POLL_S: Final = 0.3
_NOBODY_CAME: Final = timedelta(seconds=10)
_ENDED: Final = frozenset(
    "dry_run_completed committed compensated failed reconciled rollback_not_supported "
    "cancelled".split()
)


def watch(
    id: Annotated[str, Parameter(help="A transaction's, plan's or action's id.")],
    /,
    *,
    recover: Annotated[Flag, Parameter(help="Look after what is due meanwhile.")] = False,
    options: Options = DEFAULTS,
) -> int:
    """Follow one transaction until it has ended."""
    from amends.cli.inputs import identifier
    from amends.cli.paper import Paper
    from amends.cli.session import act

    id_ = identifier(id, "id")
    paper = None if options.json else Paper(sys.stdout, utc=options.utc)

    async def work(session: "Session") -> "Answer":
        return await _watch(session, id_, paper, recover)

    return act(options, work, needs_app=recover, recover=recover, looks=not recover)


async def _watch(session: "Session", id_: str, paper: "Paper | None", recover: bool) -> "Answer":
    from amends.cli.viewing import find, receipt_row
    from amends.cli.waiting import shown_wait

    told = 0
    async with shown_wait("Watching") as make_room:
        while True:
            view = await session.until_stopped(find(session.amends, id_, include_receipts=True))
            news = view.receipts[told:]
            if news and paper is not None:
                make_room()
                paper.rows([receipt_row(paper, one) for one in news])
            told = len(view.receipts)
            ended = has_ended(view, datetime.now(UTC), recover=recover)
            if ended or not await session.pause(_POLL_S):
                break
    return _answer(session, view)


def has_ended(view: "View", now: datetime, *, recover: bool) -> bool:
    """Whether nothing more happens by itself: it is settled, or a person has to go on.

    `recover` says that this process looks after what is due.
    """
    from amends.cli.viewing import lease_end_of

    result = view.result
    if view.frozen is not None or result.status.value in _ENDED:
        return True
    if result.status.value == "planned":
        return result.plan_expires_at is not None and result.plan_expires_at <= now
    if result.status.value == "outcome_unknown" and result.attention is not None:
        return True
    due = lease_end_of(view) or result.reconcile_after
    return due is not None and not recover and due + _NOBODY_CAME <= now


def _answer(session: "Session", view: "View") -> "Answer":
    from amends.cli.answers import Answer
    from amends.cli.results import Wanted, shortfall
    from amends.cli.viewing import Views

    result = view.result
    only_looked = session.stop.number is not None or result.mode.value in ("plan", "dry_run")
    return Answer(
        data=Views(session.results).document(view),
        tell=lambda paper: session.results.tell(paper, result, view.plan),
        error=shortfall(result, Wanted.ANYTHING if only_looked else Wanted.EFFECT),
    )
