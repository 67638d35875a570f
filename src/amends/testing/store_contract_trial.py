"""What the parts of the store contract share: the bench, and shorthands for a change set.

Deliberately not here: any promise.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable
from datetime import datetime

from amends.contracts.errors import AmendsError
from amends.stores.port import Accepted, Change, ChangeSet, Loss, Lost, Store
from amends.testing.store_bench import StoreBench


class Trial(ABC):
    """Tests over the bench that a subclass names."""

    @abstractmethod
    def bench(self) -> StoreBench:
        """What the driver stands on: fresh and empty each time."""


async def commit(store: Store, *changes: Change, not_after: datetime | None = None) -> Accepted:
    """Make the changes, which must be accepted."""
    answer = await store.commit(ChangeSet(changes=changes, not_after=not_after))
    assert isinstance(answer, Accepted), answer
    return answer


async def lost(
    store: Store, *changes: Change, not_after: datetime | None = None
) -> tuple[int, Loss]:
    """Ask for the changes, which must lose; which one did, and why."""
    answer = await store.commit(ChangeSet(changes=changes, not_after=not_after))
    assert isinstance(answer, Lost), answer
    return answer.index, answer.loss


async def error_of(call: Awaitable[object]) -> AmendsError:
    """The error of ours that a call raises."""
    try:
        await call
    except AmendsError as error:
        return error
    raise AssertionError("an error was expected")
