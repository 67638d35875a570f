"""What a program writes by its wire spelling means the same as the member of the enumeration."""

from dataclasses import dataclass
from typing import Any

import pytest

from amends import (
    Action,
    Amends,
    Attempt,
    FunctionCapability,
    IdempotencyContract,
    PrincipalRef,
    Refused,
    TransactionContext,
    TransactionRequest,
    capability,
)
from amends.app.amends import LOCAL
from amends.contracts.ids import ActionId, TransactionId

ME = PrincipalRef(LOCAL.id, LOCAL.kind)


@dataclass
class Note:
    text: str


def _notes() -> FunctionCapability[..., Any]:
    @capability("notes.write")
    async def write(note: Note, attempt: Attempt) -> str:
        return note.text

    @write.compensate(requires_approval=True)
    async def strike(note: Note, attempt: Attempt) -> str:
        return note.text

    return write


def _asking(mode: Any, target: str) -> TransactionRequest:
    context = TransactionContext(mode=mode, compensation_for=ActionId(target))
    action = Action(capability_id=_notes().id, input={"text": "no"}, transaction=context)
    return TransactionRequest(
        transaction_id=TransactionId("txn_strike"), action=action, requested_by=ME
    )


@pytest.mark.rule("TX-PIPE-3")
async def test_a_compensation_named_by_its_spelling_still_waits_for_its_approval() -> None:
    async with Amends.open("memory:", [_notes()], recover=False) as amends:
        written = await amends.execute("notes.write", Note("yes"))
        struck = await amends.transact(_asking("compensate", written.action_id))
        assert struck.result.status == "requires_human"


async def test_a_mode_that_does_not_exist_is_refused() -> None:
    async with Amends.open("memory:", [_notes()], recover=False) as amends:
        with pytest.raises(Refused) as refused:
            await amends.transact(_asking("undo", "act_1"))
        assert refused.value.code == "transaction.mode_not_supported"


@pytest.mark.rule("ID-1")
async def test_a_key_required_by_its_spelling_is_required() -> None:
    required: Any = "required"

    @capability("notes.keyed", idempotency=IdempotencyContract(requirement=required))
    async def keyed(note: Note) -> str:
        return note.text

    async with Amends.open("memory:", [keyed], recover=False) as amends:
        with pytest.raises(Refused) as refused:
            await amends.execute(keyed, Note("yes"))
        assert refused.value.code == "idempotency.key_required"
