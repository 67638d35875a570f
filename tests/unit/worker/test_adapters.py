"""Declaring adapters, entering their handlers, and reading what these return (WS-5, WS-2)."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Final

import pytest

from amends.connectors.blocking import HandlerThreads
from amends.contracts.errors import Misuse, Refused
from amends.contracts.worker_grant import CapabilityGrant
from amends.contracts.worker_identity import CompensationKey, OperationKey
from amends.contracts.worker_payload import (
    Cancelled,
    Failed,
    Running,
    Succeeded,
    SucceededOversize,
    ToolPayload,
)
from amends.worker.adapters import (
    Adapter,
    AdapterContract,
    Adapters,
    Call,
    HandlerKind,
    LookUp,
)
from amends.worker.entering import NoStatus, enter, read_status

JSON: Final = CapabilityGrant("t", max_output_bytes=100)
TEXT: Final = CapabilityGrant.text("t")
KEY: Final = OperationKey("op-" + "1" * 64)
INVERSE: Final = CompensationKey("cmp-" + "2" * 64)


def nothing(_: object) -> None:
    return None


def other(_: object) -> None:
    return None


def whole(tool: str = "t") -> Adapter:
    adapter = Adapter(tool, contract=AdapterContract.IDEMPOTENCY)
    adapter.dispatch(nothing)
    adapter.status(other)
    return adapter


@pytest.mark.rule("WS-5")
@pytest.mark.parametrize("kind", ["status", "compensation_status"])
def test_a_contract_asks_for_a_look_up_of_each_effect(kind: str) -> None:
    adapter = Adapter("t", contract=AdapterContract.RECONCILIATION)
    if kind == "status":
        adapter.dispatch(nothing)
    else:
        adapter.compensate(nothing)
    with pytest.raises(Misuse) as caught:
        Adapters(adapter)
    assert caught.value.details == {"field": kind}


@pytest.mark.rule("WS-5")
def test_the_inverse_has_a_handler_of_its_own() -> None:
    adapter = whole()
    with pytest.raises(Misuse):
        adapter.compensate(nothing)
    with pytest.raises(Misuse):
        adapter.dispatch(lambda _: None)


@pytest.mark.parametrize(
    "limits", [{"handler_limit_s": 0}, {"lookup_limit_s": -1}, {"horizon_s": -0.1}]
)
def test_limits_that_are_none_are_refused(limits: dict[str, float]) -> None:
    with pytest.raises(Misuse, match="adapter_invalid"):
        Adapter("t", **limits)  # type: ignore[arg-type]  # they are the limits


def test_one_tool_has_one_adapter() -> None:
    with pytest.raises(Misuse, match="adapter_invalid"):
        Adapters(whole(), whole())
    assert [one.tool for one in Adapters(whole("a"), whole("b"))] == ["a", "b"]


@pytest.mark.rule("WS-5")
def test_what_is_not_declared_is_refused() -> None:
    bare = Adapter("bare")
    bare.dispatch(nothing)
    adapters = Adapters(whole(), bare)
    assert adapters.require("t", HandlerKind.DISPATCH)[1] is nothing
    for tool, kind, code in (
        ("t", HandlerKind.COMPENSATE, "worker.handler_missing"),
        ("unknown", HandlerKind.DISPATCH, "worker.handler_missing"),
        ("bare", HandlerKind.DISPATCH, "worker.contract_missing"),
    ):
        with pytest.raises(Refused) as caught:
            adapters.require(tool, kind)
        assert caught.value.code == code


def test_a_look_up_names_the_one_effect_that_is_meant() -> None:
    assert LookUp("t", KEY).key == KEY
    assert LookUp("t", KEY, INVERSE).key == INVERSE
    call = Call("t", KEY, payload=ToolPayload.json({"n": "secret"}), cancelled=asyncio.Event())
    assert call.input == {"n": "secret"}
    assert "secret" not in repr(call)
    assert repr(whole()) == "Adapter('t', ['dispatch', 'status'])"


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("WS-2")
def test_a_definite_status_is_taken_as_it_is() -> None:
    for status in (Running(), Failed("no"), Cancelled(), Succeeded(ToolPayload.json({}))):
        assert read_status(status, JSON) == status
    assert read_status({"a": 1}, JSON) == Succeeded(ToolPayload.json({"a": 1}))
    assert read_status([1], JSON) == Succeeded(ToolPayload.json([1]))
    assert read_status("done", TEXT) == Succeeded(ToolPayload.text("done"))
    assert read_status(ToolPayload.json([]), JSON) == Succeeded(ToolPayload.json([]))


@pytest.mark.rule("WS-2")
@pytest.mark.parametrize(
    ("value", "grant"),
    [
        (None, JSON),
        (7, JSON),
        ("done", JSON),
        ({}, TEXT),
        ({"a": object()}, JSON),
        ({"a": float("nan")}, JSON),
        ("\ud800", TEXT),
        (ToolPayload.text(""), JSON),
        (Succeeded(ToolPayload.text("")), JSON),
        (Running, JSON),
    ],
)
def test_what_is_no_definite_status_is_none(value: object, grant: CapabilityGrant) -> None:
    with pytest.raises(NoStatus):
        read_status(value, grant)


@pytest.mark.rule("WS-2")
@pytest.mark.case("BIG-04")
def test_a_success_whose_output_is_too_large_is_a_success() -> None:
    small = read_status({"a": "x" * 100}, JSON)
    assert isinstance(small, SucceededOversize)
    huge = read_status({"a": "x" * 300_000}, JSON)
    assert isinstance(huge, SucceededOversize)
    assert (small.size, huge.size) == (108, 300_008)
    text = read_status("x" * 50_000_000, TEXT)
    assert isinstance(text, SucceededOversize)
    assert text.size == 50_000_000


def test_an_output_that_cannot_even_be_written_has_no_status() -> None:
    value: list[object] = ["x" * 300_000]
    value.append(object())
    with pytest.raises(NoStatus):
        read_status(value, JSON)


# ── entering ─────────────────────────────────────────────────────────────────────────────────────


async def entered(handler: Callable[[object], object], limit_s: float = 1.0) -> object:
    threads = HandlerThreads()
    try:
        return await enter(handler, "input", limit_s, threads)
    finally:
        threads.close()


async def test_plain_and_async_handlers_are_entered_alike() -> None:
    seen: list[int] = []

    async def later(value: object) -> object:
        return value

    def plain(value: object) -> object:
        seen.append(threading.get_ident())
        return value

    assert (
        await entered(later)
        == await entered(plain)
        == await entered(lambda x: later(x))
        == ("input")
    )
    assert threading.get_ident() not in seen


@pytest.mark.rule("WS-2")
async def test_a_handler_that_raises_or_takes_too_long_has_no_status() -> None:
    def raises(_: object) -> None:
        raise RuntimeError("secret")

    async def sleeps(_: object) -> None:
        await asyncio.sleep(60)

    async def cancels(_: object) -> None:
        raise asyncio.CancelledError

    for handler, limit_s in (
        (raises, 1.0),
        (sleeps, 0.01),
        (cancels, 1.0),
        (lambda _: time.sleep(0.2), 0.01),
    ):
        with pytest.raises(NoStatus):
            await entered(handler, limit_s)


async def test_a_handler_is_cancelled_with_whoever_waits_for_it() -> None:
    stopped = asyncio.Event()

    async def sleeps(_: object) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()

    task = asyncio.ensure_future(entered(sleeps, 60))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(stopped.wait(), 1)
