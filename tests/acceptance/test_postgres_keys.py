"""One key for all replicas of a store on a server, each of which has a folder of its own."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amends.app.amends import Amends
from amends.cli import exits
from amends.contracts.errors import Unavailable
from amends.stores.postgres.survey import PostgresSurvey
from amends.stores.rows import system_clock
from amends.testing.postgres_server import Database, PostgresServer
from amends.testing.refusals import refused_with
from amends.testing.workbench import CHARGE
from amends.wiring.keys import rotate_key
from amends.wiring.shared_keys import SharedSigner
from tests.unit.cli.shell import Shell
from tests.unit.runtime.desk import Desk
from tests.unit.wiring.store_files import ORDER


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[Database]:
    database = postgres_server.lend()
    yield database
    postgres_server.take_back(database)


class Machines:
    """Machines that share the database, each with its own folder."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database = database
        self._folder = folder

    def url(self, machine: str) -> str:
        (self._folder / machine).mkdir(exist_ok=True)
        return f"{self.database.url}?folder={self._folder / machine}"

    def key(self, machine: str) -> Path:
        return self._folder / machine / f"amends-{self.database.name}.key"

    def copy_key(self, of: str, to: str) -> None:
        self.url(to)
        self.key(to).write_bytes(self.key(of).read_bytes())
        self.key(to).chmod(0o600)

    async def charge(self, machine: str, name: str) -> str:
        async with Amends.open(self.url(machine), [Desk().served()], recover=False) as amends:
            done = await amends.execute(CHARGE, ORDER, transaction_id=name)
            return done.status

    def signers(self) -> frozenset[str]:
        with PostgresSurvey(self.url("a")) as survey:
            return survey.signers()


@pytest.fixture
def machines(database: Database, tmp_path: Path) -> Machines:
    return Machines(database, tmp_path)


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    return Shell(tmp_path, monkeypatch, capsys)


async def test_a_machine_without_the_key_starts_no_replica_and_makes_no_key(
    machines: Machines,
) -> None:
    assert await machines.charge("a", "txn_1") == "committed"
    with refused_with("key.missing"):
        await machines.charge("b", "txn_2")
    assert not machines.key("b").exists()
    machines.copy_key("a", "b")
    assert await machines.charge("b", "txn_2") == "committed"
    assert len(await asyncio.to_thread(machines.signers)) == 1


async def test_a_machine_with_another_key_starts_no_replica(
    machines: Machines, tmp_path: Path
) -> None:
    async with Amends.open(f"sqlite:///{tmp_path}/other.db", [Desk().served()], recover=False):
        pass
    machines.url("b")
    (tmp_path / "other.db.key").rename(machines.key("b"))
    assert await machines.charge("a", "txn_1") == "committed"
    with refused_with("key.missing"):
        await machines.charge("b", "txn_2")


async def test_of_replicas_that_start_at_once_on_a_new_store_all_sign_with_one_key(
    machines: Machines,
) -> None:
    """Each has made a key of its own before it could know of the others."""
    names = [f"m{number}" for number in range(6)]
    answers = await asyncio.gather(
        *(machines.charge(name, f"txn_{name}") for name in names), return_exceptions=True
    )
    started = [one for one in answers if one == "committed"]
    assert len(started) == 1
    refused = [one for one in answers if isinstance(one, Unavailable)]
    assert [one.code for one in refused] == ["key.missing"] * 5
    assert len(await asyncio.to_thread(machines.signers)) == 1
    winner = names[answers.index("committed")]
    for name in names:
        if name != winner:
            machines.copy_key(winner, name)
            assert await machines.charge(name, f"txn_again_{name}") == "committed"
    assert len(await asyncio.to_thread(machines.signers)) == 1


def test_after_a_rotation_a_replica_starts_only_with_the_new_key(
    machines: Machines, shell: Shell
) -> None:
    asyncio.run(machines.charge("a", "txn_1"))
    machines.copy_key("a", "b")
    assert shell.json("keys", "rotate", "--store", machines.url("a")).code == exits.OK
    with refused_with("key.missing"):
        asyncio.run(machines.charge("b", "txn_2"))
    assert asyncio.run(machines.charge("a", "txn_2")) == "committed"
    machines.copy_key("a", "b")
    assert asyncio.run(machines.charge("b", "txn_3")) == "committed"
    assert len(machines.signers()) == 2
    assert shell.json("verify", "--store", machines.url("b")).code == exits.OK


