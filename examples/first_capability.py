"""Charge a card, then give the money back: one capability and its compensation."""

from dataclasses import dataclass

from amends import Attempt, blocking, capability


@dataclass
class Order:
    amount: int
    currency: str


@capability("payments.charge", side_effects=["financial"])
def charge(order: Order, attempt: Attempt) -> dict[str, str]:
    return {"charge": f"ch_{attempt.provider_key}"}  # call your provider here, with this key


@charge.compensate
def refund(reason: str, attempt: Attempt) -> dict[str, str]:
    return {"refund": f"re_{attempt.provider_key}", "reason": reason}


with blocking.open("sqlite:///amends.db", [charge]) as amends:
    plan = amends.plan(charge, Order(4900, "eur"))
    done = amends.commit(plan)  # however many try, one commits
    back = amends.compensate(done, "The customer changed their mind.")
    print(plan.status, done.status, back.status)
