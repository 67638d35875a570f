"""What is particular to functions: inputs, outputs, threads, and attempts that were given up."""

import asyncio
import dataclasses
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from typing import TypeVar

import msgspec
import pytest

from amends.connectors import signals
from amends.connectors.blocking import HandlerThreads
from amends.connectors.function import FunctionConnector
from amends.connectors.port import Attempt, Call
from amends.contracts import outcomes
from amends.contracts.declarations import DataContract
from amends.contracts.enums import Handler
from amends.contracts.errors import Misuse
from amends.contracts.json_types import JsonObject
from amends.contracts.outcomes import ErrorInfo, Outcome
from amends.testing.connector_stage import PATIENCE_S, a_call, an_attempt

T = TypeVar("T")
TRACE: ContextVar[str] = ContextVar("TRACE")
ANY_OBJECT: JsonObject = {"type": "object"}
REDACTING = DataContract(redaction_required=True)


@dataclasses.dataclass
class Order:
    amount: int


class Refund(msgspec.Struct):
    reason: str


async def charge(order: Order) -> Order:
    return Order(order.amount + 1)


async def _carry_out(connector: FunctionConnector, call: Call) -> Outcome:
    try:
        return await connector.carry_out(an_attempt(call))
    finally:
        connector.close()


def _only(function: Callable[..., object], kind: Handler = Handler.EXECUTE) -> FunctionConnector:
    return FunctionConnector({kind: function}, schemas={kind: ANY_OBJECT})


def _code(outcome: Outcome) -> str:
    assert isinstance(outcome, outcomes.NotApplied | outcomes.Uncertain)
    return outcome.error.code


def _redacted(call: Call) -> Call:
    capability = msgspec.structs.replace(call.capability, data=REDACTING)
    return msgspec.structs.replace(call, input=None, capability=capability)


# ── declarations ─────────────────────────────────────────────────────────────────────────────────


def test_a_connector_says_what_it_can_be_entered_for_and_what_it_takes_and_gives() -> None:
    async def refund(refund: Refund) -> None: ...

    async def look_up(order: object) -> None: ...

    connector = FunctionConnector(
        {Handler.COMPENSATE: refund, Handler.EXECUTE: charge, Handler.RECONCILE: look_up}
    )
    assert connector.handlers == (Handler.EXECUTE, Handler.RECONCILE, Handler.COMPENSATE)
    inputs = connector.inputs
    assert inputs[Handler.RECONCILE] == inputs[Handler.PREVIEW] == inputs[Handler.EXECUTE]
    assert inputs[Handler.EXECUTE].decode({"amount": 1}) == Order(1)
    assert inputs[Handler.COMPENSATE].decode({"reason": "late"}) == Refund("late")
    assert isinstance(connector.output_schema, dict)
    assert connector.output_schema["title"] == "Order"


def test_a_compensation_that_declares_nothing_takes_anything() -> None:
    connector = FunctionConnector({Handler.EXECUTE: charge})
    assert connector.inputs[Handler.COMPENSATE].schema == {}


def test_a_connector_that_only_compensates_promises_no_output() -> None:
    connector = FunctionConnector({Handler.COMPENSATE: charge})
    assert connector.output_schema is None
    assert connector.inputs[Handler.EXECUTE].schema == {}


def test_an_execute_handler_must_say_what_it_takes() -> None:
    async def execute(value):  # type: ignore[no-untyped-def]  # the mistake
        ...

    with pytest.raises(Misuse) as caught:
        FunctionConnector({Handler.EXECUTE: execute})
    assert caught.value.code == "connector.input_undeclared"


# ── inputs and outputs ───────────────────────────────────────────────────────────────────────────


async def test_a_typed_handler_takes_its_type_and_its_typed_output_becomes_json() -> None:
    connector = FunctionConnector({Handler.EXECUTE: charge})
    outcome = await _carry_out(connector, a_call(input={"amount": 5}))
    assert outcome == outcomes.Applied(output={"amount": 6})


async def test_an_output_without_a_json_form_is_handed_on_since_the_effect_is_there() -> None:
    odd = object()

    async def execute(value: Order) -> outcomes.Applied:
        return outcomes.Applied(output=odd)

    outcome = await _carry_out(FunctionConnector({Handler.EXECUTE: execute}), a_call())
    assert outcome == outcomes.Applied(output=odd)


async def test_the_typed_output_of_an_outcome_becomes_json_too() -> None:
    partial = outcomes.Partial(error=ErrorInfo(code="half"), output=Order(1))

    async def execute(value: Order) -> outcomes.Partial:
        return partial

    outcome = await _carry_out(FunctionConnector({Handler.EXECUTE: execute}), a_call())
    assert outcome == msgspec.structs.replace(partial, output={"amount": 1})


