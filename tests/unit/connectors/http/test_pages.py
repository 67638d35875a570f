"""One page of a list: its items, and where the next one begins."""

import pytest

from amends.connectors.http import ByLastItem, ByOffset, ByToken
from amends.connectors.http.checks import checked_forms
from amends.connectors.http.declaration import Paging
from amends.connectors.http.forms import ByKeyForm
from amends.connectors.http.pages import Page, parameters, read_page
from amends.connectors.http.reading import Unreadable
from amends.contracts.json_types import Json
from tests.unit.connectors.http.payments import BY_KEY, LOOKUP, changed, declared, execute

TOKEN = ByToken(parameter="page_token", next="/meta/next")
LAST = ByLastItem(parameter="starting_after", id="/id", more="/has_more")
LAST_OF_ALL = ByLastItem(parameter="starting_after", id="/id")
OFFSET = ByOffset(parameter="offset")
OFFSET_OF = ByOffset(parameter="offset", total="/total")
ITEM: Json = {"id": "a"}


def _form(paging: Paging | None, *, null_is_empty: bool = False) -> ByKeyForm:
    by_key = changed(BY_KEY, paging=paging, null_is_empty=null_is_empty)
    lookup = changed(LOOKUP, by_key=by_key)
    form = checked_forms(declared("http://127.0.0.1:9", execute=execute(lookup=lookup)))
    assert form.execute_lookup is not None
    assert form.execute_lookup.by_key is not None
    return form.execute_lookup.by_key


def _read(paging: Paging | None, value: Json, cursor: str | None = None) -> Page:
    return read_page(_form(paging), value, cursor)


@pytest.mark.case("PAG-03")
@pytest.mark.parametrize(
    ("paging", "value", "cursor", "next_"),
    [
        (None, {"data": [ITEM], "has_more": True}, None, None),
        (TOKEN, {"data": [], "meta": {"next": "c2"}}, None, "c2"),
        (TOKEN, {"data": [ITEM], "meta": {"next": 9007}}, "c1", "9007"),
        (TOKEN, {"data": [ITEM], "meta": {"next": None}}, None, None),
        (TOKEN, {"data": [ITEM], "meta": {"next": ""}}, None, None),
        (TOKEN, {"data": [ITEM], "meta": {"next": False}}, None, None),
        (TOKEN, {"data": [ITEM]}, None, None),
        (LAST, {"data": [{"id": "x"}, ITEM], "has_more": True}, None, "a"),
        (LAST, {"data": [ITEM], "has_more": False}, None, None),
        (LAST, {"data": [], "has_more": False}, None, None),
        (LAST_OF_ALL, {"data": [{"id": 9}]}, None, "9"),
        (LAST_OF_ALL, {"data": []}, "a", None),
        (OFFSET, {"data": [ITEM, ITEM]}, None, "2"),
        (OFFSET, {"data": [ITEM]}, "2", "3"),
        (OFFSET, {"data": [ITEM]}, "not a number", "1"),
        (OFFSET, {"data": []}, "3", None),
        (OFFSET_OF, {"data": [ITEM], "total": 4}, "2", "3"),
        (OFFSET_OF, {"data": [ITEM], "total": 3}, "2", None),
    ],
)
def test_a_page_is_the_last_only_if_the_provider_says_so(
    paging: Paging | None, value: Json, cursor: str | None, next_: str | None
) -> None:
    assert _read(paging, value, cursor).next == next_


@pytest.mark.parametrize(
    ("paging", "value"),
    [
        (TOKEN, {"data": [], "meta": {"next": {"a": 1}}}),
        (TOKEN, {"data": [], "meta": {"next": True}}),
        (LAST, {"data": [], "has_more": True}),
        (LAST, {"data": [{}], "has_more": True}),
        (LAST, {"data": [ITEM]}),
        (LAST, {"data": [ITEM], "has_more": "yes"}),
        (LAST_OF_ALL, {"data": [{"id": None}]}),
        (OFFSET_OF, {"data": [ITEM]}),
        (OFFSET_OF, {"data": [ITEM], "total": True}),
        (OFFSET_OF, {"data": [], "total": 4}),
    ],
)
def test_a_continuation_that_contradicts_itself_is_unreadable(paging: Paging, value: Json) -> None:
    with pytest.raises(Unreadable) as caught:
        _read(paging, value)
    assert caught.value.flaw == "no_continuation"


@pytest.mark.case("EVC-03")
@pytest.mark.parametrize("value", [{}, {"data": None}, {"data": {}}, {"data": "x"}, [], None, 5])
def test_a_list_that_is_not_there_is_unreadable(value: Json) -> None:
    with pytest.raises(Unreadable) as caught:
        _read(LAST, value)
    assert caught.value.flaw == "no_list"


def test_null_is_an_empty_list_only_where_that_is_declared() -> None:
    page = read_page(_form(TOKEN, null_is_empty=True), {"data": None}, None)
    assert page == Page([], None)
    with pytest.raises(Unreadable):
        read_page(_form(TOKEN, null_is_empty=True), {}, None)


def test_the_first_page_is_asked_for_without_a_cursor() -> None:
    assert parameters(LAST, None) == {}
    assert parameters(None, "c") == {}
    assert parameters(LAST, "c") == {"starting_after": "c"}
