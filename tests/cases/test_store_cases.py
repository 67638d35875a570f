"""Public failures of stores, replayed through the whole product, on both stores but for files.

Kinds of errors that a case names are mapped to ours: *record_corrupt* is `store.record_corrupt` for
bytes that cannot be read and `transaction.record_contradictory` for a record that contradicts
itself; a head that was *stored* is the record's own revision inside a store, and `--head` outside.
The worker's half of RST-02 needs workers, which come later.
"""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import apsw
import asyncpg
import pytest

import amends.stores
from amends.app.amends import Amends
from amends.cli import exits, main
from amends.connectors.port import Attempt
from amends.contracts.documents import Reservation, TransactionRecord
from amends.contracts.enums import Handler, Status
from amends.contracts.evidence import ReceiptType, Tail
from amends.contracts.ids import TransactionId
from amends.contracts.results import Result
from amends.receipts.audit import BundleAudit, CheckedChain
from amends.receipts.bundle import Bundle, ChainLine
from amends.receipts.chain import GENESIS, receipt_hash
from amends.receipts.signing import KeyRing
from amends.recovery.sweeper import Sweeper
from amends.stores.port import Accepted, ChangeSet, Store, Stored, Unreadable
from amends.stores.sqlite.backup import Told
from amends.testing import store_documents as documents
from amends.testing.errands import Commit, Plan, run_errand
from amends.testing.postgres_server import ROLE, PostgresServer, run_apart
from amends.testing.refusals import refused_with
from amends.testing.till import Setup, open_till
from amends.testing.workbench import CHARGE
from amends.wiring.auditing import check_store, public_keys
from amends.wiring.backups import make_backup, restore
from amends.wiring.bundling import Chosen, bundle_of
from amends.wiring.drivers import open_place
from amends.wiring.health import examine
from amends.wiring.places import OnServer, Place
from tests.acceptance.children import Child, effects
from tests.acceptance.command_line import APP, WAIT_S, environment, integrity, start
from tests.acceptance.command_line import amends as command
from tests.unit.runtime.desk import DONE, UNSURE, Desk
from tests.unit.wiring.store_files import OLGA, ORDER, TENANT, fill, try_again, url, work


def quiet(_title: str) -> Told:
    return lambda _done, _total: None


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "amends.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A store of either kind, with nothing in it."""
    if request.param == "sqlite":
        yield tmp_path / "amends.db"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    database = server.lend()
    yield OnServer(f"{database.url}?folder={tmp_path}")
    server.take_back(database)


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(store=str(tmp_path / "amends.db"), ledger=str(tmp_path / "provider.jsonl"))


# ── restore and lost state ───────────────────────────────────────────────────────────────────────


@pytest.mark.case("SQL-04")
@pytest.mark.rule("TX-LEASE-3")
async def test_a_store_in_use_is_backed_up_but_not_replaced(setup: Setup, tmp_path: Path) -> None:
    """Not until every process that holds it has gone; then under a new lineage, and frozen."""
    store, backup = f"sqlite:///{setup.store}", str(tmp_path / "b.db")
    with Child(setup) as worker:
        worker.ask(Plan(action_id="act_p", transaction_id="txn_1"))
        assert command("backup", backup, "--store", store)[0] == exits.OK
        code, said = command("restore", backup, "--store", store, "--yes")
        assert (code, said["error"]["code"]) == (
            exits.OF_FAMILY["conflict"],
            "restore.store_in_use",
        )
        (done,) = worker.ask(Commit(action_id="act_c", plan_id="plan:txn_1"))
        assert done.status == "committed"
    code, said = command("restore", backup, "--store", store, "--yes")
    assert code == exits.OK
    assert said["data"]["lineage"] != said["data"]["from_lineage"]
    assert [one["transaction_id"] for one in said["data"]["went_on"]] == ["txn_1"]
    assert integrity(Path(setup.store)) == "ok"
    assert command("verify", "--store", store)[0] == exits.OK
    async with open_till(setup) as till:
        refused = await run_errand(till, Commit(action_id="act_d", plan_id="plan:txn_1"))
        assert refused.code == "transaction.frozen"
    assert effects(setup) == 1


