"""An anchor in a schema of a PostgreSQL server (ST-2, ST-3): another machine, another failure.

Each step is one statement that commits by itself, and waits on the row for whatever is under way
there. An error, a lost connection or a time limit of a step leaves unknown whether it was carried
out: the caller hears `sealed.anchor_unreachable`, and its vault saves nothing more. Whoever opens
the record anew takes the next fence first. After that, a step which was still on its way finds
another fence and does nothing, so what is read then stays so.

A server that may lose what it acknowledged is refused, and so is one that was restored or failed
over since: it may hold an old floor, or give a fence twice. `accept_server` is a person's word that
it is the one to go on with, and ends every fence before.

Deliberately not here: poolers in transaction mode; an anchor speaks with the server itself.
"""

import contextlib
from pathlib import Path
from typing import Any, Final, TypeVar

import asyncpg

from amends.contracts.codes import coded
from amends.contracts.worker_identity import Fingerprint
from amends.sealed.anchor_address import anchor_address
from amends.sealed.anchors import FENCES_LOST, Anchor, Floor, Protection, check_moved
from amends.sealed.envelopes import Place
from amends.sealed.postgres_line import AnchorLine, Question

_SCHEMA: Final = """
CREATE VIEW here AS SELECT
    (SELECT system_identifier::text FROM pg_control_system()) AS system_identifier,
    ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int AS timeline;
CREATE TABLE server (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    format integer NOT NULL, system_identifier text NOT NULL, timeline integer NOT NULL
);
CREATE TABLE floors (
    namespace text NOT NULL, name text NOT NULL,
    revision bigint NOT NULL CHECK (revision >= 0), commitment text NOT NULL,
    fence bigint NOT NULL CHECK (fence >= 0),
    PRIMARY KEY (namespace, name)
);
CREATE TABLE reseatings (
    namespace text NOT NULL, name text NOT NULL,
    revision bigint NOT NULL, commitment text NOT NULL, fence bigint NOT NULL,
    who text NOT NULL, why text NOT NULL, at timestamptz NOT NULL
);
CREATE TABLE acceptances (
    system_identifier text NOT NULL, timeline integer NOT NULL,
    who text NOT NULL, why text NOT NULL, at timestamptz NOT NULL
);
INSERT INTO server (format, system_identifier, timeline) SELECT 1, here.* FROM here;
"""
_KNOWN: Final = """
SELECT format = 1, (server.system_identifier, server.timeline) = (here.*) FROM server, here
"""
_ACCEPT: Final = """
WITH ended AS (UPDATE floors SET fence = fence + $1),
    accepted AS (UPDATE server SET (system_identifier, timeline) = (SELECT here.* FROM here))
INSERT INTO acceptances SELECT here.*, $2, $3, clock_timestamp() FROM here
"""
_READ: Final = "SELECT revision, commitment, fence FROM floors WHERE namespace = $1 AND name = $2"
_CREATE: Final = "INSERT INTO floors VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING RETURNING 1"
_RESERVE: Final = """
UPDATE floors SET fence = fence + 1 WHERE namespace = $1 AND name = $2
RETURNING revision, commitment, fence
"""
_RESEAT: Final = """
WITH seat AS (
    INSERT INTO floors VALUES ($1, $2, $3, $4, $5) ON CONFLICT (namespace, name)
    DO UPDATE SET revision = $3, commitment = $4, fence = $5
    RETURNING namespace, name, revision, commitment, fence
)
INSERT INTO reseatings SELECT seat.*, $6, $7, clock_timestamp() FROM seat
"""
_ADVANCE: Final = """
UPDATE floors SET revision = $3, commitment = $4
WHERE namespace = $1 AND name = $2 AND revision = $5 AND commitment = $6 AND fence = $7
RETURNING 1
"""
_T = TypeVar("_T")


