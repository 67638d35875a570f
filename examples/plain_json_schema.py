"""A capability whose input is described by a JSON Schema; its handler is given plain JSON.

For inputs that come from elsewhere: a form, a model's tool call, another team's contract.
"""

import asyncio

from amends import Amends, AmendsError, JsonObject, capability

TRANSFER: JsonObject = {
    "type": "object",
    "properties": {
        "from": {"type": "string", "pattern": "^[A-Z0-9]{4,12}$"},
        "to": {"type": "string", "pattern": "^[A-Z0-9]{4,12}$"},
        "minor_units": {"type": "integer", "minimum": 1},
    },
    "required": ["from", "to", "minor_units"],
    "additionalProperties": False,
}


@capability("ledger.transfer", side_effects=["financial"], input_schema=TRANSFER)
async def transfer(order: JsonObject) -> JsonObject:
    """Move money between two accounts of ours."""
    return {"moved": order["minor_units"]}


async def main() -> None:
    """An input that fits, and two that do not; refusals name the place, never the value."""
    async with Amends.open("memory:", [transfer]) as amends:
        done = await amends.execute(transfer, {"from": "ACC1", "to": "ACC2", "minor_units": 500})
        print(done.status, done.output)

        nothing: JsonObject = {"from": "ACC1", "to": "ACC2", "minor_units": 0}
        unasked: JsonObject = {"from": "ACC1", "to": "ACC2", "minor_units": 500, "urgent": True}
        for wrong in (nothing, unasked):
            try:
                await amends.execute(transfer, wrong)
            except AmendsError as refusal:
                print(refusal.code, dict(refusal.details))


if __name__ == "__main__":
    asyncio.run(main())
