"""The port for conditions: expressions over an action, a principal and an input.

A condition is compiled once, when rules are read, and evaluated for each decision over facts that
were prepared once. It has no side effects and ends; an engine that cannot promise that for an
expression refuses to evaluate it. Whatever goes wrong is raised, and counts as a deny (PO-1).

Deliberately not here: any engine. The one that comes with Amends is in `wiring.cel`.
"""

from collections.abc import Mapping
from typing import Final, Protocol

from amends.contracts.json_types import Json

VARIABLES: Final = ("action", "principal", "input")
"""The names that an expression may use."""


class ConditionRefused(Exception):
    """An expression that cannot be compiled, or is not evaluated. `says` is a clause in words."""

    def __init__(self, says: str) -> None:
        super().__init__(says)
        self.says = says


Use = tuple[str, str]
"""A variable and the one field of it that is read; no name, where all of it may be."""

WHOLE: Final = ""


class Expression(Protocol):
    """One compiled expression. `uses` is all that it reads, so that no more is prepared for it."""

    @property
    def uses(self) -> frozenset[Use]:
        """What it reads of the variables."""
        ...

    def evaluate(self, facts: object) -> object:
        """Its value over facts that the same engine prepared. Raises whatever went wrong."""
        ...


class Conditions(Protocol):
    """An engine for conditions."""

    def compile(self, text: str) -> Expression:
        """Read an expression. Raises `ConditionRefused`."""
        ...

    def facts(self, variables: Mapping[str, Json]) -> object:
        """The values of the variables, prepared for any number of evaluations."""
        ...