@pytest.mark.parametrize(
    "told",
    [
        outcomes.NotApplied(error=ErrorInfo(code="no")),
        outcomes.Uncertain(error=ErrorInfo(code="who knows")),
        outcomes.Pending(cursor="c"),
        outcomes.NotFound(voided=True),
    ],
)
async def test_every_outcome_can_be_returned(told: Outcome) -> None:
    assert await _carry_out(_only(lambda value: told), a_call()) == told


async def test_a_signal_that_is_returned_is_not_taken_for_an_output() -> None:
    declined = signals.NotApplied("card.declined")
    assert await _carry_out(_only(lambda value: declined), a_call()) == declined.outcome


async def test_an_exception_that_is_returned_is_raised() -> None:
    with pytest.raises(ConnectionResetError):
        await _carry_out(_only(lambda value: ConnectionResetError()), a_call())


async def test_none_is_an_output_of_an_effect_but_no_answer_of_a_look_up() -> None:
    assert await _carry_out(_only(lambda value: None), a_call()) == outcomes.Applied()
    outcome = await _carry_out(
        _only(lambda value: None, Handler.RECONCILE), a_call(Handler.RECONCILE)
    )
    assert isinstance(outcome, outcomes.Uncertain)
    assert outcome.error.code == "misuse.lookup_without_answer"


# ── what ends before the handler ─────────────────────────────────────────────────────────────────


async def test_an_input_that_does_not_fit_its_type_is_not_applied() -> None:
    connector = FunctionConnector({Handler.EXECUTE: charge})
    outcome = await _carry_out(connector, a_call(input={"amount": "five"}))
    assert isinstance(outcome, outcomes.NotApplied)
    assert outcome.error.code == "input.not_convertible"
    assert "five" not in outcome.error.message


async def test_a_handler_that_is_missing_is_not_applied() -> None:
    outcome = await _carry_out(_only(charge), a_call(Handler.COMPENSATE))
    assert isinstance(outcome, outcomes.NotApplied)
    assert outcome.error.code == "connector.handler_missing"


@pytest.mark.parametrize("redrive", [False, True])
async def test_what_ends_before_a_look_up_or_a_re_drive_says_nothing_of_the_earlier_request(
    redrive: bool,
) -> None:
    call = a_call(Handler.EXECUTE if redrive else Handler.RECONCILE, input=["not an order"])
    call = msgspec.structs.replace(call, redrive=redrive)
    connector = FunctionConnector({Handler.EXECUTE: charge, Handler.RECONCILE: charge})
    outcome = await _carry_out(connector, call)
    assert isinstance(outcome, outcomes.Uncertain)
    assert outcome.error.code == "input.not_convertible"


async def test_a_look_up_takes_the_input_of_what_it_looks_for() -> None:
    seen: list[object] = []

    async def look_up(asked: object) -> signals.NotFound:
        seen.append(asked)
        return signals.NotFound()

    async def refund(refund: Refund) -> None: ...

    connector = FunctionConnector(
        {Handler.EXECUTE: charge, Handler.RECONCILE: look_up, Handler.COMPENSATE: refund}
    )
    of_charge = a_call(Handler.RECONCILE, input={"amount": 5})
    original = a_call(Handler.COMPENSATE).original
    of_refund = msgspec.structs.replace(of_charge, input={"reason": "late"}, original=original)
    for call in (of_charge, of_refund, _redacted(of_charge)):
        await _carry_out(connector, call)
    assert seen == [Order(5), Refund("late"), None]


# ── threads ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_plain_handler_runs_in_another_thread_with_the_context_of_its_caller() -> None:
    def where(value: dict[str, object]) -> list[object]:
        return [TRACE.get(), threading.current_thread() is threading.main_thread()]

    TRACE.set("trace-7")
    assert await _carry_out(_only(where), a_call()) == outcomes.Applied(output=["trace-7", False])


@pytest.mark.parametrize("error", [StopIteration(1), RecursionError(), TimeoutError("no answer")])
async def test_no_exception_of_a_plain_handler_is_lost_on_its_way_out_of_the_thread(
    error: Exception,
) -> None:
    def fail(value: dict[str, object]) -> None:
        raise error

    with pytest.raises((type(error), RuntimeError)) as caught:
        await asyncio.wait_for(_carry_out(_only(fail), a_call()), PATIENCE_S)
    assert error in (caught.value, caught.value.__cause__)


async def test_a_coroutine_that_a_plain_function_returns_is_run_and_its_answer_counts() -> None:
    outcome = await _carry_out(_only(lambda value: charge(Order(1))), a_call())
    assert outcome == outcomes.Applied(output={"amount": 2})


async def test_no_more_plain_handlers_run_at_once_than_the_pool_has_threads() -> None:
    running = most = 0
    lock = threading.Lock()

    def handler(value: dict[str, object]) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.01)
        with lock:
            running -= 1

    pool = HandlerThreads(2)
    connector = FunctionConnector(
        {Handler.EXECUTE: handler}, schemas={Handler.EXECUTE: ANY_OBJECT}, run_sync=pool
    )
    await asyncio.gather(*(connector.carry_out(an_attempt(a_call())) for _ in range(8)))
    pool.close()
    assert most == 2


