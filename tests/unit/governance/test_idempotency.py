"""Idempotency keys: which are taken, within what they are unique, and when they are free again."""

from datetime import timedelta
from itertools import combinations, product
from typing import cast

import pytest
from msgspec.structs import replace

from amends.contracts import limits
from amends.contracts.declarations import Capability, IdempotencyContract
from amends.contracts.documents import ActionDocument
from amends.contracts.enums import (
    Collision,
    KeyRequirement,
    KeyScope,
    Mode,
    PrincipalKind,
    ResultStatus,
)
from amends.contracts.ids import ActionId, CapabilityId, TenantId
from amends.contracts.outcomes import ErrorInfo
from amends.contracts.principals import Identity, Principal
from amends.governance.idempotency import Use, check_key, is_free, reservation_id, use_of_key
from amends.testing.builders import (
    ACTION,
    KEY,
    NOW,
    action,
    capability,
    identity,
    principal,
    reservation,
    result,
)
from amends.testing.refusals import refused_with

EFFECTS = (Mode.EXECUTE, Mode.COMMIT, Mode.COMPENSATE)
OTHERS = tuple(mode for mode in Mode if mode not in EFFECTS)
OTHER_ACTION = ActionId("act_2")
LAPSE = timedelta(milliseconds=limits.RESERVATION_LAPSE_MS)
TICK = timedelta(microseconds=1)
OPTIONAL = IdempotencyContract()
BUSY = ErrorInfo(code="provider_busy", retryable=True)


# ── which keys are taken ─────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("ID-1")
@pytest.mark.parametrize("key", ["k", KEY, "a b", "x" * 255, "~!@#$%^&*()"])
def test_a_plain_key_is_taken(key: str) -> None:
    for mode in Mode:
        check_key(OPTIONAL, mode, key)


@pytest.mark.rule("ID-1")
def test_a_key_that_is_no_text_is_refused() -> None:
    for not_text in (1, b"key", ["key"]):
        with refused_with("idempotency.key_invalid"):
            check_key(OPTIONAL, Mode.EXECUTE, cast("str", not_text))


@pytest.mark.rule("ID-1")
@pytest.mark.parametrize(
    "key",
    ["", " ", "\t", "\u00a0", "x" * 256, "a\nb", "a\x00b", "a\x7fb", "Café", "ｋｅｙ", "a\u200db"],
)
def test_a_blank_oversize_or_ambiguous_key_is_refused(key: str) -> None:
    for mode, requirement in product(Mode, KeyRequirement):
        with refused_with("idempotency.key_invalid"):
            check_key(IdempotencyContract(requirement=requirement), mode, key)


@pytest.mark.rule("ID-1")
@pytest.mark.parametrize(("requirement", "mode"), list(product(KeyRequirement, Mode)))
def test_whether_a_key_has_to_be_there(requirement: KeyRequirement, mode: Mode) -> None:
    contract = IdempotencyContract(requirement=requirement)
    if requirement is KeyRequirement.REQUIRED and mode in EFFECTS:
        with refused_with("idempotency.key_required"):
            check_key(contract, mode, None)
    else:
        check_key(contract, mode, None)
    if requirement is KeyRequirement.UNSUPPORTED:
        with refused_with("idempotency.key_unsupported"):
            check_key(contract, mode, KEY)
    else:
        check_key(contract, mode, KEY)


# ── within what a key is unique ──────────────────────────────────────────────────────────────────


def scoped(
    scope: KeyScope = KeyScope.PRINCIPAL,
    *,
    who: Principal | None = None,
    on: Identity | None = None,
    act: ActionId = ACTION,
    mode: Mode = Mode.EXECUTE,
    key: str = KEY,
    declared: Capability | None = None,
) -> str:
    contract = IdempotencyContract(key_scope=scope)
    serving = replace(declared or capability(), idempotency=contract)
    return reservation_id(serving, who or principal(), on or identity(), act, mode, key)


@pytest.mark.rule("ID-1")
@pytest.mark.case("IDR-03")
@pytest.mark.parametrize("scope", KeyScope)
def test_execute_commit_and_compensate_share_one_key_space(scope: KeyScope) -> None:
    assert len({scoped(scope, mode=mode) for mode in EFFECTS}) == 1