async def test_a_replica_that_runs_begins_nothing_after_a_rotation_until_it_has_the_new_key(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amends.wiring.shared_keys.ASKED_EVERY_S", 0.01)
    await machines.charge("a", "txn_1")
    machines.copy_key("a", "b")
    async with Amends.open(machines.url("b"), [Desk().served()], recover=False) as amends:
        await amends.execute(CHARGE, ORDER, transaction_id="txn_2")
        rotate_key(machines.key("a"), system_clock())
        await machines.charge("a", "txn_3")
        with refused_with("key.missing"):
            for _ in range(500):
                await amends.plan(CHARGE, ORDER)
                await asyncio.sleep(0.01)
        with refused_with("key.missing"):
            await amends.execute(CHARGE, ORDER)
        machines.copy_key("a", "b")
        done = await amends.execute(CHARGE, ORDER, transaction_id="txn_4")
        assert done.status == "committed"
    assert len(await asyncio.to_thread(machines.signers)) == 2


async def test_an_attempt_under_way_is_settled_under_the_key_that_was_replaced_meanwhile(
    machines: Machines,
) -> None:
    await machines.charge("a", "txn_1")
    machines.copy_key("a", "b")
    signers: list[SharedSigner] = []

    async def rotated(_: object) -> object:
        rotate_key(machines.key("a"), system_clock())
        await machines.charge("a", "txn_3")
        await signers[0].ask()
        return {"id": "op_1"}

    desk = Desk([rotated])
    async with Amends.open(machines.url("b"), [desk.served()], recover=False) as amends:
        assert amends._runtime is not None
        assert isinstance(amends._runtime.signer, SharedSigner)
        signers.append(amends._runtime.signer)
        done = await amends.execute(CHARGE, ORDER, transaction_id="txn_2")
        assert done.status == "committed"
        with refused_with("key.missing"):
            await amends.execute(CHARGE, ORDER, transaction_id="txn_4")


def test_where_the_key_is_lost_another_one_follows_it_only_if_somebody_says_so(
    machines: Machines, shell: Shell
) -> None:
    asyncio.run(machines.charge("a", "txn_1"))
    out = ("--out", "published.json")
    assert shell.json("keys", "export", *out, "--store", machines.url("a")).code == exits.OK
    machines.key("a").unlink()
    with refused_with("key.missing"):
        asyncio.run(machines.charge("a", "txn_2"))
    added = shell.json("keys", "add", "published.json", "--store", machines.url("a"))
    assert len(added.data["keys"]) == 2
    assert asyncio.run(machines.charge("a", "txn_2")) == "committed"
    assert len(machines.signers()) == 2
    assert shell.json("verify", "--store", machines.url("a")).code == exits.OK


def test_who_only_looks_needs_no_key_and_whoever_writes_does(
    machines: Machines, shell: Shell
) -> None:
    asyncio.run(machines.charge("a", "txn_1"))
    bare = ("--store", machines.url("b"))
    assert "txn_1" in shell.json("tx", "list", *bare).out
    for words in (("tx", "show", "txn_1"), ("tx", "watch", "txn_1"), ("approvals",)):
        assert shell.json(*words, *bare).code == exits.OK
    plan = ("plan", "payments.charge", "--input", '{"amount": 5}')
    assert shell.json(*plan, *bare).error == "key.missing"
    assert shell.json("release", "txn_1", "--yes", *bare).error == "key.missing"
    assert not machines.key("b").exists()


def test_a_store_from_before_goes_on_with_the_key_of_its_first_receipt(
    machines: Machines, postgres_server: PostgresServer
) -> None:
    asyncio.run(machines.charge("a", "txn_1"))

    async def forget(connection: Any) -> None:
        await connection.execute("UPDATE amends.store SET signer = NULL")

    postgres_server.ask(machines.database.superuser_url, forget)
    with refused_with("key.missing"):
        asyncio.run(machines.charge("b", "txn_2"))
    assert asyncio.run(machines.charge("a", "txn_2")) == "committed"
    with refused_with("key.missing"):
        asyncio.run(machines.charge("b", "txn_3"))
