"""Adapters: the functions that a worker may enter, with what their author declares of them (WS-5).

    release = Adapter("release.publish", contract=AdapterContract.RECONCILIATION)

    @release.dispatch
    async def publish(call: Call) -> Json: ...

    @release.status
    async def find(look: LookUp) -> Status | None: ...

A handler that has an effect is entered at most once for one key. It returns a status, or what came
of its success: a payload, a JSON object or array, or a text, as the grant asks. `Failed` says that
the effect is *known not to have happened*. Whatever else it does, raising included, leaves the
outcome unknown. Handlers that look up have no effect; `None` says that they cannot tell.

Deliberately not here: entering them, and what their answers mean.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar

import msgspec

from amends.contracts.codes import coded
from amends.contracts.errors import AmendsError
from amends.contracts.json_types import Json
from amends.contracts.worker_identity import CompensationKey, OperationKey, check_token
from amends.contracts.worker_payload import ToolPayload

Handler: TypeAlias = Callable[..., object]
_Function = TypeVar("_Function", bound=Handler)


class AdapterContract(StrEnum):
    """How an outcome that nobody heard of is found out. Without one, nothing is dispatched."""

    RECONCILIATION = "reconciliation"
    """The provider can be asked what became of an operation."""

    IDEMPOTENCY = "provider_idempotency_and_reconciliation"
    """That, and the provider takes one key once."""


class HandlerKind(StrEnum):
    """What a handler of an adapter is for."""

    DISPATCH = "dispatch"
    COMPENSATE = "compensate"
    STATUS = "status"
    COMPENSATION_STATUS = "compensation_status"


class LookUp(msgspec.Struct, frozen=True):
    """Which effect is meant. Only its keys outlast a crash; the input does not."""

    tool: str
    operation_key: OperationKey
    compensation_key: CompensationKey | None = None

    @property
    def key(self) -> str:
        """The key of the one effect that is meant: what a provider is given to know it again."""
        return self.compensation_key or self.operation_key


class Call(LookUp, frozen=True, kw_only=True):
    """One effect to be carried out. Its input is never printed."""

    payload: ToolPayload
    cancelled: asyncio.Event
    """Set when the host asks to stop; a handler may look, and return `Cancelled()`."""

    @property
    def input(self) -> Json:
        """The text, or a fresh copy of the JSON value."""
        return self.payload.value


class Adapter:
    """The handlers of one tool. Times are in seconds.

    `handler_limit_s` and `lookup_limit_s` bound one entry. `horizon_s` is how long an effect that
    was begun can still take place by itself; without one only the end of the worker that began it
    shows that. Raises `Refused` (`worker.token_invalid`), `Misuse` (`misuse.adapter_invalid`).
    """

    def __init__(
        self,
        tool: str,
        *,
        contract: AdapterContract | None = None,
        handler_limit_s: float = 30.0,
        lookup_limit_s: float = 10.0,
        horizon_s: float | None = None,
    ) -> None:
        limits = (handler_limit_s, lookup_limit_s, 0.0 if horizon_s is None else horizon_s)
        if min(limits[:2]) <= 0 or limits[2] < 0:
            raise _invalid("limits")
        self.tool: Final = check_token(tool, "tool")
        self.contract: Final = contract
        self.handler_limit_s: Final = handler_limit_s
        self.lookup_limit_s: Final = lookup_limit_s
        self.horizon_s: Final = horizon_s
        self._handlers: dict[HandlerKind, Handler] = {}

    def dispatch(self, function: _Function) -> _Function:
        """Declare what carries the operation out. It takes a `Call`."""
        return self._take(HandlerKind.DISPATCH, function)

    def compensate(self, function: _Function) -> _Function:
        """Declare what carries the inverse out. It takes a `Call`, and checks its input first."""
        return self._take(HandlerKind.COMPENSATE, function)

    def status(self, function: _Function) -> _Function:
        """Declare what finds an operation. It takes a `LookUp`."""
        return self._take(HandlerKind.STATUS, function)

    def compensation_status(self, function: _Function) -> _Function:
        """Declare what finds an inverse. It takes a `LookUp`."""
        return self._take(HandlerKind.COMPENSATION_STATUS, function)

    def handler(self, kind: HandlerKind) -> Handler | None:
        """The handler of this kind, if it was declared."""
        return self._handlers.get(kind)

    def __repr__(self) -> str:
        return f"Adapter({self.tool!r}, {[kind.value for kind in self._handlers]})"

    def _take(self, kind: HandlerKind, function: _Function) -> _Function:
        if kind in self._handlers or function in self._handlers.values():
            raise _invalid(kind.value)
        self._handlers[kind] = function
        return function


class Adapters:
    """The adapters of one worker, by their tools. Raises `Misuse` (`misuse.adapter_invalid`)."""

    def __init__(self, *adapters: Adapter) -> None:
        for adapter in adapters:
            _check_whole(adapter)
        if len({adapter.tool for adapter in adapters}) != len(adapters):
            raise _invalid("tool")
        self._by_tool: Final[Mapping[str, Adapter]] = MappingProxyType(
            {adapter.tool: adapter for adapter in adapters}
        )

    def __iter__(self) -> Iterator[Adapter]:
        return iter(self._by_tool.values())

    def require(self, tool: str, kind: HandlerKind) -> tuple[Adapter, Handler]:
        """The adapter and its handler, for something durable.

        Raises `Refused`: `worker.handler_missing`, `worker.contract_missing`.
        """
        adapter = self._by_tool.get(tool)
        handler = None if adapter is None else adapter.handler(kind)
        if adapter is None or handler is None:
            raise coded("worker.handler_missing")
        if adapter.contract is None:
            raise coded("worker.contract_missing")
        return adapter, handler


_LOOKUPS: Final[Mapping[HandlerKind, HandlerKind]] = MappingProxyType(
    {
        HandlerKind.DISPATCH: HandlerKind.STATUS,
        HandlerKind.COMPENSATE: HandlerKind.COMPENSATION_STATUS,
    }
)


def _check_whole(adapter: Adapter) -> None:
    """Whoever declares a contract says how to find out, for each effect that there is."""
    for effect, look_up in _LOOKUPS.items():
        if adapter.contract and adapter.handler(effect) and not adapter.handler(look_up):
            raise _invalid(look_up.value)


def _invalid(field: str) -> AmendsError:
    return coded("misuse.adapter_invalid", {"field": field})
