"""DBOS doing the least that compares: one durable workflow of one step.

Its store is opened as DBOS opens it. A workflow of one step writes its status, the step's output
and the workflow's output.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def dbos(path: Path, count: int, threads: int) -> float:
    """Workflows a second with this many threads, on SQLite."""
    return dbos_on(f"sqlite:///{path}", count, threads)


def dbos_on(url: str, count: int, threads: int) -> float:
    """Workflows a second with this many threads, in this database."""
    from dbos import DBOS, DBOSConfig

    config = DBOSConfig(
        name="bench",
        system_database_url=url,
        run_admin_server=False,
        log_level="ERROR",
    )
    DBOS(config=config)

    @DBOS.step()
    def step(number: int) -> int:
        return number

    @DBOS.workflow()
    def workflow(number: int) -> int:
        return step(number)

    DBOS.launch()
    try:
        workflow(0)
        started = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(workflow, range(count)))
        return count / (time.perf_counter() - started)
    finally:
        DBOS.destroy()
