"""The one writing connection: a batch of change sets in one transaction, each with its own verdict.

A batch is first applied as if nobody could lose, without savepoints. A change set that loses at
its first write has touched nothing and just gets its verdict. One that loses later has left traces,
so the whole is rolled back and applied again with a savepoint around each; that is rare, since a
claim's compare-and-set stands first. Afterwards the transaction is open, waiting for the flush,
unless nobody changed anything.

`write` and `flush` are two calls because they cost different things: the first takes the processor
and is done on the caller's turn, the second waits for the disk and can be done elsewhere. Between
them nobody else may touch the session.

Deliberately not here: who is in a batch, threads, and promises (`writer`).
"""

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, TypeAlias

import apsw

from amends.stores.port import Accepted, Lost
from amends.stores.rows import to_micros
from amends.stores.sqlite.changes import Prepared
from amends.stores.sqlite.connection import let_go
from amends.stores.sqlite.failures import Failure, Health

Verdict: TypeAlias = Accepted | Lost

PAUSES_S: Final = (0.0005, 0.0013, 0.0007, 0.0019, 0.0011)
"""Uneven, so that two that wait do not always come back together."""


class Failed(Exception):
    """No change set of the batch has a verdict. Nothing was kept, unless the failure says so."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.code)
        self.failure = failure


class Session:
    """A connection that writes for one caller at a time."""

    def __init__(
        self, connection: apsw.Connection, health: Health, clock: Callable[[], datetime]
    ) -> None:
        self._connection = connection
        self._cursor = connection.cursor()
        self._health = health
        self._clock = clock
        self._deadline = 0.0
        connection.set_busy_handler(self._wait_again)

    def write(self, batch: Sequence[Prepared], patience_ms: int) -> list[Verdict]:
        """Apply a batch and leave it to be flushed. Raises `Failed`, having rolled back.

        `patience_ms` is how long to wait for another process that holds the store.
        """
        if self._health.poison is not None:
            raise Failed(self._health.poison)
        try:
            verdicts = self._write(batch, patience_ms)
            if Accepted not in map(type, verdicts):
                self._roll_back()
        except apsw.Error as error:
            failure = self._health.judge(error)
            self._give_up()
            raise Failed(failure) from error
        except BaseException:
            self._give_up()
            raise
        return verdicts

    def flush(self) -> None:
        """Make what was written durable. Raises `Failed`."""
        if self._connection.get_autocommit():
            return
        try:
            self._cursor.execute("COMMIT")
        except apsw.Error as error:
            failure = self._health.judge_commit(error, rolled_back=self._give_up())
            self._leave_if_poisoned()
            raise Failed(failure) from error
        except BaseException:
            self._give_up()
            raise

    def abandon(self) -> None:
        """Take back what was written and will not be flushed, if there is anything."""
        self._give_up()

    def close(self) -> None:
        """Close the connection; see `let_go`."""
        let_go(self._connection)

    def _write(self, batch: Sequence[Prepared], patience_ms: int) -> list[Verdict]:
        at = self._begin(patience_ms)
        verdicts = self._together(batch, at)
        if verdicts is None:
            self._roll_back()
            at = self._begin(patience_ms)
            verdicts = [self._apart(one, at) for one in batch]
        return verdicts

    def _begin(self, patience_ms: int) -> datetime:
        """Take the lock that other processes respect; the store's time is read once it is held."""
        self._deadline = time.monotonic() + patience_ms / 1000
        self._cursor.execute("BEGIN IMMEDIATE")
        return self._clock()

    def _wait_again(self, times: int) -> bool:
        """Asked by SQLite while another process holds the store.

        Its own waiting grows to a tenth of a second, within which busy neighbours commit a hundred
        times; short and uneven pauses give each process its turn.
        """
        if time.monotonic() >= self._deadline:
            return False
        time.sleep(PAUSES_S[times % len(PAUSES_S)])
        return True

    def _together(self, batch: Sequence[Prepared], at: datetime) -> list[Verdict] | None:
        """All verdicts, or none when a loser has left traces among the others."""
        connection, cursor, now_us = self._connection, self._cursor, to_micros(at)
        accepted = Accepted(at)
        verdicts: list[Verdict] = []
        for one in batch:
            written = connection.total_changes()
            lost = one.apply(connection, cursor, now_us)
            if lost is not None and connection.total_changes() != written:
                return None
            verdicts.append(lost or accepted)
        return verdicts

    def _apart(self, one: Prepared, at: datetime) -> Verdict:
        self._cursor.execute("SAVEPOINT one")
        lost = one.apply(self._connection, self._cursor, to_micros(at))
        if lost is not None:
            self._cursor.execute("ROLLBACK TO one")
        self._cursor.execute("RELEASE one")
        return lost or Accepted(at)

    def _roll_back(self) -> None:
        if not self._connection.get_autocommit():
            self._cursor.execute("ROLLBACK")

    def _give_up(self) -> bool:
        """Roll back, and say whether that was possible.

        A connection that cannot is closed: nothing may be written into a transaction without end.
        """
        try:
            self._roll_back()
        except apsw.Error as error:
            self._health.condemn(error)
        self._leave_if_poisoned()
        return self._health.poison is None

    def _leave_if_poisoned(self) -> None:
        if self._health.poison is not None:
            self.close()