@pytest.mark.case("FEN-04")
def test_a_killed_process_holds_nothing_although_its_children_live(
    setup: Setup, tmp_path: Path
) -> None:
    """Locks are the kernel's and end with their process; nothing that it started inherits them."""
    store, backup = f"sqlite:///{setup.store}", str(tmp_path / "b.db")
    command("plan", "payments.charge", "--app", APP, "--input", "{}", "--store", store)
    command("backup", backup, "--store", store)
    with start("hold", setup.store) as held:
        assert held.stdout is not None
        children = [int(word) for word in held.stdout.readline().split()]
        assert (
            command("restore", backup, "--store", store, "--yes")[0] == exits.OF_FAMILY["conflict"]
        )
        held.send_signal(signal.SIGKILL)
        assert held.wait(WAIT_S) == -signal.SIGKILL
    try:
        for child in children:
            os.kill(child, 0)
        assert command("restore", backup, "--store", store, "--yes")[0] == exits.OK
    finally:
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


@pytest.mark.case("RST-01")
@pytest.mark.rule("TX-SETTLE-6")
def test_an_answer_that_the_disk_has_no_room_for_is_kept_and_taken_in_later(
    tmp_path: Path,
) -> None:
    """The charge is made once; the caller hears unknown; a doctor settles it without asking."""
    store, books = f"sqlite:///{tmp_path}/amends.db", str(tmp_path / "books")
    execute = ("execute", "payments.charge", "--app", APP, "--input", '{"amount": 5}', "--yes")
    code, said = command(
        *execute, "--transaction-id", "txn_1", "--store", store, DISK_FULL_BOOKS=books
    )
    assert code == exits.OF_FAMILY["outcome_unknown"]
    details = said["error"]["details"]
    assert said["error"]["code"] == "transaction.settlement_not_stored"
    assert (tmp_path / details["kept_in"]).is_file()
    code, said = command("tx", "show", "txn_1", "--store", store)
    assert said["data"]["result"]["status"] == "prepared"
    for _ in range(2):
        assert command("doctor", "--store", store)[0] == exits.OK
    assert not (tmp_path / details["kept_in"]).exists()
    _, said = command("tx", "show", "txn_1", "--store", store)
    assert said["data"]["result"]["verdict"] == "committed"
    assert Path(books).read_text().count("\n") == 1


@pytest.mark.case("RST-02")
@pytest.mark.rule("TX-LEASE-3")
def test_what_was_in_flight_in_a_backup_is_not_gone_on_with(path: Path, tmp_path: Path) -> None:
    """A commit and a compensation run while the backup is made; both end; the backup comes back."""
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def held(_attempt: Attempt) -> object:
        entered.set()
        await go_on.wait()
        return DONE

    desk = Desk([DONE, held], reconcile=[DONE], compensate=[held])

    async def run() -> None:
        async with Amends.open(url(path), [desk.served()], recover=False) as amends:
            done = await amends.execute(CHARGE, ORDER, transaction_id="txn_0")
            await amends.plan(CHARGE, ORDER, transaction_id="txn_1")
            commit = asyncio.create_task(amends.commit("plan:txn_1"))
            await entered.wait()
            entered.clear()
            refund = asyncio.create_task(amends.compensate(done, transaction_id="txn_c"))
            await entered.wait()
            make_backup(path, tmp_path / "b.db", with_key=True, phase=quiet)
            go_on.set()
            assert [(await one).status for one in (commit, refund)] == ["committed", "compensated"]

    asyncio.run(run())
    made = (desk.entered(Handler.EXECUTE), desk.entered(Handler.COMPENSATE))
    frozen = restore(tmp_path / "b.db", path, replace=True, phase=quiet).frozen.records
    assert {one.transaction_id: one.status for one in frozen} == {
        "txn_1": "committing",
        "txn_c": "compensating",
    }

    async def afterwards() -> list[str]:
        async with Amends.open(url(path), [desk.served()], recover=False) as amends:
            assert (await Sweeper(amends._runtime.engine).sweep()).total == 0
            before = [(await amends.get(id_)).result.status.value for id_ in ("txn_1", "txn_c")]
            with refused_with("transaction.compensation_exists"):
                await amends.compensate((await amends.get("txn_0")).result)
            olga = amends.acting_as(OLGA)
            for id_ in ("txn_1", "txn_c"):
                await olga.release(id_)
            await Sweeper(amends._runtime.engine).sweep()
            found = [await olga.reconcile(id_, insist=True) for id_ in ("txn_1", "txn_c")]
            return [*before, *(one.verdict or "" for one in found)]

    assert asyncio.run(afterwards()) == ["committing", "compensating", "committed", "committed"]
    assert (desk.entered(Handler.EXECUTE), desk.entered(Handler.COMPENSATE)) == made
    assert_whole(path)


