"""Amounts that limits count: exact decimals, out of an input or an expression (PO-2).

A number, or a text of decimal digits, which is how careful providers send money. What is anything
else, negative, too large or too fine to be added up exactly, is no amount, and is denied.
"""

import re
from decimal import Decimal
from typing import Final

from amends.contracts.json_types import Json
from amends.governance.limits import DECIMALS, MOST

_DIGITS: Final = re.compile(r"[0-9]{1,16}(\.[0-9]{1,9})?", re.ASCII)
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)


def amount_of(value: object) -> Decimal | None:
    """The amount that a value says, or none."""
    match value:
        case bool():
            return None
        case int():
            amount = Decimal(value)
        case float():
            amount = Decimal(repr(value))
        case str() if _DIGITS.fullmatch(value):
            amount = Decimal(value)
        case _:
            return None
    fits = amount.is_finite() and 0 <= amount <= MOST
    return amount if fits and _decimals(amount) <= DECIMALS else None


def pointed_at(pointer: str, value: Json) -> Json:
    """What a JSON pointer (RFC 6901) names. Raises `LookupError` where there is nothing."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        match value:
            case dict():
                value = value[name]
            case list() if _INDEX.fullmatch(name):
                value = value[int(name)]
            case _:
                raise LookupError(pointer)
    return value


def _decimals(amount: Decimal) -> int:
    exponent = amount.as_tuple().exponent
    return max(-exponent, 0) if isinstance(exponent, int) else 0
