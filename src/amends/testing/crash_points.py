"""The points at which a process can die around one attempt, and being told when one is reached.

There are five for every attempt, since everything an attempt writes is one claim before the call
and one settlement after it; the call itself has two sides, before and after the effect. A store and
a provider are watched from outside: the code that is to survive does not know of it.

Invariants: a point is reached exactly where it says, with nothing in between; what was asked of the
store or the provider is carried out unchanged.

Deliberately not here: what happens at a point.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Final, TypeAlias, cast

from amends.contracts.enums import Mode
from amends.contracts.evidence import ReceiptType
from amends.stores.port import Accepted, Append, ChangeSet, Lost, Store
from amends.testing.provider_api import Hook, Phase, Request


class CrashPoint(StrEnum):
    """Where an attempt can be interrupted for good."""

    BEFORE_CLAIM = "before_claim"
    AFTER_CLAIM = "after_claim"
    BEFORE_EFFECT = "before_effect"
    AFTER_EFFECT = "after_effect"
    BEFORE_SETTLE = "before_settle"
    AFTER_SETTLE = "after_settle"


Reached: TypeAlias = Callable[[CrashPoint, Request | None], None]
"""Called at each point, in the call with what the provider is asked for.

It may end the process; when it returns, all goes on as if unwatched.
"""

_REQUESTS: Final = (
    (Mode.EXECUTE, Request.CHARGE),
    (Mode.COMMIT, Request.CHARGE),
    (Mode.COMPENSATE, Request.REFUND),
    (Mode.RECONCILE, Request.FIND),
)


_BEGINNINGS: Final = frozenset(
    {
        ReceiptType.EXECUTION_STARTED,
        ReceiptType.COMMIT_STARTED,
        ReceiptType.COMPENSATION_STARTED,
        ReceiptType.RECONCILIATION_STARTED,
    }
)
_ENDINGS: Final = frozenset(
    {
        ReceiptType.COMMITTED,
        ReceiptType.COMPENSATED,
        ReceiptType.FAILED,
        ReceiptType.OUTCOME_UNKNOWN,
        ReceiptType.RECONCILED,
    }
)


def request_of(mode: Mode) -> Request:
    """What an attempt of this mode asks the provider for; a refund looks its charge up before."""
    return dict(_REQUESTS)[mode]


def watch_store(store: Store, reached: Reached) -> Store:
    """The same store, telling before and after each claim and each settlement.

    A lapse that a sweeper writes counts as the settlement of the attempt that it ends. A change set
    that loses is told before it only.
    """
    return cast("Store", _WatchedStore(store, reached))


def watch_provider(reached: Reached) -> Hook:
    """A hook for `ScriptedProvider` that tells when a request is sent, and when it took effect.

    A look-up has no effect; there the second point is the provider's having looked.
    """

    def hook(phase: Phase, request: Request) -> None:
        match phase:
            case Phase.SENT:
                reached(CrashPoint.BEFORE_EFFECT, request)
            case Phase.EFFECT:
                reached(CrashPoint.AFTER_EFFECT, request)
            case Phase.CONNECT | Phase.ANSWER:
                return

    return hook


class _WatchedStore:
    """Stands in for a store; everything but `commit` is the store's own."""

    def __init__(self, store: Store, reached: Reached) -> None:
        self._store = store
        self._reached = reached

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def commit(self, change_set: ChangeSet) -> Accepted | Lost:
        """Commit and tell; see `Store.commit`."""
        points = _points_around(change_set)
        if points is None:
            return await self._store.commit(change_set)
        before, after = points
        self._reached(before, None)
        answer = await self._store.commit(change_set)
        if isinstance(answer, Accepted):
            self._reached(after, None)
        return answer


def _points_around(change_set: ChangeSet) -> tuple[CrashPoint, CrashPoint] | None:
    """What the receipts of a change set are evidence of tells what it does to an attempt."""
    steps = {
        receipt.step.type
        for change in change_set.changes
        if isinstance(change, Append)
        for receipt in change.receipts
        if receipt.step.fence is not None
    }
    if steps & _BEGINNINGS:
        return CrashPoint.BEFORE_CLAIM, CrashPoint.AFTER_CLAIM
    if steps & _ENDINGS:
        return CrashPoint.BEFORE_SETTLE, CrashPoint.AFTER_SETTLE
    return None
