"""What an HTTP status says of a request: tables, and what a declaration writes over them.

Careful by default. Only statuses by which HTTP itself says that the request was refused before any
work count as *not applied*; a redirect, a 5xx, and those that may speak of an earlier request of
ours or of none at all (408, 409, 425, 429) say nothing certain.

| effect | by default |
|---|---|
| 200, 201, 203 to 205 | applied |
| 202 | pending |
| 400 to 451, without 408, 409, 425 and 429 | not applied |
| all others | uncertain |

| look-up | by default |
|---|---|
| 200, 201, 203 | found: the body tells |
| 202 | pending |
| 404, where one object is asked for by its id | not found |
| 410, where one object is asked for by its id | gone |
| all others | unreadable, which proves nothing |

Deliberately not here: what the body adds to it.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Generic, NamedTuple, TypeVar


class Meaning(StrEnum):
    """What a status says of an effect.

    `conflict` declares a *not applied* that an earlier request of ours may have caused: it is
    definite in the first attempt of a record and uncertain in every later one.
    """

    APPLIED = "applied"
    PENDING = "pending"
    NOT_APPLIED = "not_applied"
    NOT_APPLIED_RETRYABLE = "not_applied_retryable"
    CONFLICT = "conflict"
    UNCERTAIN = "uncertain"


class Sight(StrEnum):
    """What a status says of a look-up."""

    FOUND = "found"
    PENDING = "pending"
    NOT_FOUND = "not_found"
    GONE = "gone"
    UNREADABLE = "unreadable"


Word = TypeVar("Word", bound=StrEnum)


class Row(NamedTuple, Generic[Word]):
    """The statuses from `low` to `high`, both included."""

    low: int
    high: int
    word: Word


EFFECTS: Final = (
    Row(200, 201, Meaning.APPLIED),
    Row(202, 202, Meaning.PENDING),
    Row(203, 205, Meaning.APPLIED),
    Row(400, 407, Meaning.NOT_APPLIED),
    Row(410, 424, Meaning.NOT_APPLIED),
    Row(426, 428, Meaning.NOT_APPLIED),
    Row(430, 451, Meaning.NOT_APPLIED),
)
LISTS: Final = (
    Row(200, 201, Sight.FOUND),
    Row(202, 202, Sight.PENDING),
    Row(203, 203, Sight.FOUND),
)
OBJECTS: Final = (
    *LISTS,
    Row(404, 404, Sight.NOT_FOUND),
    Row(410, 410, Sight.GONE),
)

_KEY: Final = re.compile(r"[2-5](?:[0-9]{2}|xx)", re.ASCII)
_REDIRECT: Final = "3"
_DONE: Final = frozenset({Meaning.APPLIED, Meaning.PENDING, Sight.FOUND})
_DEFINITE: Final = frozenset({Meaning.NOT_APPLIED, Meaning.NOT_APPLIED_RETRYABLE})


class Ruled(NamedTuple, Generic[Word]):
    """What a status means, and whether a declaration says so."""

    word: Word
    declared: bool


class Classification(NamedTuple, Generic[Word]):
    """A table with what is declared over it, the nearest declaration first."""

    rows: tuple[Row[Word], ...]
    otherwise: Word
    declared: tuple[Mapping[str, Word], ...] = ()

    def of(self, status: int) -> Ruled[Word]:
        """A status written out counts before its class, and any declaration before the table."""
        for words in self.declared:
            word = words.get(str(status)) or words.get(f"{status // 100}xx")
            if word is not None:
                return Ruled(word, declared=True)
        for row in self.rows:
            if row.low <= status <= row.high:
                return Ruled(row.word, declared=False)
        return Ruled(self.otherwise, declared=False)


def effect_statuses(*declared: Mapping[str, Meaning]) -> Classification[Meaning]:
    """How answers to an effect are read. A 409 declared as not applied is a conflict."""
    return Classification(EFFECTS, Meaning.UNCERTAIN, tuple(map(_with_conflict, declared)))


def _with_conflict(declared: Mapping[str, Meaning]) -> Mapping[str, Meaning]:
    word = declared.get("409") or declared.get("4xx")
    return {**declared, "409": Meaning.CONFLICT} if word in _DEFINITE else declared


def object_statuses(declared: Mapping[str, Sight]) -> Classification[Sight]:
    """How an answer about one object is read."""
    return Classification(OBJECTS, Sight.UNREADABLE, (declared,))


def list_statuses(declared: Mapping[str, Sight]) -> Classification[Sight]:
    """How a page of a list is read."""
    return Classification(LISTS, Sight.UNREADABLE, (declared,))


def fault_of_key(key: str, word: Meaning | Sight) -> str | None:
    """What is wrong with one declared status, if anything."""
    if not _KEY.fullmatch(key):
        return "must be a status such as 402, or a class such as 4xx"
    if key.startswith(_REDIRECT) and word in _DONE:
        return "cannot be taken for done: a redirect is not followed"
    return None
