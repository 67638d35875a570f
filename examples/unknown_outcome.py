"""A provider that does the work and answers too late: unknown, found out, never done twice.

The declaration says how the provider can be asked (`lookup_by_key`), and `look_up` asks it. Until
it has answered, nothing that anybody sends again reaches the provider.
"""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from amends import (
    Amends,
    AmendsError,
    Attempt,
    ExecutionContract,
    NotFound,
    Principal,
    capability,
)

OLGA = Principal.named("olga", kind="operator")


@dataclass
class Message:
    """What is sent to whom."""

    to: str
    text: str


class SlowProvider:
    """Takes a message at once, and confirms it later than anybody waits."""

    def __init__(self) -> None:
        self.sent: dict[str, Message] = {}

    async def send(self, message: Message, key: str) -> None:
        """Send now, answer a second later."""
        self.sent[key] = message
        await asyncio.sleep(1)


provider = SlowProvider()


@capability(
    "messages.send",
    side_effects=["send_message"],
    timeout=timedelta(seconds=0.2),
    execution=ExecutionContract(lookup_by_key=True),
)
async def send(message: Message, attempt: Attempt) -> dict[str, str]:
    """Send it, and wait for the confirmation."""
    await provider.send(message, attempt.provider_key)
    return {"to": message.to}


@send.reconcile
async def look_up(message: Message, attempt: Attempt) -> dict[str, str]:
    """Find out whether it was sent. This must never send anything."""
    if attempt.provider_key not in provider.sent:
        raise NotFound
    return {"to": message.to}


async def main() -> None:
    """Send, time out, try again in vain, and find out."""
    async with Amends.open("sqlite:///unknown.db", [send]) as amends:
        unknown = await amends.execute(
            send, Message("dora@example.org", "Your parcel is here."), action_id="parcel-17"
        )
        print("after the time limit:", unknown.status)
        for step in unknown.next:
            print(f"  {step.call}: {step.text}")

        try:
            await amends.resume(unknown)
        except AmendsError as refusal:
            print("sent again:", refusal.code)

        # By itself this happens in the background a few seconds later; an operator may insist.
        known = await amends.acting_as(OLGA).reconcile(unknown, insist=True)
        print("asked the provider:", known.status, known.verdict)
        print("messages at the provider:", len(provider.sent))


if __name__ == "__main__":
    asyncio.run(main())