class Gate:
    """A plain handler that is held until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.let_go = threading.Event()
        self.entries = 0

    def __call__(self, value: dict[str, object]) -> str:
        self.entries += 1
        self.entered.set()
        self.let_go.wait(PATIENCE_S)
        return "done"


@pytest.fixture
def pool() -> Iterator[HandlerThreads]:
    one = HandlerThreads(1)
    yield one
    one.close()


def _behind(gate: Gate, pool: HandlerThreads, **more: object) -> FunctionConnector:
    schemas = {Handler.EXECUTE: ANY_OBJECT}
    return FunctionConnector(
        {Handler.EXECUTE: gate},
        schemas=schemas,
        run_sync=pool,
        **more,  # type: ignore[arg-type]  # passed on
    )


async def _entered(gate: Gate) -> None:
    await asyncio.to_thread(gate.entered.wait, PATIENCE_S)


async def test_an_attempt_cancelled_while_it_waits_for_a_thread_is_never_entered(
    pool: HandlerThreads,
) -> None:
    first, second = Gate(), Gate()
    running = asyncio.create_task(_behind(first, pool).carry_out(an_attempt(a_call())))
    await _entered(first)
    waiting = asyncio.create_task(_behind(second, pool).carry_out(an_attempt(a_call())))
    await asyncio.sleep(0.01)
    waiting.cancel()
    assert _code(await waiting) == "connector.given_up"
    first.let_go.set()
    assert await running == outcomes.Applied(output="done")
    assert second.entries == 0


async def test_an_attempt_whose_time_ran_out_while_it_waited_is_not_entered_late(
    pool: HandlerThreads,
) -> None:
    first, second = Gate(), Gate()
    running = asyncio.create_task(_behind(first, pool).carry_out(an_attempt(a_call())))
    await _entered(first)
    attempt = an_attempt(a_call())
    waiting = asyncio.create_task(_behind(second, pool).carry_out(attempt))
    await asyncio.sleep(0.01)
    attempt.cancelled.set()
    first.let_go.set()
    assert _code(await waiting) == "connector.given_up"
    assert isinstance(await running, outcomes.Applied)
    assert second.entries == 0


async def test_attempts_that_wait_when_the_pool_closes_are_certainly_not_applied(
    pool: HandlerThreads,
) -> None:
    first, second = Gate(), Gate()
    running = asyncio.create_task(_behind(first, pool).carry_out(an_attempt(a_call())))
    await _entered(first)
    waiting = asyncio.create_task(_behind(second, pool).carry_out(an_attempt(a_call())))
    await asyncio.sleep(0.01)
    pool.close()
    assert _code(await waiting) == "connector.given_up"
    assert _code(await _behind(second, pool).carry_out(an_attempt(a_call()))) == (
        "connector.given_up"
    )
    first.let_go.set()
    assert isinstance(await running, outcomes.Applied)
    assert second.entries == 0


async def test_the_late_answer_of_a_cancelled_plain_handler_is_handed_over(
    pool: HandlerThreads,
) -> None:
    gate = Gate()
    late: list[tuple[Call, Awaitable[Outcome]]] = []
    connector = _behind(gate, pool, late=lambda call, answer: late.append((call, answer)))
    running = asyncio.create_task(connector.carry_out(an_attempt(a_call())))
    await _entered(gate)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    gate.let_go.set()
    ((call, answer),) = late
    assert call.action_id == "act_1"
    assert await answer == outcomes.Applied(output="done")


async def test_without_anybody_to_take_it_a_late_answer_is_dropped_in_silence(
    pool: HandlerThreads,
) -> None:
    gate = Gate()
    running = asyncio.create_task(_behind(gate, pool).carry_out(an_attempt(a_call())))
    await _entered(gate)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    gate.let_go.set()
    assert gate.entries == 1


async def test_how_plain_handlers_are_run_can_be_replaced() -> None:
    def inline(job: Callable[[], T], /) -> Awaitable[T]:
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        done.set_result(job())
        return done

    connector = FunctionConnector(
        {Handler.EXECUTE: lambda value: threading.current_thread().name},
        schemas={Handler.EXECUTE: ANY_OBJECT},
        run_sync=inline,
    )
    here = threading.current_thread().name
    assert await _carry_out(connector, a_call()) == outcomes.Applied(output=here)


async def test_a_plain_handler_that_asks_for_its_attempt_sees_the_same_facts() -> None:
    def facts(value: dict[str, object], attempt: Attempt) -> list[object]:
        return [attempt.tenant, attempt.provider_key, attempt.cancelled.is_set()]

    outcome = await _carry_out(_only(facts), a_call())
    assert outcome == outcomes.Applied(output=["t1", "key_1", False])