@pytest.mark.case("REP-02")
def test_two_copies_that_went_apart_are_never_merged(path: Path, tmp_path: Path) -> None:
    """A committed it; B, from before, has it claimed by another action; then A comes back."""
    fill(path)
    make_backup(path, tmp_path / "b.db", with_key=True, phase=quiet)
    other = tmp_path / "other.db"
    done = restore(tmp_path / "b.db", other, replace=False, phase=quiet)
    assert done.lineage != done.from_lineage

    async def commit(amends: Amends, action_id: str) -> None:
        await amends.commit("plan:txn_plan", action_id=action_id)

    async def release_and_commit(amends: Amends) -> None:
        await amends.acting_as(OLGA).release("txn_plan")
        await commit(amends, "act_b")

    work(path, lambda amends: commit(amends, "act_a"))
    work(other, release_and_commit)
    id_ = TransactionId("txn_plan")
    (here,) = check_store(path, public_keys(path), {}, [id_], TENANT)
    assert here.head is not None
    bundle = Bundle(bundle_of(other, Chosen(transactions=(id_,))))
    assert bundle.header.store == done.lineage
    (there,) = BundleAudit(bundle, bundle.keys, {id_: here.head}).chains()
    assert "receipt.fork" in [one.code for one in there.findings]
    make_backup(path, tmp_path / "a.db", with_key=True, phase=quiet)
    back = restore(tmp_path / "a.db", other, replace=True, phase=quiet)
    assert "txn_plan" in [one.transaction_id for one in back.went_on]
    assert owner(other) == "act_a"
    assert owner(other.with_name(str(back.kept))) == "act_b"


def owner(path: Path) -> str:
    """Which action owns the transaction of the plan."""

    async def look(amends: Amends) -> str:
        return (await amends.get("txn_plan")).result.action_id

    async def committed(amends: Amends) -> str:
        page = await amends.list()
        (found,) = [
            one.document
            for one in page.items
            if isinstance(one, Stored) and one.document.transaction_id == "txn_plan"
        ]
        return found.action_id

    assert work(path, look)
    return work(path, committed)


# ── receipts ─────────────────────────────────────────────────────────────────────────────────────


def assert_whole(place: Place) -> None:
    assert [one for one in checked(place) if one.findings] == []


def exported(place: Place, id_: str) -> list[ChainLine]:
    return list(Bundle(bundle_of(place, Chosen(transactions=(TransactionId(id_),)))).chains())


def checked(place: Place) -> list[CheckedChain]:
    return list(check_store(place, public_keys(place), {}, (), TENANT))


