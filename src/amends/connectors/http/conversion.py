"""Plain values into the records of a declaration, with faults that name the field and no value."""

import re
from typing import Final, TypeVar

import msgspec

from amends.connectors.http.places import Fault

T = TypeVar("T")
_WHERE: Final = re.compile(r"(?P<what>.*?)(?: - at `\$(?P<path>[^`]*)`)?", re.DOTALL)
_FIELD: Final = re.compile(r"Object (?:missing required|contains unknown) field `(.*)`", re.DOTALL)


class Unconverted(Exception):
    """A value that does not fit its record."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.fault = fault


def convert(value: object, kind: type[T]) -> T:
    """The record of a plain value. Raises `Unconverted`."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise Unconverted(_named(str(error))) from None


def _named(message: str) -> Fault:
    """The field of a finding and what is wrong with it, without the value that is."""
    match = _WHERE.fullmatch(message)
    what, path = (match["what"], match["path"] or "") if match else (message, "")
    where = path.removeprefix(".")
    named = _FIELD.fullmatch(what)
    if named is not None:
        text = "is missing" if "missing" in what else "is not known"
        return Fault(f"{where}.{named[1]}".removeprefix("."), text)
    if what.startswith("Invalid "):  # an enum or a tag, and the text would quote the value
        return Fault(where, "is none of the words that are known here")
    return Fault(where, f"does not fit: {what}")
