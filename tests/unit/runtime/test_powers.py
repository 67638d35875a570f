"""What operators may do is a scope each: a table of every deed and everybody who might try it."""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import pytest
from msgspec.structs import replace

from amends.app.amends import Amends
from amends.contracts.documents import Correction
from amends.contracts.enums import PrincipalKind
from amends.contracts.errors import AmendsError
from amends.contracts.events import ProviderEvent, Said
from amends.contracts.ids import PrincipalId
from amends.contracts.principals import (
    ANY_SCOPE,
    APPROVE_SCOPE,
    HOLD_SCOPE,
    OPERATE_SCOPE,
    RELEASE_SCOPE,
    RETAIN_SCOPE,
    SETTLE_SCOPE,
    Principal,
)
from amends.recovery.freezing import Freezer
from amends.runtime.evidence import EVIDENCE_SCOPE
from amends.stores.port import Stored
from amends.testing.workbench import ALICE, OLGA, TENANT, Workbench
from tests.unit.runtime.desk import DONE, UNSURE, Desk, action, ask

Deed = Callable[[Amends], Awaitable[object]]


class Row(NamedTuple):
    """A deed, the scope that it takes, and the refusal of everybody else."""

    power: str
    refusal: str
    deed: Deed


async def settle(who: Amends) -> object:
    return await who.settle("txn_open", "committed", reference="r", note="n")


async def release(who: Amends) -> object:
    return await who.release("txn_frozen")


async def cancel(who: Amends) -> object:
    return await who.cancel("act_waiting")


async def withdraw(who: Amends) -> object:
    return await who.withdraw("txn_planned")


async def insist(who: Amends) -> object:
    return await who.reconcile("txn_open", insist=True)


async def look(who: Amends) -> object:
    return await who.get("txn_planned")


async def bring(who: Amends) -> object:
    return await who.evidence(ProviderEvent(provider="desk", event_id="e", said=Said.APPLIED))


async def rule(who: Amends) -> object:
    page = await who._runtime.engine.environment.store.list(Correction, TENANT)
    [found] = [one.document for one in page.items if isinstance(one, Stored)]
    return await who.rule(found, "It is there.", allow_compensation=True)


async def hold(who: Amends) -> object:
    return await who.place_hold("txn_planned", reason="case 7")


async def lift(who: Amends) -> object:
    return await who.lift_hold("txn_held", reason="case 7 is over")


async def listed(who: Amends) -> object:
    return await who.holds()


async def retain(who: Amends) -> object:
    return await who.retain()


TABLE: Final = (
    Row(OPERATE_SCOPE, "transaction.not_found", look),
    Row(OPERATE_SCOPE, "action.cancel_not_allowed", cancel),
    Row(OPERATE_SCOPE, "transaction.withdraw_not_allowed", withdraw),
    Row(OPERATE_SCOPE, "transaction.reconcile_not_allowed", insist),
    Row(EVIDENCE_SCOPE, "evidence.not_allowed", bring),
    Row(SETTLE_SCOPE, "transaction.settle_not_allowed", settle),
    Row(SETTLE_SCOPE, "correction.ruling_not_allowed", rule),
    Row(RELEASE_SCOPE, "transaction.release_not_allowed", release),
    Row(HOLD_SCOPE, "hold.not_allowed", hold),
    Row(HOLD_SCOPE, "hold.not_allowed", lift),
    Row(HOLD_SCOPE, "hold.not_allowed", listed),
    Row(RETAIN_SCOPE, "retention.not_allowed", retain),
)
POWERS: Final = tuple(dict.fromkeys((*(one.power for one in TABLE), APPROVE_SCOPE)))
_BY_OPERATING: Final = frozenset({OPERATE_SCOPE, EVIDENCE_SCOPE})
"""What every principal of kind operator may, whatever its scopes, and every holder of operate."""


def named(*scopes: str, kind: PrincipalKind = PrincipalKind.USER) -> Principal:
    return replace(ALICE, id=PrincipalId("walter"), scopes=scopes, kind=kind)


WHO: Final = {
    "a user with every scope": named(ANY_SCOPE),
    "a user with none": named(),
    "a service with every scope": named(ANY_SCOPE, kind=PrincipalKind.SERVICE),
    "an operator with every scope": OLGA,
    "an operator with none": named(kind=PrincipalKind.OPERATOR),
    **{f"a user with {one}": named(one) for one in POWERS},
}


def expected(row: Row, who: Principal) -> bool:
    """As the rule says it, and not as the code does."""
    if row.power in who.scopes:
        return True
    if row.deed is look and ANY_SCOPE in who.scopes:
        return True  # reading is a scope like any other, and the wildcard holds it
    operates = who.kind is PrincipalKind.OPERATOR or OPERATE_SCOPE in who.scopes
    if row.power in _BY_OPERATING:
        return operates
    return who.kind is PrincipalKind.OPERATOR and ANY_SCOPE in who.scopes


async def fill(bench: Workbench) -> None:
    """One of each: frozen, open, planned, held, contradicted, and one that waits for people."""
    await ask(bench, action(transaction="txn_frozen"))
    await Freezer(bench.engine, lambda _: None).freeze([TENANT], "restored")
    await ask(bench, action(transaction="txn_open"))
    await bench.alice.plan("payments.charge", {"amount": 1}, transaction_id="txn_planned")
    held = await bench.alice.plan("payments.charge", {"amount": 1}, transaction_id="txn_held")
    await bench.olga.place_hold(held, reason="case 7")
    await ask(bench, action(id="act_waiting", transaction="txn_waiting", approval=True))
    done = await ask(bench, action(transaction="txn_done"))
    key = (await bench.record(done)).provider_key
    no = ProviderEvent(provider="desk", event_id="no", said=Said.NOT_APPLIED, provider_key=key)
    await bench.olga.evidence(no)


@pytest.mark.rule("TX-RECON-5", "TX-REV-3", "TX-LEASE-3")
@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.deed.__name__)
async def test_each_deed_takes_its_own_scope_and_is_refused_to_everybody_else(row: Row) -> None:
    for who in WHO.values():
        desk = Desk([UNSURE, UNSURE, DONE], reconcile=[DONE], compensate=[DONE])
        async with Workbench(served=[desk.served()]) as bench:
            await fill(bench)
            before = await bench.snapshot()
            refusal = await refused(row, bench.acting_as(who))
            assert refusal == (None if expected(row, who) else row.refusal), who
            if refusal is not None:
                assert (await bench.snapshot()).feed == before.feed


async def refused(row: Row, who: Amends) -> str | None:
    """The code of the refusal, or none where it was done."""
    try:
        await row.deed(who)
    except AmendsError as error:
        return error.code
    return None
