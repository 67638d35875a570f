"""Values that break naive edges, by what they are; each table says where they do not belong."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

CANARY: Final = "kanarienvogel-7319"
Value = Any


class Odd:
    """Tells its secret to whoever prints it."""

    def __repr__(self) -> str:
        return CANARY


def nested(depth: int) -> list[object]:
    inner: list[object] = [CANARY]
    for _ in range(depth):
        inner = [inner]
    return inner


def endless() -> dict[str, object]:
    value: dict[str, object] = {CANARY: 1}
    value["again"] = value
    return value


NEVER_TEXT: Final[Mapping[str, Value]] = MappingProxyType(
    {
        "an integer": 7,
        "a huge integer": 2**70,
        "a float": 3.5,
        "not a number": float("nan"),
        "a truth value": True,
        "bytes": CANARY.encode(),
        "a list": [CANARY],
        "a deep list": nested(5_000),
        "an endless object": endless(),
        "a set": {CANARY},
        "a naive time": datetime(2020, 1, 1),  # noqa: DTZ001  # that is what is wrong with it
        "an object": Odd(),
        "a type": str,
    }
)
HALF: Final[Mapping[str, Value]] = MappingProxyType({"half a character": f"{CANARY}\ud800"})
NEVER_AN_ID: Final[Mapping[str, Value]] = MappingProxyType(
    {
        **NEVER_TEXT,
        **HALF,
        "a line break": f"{CANARY}\n",
        "a null": f"{CANARY}\0",
        "a path": f"../{CANARY}",
        "an accent": f"{CANARY}é",
        "an option": f"-{CANARY}",
        "a long text": CANARY * 10_000,
    }
)
NEVER_A_FLAG: Final[Mapping[str, Value]] = MappingProxyType(
    {name: one for name, one in NEVER_AN_ID.items() if name != "a truth value"}
)
NEVER_A_NUMBER: Final[Mapping[str, Value]] = MappingProxyType(
    {
        **{name: one for name, one in NEVER_AN_ID.items() if "integer" not in name},
        "below zero": -1,
    }
)
NEVER_AN_OBJECT: Final[Mapping[str, Value]] = MappingProxyType(
    {
        **{name: one for name, one in NEVER_AN_ID.items() if name != "an endless object"},
        "keys that are no text": {7: CANARY},
        "keys of half characters": {"\ud800": CANARY},
    }
)
NEVER_METADATA: Final[Mapping[str, Value]] = MappingProxyType(
    {
        **NEVER_AN_OBJECT,
        "an endless object": endless(),
        "an object in it": {"a": Odd()},
        "not a number in it": {"a": float("nan")},
        "half a character in it": {"a": f"{CANARY}\ud800"},
        "too much": {"a": CANARY * 10_000},
    }
)
NEVER_AN_AMOUNT: Final[Mapping[str, Value]] = MappingProxyType(
    {**HALF, **{name: one for name, one in NEVER_TEXT.items() if name != "an integer"}}
)
NEVER_INPUT: Final[Mapping[str, Value]] = MappingProxyType(
    {
        **NEVER_TEXT,
        **HALF,
        **{f"{name} in it": {"amount": one} for name, one in NEVER_AN_AMOUNT.items()},
        "a text": CANARY,
        "too much": {"amount": CANARY * 100_000},
    }
)
NEVER_TEXT_TO_KEEP: Final[Mapping[str, Value]] = MappingProxyType(
    {**NEVER_TEXT, **HALF, "a long text": CANARY * 10_000}
)
NEVER_A_RECORD: Final[Mapping[str, Value]] = MappingProxyType({**NEVER_AN_ID, "none": None})
NEVER_A_REFERENCE: Final[Mapping[str, Value]] = MappingProxyType({**NEVER_TEXT, **HALF})
NEVER_SECONDS: Final[Mapping[str, Value]] = MappingProxyType(
    {
        **{name: v for name, v in NEVER_AN_ID.items() if name not in ("a float", "an integer")},
        "below zero": -1,
    }
)
