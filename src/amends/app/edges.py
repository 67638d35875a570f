"""The edge of the library: what a program hands over is what the signature says, or is refused.

Annotations bind nobody at run time. Each check here answers a hostile value with a code that names
the argument and never shows the value, before anything is read or stored.

Deliberately not here: what inputs may hold (`contracts.admission`), and the form of new ids
(`contracts.ids`), which the pipeline checks for every entrance alike.
"""

import types
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Final, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from amends.contracts.errors import Refused
from amends.contracts.ids import check_identifier
from amends.contracts.json_types import Json
from amends.contracts.principals import Principal

_LONGEST_S: Final = 10 * 366 * 24 * 3600
E = TypeVar("E", bound=Enum)
S = TypeVar("S", bound=msgspec.Struct)


def text_of(value: object, field: str) -> str:
    """A string of whole characters. Raises `Refused` (`input.unsupported_type`)."""
    if not isinstance(value, str):
        raise _wrong_type(field, "text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Refused(
            "input.lone_surrogate",
            f"{field} holds half of a surrogate pair.",
            details={"field": field},
            next_step="Send whole characters only.",
        ) from None
    return value


def text_or_none(value: object, field: str) -> str | None:
    """As `text_of`, or nothing."""
    return None if value is None else text_of(value, field)


def flag_of(value: object, field: str) -> bool:
    """True or false, and nothing that is merely taken for it. Raises as `text_of`."""
    if not isinstance(value, bool):
        raise _wrong_type(field, "true or false")
    return value


def revision_of(value: object) -> int | None:
    """A revision that somebody saw, or none for "as it stands now".

    Raises `Refused`: `input.unsupported_type` for anything but an integer, so that neither `3.0`
    nor `"3"` is taken for 3, and `input.invalid_value` below zero.
    """
    if value is None:
        return None
    return count_of(value, "seen_revision", least=0)


def count_of(value: object, field: str, *, least: int) -> int:
    """A whole number of at least so much. Raises as `revision_of`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong_type(field, "a whole number")
    if value < least:
        raise _wrong_value(field, f"a whole number of at least {least}")
    return value


def seconds_of(value: object, field: str) -> float:
    """A span in seconds, up to ten years. Raises as `revision_of`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong_type(field, "a number of seconds")
    if not 0 <= value <= _LONGEST_S:
        raise _wrong_value(field, "a number of seconds from 0 to ten years")
    return value


def choice_of(value: object, kind: type[E], field: str) -> E:
    """A member of an enumeration, or its name on the wire. Raises `Refused`, both codes."""
    try:
        return kind(text_of(value, field))
    except ValueError:
        names = ", ".join(str(one.value) for one in kind)
        raise _wrong_value(field, f"one of: {names}") from None


def mapping_of(value: object, field: str) -> dict[str, Json]:
    """An object with text as keys; none is an empty one. Raises as `text_of`.

    What it holds is looked at where it is used.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _wrong_type(field, "an object")
    return {text_of(key, field): one for key, one in value.items()}


def texts_of(value: object, field: str) -> dict[str, str]:
    """An object of texts; none is an empty one. Raises as `text_of`."""
    return {key: text_of(one, field) for key, one in mapping_of(value, field).items()}


def principal_of(value: object) -> Principal:
    """A principal of well-formed ids: one name is written in one way, or refused (AP-1).

    Raises as `text_of` and `record_of`, and `Refused` (`input.invalid_id`).
    """
    principal = record_of(value, Principal, "principal")
    check_identifier(principal.id, "principal_id")
    check_identifier(principal.tenant, "tenant")
    for person in principal.persons:
        check_identifier(person, "principal_person")
    return principal


def instant_of(value: object, field: str) -> datetime:
    """An instant with its zone. Raises as `text_of`."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise _wrong_type(field, "an instant with its zone")
    return value.astimezone(UTC)


def record_of(value: object, kind: type[S], field: str, *, but: str = "") -> S:
    """A record whose fields, and theirs, are of the types that they declare.

    A record is not checked when it is made. Fields named `but` are left to the caller. Raises
    `Refused` (`input.unsupported_type`), naming the field by its path.
    """
    if not isinstance(value, kind):
        raise _wrong_type(field, f"a {kind.__name__}")
    hints = get_type_hints(kind)
    for name in kind.__struct_fields__:
        if name != but:
            _conform(getattr(value, name), hints[name], f"{field}.{name}", but)
    return value


def _conform(value: object, hint: object, field: str, but: str) -> None:
    """Check one field of a record against its annotation."""
    allowed = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    if value is None and type(None) in allowed:
        return
    for kind in allowed:
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            record_of(value, kind, field, but=but)
            return
    if isinstance(value, str):
        text_of(value, field)
    try:
        msgspec.convert(value, hint)
    except (msgspec.ValidationError, TypeError, ValueError, RecursionError):
        # Its text may quote the value.
        raise _wrong_type(field, "of the type that its record declares") from None


def _wrong_type(field: str, wanted: str) -> Refused:
    return Refused(
        "input.unsupported_type",
        f"{field} has to be {wanted}.",
        details={"field": field},
        next_step="Send it as such.",
    )


def _wrong_value(field: str, wanted: str) -> Refused:
    return Refused(
        "input.invalid_value",
        f"{field} has to be {wanted}.",
        details={"field": field},
        next_step="Send one of the values it may have.",
    )
