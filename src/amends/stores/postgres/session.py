"""One transaction over a batch of change sets, each with its own verdict.

A batch that nothing speaks against is written at once, in one statement that is a transaction by
itself, under the conditions its change sets stand on. If any row is not as it was taken to be,
nothing of it is kept, and the batch is decided: rows are locked and read in one statement, verdicts
are given here, and what remains is written in a second one. Somebody who inserts the same thing
meanwhile makes the numbers differ; then the batch is decided anew over what is there now.

Once COMMIT was sent, or such a statement, only its answer counts, or what `truth` finds. Until then
every failure leaves nothing behind.

Deliberately not here: who is in a batch, and promises (`writer`).
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Any, Final
from uuid import UUID, uuid4

import asyncpg

from amends.contracts.errors import AmendsError
from amends.contracts.evidence import Tail
from amends.stores.port import Accepted
from amends.stores.postgres import statements
from amends.stores.postgres.connection import Connections, Terms, until
from amends.stores.postgres.failures import REPORTED, Failure, Trouble, failed, judge, unknown
from amends.stores.postgres.truth import CUT_SHORT, Fate, Sent, commit, find_out, heard
from amends.stores.postgres.verdicts import Effects, Ground, Row, Verdict, decide, independent
from amends.stores.postgres.writes import (
    SHAPED,
    Chain,
    Extend,
    Held,
    Key,
    Link,
    Linked,
    Prepared,
    Write,
)

REPLAN_AT: Final = 64
"""After so many change sets, and each time they have doubled, plans are made anew.

