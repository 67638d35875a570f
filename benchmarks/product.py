"""Amends itself, with everything on: gates, idempotency, receipts chained and signed.

The connector does nothing, so what is measured is Amends.
"""

import asyncio
import gc
import random
import time
from collections.abc import Awaitable, Callable, Iterator

from amends import Amends, FunctionCapability, Principal, capability

SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"amount": {"type": "integer"}, "currency": {"type": "string"}},
    "required": ["amount", "currency"],
    "additionalProperties": False,
}


def nothing(
    look: Callable[[], Awaitable[object]] | None = None,
) -> FunctionCapability[..., object]:
    """A capability whose connector answers at once, having called `look` if there is one."""

    @capability("bench.nothing", input_schema=SCHEMA, risk="low")  # type: ignore[arg-type]  # a plain JSON Schema
    async def do_nothing(order: object, attempt: object) -> dict[str, object]:
        if look is not None:
            await look()
        return {"id": "op_1", "status": "done"}

    return do_nothing


async def run(
    url: str, *, count: int, tasks: int, random_keys: bool = False, first: int = 0
) -> float:
    """Execute `count` actions from `tasks` concurrent tasks; returns actions a second.

    Keys are numbered from `first` on: another process needs others.
    """
    principal = Principal.named("bench")
    work = nothing()
    numbers = iter(range(first, first + count))
    async with Amends.open(url, [work], principal=principal, recover=False) as amends:
        await amends.execute(work, {"amount": 1, "currency": "eur"})

        async def one(keys: Iterator[int]) -> None:
            for number in keys:
                key = f"{random.getrandbits(128):032x}" if random_keys else f"k{number:031d}"
                chosen = f"act_{random.getrandbits(128):032x}" if random_keys else None
                await amends.execute(
                    work,
                    {"amount": number, "currency": "eur"},
                    idempotency_key=key,
                    action_id=chosen,
                )

        gc.collect()
        gc.freeze()
        started = time.perf_counter()
        await asyncio.gather(*(one(numbers) for _ in range(tasks)))
        return count / (time.perf_counter() - started)
