"""One transaction over a batch of change sets, each with its own verdict.

One that comes alone is written at once, under the conditions it stands on: one statement between
the beginning and the end. If any part of it touched fewer rows than it must, everything is taken
back and it goes the way of a batch: rows are locked and read in one statement, verdicts are given
here, and what remains is written in a second one. Somebody who inserts the same thing meanwhile
makes the numbers differ; then the batch is decided anew over what is there now.

Once COMMIT was sent only its answer counts, or what `truth` finds. Until then every failure leaves
nothing behind.

Deliberately not here: who is in a batch, and promises (`writer`).
"""

import asyncio
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final
from uuid import UUID, uuid4

import asyncpg

from amends.contracts.errors import AmendsError
from amends.contracts.evidence import Tail
from amends.stores.port import Accepted, Loss, Lost
from amends.stores.postgres import statements
from amends.stores.postgres.connection import Connections, Terms, until
from amends.stores.postgres.failures import REPORTED, Failure, Trouble, failed, judge, unknown
from amends.stores.postgres.truth import COMMITTED, CUT_SHORT, Fate, Sent, commit, find_out
from amends.stores.postgres.verdicts import Effects, Ground, Row, Verdict, assumed, decide
from amends.stores.postgres.writes import Chain, Extend, Held, Key, Prepared, Write

REPLAN_AT: Final = 64
"""After so many change sets, and each time they have doubled, plans are made anew.

A plan is made for tables as large as they are then, and an empty table looks the same by any index.
"""

SLOW_S: Final = 1.0
"""A write that was held up for so long begins anew: no lease counts from before the wait."""

PAUSE_S: Final = 0.005
_SYNCHRONOUS: Final = "UPDATE amends.store SET synchronous = $1 WHERE synchronous <> $1"


