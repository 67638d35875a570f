"""A key is inserted before anybody looks for it; whoever comes late hears what looking would say.

An execution whose ids are all new does not read its key's reservation first. Every answer has to be
the one that an execution under a chosen action id gets, which does read it.
"""

import asyncio
from functools import partial
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from amends.connectors.port import Attempt
from amends.contracts.declarations import IdempotencyContract
from amends.contracts.documents import Document, Reservation
from amends.contracts.enums import Collision, KeyScope
from amends.contracts.errors import AmendsError
from amends.contracts.ids import TenantId
from amends.contracts.outcomes import NotApplied
from amends.stores.port import Stored
from amends.testing.workbench import Workbench
from tests.unit.runtime.desk import DECLINED, DONE, LATER, UNSURE, Desk, action, ask, replaced

ENDINGS: Final = (DONE, UNSURE, NotApplied(error=LATER), NotApplied(error=DECLINED))


async def second_use(
    ending: object,
    contract: IdempotencyContract,
    *,
    chosen: str | None,
    changed: bool,
    waits: bool,
    later_s: int,
) -> tuple[object, ...]:
    """What the second use of a key is told, and how often the handler was entered for both."""
    desk = Desk([ending, DONE])
    async with Workbench(served=[desk.served(idempotency=contract)]) as bench:
        first = await ask(bench, action(key="k", approval=waits))
        bench.wait(later_s)
        asked = action(id=chosen, key="k", input={"amount": 1 if changed else 500}, approval=waits)
        try:
            told = await ask(bench, asked)
        except AmendsError as error:
            return error.code, error.details, len(desk.seen)
        own = told.action_id != first.action_id
        return told.status, told.replayed, told.raw_output, own, len(desk.seen)


@pytest.mark.rule("ID-2", "ID-3", "ID-4")
@given(
    ending=st.sampled_from(ENDINGS),
    collision=st.sampled_from(Collision),
    scope=st.sampled_from([KeyScope.TENANT, KeyScope.CAPABILITY, KeyScope.PRINCIPAL]),
    changed=st.booleans(),
    waits=st.booleans(),
    later_s=st.sampled_from([0, 90]),
)
def test_not_looking_first_tells_what_looking_first_tells(
    ending: object,
    collision: Collision,
    scope: KeyScope,
    *,
    changed: bool,
    waits: bool,
    later_s: int,
) -> None:
    contract = replace(IdempotencyContract(), collision=collision, key_scope=scope, ttl_ms=60_000)

    async def both() -> tuple[object, object]:
        use = partial(second_use, ending, contract, changed=changed, waits=waits, later_s=later_s)
        return await use(chosen="act_late"), await use(chosen=None)

    looked, taken = asyncio.run(both())
    assert taken == looked


@pytest.mark.rule("ID-2")
@pytest.mark.parametrize("chosen", [None, "act_late"])
async def test_a_key_whose_holder_still_runs_is_in_progress_either_way(chosen: str | None) -> None:
    heard: list[str] = []

    async def meanwhile(_attempt: Attempt) -> object:
        with pytest.raises(AmendsError) as caught:
            await ask(bench, action(id=chosen, key="k"))
        heard.append(caught.value.code)
        return DONE

    async with Workbench(served=[Desk([meanwhile]).served()]) as bench:
        await ask(bench, action(key="k"))
        assert heard == ["idempotency.in_progress"]
        assert len((await bench.snapshot()).reservations) == 1


async def test_only_the_second_use_of_a_key_reads_its_reservation() -> None:
    read: list[type[Document]] = []

    async with Workbench(served=[Desk().served()]) as bench:
        get = bench.store.get

        async def seen(
            type_: type[Document], tenant: TenantId, id_: str
        ) -> Stored[Document] | None:
            read.append(type_)
            return await get(type_, tenant, id_)

        replaced(bench, "get", seen)
        await ask(bench, action(key="k"))
        assert Reservation not in read
        again = await ask(bench, action(key="k"))
        assert again.replayed
        assert Reservation in read
