"""A connection that is cut in mid COMMIT, at every write of a charge and its refund: one effect."""

from pathlib import Path

import pytest

from amends.testing.errands import AnyErrand, Commit, Compensate, Plan, run_errand
from amends.testing.postgres_server import PostgresServer
from amends.testing.tcp_proxy import Cut, TcpProxy
from amends.testing.till import Setup, open_till
from tests.acceptance.children import effects, status

ERRANDS: tuple[AnyErrand, ...] = (
    Plan(action_id="act_plan", transaction_id="txn_1"),
    Commit(action_id="act_commit", plan_id="plan:txn_1"),
    Compensate(action_id="act_undo", transaction_id="txn_2", target="act_commit"),
)
MOST = 12
"""More than the errands have writes."""


@pytest.mark.fault(16)
@pytest.mark.case("DBC-01", "DBC-02")
@pytest.mark.rule("TX-CLAIM-1")
@pytest.mark.parametrize("cut", list(Cut))
async def test_a_cut_at_any_write_of_a_charge_and_its_refund_doubles_and_loses_nothing(
    postgres_server: PostgresServer, tmp_path: Path, cut: Cut
) -> None:
    """The first cut is at the first write, the next one at the second, until there is no such."""
    counted = 0
    for spared in range(MOST):
        database = postgres_server.lend()
        folder = tmp_path / str(spared)
        folder.mkdir()
        async with TcpProxy(postgres_server.port) as proxy:
            setup = Setup(
                store=f"{proxy.beside(database.url)}?folder={folder}",
                ledger=str(folder / "provider.jsonl"),
            )
            async with open_till(setup) as till:
                proxy.cut_next(cut, spare=spared)
                answers = [await run_errand(till, errand) for errand in ERRANDS]
                assert [answer.code for answer in answers] == [None] * 3
                assert await status(till, "txn_2") == "compensated"
                assert await till.check() == []
            assert (effects(setup, "charge"), effects(setup, "refund")) == (1, 1)
            counted += proxy.cuts
        postgres_server.take_back(database)
        if not proxy.cuts:
            break
    assert counted == spared >= 6
