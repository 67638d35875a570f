"""Templates: what a reference stands for, and what each place of a request takes."""

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from amends.connectors.http import templates
from amends.connectors.http.templates import Reference, TemplateFault, Unfit, parse, parse_node
from amends.contracts.json_types import Json

FACTS: dict[str, Json] = {
    "input": {"a": "x y", "n": 7, "f": 1.5, "t": True, "none": None, "l": [{"id": "i"}], "o": {}},
    "attempt": {"provider_key": "key_1"},
}


def _fill(value: Json) -> object:
    return templates.fill(parse_node(value), FACTS)


def _segment(text: str, value: Json) -> str:
    return templates.segment(parse(text), {"input": {"id": value}})


def test_a_text_is_read_into_literals_and_references() -> None:
    assert parse("a{{b}}{input.x}c{input.y-z.0?}").parts == (
        "a{b}",
        Reference("input", ("x",)),
        "c",
        Reference("input", ("y-z", "0"), optional=True),
    )
    assert parse("").parts == ()
    assert [str(one) for one in parse("{input.a.b?}{credential}").references] == [
        "input.a.b",
        "credential",
    ]


@pytest.mark.parametrize(
    "text", ["{", "a}", "{}", "{input.}", "{input .a}", "{Input}", "{a{b}}", "{é}"]
)
def test_a_brace_that_is_no_reference_is_a_fault(text: str) -> None:
    with pytest.raises(TemplateFault):
        parse(text)


def test_a_reference_alone_keeps_its_type_in_a_body() -> None:
    body: Json = {
        "amount": "{input.n}",
        "rate": "{input.f}",
        "ok": "{input.t}",
        "none": "{input.none}",
        "list": ["{input.l}", "{input.l.0.id}", 3, None],
        "text": "n={input.n} f={input.f} t={input.t}",
    }
    assert _fill(body) == {
        "amount": 7,
        "rate": 1.5,
        "ok": True,
        "none": None,
        "list": [[{"id": "i"}], "i", 3, None],
        "text": "n=7 f=1.5 t=true",
    }


def test_what_is_optional_and_missing_is_left_out_where_it_stands() -> None:
    body: Json = {"a": "{input.z?}", "b": ["{input.z?}", 1], "c": "x{input.z?}", "d": {"e": 1}}
    assert _fill(body) == {"b": [1], "d": {"e": 1}}
    assert _fill("{input.z?}") is UNSET


@pytest.mark.parametrize("text", ["{input.z}", "{input.l.1}", "{input.a.b}", "{operation.id}"])
def test_a_reference_that_leads_nowhere_is_named_and_nothing_of_the_input(text: str) -> None:
    with pytest.raises(Unfit) as caught:
        _fill({"a": text})
    assert caught.value.code == "connector.reference_missing"
    assert caught.value.reference == text.strip("{}")


@pytest.mark.parametrize("text", ["x{input.l}", "x{input.none}", "x{input.o}"])
def test_only_scalars_can_be_a_part_of_a_text(text: str) -> None:
    with pytest.raises(Unfit) as caught:
        _fill({"a": text})
    assert (caught.value.code, caught.value.reference) == (
        "connector.value_unfit",
        text.strip("x{}"),
    )


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        ("ch_1", "ch_1"),
        (9007199254740991, "9007199254740991"),
        ("a/b", "a%2Fb"),
        ("a/.b", "a%2F.b"),
        ("/a/", "%2Fa%2F"),
        ("a b?c#d&e=f;g%h\\i", "a%20b%3Fc%23d%26e%3Df%3Bg%25h%5Ci"),
        ("é", "%C3%A9"),
        ("a..b", "a..b"),
    ],
)
def test_an_id_stays_one_segment_of_a_path(value: Json, encoded: str) -> None:
    assert _segment("{input.id}", value) == encoded


@pytest.mark.parametrize(
    "value",
    [
        "",
        ".",
        "..",
        "...",
        "%2e%2e",
        "%2E",
        ".%2e",
        "../x",
        "a/..",
        "a/./b",
        "a/.../b",
        "a\\..\\b",
        "a%2f..%2fb",
        "a/%2e%2e/b",
        "a/%252e%252e/b",
        "a\x00",
        "a\n",
        "\x7f",
        "\x85",
        "x" * 513,
        True,
        1.5,
        None,
        [],
        {},
    ],
)
def test_an_id_that_could_climb_a_path_or_is_no_id_is_refused(value: Json) -> None:
    with pytest.raises(Unfit) as caught:
        _segment("v1-{input.id}", value)
    assert (caught.value.code, caught.value.reference) == ("connector.value_unfit", "input.id")


def test_dots_around_a_reference_do_not_make_a_segment_of_dots() -> None:
    with pytest.raises(Unfit):
        _segment("{input.id}", ".")
    with pytest.raises(Unfit):
        templates.segment(parse("{input.a}{input.b}"), {"input": {"a": "%2", "b": "e"}})
    assert _segment(".{input.id}", "a") == ".a"


@given(st.text(min_size=1, max_size=60))
def test_whatever_an_id_holds_its_segment_reads_back_as_that_id(value: str) -> None:
    try:
        encoded = _segment("{input.id}", value)
    except Unfit:
        return
    assert not set(encoded) & set("/?#\\")
    assert unquote(encoded) == value


def test_a_query_is_encoded_on_both_sides_and_leaves_out_what_is_missing() -> None:
    pairs = {
        name: parse(text)
        for name, text in {
            "created[gte]": "{input.n}",
            "q": "key:'{input.a}'&x=1",
            "z": "{input.z?}",
            "plain": "1",
        }.items()
    }
    assert templates.query(pairs, FACTS) == (
        "created%5Bgte%5D=7&q=key%3A%27x%20y%27%26x%3D1&plain=1"
    )


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\n", " a", "a ", "", "é", "a\x00b", "\t"])
def test_a_header_takes_printable_ascii_and_nothing_else(value: str) -> None:
    with pytest.raises(Unfit) as caught:
        templates.header(parse("{input.id}"), "x-note", {"input": {"id": value}})
    assert (caught.value.code, caught.value.reference) == (
        "connector.value_unfit",
        "header x-note",
    )


def test_a_header_that_is_optional_and_missing_is_left_out() -> None:
    assert templates.header(parse("{input.z?}"), "x-note", FACTS) is UNSET
    assert templates.header(parse("n {input.n}"), "x-note", FACTS) == "n 7"


def test_a_form_names_the_parts_of_objects_and_arrays() -> None:
    body: Json = {"a": {"b c": 1, "d": [True, "x&y"]}, "e": 2.5}
    assert templates.form({"x": body, "y": "z"}) == (
        "x%5Ba%5D%5Bb%20c%5D=1&x%5Ba%5D%5Bd%5D%5B0%5D=true&x%5Ba%5D%5Bd%5D%5B1%5D=x%26y"
        "&x%5Be%5D=2.5&y=z"
    )


def test_a_form_has_no_way_to_say_null() -> None:
    with pytest.raises(Unfit) as caught:
        templates.form({"a": {"b": None}})
    assert caught.value.reference == "body a[b]"


def test_every_reference_of_a_body_is_found() -> None:
    node = parse_node({"a": ["{input.a}", {"b": "x{input.b}"}], "c": 1})
    assert [str(one) for one in templates.references(node)] == ["input.a", "input.b"]
