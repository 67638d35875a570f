"""A handler's signature says how it is entered, or is refused before anything rests on it."""

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from amends.connectors.blocking import BlockingAttempt
from amends.connectors.handlers import bind
from amends.connectors.port import Attempt
from amends.contracts.errors import Misuse

if TYPE_CHECKING:
    from decimal import Decimal as OnlyForTheTypeChecker


class Order(msgspec.Struct):
    amount: int


class Callee:
    async def __call__(self, order: Order) -> dict[str, int]:
        return {"amount": order.amount}

    def method(self, order: Order, attempt: Attempt) -> int:
        return order.amount


async def one(order: Order) -> int:
    return order.amount


async def two(order: Order, attempt: Attempt) -> int:
    return attempt.number


def two_unannotated(order: Order, attempt):  # type: ignore[no-untyped-def]  # as users may write it
    return attempt.number


def own_default(order: Order, currency: str = "eur") -> str:
    return currency


def optional_attempt(order: Order, attempt: BlockingAttempt | None = None) -> bool:
    return attempt is not None


def with_client(client: object, order: Order, attempt: Attempt) -> int:
    return order.amount


def many_defaults(order: Order, attempt: Attempt, tries: int = 1, *, loud: bool = False) -> int:
    return tries


@pytest.mark.parametrize(
    ("function", "is_async", "takes_attempt"),
    [
        (one, True, False),
        (two, True, True),
        (two_unannotated, False, True),
        (own_default, False, False),
        (optional_attempt, False, True),
        (many_defaults, False, True),
        (functools.partial(with_client, object()), False, True),
        (functools.partial(two), True, True),
        (Callee(), True, False),
        (Callee().method, False, True),
    ],
)
def test_a_signature_says_how_the_handler_is_entered(
    function: Callable[..., object], is_async: bool, takes_attempt: bool
) -> None:
    bound = bind(function)
    assert (bound.is_async, bound.takes_attempt) == (is_async, takes_attempt)
    assert bound.input is not None
    assert bound.input.decode({"amount": 5}) == Order(5)


def test_the_return_annotation_is_kept() -> None:
    assert bind(Callee()).returns == dict[str, int]
    assert bind(two_unannotated).returns is None


def test_a_schema_takes_the_place_of_the_annotation() -> None:
    bound = bind(one, {"type": "object"})
    assert bound.input is not None
    assert bound.input.decode({"amount": 5}) == {"amount": 5}


def test_an_input_of_no_type_in_particular_declares_nothing() -> None:
    def anything(value: object) -> None: ...

    assert bind(anything).input is None
    assert bind(lambda value: value).input is None


def none(attempt: None = None, *, tenant: str) -> None: ...


def too_many(order: Order, attempt: Attempt, client: object) -> None: ...


def generator(order: Order) -> Iterator[int]:
    yield 1


async def async_generator(order: Order) -> AsyncIterator[int]:
    yield 1


def only_arguments(*arguments: Any) -> None: ...


def unresolved(order: "OnlyForTheTypeChecker") -> None: ...


async def blocking_in_a_coroutine(order: Order, attempt: BlockingAttempt) -> None: ...


@pytest.mark.parametrize(
    "function",
    [lambda: None, none, too_many, generator, async_generator, only_arguments, unresolved, dict],
)
def test_a_function_that_could_not_be_entered_is_refused(function: Callable[..., object]) -> None:
    with pytest.raises(Misuse) as caught:
        bind(function)
    assert caught.value.code == "connector.handler_signature"


def test_annotations_that_cannot_be_resolved_do_not_matter_beside_a_schema() -> None:
    assert bind(unresolved, {"type": "object"}).returns is None


def test_an_async_handler_is_not_given_a_checkpoint_that_blocks() -> None:
    with pytest.raises(Misuse) as caught:
        bind(blocking_in_a_coroutine)
    assert caught.value.code == "connector.handler_attempt"
