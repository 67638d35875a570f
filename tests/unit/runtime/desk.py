"""A connector that answers as told, and the shortest way to ask the engine for something."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from amends.connectors.port import Attempt
from amends.contracts.actions import Action, TransactionContext
from amends.contracts.documents import (
    ActionDocument,
    Document,
    Refusal,
    TransactionRecord,
)
from amends.contracts.enums import Handler, Mode
from amends.contracts.errors import AmendsError
from amends.contracts.ids import (
    ActionId,
    CapabilityId,
    PlanId,
    ProviderOperationId,
    TenantId,
    TransactionId,
)
from amends.contracts.json_types import Json
from amends.contracts.outcomes import ErrorInfo, ProviderOperation, Uncertain
from amends.contracts.principals import Caller, Identity, Principal
from amends.contracts.results import Result
from amends.runtime.requests import Request
from amends.runtime.running import Running
from amends.stores.port import Accepted, ChangeSet, Lost, Stored
from amends.testing.workbench import ALICE, CHARGE, TENANT, Served, Workbench, serving

ORDER: Final[Mapping[str, Json]] = {"amount": 500}
DECLINED: Final = ErrorInfo(code="card_declined")
LATER: Final = ErrorInfo(code="try_later", retryable=True)

UNSURE: Final = Uncertain(error=ErrorInfo(code="unsure"))
DONE: Final = {"id": "op_1"}
OPERATION: Final = ProviderOperation("desk", ProviderOperationId("op_1"))
OTHER: Final = ProviderOperation("desk", ProviderOperationId("op_2"))

Answer = object
"""What a handler returns; an exception is raised, and a callable is called with the attempt."""


class Desk:
    """Handlers that give one answer after the other, the last one for ever, and count entries."""

    def __init__(
        self,
        execute: Iterable[Answer] = ({"id": "op_1"},),
        *,
        preview: Iterable[Answer] = (),
        reconcile: Iterable[Answer] = (),
        compensate: Iterable[Answer] = (),
    ) -> None:
        scripts = {
            Handler.EXECUTE: tuple(execute),
            Handler.PREVIEW: tuple(preview),
            Handler.RECONCILE: tuple(reconcile),
            Handler.COMPENSATE: tuple(compensate),
        }
        self.seen: list[Attempt] = []
        self.handlers = {kind: self._handler(one) for kind, one in scripts.items() if one}

    def _handler(self, script: tuple[Answer, ...]) -> Callable[..., Awaitable[object]]:
        answers = _then_last(script)

        async def handler(_input: dict[str, Json] | None, attempt: Attempt) -> object:
            self.seen.append(attempt)
            answer = next(answers)
            if isinstance(answer, BaseException):
                raise answer
            return await answer(attempt) if callable(answer) else answer

        return handler

    def served(self, capability: str = CHARGE, /, **changes: object) -> Served:
        """The capability of these handlers; any JSON object is an input."""
        anything: Json = {"type": "object"}
        told = {"input_schema": anything, "compensation_schema": None, **changes}
        return serving(self.handlers, capability, **told)

    def entered(self, handler: Handler) -> int:
        """How often a handler was entered."""
        return sum(one.call.handler is handler for one in self.seen)


def _then_last(script: tuple[Answer, ...]) -> Iterator[Answer]:
    yield from script
    while True:
        yield script[-1]


def action(
    mode: Mode = Mode.EXECUTE,
    *,
    input: Json = None,
    id: str | None = None,
    transaction: str | None = None,
    plan: str | None = None,
    target: str | None = None,
    key: str | None = None,
    capability: str = CHARGE,
    approval: bool = False,
    metadata: Mapping[str, Json] | None = None,
) -> Action:
    """An action as a caller sends it; its input is `ORDER` unless told, or not needed."""
    quiet = mode in (Mode.RECONCILE, Mode.COMPENSATE, Mode.ROLLBACK_NOT_SUPPORTED)
    return Action(
        capability_id=CapabilityId(capability),
        input=dict(ORDER) if input is None and not quiet else input,
        action_id=ActionId(id) if id else None,
        idempotency_key=key,
        approval_required=approval,
        metadata=dict(metadata or {}),
        transaction=TransactionContext(
            mode=mode,
            transaction_id=TransactionId(transaction) if transaction else None,
            plan_id=PlanId(plan) if plan else None,
            compensation_for=ActionId(target) if target else None,
        ),
    )


async def ask(
    bench: Workbench,
    asked: Action,
    *,
    principal: Principal = ALICE,
    identity: Identity | None = None,
    trusted: bool = False,
    insist: bool = False,
) -> Result:
    """Send an action the way a public entrance would: with the defaults of its input's type."""
    caller = Caller(principal=principal, identity=identity, trusted=trusted)
    action = replace(asked, input=_completed(bench, asked))
    return await bench.engine.perform(Request(action=action, caller=caller, insist=insist))


def _completed(bench: Workbench, asked: Action) -> Json:
    if asked.input is None or asked.transaction.mode is Mode.COMPENSATE:
        return asked.input
    try:
        registered = bench.engine.environment.registry.get(asked.capability_id)
        return registered.inputs[Handler.EXECUTE].encode(asked.input)
    except (AmendsError, KeyError):
        return asked.input


async def claim(bench: Workbench, asked: Action, principal: Principal = ALICE) -> Running:
    """Claim as `ask` does, and die before the connector is entered."""
    action = replace(asked, input=_completed(bench, asked))
    running = await bench.engine.begin(Request(action=action, caller=Caller(principal=principal)))
    assert isinstance(running, Running)
    return running


def before_next_write(bench: Workbench, happening: Callable[[], Awaitable[object]]) -> None:
    """Let something happen after the next change set was built and before it is written."""
    commit = bench.store.commit

    async def overtaken(change_set: ChangeSet) -> Accepted | Lost:
        mend()
        await happening()
        return await commit(change_set)

    mend = replaced(bench, "commit", overtaken)


def replaced(
    bench: Workbench, method: str, by: Callable[..., Awaitable[object]]
) -> Callable[[], None]:
    """Put something in the place of a method of the bench's store; returns how to undo it."""
    real = getattr(bench.store, method)
    setattr(bench.store, method, by)
    return lambda: setattr(bench.store, method, real)


def hidden(bench: Workbench, *names: object) -> Callable[[], None]:
    """Let the store find no document of these ids or types; returns how to undo it."""
    get = bench.store.get

    async def without(type_: type[Document], tenant: TenantId, id_: str) -> object:
        return None if type_ in names or id_ in names else await get(type_, tenant, id_)

    return replaced(bench, "get", without)


async def document(bench: Workbench, action_id: str) -> ActionDocument | None:
    """The stored document of one of the tenant's actions."""
    found = await bench.store.get(ActionDocument, TENANT, action_id)
    return found.document if found else None


async def refusals(bench: Workbench) -> list[Refusal]:
    """The tenant's refusal entries, oldest first."""
    page = await bench.store.list(Refusal, TENANT)
    return [one.document for one in reversed(page.items) if isinstance(one, Stored)]


async def records(bench: Workbench) -> list[TransactionRecord]:
    """The tenant's records, oldest first."""
    page = await bench.store.list(TransactionRecord, TENANT)
    return [one.document for one in reversed(page.items) if isinstance(one, Stored)]


async def chain(bench: Workbench, transaction: Result | str) -> list[str]:
    """The kinds of receipts on a transaction's chain, in order."""
    return [one.step.type.value for one in await bench.olga.receipts(transaction)]
