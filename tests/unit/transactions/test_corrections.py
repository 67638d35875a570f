"""Rulings on corrections: who may rule, and when a target is open again."""

from datetime import timedelta
from itertools import product
from typing import Final

import pytest
from msgspec.structs import replace

from amends.contracts.documents import Correction, Evidence
from amends.contracts.enums import PrincipalKind
from amends.testing.builders import ACTION, NOW, TENANT, TRANSACTION, principal, slots
from amends.testing.refusals import refused_with
from amends.transactions.corrections import closed_by, reopened, rule

LATER: Final = NOW + timedelta(minutes=1)
OLGA: Final = principal("olga", kind=PrincipalKind.OPERATOR)

pytestmark = pytest.mark.rule("TX-REV-3")


def correction(kind: str = "late_applied", *, allows: bool = False) -> Correction:
    return Correction(
        tenant=TENANT,
        revision=1,
        created_at=NOW,
        updated_at=NOW,
        correction_id="cor_1",
        transaction_id=TRANSACTION,
        target=ACTION,
        evidence=Evidence(kind=kind, at=NOW),
        allows_compensation=allows,
    )


@pytest.mark.parametrize("allow", [True, False])
def test_an_operators_word_is_kept_with_the_correction(allow: bool) -> None:
    ruled = rule(correction(), OLGA, "Seen at the provider.", allow_compensation=allow, now=LATER)
    assert ruled == replace(
        correction(),
        revision=2,
        updated_at=LATER,
        ruled_by=OLGA.ref,
        ruling="Seen at the provider.",
        allows_compensation=allow,
    )


def test_nobody_but_an_operator_rules() -> None:
    with refused_with("correction.ruling_not_allowed", correction()):
        rule(correction(), principal(), "mine", allow_compensation=True, now=LATER)


def test_a_ruling_has_words() -> None:
    with refused_with("correction.ruling_required", correction()):
        rule(correction(), OLGA, " \n", allow_compensation=True, now=LATER)


@pytest.mark.parametrize("allows", list(product([True, False], repeat=3)))
def test_a_target_is_open_only_when_every_correction_of_it_allows_that(
    allows: tuple[bool, ...],
) -> None:
    corrections = [correction(f"kind_{n}", allows=one) for n, one in enumerate(allows)]
    expected = None if all(allows) else f"kind_{allows.index(False)}"
    assert closed_by(corrections) == expected
    left = reopened(slots("c", frozen="late_applied"), corrections, LATER)
    assert left == replace(
        slots("c", frozen="late_applied"), revision=5, updated_at=LATER, frozen=expected
    )


def test_a_later_ruling_takes_the_place_of_an_earlier_one() -> None:
    kept = rule(correction(), OLGA, "Not yet.", allow_compensation=False, now=LATER)
    opened = rule(kept, OLGA, "Now.", allow_compensation=True, now=LATER)
    assert (closed_by([kept]), closed_by([opened])) == ("late_applied", None)
    assert (opened.revision, opened.ruling) == (3, "Now.")
