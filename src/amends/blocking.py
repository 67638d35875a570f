"""`Amends` for programs without an event loop: the same calls, and each one blocks.

    with amends.blocking.open("sqlite:///amends.db", [charge]) as portal:
        done = portal.execute(charge, Order(1200, "eur"))

Invariants: there is no second implementation. Every method is the method of `Amends` with the same
name, arguments and errors, run in one event loop that has a thread of its own; any thread may call
it. Waiting is all that a caller can stop: Ctrl-C ends the wait, never the attempt, whose outcome is
stored and found again like any other.

Deliberately not here: a rule, a connector, a retry.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Concatenate, Final, ParamSpec, TypeVar

from amends.app.amends import Amends, Opening
from amends.contracts.errors import Misuse
from amends.contracts.principals import Identity, Principal

P = ParamSpec("P")
R = TypeVar("R")

_THREAD: Final = "amends-portal"


class LoopThread:
    """An event loop in a thread of its own, for as long as the ``with`` block lasts."""

    def __init__(self) -> None:
        self._started: concurrent.futures.Future[asyncio.AbstractEventLoop] = (
            concurrent.futures.Future()
        )
        self._stop = asyncio.Event()
        # A daemon: a program that ends without leaving the block is not held back by it.
        self._thread = threading.Thread(target=self._serve, name=_THREAD, daemon=True)

    def __enter__(self) -> "LoopThread":
        """Start the thread, and return when its loop runs."""
        self._thread.start()
        self._loop = self._started.result()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the loop, cancel what is left in it, and wait for the thread."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def run(self, asked: Coroutine[object, object, R]) -> R:
        """Run a coroutine in the loop and wait for its answer.

        An interrupted wait leaves the coroutine running. Raises `Misuse` (`blocking.closed`,
        `blocking.own_loop`) without having begun it, and whatever it raises itself.
        """
        if not self._thread.is_alive():
            asked.close()
            raise _closed()
        if threading.current_thread() is self._thread:
            asked.close()
            raise _own_loop()
        return asyncio.run_coroutine_threadsafe(asked, self._loop).result()

    def _serve(self) -> None:
        try:
            asyncio.run(self._until_stopped())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _until_stopped(self) -> None:
        self._started.set_result(asyncio.get_running_loop())
        await self._stop.wait()


def _blocking(
    method: Callable[Concatenate[Amends, P], Coroutine[object, object, R]],
) -> "Callable[Concatenate[Portal, P], R]":
    """The same method, with the same signature, that returns when its coroutine has ended."""

    @wraps(method)
    def call(self: "Portal", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._run(method(self._amends, *args, **kwargs))

    return call


class Portal:
    """One principal's view of a running engine, for plain code; see `Amends` for each method."""

    def __init__(self, amends: Amends, loop: LoopThread) -> None:
        self._amends = amends
        self._run = loop.run
        self._loop = loop

    execute = _blocking(Amends.execute)
    dry_run = _blocking(Amends.dry_run)
    plan = _blocking(Amends.plan)
    commit = _blocking(Amends.commit)
    compensate = _blocking(Amends.compensate)
    reconcile = _blocking(Amends.reconcile)
    transact = _blocking(Amends.transact)
    wait_for_approval = _blocking(Amends.wait_for_approval)
    resume = _blocking(Amends.resume)

    approve = _blocking(Amends.approve)
    deny = _blocking(Amends.deny)
    revoke = _blocking(Amends.revoke)
    cancel = _blocking(Amends.cancel)
    withdraw = _blocking(Amends.withdraw)
    settle = _blocking(Amends.settle)
    release = _blocking(Amends.release)
    rule = _blocking(Amends.rule)
    evidence = _blocking(Amends.evidence)

    delegate = _blocking(Amends.delegate)
    revoke_delegation = _blocking(Amends.revoke_delegation)
    delegations = _blocking(Amends.delegations)

    place_hold = _blocking(Amends.place_hold)
    lift_hold = _blocking(Amends.lift_hold)
    holds = _blocking(Amends.holds)
    retain = _blocking(Amends.retain)

    get = _blocking(Amends.get)
    list = _blocking(Amends.list)
    approvals = _blocking(Amends.approvals)
    approval = _blocking(Amends.approval)
    refusals = _blocking(Amends.refusals)
    receipts = _blocking(Amends.receipts)
    keys = _blocking(Amends.keys)
    verify = _blocking(Amends.verify)

    def acting_as(self, principal: Principal, identity: Identity | None = None) -> "Portal":
        """The same engine for another principal; nothing is opened or closed."""
        return Portal(self._amends.acting_as(principal, identity), self._loop)


def _opens(opening: Callable[P, Opening]) -> Callable[P, AbstractContextManager[Portal]]:
    @wraps(opening)
    @contextmanager
    def opened(*args: P.args, **kwargs: P.kwargs) -> Iterator[Portal]:
        with LoopThread() as loop:
            asked = opening(*args, **kwargs)
            amends = loop.run(asked.__aenter__())
            try:
                yield Portal(amends, loop)
            finally:
                loop.run(asked.__aexit__(None, None, None))

    opened.__doc__ = "Open a store with its capabilities for a ``with`` block; see `Amends.open`."
    return opened


open = _opens(Amends.open)


def _closed() -> Misuse:
    return Misuse(
        "blocking.closed",
        "The portal was used after its block had ended.",
        next_step="Call it inside the block.",
    )


def _own_loop() -> Misuse:
    return Misuse(
        "blocking.own_loop",
        "A coroutine of the portal's own loop would wait for itself.",
        next_step="Write the handler as a plain def, or await the methods of Amends.",
    )
