"""What people type: inputs, ids and pairs, held to the same rules as every other edge.

Invariants: nothing that was typed is repeated in an error, since it may be a secret; a file or a
pipe is read no further than an input may be long.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from amends.contracts.errors import Misuse
from amends.contracts.ids import check_identifier
from amends.contracts.json_types import Json
from amends.contracts.parsing import INPUT_LIMITS, parse_json

STDIN: Final = "-"
_FILE: Final = "@"


def read_input(told: str | None) -> Json | msgspec.UnsetType:
    """The input that was told: JSON itself, `@file`, or `-` for standard input.

    Raises `Misuse` (`cli.input_unreadable`), and the `input.*` codes of strict parsing.
    """
    if told is None:
        return msgspec.UNSET
    if told == STDIN:
        return parse_json(sys.stdin.buffer.read(INPUT_LIMITS.max_bytes + 1))
    if told.startswith(_FILE):
        return parse_json(_head_of(told.removeprefix(_FILE)))
    return parse_json(told)


def required_input(told: str | None) -> Json:
    """The input of a capability; one that is not told is null, as the schema may want it."""
    value = read_input(told)
    return None if isinstance(value, msgspec.UnsetType) else value


def _head_of(name: str) -> bytes:
    try:
        with Path(name).open("rb") as file:
            return file.read(INPUT_LIMITS.max_bytes + 1)
    except (OSError, ValueError) as error:
        raise Misuse(
            "cli.input_unreadable",
            "The file after @ cannot be read.",
            next_step="Name a file that this user can read, or use - for standard input.",
        ) from error


def identifier(value: str, what: str) -> str:
    """An id that was typed. Raises `Refused` (`input.invalid_id`) for what looks like an option."""
    return check_identifier(value, what)


def optional_identifier(value: str | None, what: str) -> str | None:
    """An id that may be left out; see `identifier`."""
    return None if value is None else identifier(value, what)


def pairs(told: Iterable[str], option: str) -> dict[str, str]:
    """`KEY=VALUE`, as often as it was given. Raises `Misuse` (`cli.pair_invalid`)."""
    read: dict[str, str] = {}
    for one in told:
        key, equals, value = one.partition("=")
        if not equals or not key or key in read:
            raise Misuse(
                "cli.pair_invalid",
                f"{option} takes KEY=VALUE, with each key once.",
                next_step=f"Write {option} KEY=VALUE.",
            )
        read[key] = value
    return read
