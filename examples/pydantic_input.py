"""A Pydantic model as the input: its schema is published, its validators run before the handler."""

import asyncio
from typing import Annotated

from pydantic import BaseModel, Field

from amends import Amends, AmendsError, capability


class Invitation(BaseModel):
    """Who is invited, and for how many days the invitation holds."""

    name: Annotated[str, Field(min_length=1)]
    days: Annotated[int, Field(ge=1, le=30)] = 7


@capability("accounts.invite", side_effects=["send_message"])
async def invite(invitation: Invitation) -> dict[str, str]:
    """Invite somebody; the handler is given the model."""
    return {"invited": invitation.name, "for": f"{invitation.days} days"}


async def main() -> None:
    """A model, plain JSON, and an input that does not fit."""
    async with Amends.open("memory:", [invite]) as amends:
        by_model = await amends.execute(invite, Invitation(name="Dora"))
        print(by_model.status, by_model.output)

        by_json = await amends.execute(invite, {"name": "Emil", "days": 3})
        print(by_json.status, by_json.output)

        try:
            await amends.execute(invite, {"name": "Fritz", "days": 365})
        except AmendsError as refusal:
            print(refusal.code, dict(refusal.details))


if __name__ == "__main__":
    asyncio.run(main())
