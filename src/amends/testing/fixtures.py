"""Pytest fixtures of the kit. Load them with `pytest_plugins = ["amends.testing.fixtures"]`.

`clock` stands still, `ids` count, `provider` is a scripted one on that clock, `workbench` is a
whole runtime over a memory store with that provider, and `make_workbench` makes more of them, as
declared. What a test leaves running is cut off when it ends.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TypeAlias

import pytest
import pytest_asyncio

from amends.testing.clock import CountingIds, FixedClock
from amends.testing.provider import ScriptedProvider
from amends.testing.workbench import Workbench, seconds_of

MakeWorkbench: TypeAlias = Callable[..., Awaitable[Workbench]]


@pytest.fixture
def clock() -> FixedClock:
    """A clock that moves only when told to."""
    return FixedClock()


@pytest.fixture
def ids() -> CountingIds:
    """Ids that count."""
    return CountingIds()


@pytest.fixture
def provider(clock: FixedClock) -> ScriptedProvider:
    """A provider on which everything goes well, with the books by which effects are counted."""
    return ScriptedProvider(clock=seconds_of(clock))


@pytest_asyncio.fixture
async def make_workbench() -> AsyncIterator[MakeWorkbench]:
    """Makes workbenches that are closed at the end; takes what `Workbench` takes."""
    async with AsyncExitStack() as opened:

        async def make(*args: object, **options: object) -> Workbench:
            bench: Callable[..., Workbench] = Workbench
            return await opened.enter_async_context(bench(*args, **options))

        yield make


@pytest_asyncio.fixture
async def workbench(
    make_workbench: MakeWorkbench, clock: FixedClock, provider: ScriptedProvider
) -> Workbench:
    """A runtime whose one capability charges through `provider`."""
    return await make_workbench(clock=clock, provider=provider)
