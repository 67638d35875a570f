"""The program that the command line works for in tests.

The provider's books are a file, one line for each time money moved, so that effects are counted
outside of Amends, whatever became of the process. What an order costs decides how it goes.
"""

import asyncio
import os
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeAlias

from amends import (
    ApprovalPolicy,
    Attempt,
    BlockingAttempt,
    ByPrincipal,
    DataContract,
    ExecutionContract,
    FunctionCapability,
    NotApplied,
    NotFound,
    Partial,
    Pending,
    Settings,
    capability,
)
from amends.contracts.ids import PrincipalId

BOOKS: Final = "SHOP_BOOKS"
"""The environment variable that names the provider's books."""

SIGNALS: Final = "SHOP_SIGNALS"
"""Which signals this process sends itself at which point, such as `entered:2,15`."""

HOLD: Final = "SHOP_HOLD"
"""A folder: a handler that reaches a point writes it down there, and waits there if told to."""

BREAKS: Final = 13
DECLINED: Final = 14
PARTLY: Final = 15
LATER: Final = 16
SLOW: Final = 17
FOREVER: Final = 18
UNNAMED: Final = 19
EXITS: Final = 20


@dataclass
class Order:
    """What is to be paid."""

    amount: int
    currency: str = "eur"


@dataclass
class Parcel:
    """What is to be sent, with things in it that nobody else should read."""

    address: str = ""
    token: str = ""
    notes: dict[str, str] | None = None
    tags: tuple[str, ...] = ()


Charging: TypeAlias = FunctionCapability[
    [Order, Attempt], Coroutine[object, object, dict[str, str]]
]


def books() -> list[str]:
    """Every time money moved: what, and under which key."""
    path = Path(os.environ[BOOKS])
    return path.read_text().splitlines() if path.exists() else []


def moved(what: str, key: str) -> None:
    """The provider does it, and keeps it."""
    with Path(os.environ[BOOKS]).open("a") as file:
        file.write(f"{what} {key}\n")


def reached(point: str) -> Path:
    """Say that a point is reached; the file that holds whoever comes there."""
    at, _, numbers = os.environ.get(SIGNALS, "").partition(":")
    for number in numbers.split(",") if at == point else ():
        os.kill(os.getpid(), int(number))
    folder = Path(os.environ.get(HOLD, "/nowhere"))
    if folder.is_dir():
        (folder / f"{point}.reached").touch()
    return folder / f"{point}.hold"


async def pass_by(point: str) -> None:
    """Reach a point, and stay there while it is held."""
    hold = reached(point)
    while hold.exists():  # noqa: ASYNC110  # another process lets go
        await asyncio.sleep(0.01)


def charging(timeout: timedelta) -> Charging:
    """The capability that charges, with all that can go wrong with it."""

    @capability(
        "payments.charge",
        title="Charge a card",
        side_effects=["financial"],
        timeout=timeout,
        execution=ExecutionContract(lookup_by_key=True, in_flight_horizon_ms=1),
    )
    async def charge(order: Order, attempt: Attempt) -> dict[str, str]:
        print("a handler that prints")
        await pass_by("entered")
        if order.amount == DECLINED:
            raise NotApplied("card_declined", "The card was declined.")
        moved("charge", attempt.provider_key)
        await pass_by("moved")
        await go_wrong(order)
        if order.amount != UNNAMED:
            await attempt.checkpoint("shop", f"ch-{order.amount}")
        reached("answered")
        return {"charge": f"ch-{order.amount}"}

    charge.reconcile(look)
    charge.compensate(refund)
    return charge


async def go_wrong(order: Order) -> None:
    """What becomes of an order after the provider has taken it."""
    if order.amount in (SLOW, FOREVER):
        await asyncio.sleep(0.1 if order.amount == SLOW else 60)
    if order.amount == BREAKS:
        raise ConnectionResetError
    if order.amount == EXITS:
        raise SystemExit(3)
    if order.amount == PARTLY:
        raise Partial("half_paid", "Only a half was paid.")
    if order.amount == LATER:
        raise Pending(retry_after_ms=50)