@pytest.mark.rule("ID-1")
@pytest.mark.parametrize("scope", KeyScope)
def test_previews_and_look_ups_have_key_spaces_of_their_own(scope: KeyScope) -> None:
    spaces = {scoped(scope, mode=mode) for mode in (*OTHERS, Mode.EXECUTE)}
    assert len(spaces) == len(OTHERS) + 1


@pytest.mark.rule("ID-1")
@pytest.mark.case("TEN-01")
@pytest.mark.parametrize("scope", KeyScope)
def test_two_tenants_never_meet_in_any_scope(scope: KeyScope) -> None:
    stranger = principal(tenant=TenantId("other"))
    theirs = identity(tenant=TenantId("other"))
    assert scoped(scope) != scoped(scope, who=stranger, on=theirs)


WITHIN: dict[KeyScope, tuple[bool, bool, bool, bool]] = {
    KeyScope.ACTION: (True, False, False, False),
    KeyScope.CAPABILITY: (False, True, False, False),
    KeyScope.PRINCIPAL: (False, False, True, False),
    KeyScope.EXTERNAL_ACCOUNT: (False, False, False, True),
    KeyScope.TENANT: (False, False, False, False),
}
"""By scope: whether another action, capability, principal, account makes another key of it."""


@pytest.mark.rule("ID-1")
@pytest.mark.parametrize(("scope", "differs"), list(WITHIN.items()))
def test_a_key_is_unique_within_exactly_its_scope(
    scope: KeyScope, differs: tuple[bool, bool, bool, bool]
) -> None:
    here = scoped(scope)
    elsewhere = (
        scoped(scope, act=OTHER_ACTION),
        scoped(scope, declared=capability(id=CapabilityId("other"))),
        scoped(scope, who=principal("bob")),
        scoped(scope, on=identity(external_account="acct_2")),
    )
    assert tuple(other != here for other in elsewhere) == differs
    assert scoped(scope, key="another") != here


def test_the_same_name_of_another_kind_has_keys_of_its_own() -> None:
    assert scoped(who=principal(kind=PrincipalKind.SERVICE)) != scoped()


def test_keys_of_two_scopes_never_meet_whatever_their_names() -> None:
    """An account that is called like a capability is still an account."""
    same = "same"
    made = [
        scoped(
            scope,
            act=ActionId(same),
            declared=capability(id=CapabilityId(same)),
            on=identity(external_account=same),
        )
        for scope in KeyScope
    ]
    assert all(one != other for one, other in combinations(made, 2))


@pytest.mark.rule("ID-1")
@pytest.mark.parametrize("on", [None, identity(external_account=None)])
def test_a_key_that_is_scoped_to_an_account_needs_one(on: Identity | None) -> None:
    by_account = capability(idempotency=IdempotencyContract(key_scope=KeyScope.EXTERNAL_ACCOUNT))
    with refused_with("idempotency.account_required"):
        reservation_id(by_account, principal(), on, ACTION, Mode.EXECUTE, KEY)


# ── when a key is free again ─────────────────────────────────────────────────────────────────────


def failed(error: ErrorInfo | None) -> ActionDocument:
    return action(result=result(ResultStatus.FAILED, error=error), settled_at=NOW)


@pytest.mark.rule("ID-3")
@pytest.mark.parametrize(
    ("attempted", "approval_open", "after", "free"),
    [
        (False, False, LAPSE, True),
        (False, False, LAPSE - TICK, False),
        (False, True, 1000 * LAPSE, False),
        (True, False, 1000 * LAPSE, False),
        (True, True, 1000 * LAPSE, False),
    ],
)
def test_without_a_result_only_a_lapsed_action_without_an_attempt_frees_its_key(
    attempted: bool, approval_open: bool, after: timedelta, free: bool
) -> None:
    """A waiting approval and an unknown outcome keep it, however long."""
    holder = action(attempted=attempted)
    told = is_free(reservation(), holder, approval_open=approval_open, now=NOW + after)
    assert told is free


