"""What a declared type adds to an input is approved with it, however it was asked for."""

from collections.abc import Awaitable, Callable
from dataclasses import make_dataclass
from pathlib import Path

import msgspec
import pytest

from amends.app.amends import Amends
from amends.app.capabilities import FunctionCapability, capability
from amends.contracts.actions import Action, TransactionContext, TransactionRequest
from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.enums import Mode
from amends.contracts.ids import CapabilityId, TransactionId
from amends.contracts.principals import APPROVE_SCOPE, Principal
from amends.contracts.results import Result
from amends.testing.workbench import ALICE
from amends.wiring.opening import Settings

QUIET = Settings(recover=False)
BOB = Principal.named("bob", tenant="acme", scopes=(APPROVE_SCOPE,))
CHARGE = "shop.charge"


def release(currency: str) -> tuple[FunctionCapability[..., object], list[object]]:
    """A release of the shop that charges in this currency where no other is named."""
    order = make_dataclass("Order", [("amount", int), ("currency", str, currency)])
    charged: list[object] = []

    async def charge(order: object) -> dict[str, object]:
        charged.append(order.currency)  # type: ignore[attr-defined]  # the class is made above
        return {"id": "ch_1"}

    charge.__annotations__["order"] = order
    return capability(CHARGE, approval=ApprovalPolicy())(charge), charged


async def by_execute(amends: Amends) -> Result:
    return await amends.execute(CHARGE, {"amount": 5})


async def by_transact(amends: Amends) -> Result:
    asked = Action(
        capability_id=CapabilityId(CHARGE),
        input={"amount": 5},
        transaction=TransactionContext(mode=Mode.EXECUTE),
    )
    request = TransactionRequest(
        transaction_id=TransactionId("txn_1"), action=asked, requested_by=ALICE.ref
    )
    return (await amends.transact(request)).result


@pytest.mark.case("APR-02")
@pytest.mark.rule("AP-2")
@pytest.mark.parametrize("asked", [by_execute, by_transact])
async def test_a_release_with_another_default_does_not_change_what_was_approved(
    asked: Callable[[Amends], Awaitable[Result]], tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'amends.db'}"
    before, _ = release("EUR")
    async with Amends.open(url, [before], principal=ALICE, settings=QUIET) as amends:
        waiting = await asked(amends)
        shown = await amends.approval(waiting)
        assert shown.input is not None
        assert msgspec.json.decode(shown.input) == {"amount": 5, "currency": "EUR"}
        await amends.acting_as(BOB).approve(waiting)
    after, charged = release("USD")
    async with Amends.open(url, [after], principal=ALICE, settings=QUIET) as amends:
        done = await amends.resume(str(waiting.action_id))
        assert (done.status, charged) == ("committed", ["EUR"])
