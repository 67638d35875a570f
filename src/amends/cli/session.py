"""One command over a store: who acts, what is open, and what a signal means while it works.

Invariants: apps and handlers cannot write on standard output, which belongs to the answer; no
command recovers anything by itself but those that say so; the first signal makes a command take no
new work, waits for what was begun as long as the settings drain, and then tells what is known. A
closed pipe is met only after everything is durable.

Deliberately not here: any rule about what may be done.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import redirect_stdout
from typing import TypeAlias, TypeVar

from msgspec.structs import replace

from amends.app.amends import Amends, Opening
from amends.cli import acting, apps
from amends.cli.answers import Answer, give
from amends.cli.hints import hinted, unknown_capability
from amends.cli.options import Options
from amends.cli.paper import notes
from amends.cli.results import Results
from amends.cli.shown import Values
from amends.cli.stopping import Stop
from amends.cli.waiting import shown_wait
from amends.contracts.codes import coded
from amends.contracts.declarations import Capability
from amends.contracts.errors import AmendsError, Conflict, Unavailable
from amends.contracts.ids import ACTION_PREFIX, ApprovalId, CapabilityId
from amends.contracts.json_types import Json
from amends.contracts.principals import Caller
from amends.runtime.deciding import Deciding
from amends.runtime.engine import Engine
from amends.wiring.identifiers import new_id
from amends.wiring.places import OnServer, database_of, existing_database, is_on_a_server
from amends.wiring.surveying import survey_of

T = TypeVar("T")


class Session:
    """What a command works with while its store is open."""

    def __init__(
        self,
        amends: Amends,
        engine: Engine,
        caller: Caller,
        options: Options,
        stop: Stop,
        drain_ms: int,
    ) -> None:
        self.amends = amends
        self.caller = caller
        self.options = options
        self.stop = stop
        self.notes = notes()
        self.engine = engine
        self.results = Results(Values(self.engine.environment.registry), options.again())
        self._drain_ms = drain_ms

    def capability(self, capability_id: str) -> Capability:
        """A registered capability. Raises `Refused` (`capability.not_found`)."""
        registry = self.engine.environment.registry
        found = registry.find(CapabilityId(capability_id))
        if found is None:
            raise unknown_capability(capability_id, [one.capability.id for one in registry.all()])
        return found.capability

    async def carry(
        self, call: Coroutine[object, object, T], doing: dict[str, Json], *, at_most_ms: int
    ) -> T:
        """Have something done, and wait for it unless a signal comes.

        After a signal the attempt has the settings' drain time to end. What is returned is durable
        in any case, an outcome that nobody knows included. Raises what the call raises, and what
        the signal means where nothing had begun.
        """
        self.stop.check()
        task = asyncio.ensure_future(call)
        self.stop.doing = doing
        async with shown_wait("Waiting for the provider", at_most_ms / 1000):
            ended = await self.stop.first(task)
        if not ended:
            self._say_that_it_goes_on()
            await self.engine.close(self._drain_ms)
            await asyncio.wait((task,), timeout=self._drain_ms / 1000 + 1)
        try:
            return await _settled(task, doing)
        except Unavailable as error:
            if error.code == "runtime.closed":
                self.stop.check()
            raise
        finally:
            self.stop.doing = None

    def _say_that_it_goes_on(self) -> None:
        seconds = f"{self._drain_ms / 1000:g} s"
        self.notes.line(
            ("Stopping. ", "yellow"),
            f"What was begun cannot be taken back: it has {seconds} to end. "
            "Once more, and this command leaves at once.",
        )

    async def decided(self, approval_id: ApprovalId, wait_s: float) -> bool:
        """Whether people have decided on a request before the time is over or a signal comes."""
        waiting = Deciding(self.engine).wait(self.caller, approval_id, wait_s)
        task = asyncio.ensure_future(waiting)
        async with shown_wait("Waiting for an approval", wait_s):
            ended = await self.stop.first(task)
        if not ended:
            task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return False
        except Conflict:  # nobody has, so far
            return False
        return True

    async def pause(self, seconds: float) -> bool:
        """Wait for news of the store, at most so long, or for a signal; false when one came."""
        news = asyncio.ensure_future(self.engine.environment.store.news(seconds))
        if not await self.stop.first(news):
            news.cancel()
            await asyncio.wait((news,))
            return False
        await news
        return self.stop.number is None

    async def until_stopped(self, call: Coroutine[object, object, T]) -> T:
        """Wait for something that only looks; a signal ends the wait, and means what it says."""
        task = asyncio.ensure_future(call)
        if not await self.stop.first(task):
            task.cancel()
            await asyncio.wait((task,))
            self.stop.check()
        return await task


Work: TypeAlias = Callable[[Session], Awaitable[Answer]]


def new_action_id() -> str:
    """An action id, made before anything is done, so that it can be asked about in any case."""
    return new_id(ACTION_PREFIX)


def act(
    options: Options,
    work: Work,
    *,
    needs_app: bool = False,
    creates: bool = False,
    recover: bool = False,
    looks: bool = False,
) -> int:
    """Open the store, do the work, close it and print the answer; the exit code.

    `needs_app` refuses to go on without capabilities, `creates` may make a new store, `recover`
    runs the sweeper meanwhile, `looks` signs nothing and needs no key. Raises whatever refuses the
    work.
    """
    stdout = sys.stdout
    with redirect_stdout(sys.stderr):
        caller = acting.caller(options)
        if needs_app and options.app is None:
            raise apps.app_required()
        if not creates:
            require_store(options.store)
        capabilities = apps.load_capabilities(options.app)
        settings = replace(apps.load_settings(options.settings), recover=recover, looks=looks)
        if settings.principals is None and options.principals is not None:
            settings = replace(settings, principals=acting.FilePrincipals(options.principals))
        if options.policy is not None:
            settings = replace(settings, policy=options.policy)
        opening = Opening(options.store, capabilities, caller, settings)
        try:
            answer, interrupted = asyncio.run(
                _within(opening, caller, options, settings.drain_ms, work)
            )
        except AmendsError as error:
            raise hinted(error, options.again()) from None
    return give(answer, stdout, as_json=options.json, utc=options.utc, interrupted=interrupted)


def require_store(url: str) -> None:
    """Let pass a store that is there already: looking makes none.

    Raises `Unavailable` (`store.not_found`) and `Misuse` (`store.url_unknown`), and for a server
    what looking there does.
    """
    if is_on_a_server(url):
        with survey_of(OnServer(url)):
            return
    if database_of(url) is not None:
        existing_database(url)


async def _within(
    opening: Opening, caller: Caller, options: Options, drain_ms: int, work: Work
) -> tuple[Answer, bool]:
    stop = Stop(as_json=options.json)
    with stop.listening():
        async with opening as amends:
            engine = opening.runtime.engine
            stop.refuse_new = engine.stop_taking
            stop.check()
            session = Session(amends, engine, caller, options, stop, drain_ms)
            answer = await work(session)
    return answer, stop.number is not None


async def _settled(task: "asyncio.Future[T]", doing: dict[str, Json]) -> T:
    """What the call came to; nobody knows, where it does not end even now."""
    if not task.done():
        task.cancel()
    try:
        return await task
    except asyncio.CancelledError:
        raise coded("transaction.outcome_unknown", doing) from None
