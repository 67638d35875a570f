"""One request after the other through the order that nothing may change (WS-1, GR-6).

    eligible → charged → admitted → *persisted* → handler → *persisted* → answered

*Existing* never enters a handler that has an effect. An open entry may be looked up (WS-3), which
moves it forward or leaves it as it is. After a persisted admission, everything but a definite and
durable status is `Indeterminate` for good: the shell poisons the session (WS-2).

Deliberately not here: frames, the channel, and which requests arrive.
"""

import asyncio
from collections import Counter
from typing import Final

from amends.connectors.blocking import RunSync
from amends.contracts.codes import coded
from amends.contracts.errors import AmendsError, OutcomeUnknown
from amends.contracts.worker_grant import Manifest
from amends.contracts.worker_messages import (
    AskCompensationState,
    CompensationState,
    Indeterminate,
    NoRecord,
    TerminalRecord,
)
from amends.contracts.worker_payload import Running, Status, StoredState
from amends.journal.admission import Contradicted, Dispatch
from amends.journal.records import is_open
from amends.journal.reports import report_of
from amends.protocol.versions import Version
from amends.protocol.worker import WorkerSession
from amends.worker.adapters import Adapters, Call, LookUp
from amends.worker.entering import enter, read_status
from amends.worker.entries import (
    EffectMessage,
    Entry,
    LookUpMessage,
    admit,
    entry_of,
    find,
    learn,
    observe,
    state_of,
)
from amends.worker.keeping import JournalKeeper

LOOKUPS_OF_ENTRY: Final = 16
"""How often one session looks one entry up, however often it is asked."""


class Lost(Exception):
    """An effect may have happened, and no durable status says so: poison what this belongs to."""

    def __init__(self, entry: Entry) -> None:
        super().__init__()
        inverse = entry.compensation_key is not None
        code = f"worker.indeterminate_{'compensation' if inverse else 'operation'}"
        error = coded(code, {"operation_key": entry.operation_key})
        assert isinstance(error, OutcomeUnknown)
        self.error: Final = error


