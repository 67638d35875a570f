"""CEL: what compiles, what is refused when it is read, and that every evaluation ends."""

import sys
import time

import pytest

from amends.contracts.json_types import Json
from amends.governance.conditions import ConditionRefused
from amends.testing.refusals import refused_with
from amends.wiring.cel import LONGEST, Cel

CEL = Cel()


def evaluate(text: str, value: Json = None) -> object:
    facts = CEL.facts({"action": {}, "principal": {}, "input": value})
    return CEL.compile(text).evaluate(facts)


@pytest.mark.parametrize(
    ("text", "value", "answer"),
    [
        ("input.amount > 10", {"amount": 11}, True),
        ("input.amount > 10.5", {"amount": 10}, False),
        ("input.amount == 0.1", {"amount": 0.1}, True),
        ("has(input.a) && input.a", {}, False),
        ("input.tags.exists(t, t == 'urgent')", {"tags": ["urgent"]}, True),
        ("input.lines.map(l, l.price).all(p, p < 3)", {"lines": [{"price": 2}]}, True),
        ("input.name.matches('^[a-z]+$')", {"name": "abc"}, True),
        ("timestamp(input.at).getHours() < 12", {"at": "2026-03-01T09:00:00Z"}, True),
        ("input == null", None, True),
        ("size(input.name) == 3", {"name": "abc"}, True),
        ("type(input.amount) == int", {"amount": 1}, True),
        ("input.amount", {"amount": 9007199254740991}, 9007199254740991),
    ],
)
def test_expressions_of_the_language_are_evaluated(text: str, value: Json, answer: object) -> None:
    assert evaluate(text, value) == answer


@pytest.mark.parametrize(
    ("text", "uses"),
    [
        ("input.amount > 1 && principal.kind == 'a'", {("input", "amount"), ("principal", "kind")}),
        ("has(input.a) && input . a.b.input > 1", {("input", "a")}),
        ("input['a'] == 1", {("input", "")}),
        ("input.exists(a, a == action.mode)", {("input", ""), ("action", "mode")}),
        ("input // all\n .a == 1", {("input", "")}),
        ("[1].map(input, input)", {("input", "")}),
        ("input.sizes.size() == 1", {("input", "sizes")}),
        ("size(input) == 1", {("input", "")}),
        ("'input.a' == input.b", {("input", "a"), ("input", "b")}),
        ("1 == 1", set()),
    ],
)
def test_an_expression_says_what_it_reads_and_rather_too_much_than_too_little(
    text: str, uses: set[tuple[str, str]]
) -> None:
    assert CEL.compile(text).uses == uses


def test_the_size_of_a_text_counts_bytes_as_the_manual_warns() -> None:
    """Should the engine mend this, the how-to and decision 33 have to say so."""
    assert evaluate("size(input)", "ü") == 2


@pytest.mark.rule("PO-1")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 +",
        "input.",
        "user.id == 'x'",
        "secret",
        "input.a.exists(t, other == t)",
        "open('/etc/passwd')",
        "input.name.evil()",
        "now() > 1",
        "(" * 500 + "1" + ")" * 500,
        "input.a" + " && input.a" * LONGEST,
        "[1].map(a, [1].map(b, [1].map(c, [1].map(d, [1].map(e, 1)))))",
    ],
)
def test_what_is_no_expression_is_refused_when_it_is_read(text: str) -> None:
    with pytest.raises(ConditionRefused) as refused:
        CEL.compile(text)
    assert refused.value.says


@pytest.mark.rule("PO-1")
def test_loops_in_one_another_end_before_they_begin_on_a_large_input() -> None:
    nested = "input.all(a, input.all(b, input.all(c, true)))"
    assert evaluate(nested, [1, 2, 3]) is True
    started = time.perf_counter()
    with pytest.raises(ConditionRefused):
        evaluate(nested, list(range(10_000)))
    assert time.perf_counter() - started < 1


def test_one_loop_may_go_over_any_input() -> None:
    assert evaluate("input.all(a, a >= 0)", list(range(10_000))) is True


class Panic(BaseException):
    """As a binding raises it for a fault of the engine itself."""


class Program:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def execute(self, context: object = None) -> object:
        raise self.error

    def variables(self) -> list[str]:
        return []

    def functions(self) -> list[str]:
        return []


@pytest.mark.rule("PO-1")
def test_a_panic_of_the_engine_is_an_error_of_the_condition() -> None:
    engine = Cel()
    engine._compile = lambda _text: Program(Panic())
    with pytest.raises(ConditionRefused):
        engine.compile("true").evaluate(engine.facts({}))
    engine._compile = lambda _text: Program(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        engine.compile("true").evaluate(engine.facts({}))


def test_a_binding_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cel", None)
    with refused_with("policy.extra_missing"):
        Cel()
