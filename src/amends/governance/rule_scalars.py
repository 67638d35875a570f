"""Single values of a file of rules: what a text may say, field by field.

A text that YAML readers take for a number, a truth or nothing has to be quoted where a name is
meant, so that `no` or `1e3` is never a role by accident.
"""

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeVar

from amends.contracts.errors import Refused
from amends.contracts.ids import check_identifier
from amends.governance.amounts import amount_of
from amends.governance.rule_tree import Scalar

E = TypeVar("E", bound=StrEnum)
LONGEST_TEXT: Final = 2_000
MOST_STARS: Final = 4
LONGEST_SPAN_MS: Final = 366 * 24 * 3600 * 1000
_NO_TEXT: Final = re.compile(
    r"|~|null|true|false|yes|no|on|off|y|n|[-+]?(\.inf|\.nan)|[-+]?\.?[0-9].*", re.IGNORECASE
)
_SPAN: Final = re.compile(r"([1-9][0-9]{0,8})(ms|s|m|h|d)", re.ASCII)
_UNIT_MS: Final[Mapping[str, int]] = MappingProxyType(
    {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
)
_COUNT: Final = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_PATTERN: Final = re.compile(r"[A-Za-z0-9*][A-Za-z0-9._:*-]{0,127}", re.ASCII)


class Unfit(Exception):
    """A value that a field cannot have; the clause says what it can."""

    def __init__(self, says: str) -> None:
        super().__init__(says)
        self.says = says


Reader = Callable[[Scalar], object]


def text(scalar: Scalar) -> str:
    """A text that cannot be taken for anything else."""
    if not scalar.quoted and _NO_TEXT.fullmatch(scalar.text):
        raise Unfit("has to be a text; quote it, if it is one")
    if not scalar.text.strip() or len(scalar.text) > LONGEST_TEXT:
        raise Unfit(f"has to be a text of 1 to {LONGEST_TEXT} characters")
    return scalar.text


def identifier(scalar: Scalar) -> str:
    """An id in the form that all ids have."""
    try:
        return check_identifier(text(scalar), "rule")
    except Refused:
        raise Unfit("has to be letters, digits and . _ : - only, up to 128 of them") from None


def principal(scalar: Scalar) -> str:
    """The id of a principal."""
    try:
        return check_identifier(text(scalar), "principal_id")
    except Refused:
        raise Unfit("has to be the id of a principal") from None


def pattern(scalar: Scalar) -> str:
    """A capability's id, in which `*` stands for any characters, a few times at most."""
    if not _PATTERN.fullmatch(scalar.text) or scalar.text.count("*") > MOST_STARS:
        raise Unfit("has to be a capability's id, in which * stands for any characters")
    return scalar.text


def truth(scalar: Scalar) -> bool:
    """`true` or `false`, and no other spelling."""
    if scalar.quoted or scalar.text not in ("true", "false"):
        raise Unfit("has to be true or false")
    return scalar.text == "true"


def count(scalar: Scalar) -> int:
    """A whole number from one on."""
    if scalar.quoted or not _COUNT.fullmatch(scalar.text):
        raise Unfit("has to be a whole number from 1 on")
    return int(scalar.text)


def amount(scalar: Scalar) -> Decimal:
    """An exact decimal amount."""
    found = amount_of(scalar.text)
    if found is None or found == 0:
        raise Unfit("has to be an amount above 0 in digits, with at most 9 decimals")
    return found


def span_ms(scalar: Scalar) -> int:
    """A span of time with its unit."""
    found = _SPAN.fullmatch(scalar.text)
    span = int(found[1]) * _UNIT_MS[found[2]] if found else 0
    if not 1_000 <= span <= LONGEST_SPAN_MS:
        raise Unfit("has to be a span of time from 1s to 366d, such as 90s, 15m, 4h or 7d")
    return span


def one_of(kind: type[E]) -> Callable[[Scalar], E]:
    """A reader of the values of an enumeration."""

    def read(scalar: Scalar) -> E:
        try:
            return kind(scalar.text)
        except ValueError:
            raise Unfit(f"has to be one of: {', '.join(kind)}") from None

    return read
