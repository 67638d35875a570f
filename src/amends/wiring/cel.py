"""Conditions in CEL, the Common Expression Language, through the binding `cel` (ADR 33).

Invariants: an expression speaks of `action`, `principal` and `input` only, and of functions of the
language. It ends: CEL has no loops but those over lists, and expressions that nest these over an
input too large for that are not evaluated. What the engine raises, a panic included, is an error
of the condition.

The binding is imported when the first expression is compiled.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from amends.contracts.errors import Misuse
from amends.contracts.json_types import Json
from amends.governance.conditions import VARIABLES, WHOLE, ConditionRefused, Expression, Use

LONGEST: Final = 2_000
MOST_LOOPS: Final = 4
MOST_STEPS: Final = 1_000_000
"""How many turns the loops of one expression may take together, at the very most."""

_LOOP: Final = re.compile(r"\.\s*(?:all|exists|exists_one|map|filter)\s*\(\s*(\w+)\s*,")
_USE: Final = re.compile(
    rf"(?<![\w.])({'|'.join(VARIABLES)})\b(?:\s*\.\s*([A-Za-z_]\w*)\b(?!\s*\())?", re.ASCII
)
"""A variable with the field after it, unless that is a call, which is about all of it."""

_WORD: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_FUNCTIONS: Final = frozenset(
    """
    all exists exists_one map filter has size contains startsWith endsWith matches
    int uint double string bytes timestamp duration type dyn
    getFullYear getMonth getDate getDayOfMonth getDayOfWeek getDayOfYear
    getHours getMinutes getSeconds getMilliseconds
    """.split()
)


class _Program(Protocol):
    def execute(self, context: Any = None) -> object: ...

    def variables(self) -> list[str]: ...

    def functions(self) -> list[str]: ...


class Cel:
    """The engine. Raises `Misuse` (`policy.extra_missing`) where the binding is not installed."""

    def __init__(self) -> None:
        try:
            import cel
        except ImportError:
            raise Misuse(
                "policy.extra_missing",
                "Rules in files need packages that are not installed.",
                next_step="Install them: pip install 'amends[policy]'.",
            ) from None
        self._compile: Callable[[str], _Program] = cel.compile
        self._context = cel.Context

    def compile(self, text: str) -> Expression:
        """Read an expression. Raises `ConditionRefused`."""
        if len(text) > LONGEST:
            raise ConditionRefused(f"is longer than {LONGEST} characters")
        try:
            program = self._compile(text)
        except BaseException as error:
            raise _refused(error) from None
        bound = set(_LOOP.findall(text))
        _check_names(program, bound)
        loops = len(_LOOP.findall(text))
        if loops > MOST_LOOPS:
            raise ConditionRefused(f"has more than {MOST_LOOPS} loops")
        uses = frozenset((found[1], found[2] or WHOLE) for found in _USE.finditer(text))
        if loops > 1:
            return _Looping(program, uses, loops, len(text))
        return _Straight(program, uses)

    def facts(self, variables: Mapping[str, Json]) -> "Facts":
        """The variables as the engine keeps them."""
        return Facts(self._context(dict(variables)), variables)


class Facts:
    """The variables of one decision, converted once."""

    __slots__ = ("_size", "_variables", "context")

    def __init__(self, context: object, variables: Mapping[str, Json]) -> None:
        self.context = context
        self._variables = variables
        self._size: int | None = None

    @property
    def size(self) -> int:
        """How many values there are in all of the variables."""
        if self._size is None:
            self._size = _values_in(dict(self._variables))
        return self._size


class _Straight:
    """An expression that walks over its facts once at most."""

    __slots__ = ("_program", "uses")

    def __init__(self, program: _Program, uses: frozenset[Use]) -> None:
        self._program = program
        self.uses = uses

    def evaluate(self, facts: object) -> object:
        """Its value. Raises what the engine does."""
        assert isinstance(facts, Facts)
        try:
            return self._program.execute(facts.context)
        except Exception:
            raise
        except BaseException as error:
            raise _refused(error) from None


class _Looping(_Straight):
    """An expression whose loops may stand inside one another."""

    __slots__ = ("_loops", "_own")

    def __init__(self, program: _Program, uses: frozenset[Use], loops: int, own: int) -> None:
        super().__init__(program, uses)
        self._loops = loops
        self._own = own

    def evaluate(self, facts: object) -> object:
        """Its value. Raises `ConditionRefused` where that could take too long."""
        assert isinstance(facts, Facts)
        if max(facts.size, self._own) ** self._loops > MOST_STEPS:
            raise ConditionRefused("has too many loops for an input of this size")
        return super().evaluate(facts)


def _check_names(program: _Program, bound: set[str]) -> None:
    unknown = set(program.variables()) - bound - set(VARIABLES) - _TYPES
    if unknown:
        raise ConditionRefused(f"speaks of {min(unknown)}, and knows {', '.join(VARIABLES)} only")
    called = {name for name in program.functions() if _WORD.fullmatch(name)}
    strange = called - _FUNCTIONS
    if strange:
        raise ConditionRefused(f"calls {min(strange)}, which CEL does not have")


_TYPES: Final = frozenset("int uint double bool string bytes list map null_type type".split())


def _refused(error: BaseException) -> BaseException:
    """A refusal for whatever the engine raised, a panic of its own language included."""
    if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit | MemoryError):
        return error
    return ConditionRefused("is not an expression of CEL")


def _values_in(value: Json) -> int:
    match value:
        case dict():
            return 1 + sum(_values_in(one) for one in value.values())
        case list():
            return 1 + sum(_values_in(one) for one in value)
        case _:
            return 1
