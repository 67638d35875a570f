"""A payment that two people of finance have to approve, and that its requester cannot approve.

An approval is bound to exactly this action: this plan, this input, this policy. It serves one
execution, and the action runs when its requester comes back for it, not when somebody approves.
"""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from amends import Amends, AmendsError, ApprovalPolicy, ByRole, Principal, Quorum, capability

TWO_OF_FINANCE = ApprovalPolicy(
    reason="Payouts are agreed by two people of finance.",
    rule=Quorum(2, ByRole("finance")),
    ttl_ms=round(timedelta(hours=8) / timedelta(milliseconds=1)),
)

ALICE = Principal.named("alice", roles=["finance"])
BOB = Principal.named("bob", roles=["finance"])
CAROL = Principal.named("carol", roles=["finance"])


@dataclass
class Payout:
    """What is paid out, in minor units."""

    to: str
    amount_minor: int


@capability("payouts.send", side_effects=["financial"], approval=TWO_OF_FINANCE)
async def send(payout: Payout) -> dict[str, str]:
    """Send the money; a real one would call the bank here."""
    return {"sent_to": payout.to}


async def main() -> None:
    """Plan, commit, ask three people, and go on."""
    async with Amends.open("sqlite:///approvals.db", [send], principal=ALICE) as alice:
        plan = await alice.plan(send, Payout("Shipping Ltd", 125_000))
        waiting = await alice.commit(plan)
        print("committed:", waiting.status)

        try:
            await alice.approve(waiting)
        except AmendsError as refusal:
            print("alice:", refusal.code)

        for other in (BOB, CAROL):
            request = await alice.acting_as(other).approve(waiting, reason="Matches the invoice.")
            print(f"{other.id}:", request.status)

        done = await alice.wait_for_approval(waiting, timeout_s=5)
        print("went on:", done.status, done.output)


if __name__ == "__main__":
    asyncio.run(main())
