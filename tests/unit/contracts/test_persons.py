"""When two names mean one person."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends.contracts.enums import PrincipalKind
from amends.contracts.ids import PrincipalId, TenantId
from amends.contracts.persons import folded, names_in, names_of, same_person
from amends.contracts.principals import Identity, Principal, PrincipalRef
from amends.testing.refusals import refused_with


@pytest.mark.rule("AP-1")
@pytest.mark.parametrize(
    "name",
    [
        "alice",
        "Alice",
        "ALICE",
        "local:alice",
        "LOCAL:Alice",
        "local:local:alice",
        "ａｌｉｃｅ",
        " alice ",
        "ali\u200bce",
        "ali\u00adce",
        "\ufeffalice",
        "ali\u00a0ce",
        "alic\u2002e",
    ],
)
def test_case_form_invisible_characters_and_the_local_prefix_make_no_other_person(
    name: str,
) -> None:
    assert folded(name) == "alice"


@pytest.mark.rule("AP-1")
@pytest.mark.parametrize(("one", "other"), [("ﬁona", "fiona"), ("Straße", "STRASSE"), ("é", "é")])
def test_compatible_spellings_are_one_name(one: str, other: str) -> None:
    assert folded(one) == folded(other)


@pytest.mark.rule("AP-1")
@pytest.mark.parametrize("name", ["bob", "alice2", "svc:alice", "alice.smith", "localalice"])
def test_other_names_stay_other_names(name: str) -> None:
    assert folded(name) != "alice"


@given(st.text(max_size=12))
def test_folding_again_changes_nothing(name: str) -> None:
    assert folded(folded(name)) == folded(name)


@pytest.mark.rule("AP-1")
def test_a_caller_goes_by_id_person_and_the_subject_it_acts_for() -> None:
    agent = Principal.named("billing-bot", persons=("Alice",), kind="agent")
    acting = Identity(tenant=TenantId("default"), subject="Carol")
    assert names_of(agent, acting) == ("alice", "billing-bot", "carol")
    assert names_of(Principal.named("local:alice", persons=("alice",))) == ("alice",)
    bare = PrincipalRef(PrincipalId("Bob"), PrincipalKind.USER)
    assert (names_in(bare), names_in(bare, acting)) == (("bob",), ("bob", "carol"))


def test_one_common_name_makes_one_person() -> None:
    assert same_person(("alice", "bot"), ("carol", "bot"))
    assert not same_person(("alice",), ("bob",))
    assert not same_person((), ())


@pytest.mark.parametrize("person", ["", "ａｌｉｃｅ", "alice smith", "a\n"])
def test_a_person_is_named_as_principals_are(person: str) -> None:
    with refused_with("input.invalid_id"):
        Principal.named("bot", persons=[person])