@pytest.mark.rule("ID-4")
@pytest.mark.parametrize(
    ("ending", "free"),
    [
        (result(), False),
        (result(ResultStatus.CANCELLED, error=BUSY), False),
        (result(ResultStatus.FAILED), False),
        (result(ResultStatus.FAILED, error=BUSY), True),
        (result(ResultStatus.FAILED, error=replace(BUSY, retryable=False)), False),
        (
            result(
                ResultStatus.FAILED,
                error=replace(BUSY, details={"side_effects_committed": True}),
            ),
            False,
        ),
        (
            result(
                ResultStatus.FAILED,
                error=replace(BUSY, details={"side_effects_committed": False}),
            ),
            True,
        ),
    ],
)
def test_only_a_retryable_failure_without_effect_releases_its_key(
    ending: object, free: bool
) -> None:
    holder = action(result=ending, settled_at=NOW)
    for approval_open in (False, True):
        assert is_free(reservation(), holder, approval_open=approval_open, now=NOW) is free


@pytest.mark.rule("ID-4")
@pytest.mark.parametrize(
    ("ttl_ms", "settled", "after", "free"),
    [
        (None, True, 1000 * LAPSE, False),
        (1000, True, timedelta(seconds=1) - TICK, False),
        (1000, True, timedelta(seconds=1), True),
        (1000, False, 1000 * LAPSE, False),
    ],
)
def test_a_settled_keys_life_starts_with_the_settlement(
    ttl_ms: int | None, settled: bool, after: timedelta, free: bool
) -> None:
    holder = action(result=result(), settled_at=NOW if settled else None)
    held = reservation(ttl_ms=ttl_ms)
    assert is_free(held, holder, approval_open=False, now=NOW + after) is free


# ── what a second use gets ───────────────────────────────────────────────────────────────────────


def use(
    holder: ActionDocument | None,
    *,
    fingerprint: str = "fingerprint",
    act: ActionId = OTHER_ACTION,
    collision: Collision = Collision.REVALIDATE_INPUT_HASH,
) -> Use:
    return use_of_key(
        IdempotencyContract(collision=collision),
        reservation(),
        holder,
        act,
        fingerprint,
        approval_open=False,
        now=NOW,
    )


HOLDERS = [action(), action(attempted=False), action(result=result(), settled_at=NOW)]


def test_a_key_that_nobody_holds_is_reserved() -> None:
    told = use_of_key(OPTIONAL, None, None, ACTION, "fingerprint", approval_open=False, now=NOW)
    assert told is Use.RESERVE


@pytest.mark.rule("ID-3")
@pytest.mark.parametrize("holder", [*HOLDERS, None])
def test_the_action_that_holds_a_key_enters_again_under_it(
    holder: ActionDocument | None,
) -> None:
    for collision in Collision:
        assert use(holder, act=ACTION, collision=collision) is Use.OWN


@pytest.mark.rule("ID-2")
@pytest.mark.parametrize(("holder", "collision"), list(product(HOLDERS, Collision)))
def test_the_same_fingerprint_gets_the_holders_answer_or_a_conflict(
    holder: ActionDocument, collision: Collision
) -> None:
    if collision is Collision.REJECT_CONFLICT:
        with refused_with("idempotency.conflict", holder):
            use(holder, collision=collision)
        return
    assert use(holder, collision=collision) is Use.REPLAY


@pytest.mark.rule("ID-2")
@pytest.mark.case("IDB-02")
@pytest.mark.parametrize(("holder", "collision"), list(product(HOLDERS, Collision)))
def test_another_fingerprint_is_refused_and_hears_nothing_of_the_holder(
    holder: ActionDocument, collision: Collision
) -> None:
    with refused_with("idempotency.input_mismatch", holder) as caught:
        use(holder, fingerprint="other", collision=collision)
    assert dict(caught.error.details) == {}
    assert ACTION not in str(caught.error)


@pytest.mark.rule("ID-4")
@pytest.mark.parametrize(("fingerprint", "collision"), list(product(["same", "x"], Collision)))
def test_a_free_key_is_taken_over_for_whatever_intent(
    fingerprint: str, collision: Collision
) -> None:
    assert use(failed(BUSY), fingerprint=fingerprint, collision=collision) is Use.TAKE_OVER


def test_a_key_whose_holder_cannot_be_read_is_not_free() -> None:
    """Nobody knows what that action did, so nothing may be begun in its place."""
    with refused_with("idempotency.in_progress") as caught:
        use(None)
    assert dict(caught.error.details) == {}