async def look(order: Order, attempt: Attempt) -> dict[str, str]:
    if f"charge {attempt.provider_key}" not in books():
        raise NotFound
    return {"charge": f"ch-{order.amount}"}


async def refund(reason: str, attempt: Attempt) -> dict[str, str]:
    moved("refund", attempt.provider_key)
    return {"refund": reason}


charge: Final = charging(timedelta(seconds=20))
hasty: Final = charging(timedelta(seconds=2))
"""The same with a short lease, for whoever has to wait for its end."""


@capability("payments.wire", title="Wire money", side_effects=["financial"], risk="high")
async def wire(order: Order, attempt: Attempt) -> dict[str, int]:
    moved("wire", attempt.provider_key)
    return {"wired": order.amount}


@capability("payments.stuck", timeout=timedelta(seconds=60))
def stuck(order: Order, attempt: BlockingAttempt) -> None:
    """A plain handler in the hands of a provider that does not answer."""
    reached("entered")
    time.sleep(60)


@capability(
    "parcels.send",
    data=DataContract(redaction_required=True),
    execution=ExecutionContract(lookup_by_key=True),
)
async def send(parcel: Parcel, attempt: Attempt) -> dict[str, object]:
    if parcel.address == "refuse":
        raise NotApplied("refused", f"No {parcel.token}.", details={"said": parcel.token})
    moved("parcel", attempt.provider_key)
    if parcel.address == "break":
        raise RuntimeError(parcel.token)
    return {"sent_to": parcel.address, "with": parcel.notes}


@send.reconcile
async def trace(parcel: Parcel, attempt: Attempt) -> dict[str, str]:
    return {"found": attempt.provider_key}


@capability("parcels.label", data=DataContract(redact=("/notes/*",)))
async def label(parcel: Parcel) -> Parcel:
    return parcel


@capability(
    "payments.checked",
    approval=ApprovalPolicy(
        reason="It is a lot.", rule=ByPrincipal((PrincipalId("olga"),)), evidence=("ticket",)
    ),
)
async def checked(order: Order) -> dict[str, int]:
    return {"paid": order.amount}


@checked.preview
async def check(order: Order) -> dict[str, int]:
    return {"left": 100 - order.amount}


@checked.compensate(requires_approval=True)
async def give_back(order: Order) -> None:
    """Some of it goes back."""


class SlowSource:
    """A credential source that takes its time, in the event loop's own turn."""

    def credential(self, *_: object) -> None:
        hold = reached("credential")
        while hold.exists():
            time.sleep(0.01)


capabilities: Final = (charge, wire, stuck, send, label, checked)
single: Final = charge
listed_badly: Final = (charge, "no capability")
no_app: Final = 7
settings: Final = Settings(drain_ms=400, grace_ms=200, credentials=SlowSource())


def make() -> tuple[object, ...]:
    """The same capabilities, from a function."""
    return capabilities


def make_pairs() -> list[object]:
    """Capabilities that are built already."""
    return [charge.build()]


def interrupt() -> None:
    """Somebody presses Ctrl-C while the app is being made."""
    os.kill(os.getpid(), 2)


def fail() -> None:
    """A function that cannot make an app."""
    raise LookupError("shelves are empty")


def leave() -> None:
    """A function that ends the program."""
    raise SystemExit(3)


def refuse() -> None:
    """A function that hears no."""
    from amends import Misuse

    raise Misuse("shop.closed", "The shop is closed.")


@capability("payments.brief", plan_ttl=timedelta(milliseconds=1))
async def brief(order: Parcel) -> None:
    """Its plans are over at once."""


@capability("payments.charge")
async def changed_charge(order: Parcel) -> None:
    """The same capability, after somebody has changed what it takes."""


quick_settings: Final = Settings(drain_ms=400, grace_ms=200)
