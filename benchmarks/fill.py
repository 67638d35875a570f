"""A store that already holds many records: real rows of one action, written in bulk.

The ids are those of long ago, so that new ones come after them, as they would.
"""

import asyncio
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

import apsw

from benchmarks.product import run
from benchmarks.template import statements

_CACHE: Final = Path(tempfile.gettempdir()) / "amends-benchmarks"
_BATCH: Final = 20_000


def filled(path: Path, records: int) -> None:
    """Make `path` a store with this many settled actions; the filled file is kept for next time."""
    source = _CACHE / f"filled-{records}.db"
    if not source.exists():
        _CACHE.mkdir(exist_ok=True)
        _fill(source.with_suffix(".part"), records)
        source.with_suffix(".part").rename(source)
        shutil.move(source.with_suffix(".part.key"), source.with_suffix(".db.key"))
    shutil.copy(source, path)
    shutil.copy(source.with_suffix(".db.key"), path.with_name(path.name + ".key"))
    os.sync()  # gigabytes still to be written back would be measured with what comes next


def _fill(path: Path, records: int) -> None:
    path.unlink(missing_ok=True)
    asyncio.run(run(f"sqlite:///{path}", count=1, tasks=1))
    first, second = statements()
    connection = apsw.Connection(str(path))
    connection.pragma("synchronous", 0)
    cursor = connection.cursor()
    for start in range(0, records, _BATCH):
        cursor.execute("BEGIN IMMEDIATE")
        for number in range(start, min(start + _BATCH, records)):
            for statement in (*first, *second):
                cursor.execute(statement.sql, statement.bindings(number))
        cursor.execute("COMMIT")
    cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
