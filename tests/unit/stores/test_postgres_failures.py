"""What is raised for the server or the network, and what the driver makes of it."""

import asyncpg
import pytest

from amends.stores.postgres.failures import REPORTED, Trouble, failed, judge

JUDGED: tuple[tuple[BaseException, Trouble, str], ...] = (
    (asyncpg.SerializationError("x"), Trouble.IN_THE_WAY, "store.busy"),
    (asyncpg.DeadlockDetectedError("x"), Trouble.IN_THE_WAY, "store.busy"),
    (asyncpg.AdminShutdownError("x"), Trouble.GONE, "store.unavailable"),
    (asyncpg.CannotConnectNowError("x"), Trouble.GONE, "store.unavailable"),
    (asyncpg.ReadOnlySQLTransactionError("x"), Trouble.GONE, "store.unavailable"),
    (asyncpg.ConnectionDoesNotExistError("x"), Trouble.GONE, "store.unavailable"),
    (asyncpg.InterfaceError("x"), Trouble.GONE, "store.unavailable"),
    (asyncpg.InternalClientError("x"), Trouble.GONE, "store.unavailable"),
    (ConnectionResetError(), Trouble.GONE, "store.unavailable"),
    (TimeoutError(), Trouble.GONE, "store.unavailable"),
    (asyncpg.DiskFullError("x"), Trouble.FULL, "store.full"),
    (asyncpg.UndefinedTableError("x"), Trouble.OTHER, "store.unavailable"),
)


@pytest.mark.parametrize(("error", "trouble", "code"), JUDGED, ids=lambda one: type(one).__name__)
def test_an_error_is_caught_judged_and_given_its_code(
    error: BaseException, trouble: Trouble, code: str
) -> None:
    assert isinstance(error, REPORTED)
    assert judge(error) is trouble
    raised = failed(error).exception()
    assert raised.code == code
    assert raised.__cause__ is error
    assert "x" not in raised.details


def test_a_mistake_of_ours_is_no_trouble_of_the_server() -> None:
    assert not isinstance(KeyError(), REPORTED)
    assert judge(KeyError()) is Trouble.OTHER
