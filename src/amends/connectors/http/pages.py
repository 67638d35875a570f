"""Reading one page of a list: its items, and where the next one begins.

A page ends the list only if the provider says so: an empty or short page with a continuation goes
on. A list that is not there, or that says two things at once, is unreadable, and nothing follows
from what it does not show.
"""

from typing import Final, TypeAlias, assert_never

import msgspec
from msgspec import UNSET, UnsetType

from amends.connectors.http import declaration as declared
from amends.connectors.http.forms import ByKeyForm
from amends.connectors.http.reading import Unreadable, as_id, at
from amends.contracts.json_types import Json

NO_LIST: Final = "no_list"
NO_CONTINUATION: Final = "no_continuation"


class Page(msgspec.Struct, frozen=True):
    """The items of a page, and the cursor of the next; none after the last page."""

    items: list[Json]
    next: str | None


Paging: TypeAlias = declared.Paging | None


def read_page(form: ByKeyForm, value: Json | UnsetType, cursor: str | None) -> Page:
    """One page as it was answered to a request with this cursor. Raises `Unreadable`."""
    items = at(value, form.items)
    if items is None and form.null_is_empty:
        items = []
    if not isinstance(items, list):
        raise Unreadable(NO_LIST)
    return Page(items, _next(form.paging, value, items, cursor))


def parameters(paging: Paging, cursor: str | None) -> dict[str, str]:
    """What is added to the query to get the page of this cursor."""
    return {} if paging is None or cursor is None else {paging.parameter: cursor}


def _next(
    paging: Paging, value: Json | UnsetType, items: list[Json], cursor: str | None
) -> str | None:
    match paging:
        case None:
            return None
        case declared.ByToken():
            return _named(at(value, paging.next))
        case declared.ByLastItem():
            return _after_last(paging, value, items)
        case declared.ByOffset():
            return _after_so_many(paging, value, items, cursor)
        case _:
            assert_never(paging)


def _named(token: Json | UnsetType) -> str | None:
    if token is UNSET or token is None or token == "" or token is False:
        return None
    named = as_id(token)
    if named is None:
        raise Unreadable(NO_CONTINUATION)
    return named


def _after_last(
    paging: declared.ByLastItem, value: Json | UnsetType, items: list[Json]
) -> str | None:
    more = bool(items) if paging.more is None else at(value, paging.more)
    if more is False:
        return None
    last = as_id(at(items[-1], paging.id)) if items else None
    if more is not True or last is None:
        raise Unreadable(NO_CONTINUATION)
    return last


def _after_so_many(
    paging: declared.ByOffset, value: Json | UnsetType, items: list[Json], cursor: str | None
) -> str | None:
    before = int(cursor) if cursor is not None and cursor.isdecimal() else 0
    reached = before + len(items)
    if paging.total is None:
        return str(reached) if items else None
    total = at(value, paging.total)
    if not isinstance(total, int) or isinstance(total, bool):
        raise Unreadable(NO_CONTINUATION)
    if reached >= total:
        return None
    if not items:
        raise Unreadable(NO_CONTINUATION)
    return str(reached)