class PostgresAnchor(Anchor):
    """An open anchor, for any thread. Close it when done."""

    def __init__(self, url: str) -> None:
        self._line = AnchorLine(anchor_address(url), _check)

    @classmethod
    def create_schema(cls, url: str) -> None:
        """Make an empty anchor. Explicit: a missing one is never made anew.

        Raises `Misuse` (`sealed.anchor_url`), `Conflict` (`sealed.initialised`), `Unavailable`
        (`sealed.anchor_unreachable`).
        """

        async def create(connection: Any) -> bool:
            try:
                await connection.execute(f'CREATE SCHEMA "{schema}"; {_SCHEMA}')
            except asyncpg.DuplicateSchemaError:
                return False
            return True

        schema = anchor_address(url).schema
        if not _asked_once(url, create):
            raise coded("sealed.initialised")

    @classmethod
    def open_schema(cls, url: str) -> "PostgresAnchor":
        """Open an anchor that is there, on the server that it was last used on.

        Raises `Misuse` (`sealed.anchor_url`), `Unavailable` (`sealed.anchor_unreachable`,
        `sealed.anchor_restored`).
        """
        anchor = cls(url)
        try:
            anchor._line.ask(_nothing)
        except BaseException:
            anchor.close()
            raise
        return anchor

    @classmethod
    def accept_server(cls, url: str, *, who: str, why: str) -> None:
        """Have a person vouch for a server that was restored or failed over; ends every fence.

        A record that is one save ahead of its floor is then opened as after a crash; one that is
        further ahead has to be re-seated. The anchor keeps who and why. Raises `Refused`
        (`sealed.reason_required`), and as `create_schema`.
        """
        if not who.strip() or not why.strip():
            raise coded("sealed.reason_required")
        _asked_once(url, lambda connection: connection.execute(_ACCEPT, FENCES_LOST, who, why))

    def floor(self, place: Place) -> Floor | None:
        """See `Anchor`."""
        return self._line.ask(lambda connection: _read(connection, place))

    def create(self, place: Place, floor: Floor) -> None:
        """See `Anchor`."""
        if self._row(_CREATE, *place, *_values(floor)) is None:
            raise coded("sealed.initialised")

    def reserve(self, place: Place) -> Floor:
        """See `Anchor`."""
        row = self._row(_RESERVE, *place)
        if row is None:
            raise coded("sealed.not_initialised")
        return _floor_of(row)

    def reseat(self, place: Place, floor: Floor, *, who: str, why: str) -> None:
        """See `Anchor`."""
        self._row(_RESEAT, *place, *_values(floor), who, why)

    def advance(self, place: Place, before: Floor, after: Floor) -> None:
        """See `Anchor`."""
        moved = Floor(after.revision, after.commitment, before.fence)
        steps = (*place, moved.revision, moved.commitment, *_values(before))

        async def move(connection: Any) -> Floor | None:
            if await connection.fetchval(_ADVANCE, *steps):
                return moved
            return await _read(connection, place)

        check_moved(self._line.ask(move), moved)

    def protects(self, _directory: Path) -> Protection:
        """Against what this anchor protects records in a folder of this machine.

        A server is taken for another disk. Where it runs on this one, nobody can tell from here.
        """
        return Protection.RESTORED_DISK

    def close(self) -> None:
        """Give the connection back."""
        self._line.close()

    def _row(self, sql: str, *values: object) -> Any:
        return self._line.ask(lambda connection: connection.fetchrow(sql, *values))


async def _read(connection: Any, place: Place) -> Floor | None:
    row = await connection.fetchrow(_READ, *place)
    return None if row is None else _floor_of(row)


async def _check(connection: Any) -> None:
    row = await connection.fetchrow(_KNOWN)
    if row is None or not row[0]:
        raise coded("sealed.anchor_unreachable")
    if not row[1]:
        raise coded("sealed.anchor_restored")


def _asked_once(url: str, question: Question[_T]) -> _T:
    """Over a connection of its own, to whatever server is there."""
    with contextlib.closing(AnchorLine(anchor_address(url), _nothing)) as line:
        return line.ask(question)


async def _nothing(_connection: Any) -> None:
    """Connecting was the question."""


def _values(floor: Floor) -> tuple[int, str, int]:
    return floor.revision, floor.commitment, floor.fence


def _floor_of(row: Any) -> Floor:
    return Floor(row[0], Fingerprint(row[1]), row[2])