A plan is made for tables as large as they are then, and an empty table looks the same by any index.
"""

PAUSE_S: Final = 0.005

_NOT_DONE: Final = (
    asyncpg.DeadlockDetectedError,
    asyncpg.LockNotAvailableError,
    asyncpg.QueryCanceledError,
    asyncpg.SerializationError,
    asyncpg.UniqueViolationError,
)
"""What the server reports of a statement that it has taken back: none of it can come of a commit,
which waits for no row and cannot be cancelled. Every other error leaves the statement unknown.
"""


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
        self._written = 0
        self._replan_at = REPLAN_AT

    async def run(self, batch: Sequence[Prepared]) -> list[Verdict]:
        """The verdicts, durable. Raises `Failed`."""
        deadline = until(self._terms.patience_s)
        hopeful = independent(batch)
        while True:
            try:
                return await self._try(batch, hopeful=hopeful)
            except _Again:
                error: BaseException = asyncpg.LockNotAvailableError()
            except REPORTED as caught:
                error = caught
            except AmendsError as caught:
                if caught.code != "store.unavailable":
                    raise
                error = caught.__cause__ or caught
            hopeful = False
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

    async def _try(self, batch: Sequence[Prepared], *, hopeful: bool) -> list[Verdict]:
        if hopeful:
            at = await self._at_once(batch)
            if at is not None:
                return [Accepted(at)] * len(batch)
        verdicts = await self._decided(batch)
        if verdicts is None:
            raise _Again
        return verdicts

    async def _at_once(self, batch: Sequence[Prepared]) -> datetime | None:
        """Write the batch under its own conditions; none, and nothing, if they do not all hold."""
        token, tenants = uuid4(), _tenants(batch)
        receipts = [row for one in batch for row in one.receipts]
        values = statements.write(
            tenants,
            token,
            [row for one in batch for row in one.rows],
            receipts,
            now=self._terms.now(),
            not_after=min((one.not_after for one in batch if one.not_after), default=None),
        )
        async with self._connections.lent() as connection:
            known = self._connections.standing.began is not None and not self._terms.address.pooled
            if not receipts or not known:
                return await self._in_steps(connection, batch, values)
            if self._is_to_replan(len(batch)):
                await connection.execute("DISCARD PLANS")
            sent = self._alone(token, tenants, receipts[0])
            with heard(connection) as warnings:
                try:
                    at, _, _ = await self._write(connection, values)
                except _NOT_DONE:
                    return None
                except BaseException as error:
                    connection.terminate()
                    return await self._find_out(sent, error)
            if at is None:
                return None
            if CUT_SHORT in warnings:
                connection.terminate()
                await self._find_out(sent, None)
            return at

    async def _in_steps(
        self, connection: Any, batch: Sequence[Prepared], values: list[Any]
    ) -> datetime | None:
        """The same between a BEGIN and a COMMIT, with the transaction's number known before it."""
        tenants, token = _tenants(batch), values[1]
        await self._begin(connection, tenants, len(batch))
        at, xact, pid = await self._write(connection, values)
        effects = Effects({}, [], {})
        for one in batch:
            effects.add(one.steps, {})
        if at is None or effects.is_empty:
            await connection.execute("ROLLBACK")
            return at
        timeline = self._connections.standing.timeline
        sent = Sent(token, xact, pid, None, timeline, tenants, effects)
        await self._commit(connection, sent)
        return at

    async def _write(self, connection: Any, values: list[Any]) -> tuple[datetime | None, str, int]:
        """See `statements.WRITE`; the server's time is told by the way."""
        time = self._terms.time
        sent = time.ticks()
        [[at, xact, pid, now]] = await connection.fetch(statements.WRITE, *values)
        time.hear(now, sent)
        return at, xact, pid

    def _alone(self, token: UUID, tenants: frozenset[str], receipt: Linked) -> Sent:
        """What is known of a statement that is a transaction by itself."""
        tenant, chain, number, hash_, _, body = receipt
        effects = Effects({}, [(Chain(tenant, chain), Link(number, hash_, body))], {})
        standing = self._connections.standing
        return Sent(token, "", standing.pid, standing.began, standing.timeline, tenants, effects)

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
            written = None
            if await self._make_room(connection, effects.releases, absent, token):
                values = statements.write(
                    tenants,
                    token,
                    effects.rows(),
                    effects.linked(),
                    now=at,
                )
                written, xact, pid = await self._write(connection, values)
            if written is None:
                await connection.execute("ROLLBACK")
                return None
            for part in statements.leave(absent, token):
                await connection.execute(part.sql, *part.values)
            timeline = self._connections.standing.timeline
            sent = Sent(token, xact, pid, None, timeline, tenants, effects)
            await self._commit(connection, sent)
            return verdicts

    async def _begin(self, connection: Any, tenants: frozenset[str], count: int) -> None:
        replan = self._is_to_replan(count)
        await connection.execute(statements.begin(tenants, replan=replan))

    def _is_to_replan(self, count: int) -> bool:
        """Whether plans are made anew before so many change sets more are written."""
        self._written += count
        replan = self._written >= self._replan_at
        if replan:
            self._replan_at = self._written * 2
        return replan

    async def _make_room(
        self, connection: Any, releases: list[Key], absent: list[Key], token: UUID
    ) -> bool:
        """Give up unique values, and hold the places that must stay empty; false if one is not."""
        for part in statements.release(releases):
            await connection.execute(part.sql, *part.values)
        for part, count in statements.reserve(absent, token):
            if len(await connection.fetch(part.sql, *part.values)) != count:
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

    async def _commit(self, connection: Any, sent: Sent) -> None:
        """Make it durable, or find out. Raises `Failed` (`store.commit_unknown`), `_Again`."""
        try:
            durable = await commit(connection)
        except BaseException as error:
            connection.terminate()
            await self._find_out(sent, error)
            return
        if not durable:
            await self._find_out(sent, None)

    async def _find_out(self, sent: Sent, error: BaseException | None) -> datetime | None:
        """When it was written, if it was committed and that is known.

        Raises `_Again` if it never was, `Failed` if nobody knows.
        """
        deadline = until(self._terms.patience_s)
        spare = Connections(self._terms, 1)
        fate, at = Fate.UNKNOWN, None
        while fate is Fate.UNKNOWN:
            try:
                async with spare.lent() as connection:
                    fate, at = await find_out(connection, sent, self._terms.address)
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
        return at


def _tenants(batch: Sequence[Prepared]) -> frozenset[str]:
    return frozenset([name[-2] for one in batch for name in one.named])


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
    names = SHAPED[key.place].unique
    return tuple(
        Held(key.place, key.tenant, name, value)
        for name, value in zip(names, values, strict=True)
        if value is not None
    )