@pytest.mark.case("JRN-06")
def test_receipts_verify_after_they_were_written_closed_and_read_again(place: Place) -> None:
    """What is hashed is what is stored: times are whole microseconds on both sides."""
    fill(place)
    assert_whole(place)
    (chain,) = exported(place, "txn_done")
    assert [receipt_hash(one) for one in chain.receipts] == [one.hash for one in chain.receipts]
    assert {one.step.type for one in chain.receipts} >= {
        ReceiptType.EXECUTION_STARTED,
        ReceiptType.COMMITTED,
    }


@pytest.mark.case("JRN-06")
async def test_many_who_begin_a_chain_at_once_make_one_beginning(place: Place) -> None:
    store = await open_place(place)
    appends = [documents.links(code=str(number)) for number in range(16)]
    answers = await asyncio.gather(*(store.commit(ChangeSet(changes=(one,))) for one in appends))
    assert sum(isinstance(one, Accepted) for one in answers) == 1
    (only,) = await store.receipts(documents.TENANT, documents.chain_named("1"))
    assert (only.number, only.previous) == (1, GENESIS)
    await store.close()


PROCESSES: Final = 4
EACH: Final = 50
CHILDREN: Final = Path(__file__).parents[1] / "acceptance" / "sqlite_children.py"


@pytest.mark.case("JRN-07")
def test_a_chain_that_four_processes_wrote_is_linear_and_every_change_to_it_is_found(
    place: Place,
) -> None:
    append_at_once(place)
    (whole,) = checked_chains(place)
    assert (whole.receipts, whole.findings) == (PROCESSES * EACH, ())
    assert whole.head is not None
    flip_a_byte(place, number=123)
    ((finding,),) = [one.findings for one in checked_chains(place)]
    assert (finding.code, finding.position, finding.number) == ("receipt.hash_mismatch", 122, 123)
    flip_a_byte(place, number=123)
    assert checked_chains(place) == [whole]
    sql(place, f"DELETE FROM receipts WHERE number = {PROCESSES * EACH}")
    ((cut,),) = [one.findings for one in checked_chains(place, whole.head)]
    assert (cut.code, cut.position) == ("receipt.cut_tail", PROCESSES * EACH - 1)