class Failed(Exception):
    """No change set of the batch has a verdict. Nothing was kept, unless the failure says so."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.code)
        self.failure = failure


class _Again(Exception):
    """Somebody was faster: decide anew."""


class Session:
    """Writes for one caller at a time, over one connection."""

    def __init__(self, connections: Connections, terms: Terms) -> None:
        self._connections = connections
        self._terms = terms
        self._synchronous: bool | None = None
        self._written = 0
        self._replan_at = REPLAN_AT

    async def run(self, batch: Sequence[Prepared]) -> list[Verdict]:
        """The verdicts, durable. Raises `Failed`."""
        deadline = until(self._terms.patience_s)
        alone = assumed(batch[0]) if len(batch) == 1 else None
        while True:
            try:
                return await self._try(batch, alone)
            except _Again:
                error: BaseException = asyncpg.LockNotAvailableError()
            except REPORTED as caught:
                error = caught
            except AmendsError as caught:
                if caught.code != "store.unavailable":
                    raise
                error = caught.__cause__ or caught
            alone = None
            await self._pause(error, deadline)

    async def _pause(self, error: BaseException, deadline: float) -> None:
        """Before the next try. Raises `Failed` when there will be none."""
        trouble = judge(error)
        late = asyncio.get_running_loop().time() >= deadline
        if late or trouble in (Trouble.FULL, Trouble.OTHER):
            raise Failed(failed(error)) from error
        if trouble is Trouble.GONE:
            self._connections.forget()
            await asyncio.sleep(PAUSE_S * 20)
        else:
            await asyncio.sleep(PAUSE_S)

    async def _try(self, batch: Sequence[Prepared], alone: Effects | None) -> list[Verdict]:
        if alone is not None and 0 not in alone.checks.values():
            verdict = await self._at_once(batch[0], alone)
            if verdict is not None:
                return [verdict]
        verdicts = await self._decided(batch)
        if verdicts is None:
            raise _Again
        return verdicts

    async def _at_once(self, one: Prepared, effects: Effects) -> Verdict | None:
        """Write one change set under its own conditions; none if they do not all hold."""
        token = uuid4()
        async with self._connections.lent() as connection:
            tenants = _tenants([one])
            await self._begin(connection, tenants, 1)
            statement = statements.write(effects, self._terms.now(), token, checked=False)
            row = await connection.fetchrow(statement.sql, *statement.values)
            counts, at, ended, xact, pid, synchronous = row
            too_late = one.not_after is not None and ended >= one.not_after
            held_up = (ended - at).total_seconds() > SLOW_S
            if counts != statement.counts or too_late or held_up or effects.is_empty:
                await connection.execute("ROLLBACK")
                if too_late:
                    return Lost(-1, Loss.TOO_LATE)
                return Accepted(at) if counts == statement.counts and not held_up else None
            sent = Sent(token, xact, pid, self._connections.standing.timeline, tenants, effects)
            await self._commit(connection, sent, synchronous)
            return Accepted(at)

    async def _decided(self, batch: Sequence[Prepared]) -> list[Verdict] | None:
        """Lock, read, decide and write; none if somebody else was faster."""
        token, tenants = uuid4(), _tenants(batch)
        async with self._connections.lent() as connection:
            await self._begin(connection, tenants, len(batch))
            if contested := _contested(batch):
                turns = statements.order(contested)
                await connection.execute(turns.sql, *turns.values)
            ground, at = await self._read(connection, batch)
            verdicts, effects = decide(batch, ground, at)
            if effects.is_empty:
                await connection.execute("ROLLBACK")
                return verdicts
            absent = [key for key, expected in effects.checks.items() if not expected]
            row = None
            if await self._make_room(connection, effects.releases, absent, token):
                statement = statements.write(effects, at, token, checked=True)
                row = await connection.fetchrow(statement.sql, *statement.values)
            if row is None or row[0] != statement.counts:
                await connection.execute("ROLLBACK")
                return None
            for part in statements.leave(absent, token):
                await connection.execute(part.sql, *part.values)
            timeline = self._connections.standing.timeline
            sent = Sent(token, row[3], row[4], timeline, tenants, effects)
            await self._commit(connection, sent, row[5])
            return verdicts

    async def _begin(self, connection: Any, tenants: frozenset[str], count: int) -> None:
        self._written += count
        replan = self._written >= self._replan_at
        if replan:
            self._replan_at = self._written * 2
        await connection.execute(statements.begin(tenants, replan=replan))

    async def _make_room(
        self, connection: Any, releases: list[Key], absent: list[Key], token: UUID
    ) -> bool:
        """Give up unique values, and hold the places that must stay empty; false if one is not."""
        for part in statements.release(releases):
            await connection.execute(part.sql, *part.values)
        for part in statements.reserve(absent, token):
            if [len(await connection.fetch(part.sql, *part.values))] != part.counts:
                return False
        return True

    async def _read(self, connection: Any, batch: Sequence[Prepared]) -> tuple[Ground, Any]:
        """Lock and read what the verdicts stand on, and the time once all locks are held."""
        keys, holds, chains = named(batch)
        statement = statements.probe(keys, holds, chains, self._terms.now())
        ordered = {place: list(them) for place, them in groupby(sorted(keys), attrgetter("place"))}
        ground, at = Ground(), None
        for part, place, number, held, text, time in await connection.fetch(
            statement.sql, *statement.values
        ):
            match part:
                case statements.CLOCK_PART:
                    at = time
                case statements.TAIL_PART:
                    ground.tails[chains[place - 1]] = Tail(number, text)
                case statements.HOLDER_PART:
                    one = holds[place]
                    ground.holders[one] = Key(one.place, one.tenant, text)
                case _:
                    key = ordered[part][place - 1]
                    ground.rows[key] = Row(number, _holds(key, held))
        return ground, at

    async def _commit(self, connection: Any, sent: Sent, synchronous: bool) -> None:
        """Make it durable, or find out. Raises `Failed` (`store.commit_unknown`), `_Again`."""
        if synchronous != self._synchronous:
            await connection.execute(_SYNCHRONOUS, synchronous)
        try:
            status = await commit(connection)
        except BaseException as error:
            connection.terminate()
            await self._find_out(sent, error)
            return
        if status == CUT_SHORT:
            await self._find_out(sent, None)
        elif status != COMMITTED:
            raise _Again
        self._synchronous = synchronous

    async def _find_out(self, sent: Sent, error: BaseException | None) -> None:
        """Return if it was committed. Raises `_Again` if it never was, `Failed` if nobody knows."""
        deadline = until(self._terms.patience_s)
        spare = Connections(self._terms, 1)
        fate = Fate.UNKNOWN
        while fate is Fate.UNKNOWN:
            try:
                async with spare.lent() as connection:
                    fate = await find_out(connection, sent, self._terms.address)
                    break
            except (AmendsError, *REPORTED) as why:
                if isinstance(why, AmendsError) and why.code != "store.unavailable":
                    raise Failed(unknown(error or why)) from why
                if asyncio.get_running_loop().time() >= deadline:
                    raise Failed(unknown(error or why)) from why
                await asyncio.sleep(PAUSE_S * 20)
        await spare.close()
        if fate is Fate.NEVER:
            raise _Again
        if fate is Fate.UNKNOWN:
            raise Failed(unknown(error))


def _tenants(batch: Sequence[Prepared]) -> frozenset[str]:
    return frozenset(
        step.chain.tenant if isinstance(step, Extend) else step.key.tenant
        for one in batch
        for step in one.steps
    )


def _contested(batch: Sequence[Prepared]) -> list[Key]:
    """What is to be absent or inserted, if anything is to stay absent."""
    steps = [step for one in batch for step in one.steps if not isinstance(step, Extend)]
    if all(isinstance(step, Write) or step.expected for step in steps):
        return []
    return [step.key for step in steps if not step.expected]


def named(batch: Sequence[Prepared]) -> tuple[list[Key], list[Held], list[Chain]]:
    """Every document, unique value and chain that a batch speaks of, each once."""
    keys: dict[Key, None] = {}
    holds: dict[Held, None] = {}
    chains: dict[Chain, None] = {}
    for one in batch:
        for step in one.steps:
            if isinstance(step, Extend):
                chains[step.chain] = None
                continue
            keys[step.key] = None
            if isinstance(step, Write):
                holds.update(dict.fromkeys(step.holds))
    return list(keys), list(holds), list(chains)


def _holds(key: Key, values: Sequence[str | None]) -> tuple[Held, ...]:
    names = statements.SHAPED[key.place].unique
    return tuple(
        Held(key.place, key.tenant, name, value)
        for name, value in zip(names, values, strict=True)
        if value is not None
    )