class Service:
    """What one session does with its journal and adapters."""

    def __init__(
        self,
        session: WorkerSession,
        keeper: JournalKeeper,
        adapters: Adapters,
        manifest: Manifest,
        threads: RunSync,
        *,
        predecessor_gone: bool,
    ) -> None:
        self._session = session
        self._keeper = keeper
        self._adapters = adapters
        self._grants = {grant.tool: grant for grant in manifest.grants}
        self._threads = threads
        self._predecessor_gone = predecessor_gone
        self._opened_at = asyncio.get_running_loop().time()
        self._changing = asyncio.Lock()
        self._live: dict[Entry, asyncio.Future[Status]] = {}
        self._begun: set[Entry] = set()
        self._looked: Counter[Entry] = Counter()
        self._stops: dict[str, asyncio.Event] = {}

    async def perform(self, message: EffectMessage) -> Status | Indeterminate:
        """Carry an effect out, if it is not there yet; what is known of it.

        Raises `Refused` before anything was done, `Lost`, and what persisting raises.
        """
        entry = entry_of(message)
        adapter, handler = self._adapters.require(entry.tool, entry.effect)
        if await self._is_admitted(message, entry):
            return await self._known(entry)
        stop = self._stops.setdefault(message.request.request_id, asyncio.Event())
        call = Call(*entry, payload=message.request.payload, cancelled=stop)
        live = self._live[entry]
        try:
            value = await enter(handler, call, adapter.handler_limit_s, self._threads)
            status = read_status(value, self._grants[entry.tool])
            await self._record(entry, status)
            live.set_result(status)
            return status
        except Exception:
            raise Lost(entry) from None  # whatever it was, it came after the admission
        finally:
            del self._live[entry]
            live.cancel()

    async def look_up(self, message: LookUpMessage) -> Status | Indeterminate | CompensationState:
        """What is known of an effect, after looking for it if it is open. Also while frozen.

        Raises `Refused` before anything was spent, and what persisting raises.
        """
        entry = entry_of(message)
        state = await self._found(message)
        if isinstance(message, AskCompensationState):
            return await self._report(entry, state)
        return NoRecord() if state is None else await self._known(entry)

    def stop(self, request_id: str) -> None:
        """Tell a handler that it should stop, which promises nothing."""
        self._stops.setdefault(request_id, asyncio.Event()).set()

    # ── admission and observation ────────────────────────────────────────────────────────────────

    async def _is_admitted(self, message: EffectMessage, entry: Entry) -> bool:
        """Whether it was there before; otherwise it is now, durably, and this call has to do it."""
        async with self._changing:
            grant, limits = self._grants[entry.tool], self._keeper.limits
            admission = admit(self._keeper.journal, message, grant, limits)
            if isinstance(admission, Contradicted):
                await self._keeper.persist(admission.journal)
                raise coded("journal.heads_contradict")
            self._session.charge(message.request.request_id)
            await self._keeper.persist(admission.journal)
            if isinstance(admission, Dispatch):
                self._begun.add(entry)
                self._live[entry] = asyncio.get_running_loop().create_future()
        return not isinstance(admission, Dispatch)

    async def _found(self, message: LookUpMessage) -> StoredState | None:
        """What is stored, once it is durable that the host's head moved on or contradicts."""
        async with self._changing:
            found = find(self._keeper.journal, message)
            self._session.charge(message.request.request_id)
            await self._keeper.persist(found.journal)
        return found.state

    async def _record(self, entry: Entry, status: Status) -> None:
        async with self._changing:
            await self._keeper.persist(observe(self._keeper.journal, entry, status))

    # ── what is there ────────────────────────────────────────────────────────────────────────────

    async def _known(self, entry: Entry) -> Status | Indeterminate:
        """What may be said of an entry that the journal has."""
        live = self._live.get(entry)
        if live is not None:
            await asyncio.wait({live})
            if live.cancelled():
                raise Lost(entry)
            return live.result()
        await self._find(entry)
        match self._said(entry, state_of(self._keeper.journal, entry)):
            case TerminalRecord(status):
                return status
            case Running() as running:
                return running
            case _:
                return Indeterminate()

    async def _report(self, entry: Entry, state: StoredState | None) -> CompensationState:
        if entry in self._live or state is None:
            return self._said(entry, state)
        await self._find(entry)
        return self._said(entry, state_of(self._keeper.journal, entry))

    def _said(self, entry: Entry, state: StoredState | None) -> CompensationState:
        """Version 5 has no word for doubt: there, what was seen to run still runs."""
        seen = isinstance(state, Running) and self._session.version is Version.LINES
        return report_of(state, in_this_session=seen or entry in self._begun)

    async def _find(self, entry: Entry) -> None:
        """Look an open entry up, and write down what was found."""
        state = state_of(self._keeper.journal, entry)
        if state is None or not is_open(state) or self._looked[entry] >= LOOKUPS_OF_ENTRY:
            return
        self._looked[entry] += 1
        found = await self._asked(entry)
        if found is None:
            return
        async with self._changing:
            try:
                gone = self._is_old_run_gone(entry)
                learnt = learn(self._keeper.journal, entry, found, old_run_gone=gone)
            except AmendsError:
                return  # it has ended meanwhile, or nothing proves that it will not
            await self._keeper.persist(learnt)

    async def _asked(self, entry: Entry) -> Status | None:
        try:
            adapter, handler = self._adapters.require(entry.tool, entry.look_up)
            value = await enter(handler, LookUp(*entry), adapter.lookup_limit_s, self._threads)
            return None if value is None else read_status(value, self._grants[entry.tool])
        except Exception:
            return None  # a look-up has no effect, so what it breaks on says nothing

    def _is_old_run_gone(self, entry: Entry) -> bool:
        """Whether nothing that this worker began can still act: absence counts only then."""
        if entry in self._begun or self._predecessor_gone:
            return True
        adapter, _ = self._adapters.require(entry.tool, entry.look_up)
        passed = asyncio.get_running_loop().time() - self._opened_at
        return adapter.horizon_s is not None and passed >= adapter.horizon_s
