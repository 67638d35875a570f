"""What holds for every test: a skip is a failure in CI, and how hard Hypothesis searches.

A skipped test proves nothing, so where `CI` is set it counts as failed; an expected failure stays
what it is. Ctrl-C means Ctrl-C, also where whoever started the tests ignores it. The PostgreSQL
server is shared by all tests of a process, since it takes a second to make, and so is the pooler
before it. Other fixtures for one room live beside that room's tests, not here.
"""

import os
import signal
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from amends.testing.pgbouncer import PgBouncer
    from amends.testing.postgres_server import PostgresServer

IN_CI: Final = os.environ.get("CI", "").lower() not in {"", "0", "false"}

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what it puts into the background so, and the processes under test inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("fast", max_examples=25, deadline=None)
settings.register_profile(
    "ci",
    max_examples=200,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "soak",
    max_examples=200,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


def _fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"Skipped, which counts as failed in CI. {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn the report of a skipped test into a failure."""
    report = yield
    _fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn the report of a module that skips itself into a failure."""
    report = yield
    _fail_if_skipped(report)
    return report


@pytest.fixture(scope="session")
def postgres_server() -> "Iterator[PostgresServer]":
    """A PostgreSQL server, for all tests of this process. There is one, or the tests fail."""
    from amends.testing.postgres_server import PostgresServer

    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def pgbouncer(postgres_server: "PostgresServer") -> "Iterator[PgBouncer]":
    """A pooler in transaction mode before that server. There is one, or the tests fail."""
    from amends.testing.pgbouncer import PgBouncer

    with PgBouncer(postgres_server.port) as pooler:
        yield pooler