def append_at_once(place: Place) -> None:
    where = place.url if isinstance(place, OnServer) else str(place)
    processes = [
        subprocess.Popen(
            [sys.executable, str(CHILDREN), "append_links", where, f"p{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        for number in range(PROCESSES)
    ]
    for process in processes:
        process.communicate("begin\n", timeout=WAIT_S)
        assert process.returncode == 0


def checked_chains(place: Place, head: Tail | None = None) -> list[CheckedChain]:
    heads = {TransactionId("txn_1"): head} if head else {}
    return list(check_store(place, KeyRing(), heads, (), documents.TENANT))


def flip_a_byte(place: Place, number: int) -> None:
    """Change one letter of a code in place, or change it back."""
    sql(
        place,
        """UPDATE receipts SET body = CASE WHEN body LIKE '%"code":"p%'"""
        """ THEN replace(body, '"code":"p', '"code":"q')"""
        f""" ELSE replace(body, '"code":"q', '"code":"p') END WHERE number = {number}""",
    )


# ── versions and contradictions ──────────────────────────────────────────────────────────────────


def sql(place: Place, text: str) -> list[Any]:
    """What a line of SQL gives behind the store's back, in words that both stores know."""
    if not isinstance(place, OnServer):
        connection = apsw.Connection(str(place))
        connection.set_busy_timeout(5_000)
        rows = list(connection.execute(text))
        connection.close()
        return rows

    async def ask() -> list[Any]:
        superuser = place.url.partition("?")[0].replace(f"{ROLE}@", "postgres@")
        connection = await asyncpg.connect(superuser, server_settings={"search_path": "amends"})
        try:
            return [tuple(row) for row in await connection.fetch(text)]
        finally:
            await connection.close()

    return run_apart(ask)


@pytest.mark.case("VER-01")
def test_a_state_of_a_later_version_is_read_only_and_never_taken_for_another(place: Place) -> None:
    fill(place)
    assert sql(place, "SELECT status FROM transactions WHERE id = 'txn_plan'") == [("planned",)]
    sql(
        place,
        "UPDATE transactions SET status = 'half_planned',"
        ' body = replace(body, \'"status":"planned"\', \'"status":"half_planned"\')'
        " WHERE id = 'txn_plan'",
    )
    sql(
        place,
        "UPDATE transactions SET body = substr(body, 1, length(body) - 1) || ',\"later\":1}'"
        " WHERE id = 'txn_done'",
    )
    before = body_of(place, "txn_plan")

    async def use(amends: Amends) -> None:
        with refused_with("store.record_corrupt"):
            await amends.commit("plan:txn_plan")
        with refused_with("store.record_corrupt"):
            await amends.withdraw("txn_plan")
        with refused_with("store.record_corrupt"):
            await amends.get("txn_plan")
        shown = (await amends.list()).items
        assert [one.id for one in shown if isinstance(one, Unreadable)] == ["txn_plan"]
        assert (await amends.get("txn_done")).result.status == "committed"
        done = await amends.execute(CHARGE, ORDER, transaction_id="txn_next")
        assert done.status == "committed"
        assert (await amends.compensate((await amends.get("txn_done")).result)).verdict

    work(place, use)
    assert body_of(place, "txn_plan") == before


@pytest.mark.case("VER-01")
def test_a_store_of_a_later_version_is_refused_before_anything_is_done(place: Place) -> None:
    fill(place)
    sql(
        place,
        "INSERT INTO migrations SELECT 99, 'later', 'x', applied_at FROM migrations"
        " WHERE number = 1",
    )
    before = everything(place)

    async def nothing(_amends: Amends) -> None:
        raise AssertionError("it was opened")

    with refused_with("store.schema_too_new"):
        work(place, nothing)
    assert everything(place) == before
    sql(place, "DELETE FROM migrations WHERE number = 99")


CRAFTED: Final = {
    "committed with an error": ("txn_done", '"error":{"code":"odd"}', None, None),
    "planned and sent": (
        "txn_plan",
        '"provider_operation":{"provider":"p","operation_id":"o"}',
        "o",
        None,
    ),
    "ended before it began": ("txn_again", '"settled_at":"1999-01-01T00:00:00Z"', None, None),
    "unknown and known": ("txn_lost", '"verdict":"committed"', None, "committed"),
}


@pytest.mark.case("STK-09")
@pytest.mark.parametrize(("id_", "member", "operation", "verdict"), CRAFTED.values(), ids=CRAFTED)
def test_a_record_that_says_two_things_at_once_is_named_and_not_acted_on(
    place: Place, id_: str, member: str, operation: str | None, verdict: str | None
) -> None:
    fill(place)
    name = member.partition(":")[0]
    body = re.sub(f',{name}:("[^"]*"|{{[^}}]*}})', "", body_of(place, id_))
    columns = {"operation_id": operation, "verdict": verdict}
    told = "".join(f" {name} = '{value}'," for name, value in columns.items() if value)
    sql(place, f"UPDATE transactions SET{told} body = '{body[:-1]},{member}}}' WHERE id = '{id_}'")
    before = body_of(place, id_)

    async def use(amends: Amends) -> None:
        olga = amends.acting_as(OLGA)
        attempts = {
            "txn_done": lambda: amends.compensate("act_done"),
            "txn_plan": lambda: amends.commit("plan:txn_plan"),
            "txn_again": lambda: try_again(amends),
            "txn_lost": lambda: olga.settle("txn_lost", "committed", reference="r", note="n"),
        }
        with refused_with("transaction.record_contradictory"):
            await attempts[id_]()
        assert (await amends.get(id_)).result.transaction_id == id_
        others = await amends.execute(CHARGE, ORDER, transaction_id="txn_next")
        assert others.status == "committed"

    work(place, use)
    assert body_of(place, id_) == before
    (named,) = [one for one in examine(place, quick=False, told=untold) if one.name == "records"]
    assert named.named == (f"{TENANT} {id_}",)
    (chain,) = exported(place, id_)
    assert chain.receipts


def untold(_done: int, _total: int) -> None:
    """Nobody asks."""


def body_of(place: Place, id_: str) -> str:
    [(body,)] = sql(place, f"SELECT body FROM transactions WHERE id = '{id_}'")
    return str(body)


# ── retention ────────────────────────────────────────────────────────────────────────────────────


def statements() -> Iterator[str]:
    """Every text in the stores that might be SQL."""
    for file in Path(amends.stores.__file__).parent.rglob("*.py"):
        yield from re.findall(r'"((?:[^"\\]|\\.)*)"', file.read_text("utf-8"))


@pytest.mark.case("DUP-09")
def test_nothing_in_the_product_can_remove_what_was_stored() -> None:
    """Documents and receipts are kept for ever; there is no clean-up that could go wrong.

    A row of revision 0 is no document: it keeps a place for one while its writers are compared.
    """
    deleting = re.compile(r"\b(DELETE FROM|DROP TABLE|TRUNCATE TABLE)\b")
    found = [text for text in statements() if deleting.search(text)]
    assert [text for text in found if "WHERE revision = 0 AND" not in text] == []
    verbs = {"delete", "remove", "purge", "prune", "clean", "vacuum", "expire"}
    assert not verbs & set(vars(Store))
    assert not verbs & set(main._COMMANDS)


@pytest.mark.case("DUP-09")
def test_no_upkeep_touches_an_unknown_outcome_or_the_key_that_guards_it(
    place: Place, tmp_path: Path
) -> None:
    """Whatever is run over the store: the same record answers, and forbids a repetition."""
    key = "order-7"

    async def lose(amends: Amends) -> None:
        await pay(amends, "act_1", key)

    work(place, lose, UNSURE)
    before = everything(place)
    backup = () if isinstance(place, OnServer) else (("backup", str(tmp_path / "b.db")),)
    for tokens in (
        ("doctor",),
        ("migrate",),
        *backup,
        ("verify",),
        ("export", "--all", "--out", str(tmp_path / "r.jsonl")),
    ):
        assert main.run([*tokens, "--store", url(place), "--json"]) == exits.OK
    assert everything(place) == before
    entered: list[int] = []

    async def again(amends: Amends) -> None:
        environment = amends._runtime.engine.environment
        record = await environment.store.get(TransactionRecord, TENANT, "txn_1")
        assert record is not None
        assert record.document.status is Status.OUTCOME_UNKNOWN
        reservations = await environment.store.list(Reservation, TENANT)
        assert len(reservations.items) == 1
        for again in (key, "order-8"):
            with refused_with("transaction.reconciliation_required"):
                await pay(amends, "act_1", again)
        assert (await pay(amends, "act_2", key)).status == "outcome_unknown"

    async def provider(_attempt: Attempt) -> object:
        entered.append(1)
        return DONE

    work(place, again, provider)
    assert entered == []


async def pay(amends: Amends, action_id: str, key: str) -> Result:
    return await amends.execute(
        CHARGE, ORDER, transaction_id="txn_1", action_id=action_id, idempotency_key=key
    )


def everything(place: Place) -> dict[str, list[Any]]:
    """Every row of every table."""
    names = (
        "SELECT tablename FROM pg_tables WHERE schemaname = 'amends'"
        if isinstance(place, OnServer)
        else "SELECT name FROM sqlite_schema WHERE type = 'table'"
    )
    return {str(name): sql(place, f"SELECT * FROM {name}") for (name,) in sql(place, names)}
