"""Retention by itself: for every tenant, where it is declared, and never against a hold."""

import asyncio
from contextlib import suppress
from typing import Final

import pytest

from amends.contracts.declarations import DataContract
from amends.contracts.documents import ActionDocument
from amends.contracts.errors import Unavailable
from amends.contracts.evidence import ReceiptType
from amends.contracts.ids import TenantId
from amends.receipts.checkpoint import read_note
from amends.receipts.log import leaf_or_none
from amends.receipts.merkle import Tree, is_consistent
from amends.recovery import expiring
from amends.recovery.checkpointing import Checkpointer
from amends.recovery.expiring import Expiring
from amends.runtime.upkeep import recovery_principal
from amends.testing.invariants import receipts_verify
from amends.testing.workbench import EVE, TENANT, Workbench
from amends.wiring.opening import Runtime, Settings
from tests.unit.runtime.desk import Desk, action, ask

pytestmark = pytest.mark.rule("RD-3")
CANARY: Final = "kanarienvogel-7319"
DAY_S: Final = 24 * 3600
KEEPS: Final = DataContract(retention_ms=DAY_S * 1000)


def bench(data: DataContract = KEEPS) -> Workbench:
    return Workbench(served=[Desk([{"echo": CANARY}]).served(data=data)])


async def done_twice(made: Workbench) -> None:
    """One transaction of each of two tenants."""
    for who, name in ((made.acting_as(EVE), "t_eve"), (made.alice, "t_alice")):
        await who.execute("payments.charge", {"card": CANARY}, transaction_id=name)


async def kept(made: Workbench, tenant: TenantId) -> bool:
    page = await made.store.list(ActionDocument, tenant)
    return CANARY in repr(page.items)


async def test_what_is_due_is_forgotten_for_every_tenant_without_anybody() -> None:
    async with bench() as made:
        await done_twice(made)
        program = Expiring(made.engine)
        early = await program.look()
        assert {tenant: one.forgotten for tenant, one in early.items()} == {
            TENANT: (),
            EVE.tenant: (),
        }
        made.wait(DAY_S)
        looked = await program.look()
        assert looked[TENANT].forgotten == ("t_alice",)
        assert looked[EVE.tenant].forgotten == ("t_eve",)
        assert not await kept(made, TENANT)
        assert not await kept(made, EVE.tenant)
        last = (await made.olga.receipts("t_alice"))[-1]
        assert last.step.type is ReceiptType.FORGOTTEN
        assert last.step.actor == recovery_principal(TENANT).ref
        again = await program.look()
        assert all(one.forgotten == () for one in again.values())


async def test_a_tenant_that_comes_later_is_found_and_old_receipts_are_read_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(expiring, "_AT_ONCE", 2)
    async with bench() as made:
        program = Expiring(made.engine)
        assert await program.look() == {}
        await done_twice(made)
        asked: list[int] = []
        feed = made.store.feed

        async def noted(*, after: int = 0, limit: int = 100) -> object:
            asked.append(after)
            return await feed(after=after, limit=limit)

        monkeypatch.setattr(made.store, "feed", noted)
        assert set(await program.look()) == {TENANT, EVE.tenant}
        assert asked == sorted(asked)
        last = asked[-1]
        await program.look()
        assert asked[asked.index(last) + 1 :] == [last]


async def test_without_a_declaration_nothing_is_even_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(DataContract()) as made:
        await done_twice(made)
        made.wait(1000 * DAY_S)
        monkeypatch.setattr(made.store, "feed", None)
        assert await Expiring(made.engine).look() == {}


@pytest.mark.rule("RD-4")
async def test_a_hold_stops_it_too() -> None:
    async with bench() as made:
        await done_twice(made)
        await made.olga.place_hold("t_alice", reason="Case 7.")
        made.wait(DAY_S)
        looked = await Expiring(made.engine).look()
        assert [one.reason for one in looked[TENANT].kept] == ["held"]
        lifted = await made.olga.lift_hold("t_alice", reason="Case 7 is over.")
        assert lifted.reason == "Case 7 is over."
        await Expiring(made.engine).look()
        view = await made.olga.get("t_alice")
        assert view.forgotten_at is not None
        assert view.hold is not None
        assert view.hold.reason.startswith("[redacted] sha256:")


@pytest.mark.rule("RC-3")
async def test_checkpoints_go_on_over_what_was_forgotten_and_every_chain_stays_whole() -> None:
    async with bench() as made:
        keeper = Checkpointer(made.store, made.signer, lambda: made.keys)
        await done_twice(made)
        before = read_note((await keeper.make()).note).head
        feed = await made.store.feed(limit=1000)
        made.wait(DAY_S)
        await Expiring(made.engine).look()
        await made.alice.execute("payments.charge", {"card": "another"})
        after = read_note((await keeper.make()).note).head
        now = await made.store.feed(limit=1000)
        assert now[: len(feed)] == feed
        tree = Tree([leaf for one in now if (leaf := leaf_or_none(one.receipt.hash))])
        path = tree.consistency(before.size, after.size)
        assert is_consistent(before.size, before.root, after.size, after.root, path)
        assert receipts_verify(await made.snapshot(), made.keys) == []


async def test_one_tenant_that_fails_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench() as made:
        await done_twice(made)
        made.wait(DAY_S)
        lists = made.store.list

        async def failing(type_: type, tenant: TenantId, **where: object) -> object:
            if tenant == EVE.tenant:
                raise Unavailable("store.unavailable", "Down.", next_step="Try again.")
            return await lists(type_, tenant, **where)  # type: ignore[arg-type]  # handed through

        monkeypatch.setattr(made.store, "list", failing)
        assert set(await Expiring(made.engine).look()) == {TENANT}


@pytest.mark.parametrize("retain", [True, False])
async def test_a_program_looks_while_it_runs_unless_that_is_turned_off(
    retain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiring, "FIRST_LOOK_S", 0.0)
    monkeypatch.setattr(expiring, "LOOK_S", 0.01)
    async with bench() as made:
        await ask(made, action(id="act_1", input={"card": CANARY}))
        made.wait(DAY_S)
        runtime = Runtime(made.engine, made.signer, Settings(retain=retain, poll_s=60.0))
        for _ in range(500 if retain else 20):
            if not await kept(made, TENANT):
                break
            await asyncio.sleep(0.01)
        assert await kept(made, TENANT) is not retain
        await runtime.close()


async def test_a_store_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiring, "FIRST_LOOK_S", 0.0)
    monkeypatch.setattr(expiring, "LOOK_S", 0.0)
    async with bench() as made:
        tried = 0
        again = asyncio.Event()

        async def failing(**_: object) -> object:
            nonlocal tried
            tried += 1
            if tried > 1:
                again.set()
            raise Unavailable("store.unavailable", "Down.", next_step="Try again.")

        monkeypatch.setattr(made.store, "feed", failing)
        running = asyncio.create_task(Expiring(made.engine).run())
        async with asyncio.timeout(5):
            await again.wait()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
