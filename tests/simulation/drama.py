"""Small worlds in which a test decides what happens: a promise, foretold faults, and an ending."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from msgspec.structs import replace

from amends.contracts.actions import Action, TransactionContext
from amends.contracts.documents import TransactionRecord
from amends.contracts.enums import Collision, Mode
from amends.contracts.ids import ActionId, PlanId, TransactionId
from amends.contracts.principals import Caller
from amends.contracts.results import Result
from amends.receipts.signing import Ed25519Signer, KeyRing
from amends.runtime.registry import Registry
from amends.runtime.requests import Request
from amends.simulation import World, client
from amends.simulation.capabilities import CHARGE, make_registry
from amends.simulation.client import ALICE
from amends.simulation.ends import find_broken_ends
from amends.simulation.hosts import Call
from amends.simulation.promises import Promise
from amends.simulation.scenarios import rest
from amends.simulation.town import Town

Acts = Callable[[Town], Awaitable[None]]

SIGNER: Final = Ed25519Signer(bytes(range(32)))
STEADY: Final = Promise(
    looks_up="by_key",
    voids=False,
    window_ms=None,
    has_horizon=True,
    flight_ms=8_000,
    lag_ms=0,
    checkpoints=True,
    approval=False,
    refund_approval=False,
    max_compensations=1,
    refund_window_ms=None,
    refunds_apart=False,
    safe_to_retry=False,
    ponders=False,
    redacts=False,
    previews=False,
    collision=Collision.RETURN_ORIGINAL_RESULT,
    key_ttl_ms=None,
    skew_ms=0,
)
"""A provider that can be asked by key, and whose requests are dead eight seconds after a lease."""


def promise(**changes: object) -> Promise:
    """The steady promise with changes."""
    return replace(STEADY, **changes)


def play(
    acts: Acts,
    kept: Promise = STEADY,
    *,
    registry: Registry | None = None,
    seed: int | None = None,
    but: str | None = None,
) -> Town:
    """Let the acts happen in a town without chance, heal it, and hold it against every law.

    A test whose point it is to break one names what is then said: `but`.
    """
    towns: list[Town] = []

    async def scenario(world: World) -> None:
        town = Town(world, kept, registry or make_registry(kept), SIGNER)
        towns.append(town)
        town.clear_up()
        await acts(town)
        for host in town.hosts:
            host.process.kill()
        await rest(town, town.start_host(fated=False))
        broken = await find_broken_ends(town, KeyRing([SIGNER.public_key]))
        town.chronicle.faults.extend(broken)

    World(seed).run(scenario)
    (town,) = towns
    left = [fault for fault in town.chronicle.faults if but is None or but not in fault]
    assert left == [], "\n".join(town.story)
    return town


def ask(mode: Mode, action_id: str, *, key: str | None = None, **context: object) -> Request:
    """Alice's request for a charge under an action id, in this mode and context."""
    action = Action(
        capability_id=CHARGE,
        input={"amount": 1000, "currency": "eur"},
        transaction=replace(TransactionContext(mode=mode), **context),
        action_id=ActionId(action_id),
        idempotency_key=key,
    )
    return Request(action=action, caller=ALICE)


def execute(action_id: str, key: str | None = None) -> Request:
    """A direct execution under the transaction id that goes with its action id."""
    return ask(Mode.EXECUTE, action_id, key=key, transaction_id=TransactionId(f"t-{action_id}"))


def plan(action_id: str) -> Request:
    """A plan, whose id follows from its action id."""
    return ask(Mode.PLAN, action_id, transaction_id=TransactionId(f"t-{action_id}"))


def commit(action_id: str, planned: str) -> Request:
    """A commit of the plan of a planning action."""
    return ask(Mode.COMMIT, action_id, plan_id=PlanId(f"plan:t-{planned}"))


def compensate(action_id: str, target: str) -> Request:
    """A partial compensation of an action's effect."""
    asked = ask(
        Mode.COMPENSATE,
        action_id,
        transaction_id=TransactionId(f"t-{action_id}"),
        compensation_for=ActionId(target),
    )
    return replace(asked, action=replace(asked.action, input={"amount": 100}))


def look_up(transaction_id: str, caller: Caller) -> Request:
    """An operator's look-up, before its time if need be."""
    action = Action(
        capability_id=CHARGE,
        transaction=TransactionContext(
            mode=Mode.RECONCILE, transaction_id=TransactionId(transaction_id)
        ),
    )
    return Request(action=action, caller=caller, insist=True)


def perform(request: Request) -> Call[Result]:
    """The call that asks an engine for it."""
    return partial(client.perform, request)


def record_of(town: Town, transaction_id: str) -> TransactionRecord:
    """A record as it stands."""
    found = town.chronicle.document(TransactionRecord, transaction_id)
    assert found is not None
    return found
