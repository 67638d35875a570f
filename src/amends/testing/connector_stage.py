"""The far end of a connector under test, and attempts to carry there.

A `Stage` stands where the provider would: its handlers do as they are told and remember what they
saw. `a_call` and `an_attempt` make attempts with every fact filled in, as the runtime would.

Deliberately not here: the contract that is checked with them (`connector_contract`).
"""

import asyncio
import time
from datetime import UTC, datetime
from typing import Final

import msgspec

from amends.connectors.blocking import BlockingAttempt
from amends.connectors.port import Attempt, Call, Checkpoint, OriginalEffect
from amends.contracts.declarations import Capability
from amends.contracts.enums import Handler, PrincipalKind
from amends.contracts.ids import (
    ActionId,
    CapabilityId,
    Fence,
    PrincipalId,
    ProviderOperationId,
    TenantId,
    TransactionId,
)
from amends.contracts.json_types import Json
from amends.contracts.outcomes import ProviderOperation
from amends.contracts.principals import PrincipalRef
from amends.contracts.secrets import Credential, Secret

OPERATION: Final = ProviderOperation("scripted", ProviderOperationId("op_1"), "req_1")
CURSOR: Final = "cursor_1"
PATIENCE_S: Final = 5.0
_SHORT_S: Final = 0.01


class Reaction(msgspec.Struct, frozen=True, kw_only=True):
    """What a handler does, in this order. A `checkpoint` has the cursor `CURSOR`."""

    checkpoint: ProviderOperation | None = None
    awaits_cancel: bool = False
    raises: BaseException | None = None
    returns: object = "done"


class Sighting(msgspec.Struct, frozen=True):
    """One entry of a handler: its input and its attempt."""

    input: object
    attempt: Attempt


class Stage:
    """The far end of a connector under test: reacts as told, and remembers what it saw."""

    def __init__(self) -> None:
        self.reaction = Reaction()
        self.seen: list[Sighting] = []
        self.events: list[str] = []

    async def enter(self, value: object, attempt: Attempt) -> object:
        """The body of an async handler."""
        self._see(value, attempt)
        if self.reaction.checkpoint:
            await attempt.checkpoint(*_parts(self.reaction.checkpoint))
            self.events.append("went on")
        if self.reaction.awaits_cancel:
            await attempt.cancelled.wait()
        return self._end()

    def enter_blocking(self, value: object, attempt: BlockingAttempt) -> object:
        """The body of a handler that blocks."""
        self._see(value, attempt)
        if self.reaction.checkpoint:
            attempt.checkpoint(*_parts(self.reaction.checkpoint))
            self.events.append("went on")
        while self.reaction.awaits_cancel and not attempt.cancelled.is_set():
            time.sleep(_SHORT_S)
        return self._end()

    def _see(self, value: object, attempt: Attempt) -> None:
        self.seen.append(Sighting(value, attempt))
        self.events.append("entered")

    def _end(self) -> object:
        self.events.append("ended")
        if self.reaction.raises is not None:
            raise self.reaction.raises
        return self.reaction.returns

    async def is_entered(self) -> None:
        """Return once a handler has been entered."""
        async with asyncio.timeout(PATIENCE_S):
            while not self.seen:  # noqa: ASYNC110  # entered from a thread, which sets no event
                await asyncio.sleep(_SHORT_S)


def a_call(handler: Handler = Handler.EXECUTE, *, tenant: str = "t1", input: Json = None) -> Call:
    """A call with every fact filled in that the handler's kind is told."""
    original = OriginalEffect(
        action_id=ActionId("act_original"),
        transaction_id=TransactionId("txn_original"),
        capability_id=CapabilityId("pay"),
        output={"operation_id": "op_0"},
        operation=ProviderOperation("scripted", ProviderOperationId("op_0")),
    )
    return Call(
        handler=handler,
        capability=Capability(id=CapabilityId("pay")),
        tenant=TenantId(tenant),
        principal=PrincipalRef(PrincipalId("ann"), PrincipalKind.USER),
        identity=None,
        transaction_id=TransactionId("txn_1"),
        action_id=ActionId("act_1"),
        number=2,
        fence=Fence("fen_1"),
        input={"amount": 5} if input is None else input,
        deadline=datetime(2026, 1, 1, tzinfo=UTC),
        deadline_in_ms=30_000,
        provider_key=None if handler is Handler.PREVIEW else "key_1",
        provider_operation=OPERATION if handler is Handler.RECONCILE else None,
        cursor="page_2" if handler is Handler.RECONCILE else None,
        original=original if handler is Handler.COMPENSATE else None,
        credential=Credential(secret=Secret("tok")),
    )


async def _unused(_operation: ProviderOperation, _cursor: str | None) -> None:
    raise AssertionError("no checkpoint was expected")


def an_attempt(call: Call, checkpoint: Checkpoint = _unused) -> Attempt:
    """An attempt of the call, not cancelled; make it in the event loop."""
    return Attempt(call, checkpoint, asyncio.Event())


def _parts(operation: ProviderOperation) -> tuple[str, str, str | None, str]:
    return operation.provider, operation.operation_id, operation.request_id, CURSOR
