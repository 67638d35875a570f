"""Rulings on corrections: who rules, and when a contradicted effect may be offset again."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from amends.contracts.documents import Correction, Evidence
from amends.contracts.enums import PrincipalKind
from amends.contracts.principals import OPERATE_SCOPE
from amends.testing.builders import ACTION, NOW, TENANT, TRANSACTION, principal, slots
from amends.testing.refusals import refused_with
from amends.transactions.corrections import closed_by, reopened, rule

LATER = NOW + timedelta(hours=1)
OPERATOR = principal("olga", kind=PrincipalKind.OPERATOR)


def correction(kind: str = "late_not_applied", **changes: object) -> Correction:
    made = Correction(
        tenant=TENANT,
        revision=1,
        created_at=NOW,
        updated_at=NOW,
        correction_id=f"cor_{kind}",
        transaction_id=TRANSACTION,
        target=ACTION,
        evidence=Evidence(kind=kind, at=NOW),
    )
    return replace(made, **changes)


@pytest.mark.rule("TX-REV-3")
@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("who", [OPERATOR, principal("omar", scopes=(OPERATE_SCOPE,))])
def test_an_operator_rules_in_words_and_may_rule_again(who: object, allowed: bool) -> None:
    operator = OPERATOR if who is OPERATOR else principal("omar", scopes=(OPERATE_SCOPE,))
    ruled = rule(correction(), operator, "seen", allow_compensation=allowed, now=LATER)
    assert (ruled.ruled_by, ruled.ruling) == (operator.ref, "seen")
    assert (ruled.allows_compensation, ruled.revision, ruled.updated_at) == (allowed, 2, LATER)
    again = rule(ruled, OPERATOR, "seen again", allow_compensation=not allowed, now=NOW)
    assert (again.ruling, again.allows_compensation) == ("seen again", not allowed)
    assert (again.revision, again.updated_at) == (3, LATER)


def test_nobody_else_rules_and_nobody_without_words() -> None:
    untouched = correction()
    with refused_with("correction.ruling_not_allowed", untouched):
        rule(untouched, principal(), "mine", allow_compensation=True, now=LATER)
    for silent in ("", " \t"):
        with refused_with("correction.ruling_required", untouched):
            rule(untouched, OPERATOR, silent, allow_compensation=True, now=LATER)


@pytest.mark.rule("TX-REV-3")
def test_a_target_is_open_again_only_when_every_correction_allows_it() -> None:
    one, other = correction("late_partial"), correction("late_not_applied")
    allowed = replace(one, allows_compensation=True)
    assert closed_by([]) is None
    assert closed_by([one, other]) == "late_partial"
    assert closed_by([allowed, other]) == "late_not_applied"
    assert closed_by([allowed, replace(other, allows_compensation=True)]) is None


@pytest.mark.rule("TX-REV-3")
def test_reopening_keeps_the_holders_and_follows_the_rulings() -> None:
    frozen = slots("a", frozen="late_partial", updated_at=LATER)
    still = reopened(frozen, [correction("late_not_applied")], NOW)
    assert (still.frozen, still.revision) == ("late_not_applied", frozen.revision + 1)
    opened = reopened(frozen, [correction(allows_compensation=True)], NOW)
    assert (opened.frozen, opened.holders, opened.updated_at) == (None, frozen.holders, LATER)
