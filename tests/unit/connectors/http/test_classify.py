"""Statuses: what each means by itself, and what a declaration makes of it."""

import pytest

from amends.connectors.http.classify import (
    Meaning,
    Sight,
    effect_statuses,
    fault_of_key,
    list_statuses,
    object_statuses,
)

DEFINITE = {
    *range(400, 408),
    *range(410, 425),
    *range(426, 429),
    *range(430, 452),
}
DONE = {200, 201, 203, 204, 205}


def test_only_statuses_that_say_so_are_definite_for_an_effect() -> None:
    by_default = effect_statuses()
    for status in range(100, 1000):
        expected = Meaning.UNCERTAIN
        if status in DONE:
            expected = Meaning.APPLIED
        elif status in DEFINITE:
            expected = Meaning.NOT_APPLIED
        elif status == 202:
            expected = Meaning.PENDING
        assert by_default.of(status) == (expected, False), status


@pytest.mark.case("P5X-01")
@pytest.mark.parametrize("status", [500, 501, 502, 503, 504, 507, 599])
def test_a_server_error_is_uncertain_unless_it_is_declared_otherwise(status: int) -> None:
    assert effect_statuses().of(status).word is Meaning.UNCERTAIN
    declared = effect_statuses({str(status): Meaning.NOT_APPLIED_RETRYABLE})
    assert declared.of(status) == (Meaning.NOT_APPLIED_RETRYABLE, True)


def test_the_nearest_declaration_counts_and_in_it_the_status_before_its_class() -> None:
    own, provider = {"4xx": Meaning.UNCERTAIN}, {"402": Meaning.PENDING, "5xx": Meaning.PENDING}
    statuses = effect_statuses(own, provider)
    assert statuses.of(402) == (Meaning.UNCERTAIN, True)
    assert statuses.of(503) == (Meaning.PENDING, True)
    assert statuses.of(200) == (Meaning.APPLIED, False)
    exact = effect_statuses({"402": Meaning.NOT_APPLIED, "4xx": Meaning.UNCERTAIN})
    assert exact.of(402).word is Meaning.NOT_APPLIED
    assert exact.of(403).word is Meaning.UNCERTAIN


@pytest.mark.parametrize("word", [Meaning.NOT_APPLIED, Meaning.NOT_APPLIED_RETRYABLE])
def test_a_409_declared_as_not_applied_is_a_conflict(word: Meaning) -> None:
    statuses = effect_statuses({"409": word, "422": Meaning.CONFLICT})
    assert statuses.of(409) == (Meaning.CONFLICT, True)
    assert statuses.of(422) == (Meaning.CONFLICT, True)
    assert effect_statuses({"4xx": word}).of(409).word is Meaning.CONFLICT
    assert effect_statuses({"409": Meaning.UNCERTAIN}).of(409).word is Meaning.UNCERTAIN


@pytest.mark.parametrize(
    ("status", "of_one", "of_many"),
    [
        (200, Sight.FOUND, Sight.FOUND),
        (202, Sight.PENDING, Sight.PENDING),
        (204, Sight.UNREADABLE, Sight.UNREADABLE),
        (301, Sight.UNREADABLE, Sight.UNREADABLE),
        (403, Sight.UNREADABLE, Sight.UNREADABLE),
        (404, Sight.NOT_FOUND, Sight.UNREADABLE),
        (410, Sight.GONE, Sight.UNREADABLE),
        (500, Sight.UNREADABLE, Sight.UNREADABLE),
    ],
)
def test_a_look_up_reads_statuses_in_its_own_way(
    status: int, of_one: Sight, of_many: Sight
) -> None:
    assert object_statuses({}).of(status).word is of_one
    assert list_statuses({}).of(status).word is of_many
    assert list_statuses({str(status): Sight.NOT_FOUND}).of(status).word is Sight.NOT_FOUND


@pytest.mark.parametrize("key", ["4", "40x", "xxx", "604", "4XX", "99", "1xx", "402 ", "٤٠٢"])
def test_a_key_that_is_no_status_is_a_fault(key: str) -> None:
    assert fault_of_key(key, Meaning.UNCERTAIN) is not None


@pytest.mark.parametrize("word", [Meaning.APPLIED, Meaning.PENDING, Sight.FOUND])
def test_a_redirect_cannot_be_declared_as_done(word: Meaning | Sight) -> None:
    assert fault_of_key("303", word) is not None
    assert fault_of_key("3xx", Meaning.NOT_APPLIED) is None
    assert fault_of_key("2xx", word) is None
