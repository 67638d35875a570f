"""Keys of callers, through the engine: scopes, replays, conflicts, races, and when one is free."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from amends.connectors.port import Attempt
from amends.contracts.declarations import IdempotencyContract
from amends.contracts.enums import Collision, KeyRequirement, KeyScope, Mode
from amends.contracts.errors import AmendsError
from amends.contracts.ids import ActionId, PrincipalId, TenantId
from amends.contracts.json_types import Json
from amends.contracts.outcomes import NotApplied
from amends.contracts.principals import Identity
from amends.testing import faults
from amends.testing.refusals import refused_with
from amends.testing.workbench import ALICE, EVE, TENANT, Workbench
from amends.transactions.hashing import provider_key
from tests.unit.runtime.desk import (
    DECLINED,
    DONE,
    LATER,
    UNSURE,
    Desk,
    action,
    ask,
    before_next_write,
    claim,
    document,
    hidden,
    records,
)

CAROL = replace(ALICE, id=PrincipalId("carol"))
EVE_PAYS = replace(EVE, id=PrincipalId("alice"))


def keyed(desk: Desk, place: Path | None = None, **changes: object) -> Workbench:
    """The desk with this idempotency contract."""
    contract = replace(IdempotencyContract(), **changes)
    return Workbench(served=[desk.served(idempotency=contract)], file=place)


@pytest.mark.rule("ID-2")
@pytest.mark.case("IDB-02")
async def test_a_key_serves_one_intent_and_tells_nothing_about_it(place: Path | None) -> None:
    desk = Desk()
    async with keyed(desk, place) as bench:
        first = await ask(bench, action(key="k", input={"amount": 10}))
        again = await ask(bench, action(key="k", input={"amount": 10}))
        before = await bench.snapshot()
        with refused_with("idempotency.input_mismatch") as caught:
            await ask(bench, action(key="k", input={"amount": 1000}))
        assert (again.action_id, again.replayed, again.output) == (first.action_id, True, DONE)
        told = str(caught.error) + str(caught.error.details)
        assert first.action_id not in told
        assert "op_1" not in told
        assert await bench.snapshot() == before
        assert len(desk.seen) == 1


@pytest.mark.rule("ID-2")
async def test_a_replay_shows_the_current_projection_not_the_first_answer() -> None:
    desk = Desk([UNSURE], reconcile=[{"id": "found"}])
    async with keyed(desk) as bench:
        first = await ask(bench, action(key="k"))
        unknown = await ask(bench, action(key="k"))
        bench.wait(5)
        await bench.sweep()
        found = await ask(bench, action(key="k"))
        assert (first.status, unknown.status, found.status) == (
            "outcome_unknown",
            "outcome_unknown",
            "reconciled",
        )
        assert (unknown.replayed, found.replayed, found.output) == (True, True, {"id": "found"})
        assert len(desk.seen) == 2


@pytest.mark.rule("ID-2")
async def test_a_key_in_progress_says_so_and_when_to_come_back() -> None:
    heard: list[object] = []

    async def meanwhile(_attempt: Attempt) -> object:
        with refused_with("idempotency.in_progress") as caught:
            await ask(bench, action(key="k"))
        heard.append(caught.error.details["retry_after_ms"])
        return DONE

    async with keyed(Desk([meanwhile])) as bench:
        await ask(bench, action(key="k"))
        assert heard == [1000]


@pytest.mark.rule("ID-2")
async def test_a_capability_may_reject_every_second_use() -> None:
    async with keyed(Desk(), collision=Collision.REJECT_CONFLICT) as bench:
        await ask(bench, action(key="k"))
        with refused_with("idempotency.conflict"):
            await ask(bench, action(key="k"))


@pytest.mark.rule("ID-1")
@pytest.mark.parametrize(
    ("key", "code"),
    [
        (" ", "idempotency.key_invalid"),
        ("k" * 256, "idempotency.key_invalid"),
        ("a\nb", "idempotency.key_invalid"),
        ("ключ", "idempotency.key_invalid"),
    ],
)
async def test_a_blank_oversize_or_unprintable_key_is_refused(key: str, code: str) -> None:
    async with keyed(Desk()) as bench:
        with refused_with(code):
            await ask(bench, action(key=key))


@pytest.mark.rule("ID-1")
async def test_a_key_where_none_is_taken_is_refused() -> None:
    async with keyed(Desk(), requirement=KeyRequirement.UNSUPPORTED) as bench:
        with refused_with("idempotency.key_unsupported"):
            await ask(bench, action(key="k"))


@pytest.mark.rule("ID-1")
@pytest.mark.parametrize(
    ("scope", "effects"),
    [
        (KeyScope.ACTION, 4),
        (KeyScope.PRINCIPAL, 2),
        (KeyScope.EXTERNAL_ACCOUNT, 2),
    ],
)
async def test_a_key_is_one_key_within_its_scope_only(scope: KeyScope, effects: int) -> None:
    desk = Desk()
    async with keyed(desk, key_scope=scope) as bench:
        for principal, account in ((ALICE, "a"), (CAROL, "b")):
            identity = Identity(tenant=TENANT, external_account=account)
            for _ in range(2):
                await ask(bench, action(key="k"), principal=principal, identity=identity)
        assert len(desk.seen) == effects


@pytest.mark.rule("ID-1", "ID-2")
@pytest.mark.parametrize("scope", [KeyScope.TENANT, KeyScope.CAPABILITY])
async def test_two_principals_who_share_a_scope_never_share_an_answer(scope: KeyScope) -> None:
    desk = Desk()
    async with keyed(desk, key_scope=scope) as bench:
        await ask(bench, action(key="k"))
        with refused_with("idempotency.input_mismatch"):
            await ask(bench, action(key="k"), principal=CAROL)
        assert len(desk.seen) == 1


@pytest.mark.rule("ID-1")
async def test_a_key_scoped_to_an_account_needs_one() -> None:
    async with keyed(Desk(), key_scope=KeyScope.EXTERNAL_ACCOUNT) as bench:
        with refused_with("idempotency.account_required"):
            await ask(bench, action(key="k"))


@pytest.mark.rule("ID-1")
@pytest.mark.case("TEN-01")
async def test_two_tenants_never_meet_over_a_key(place: Path | None) -> None:
    desk = Desk()
    async with keyed(desk, place, key_scope=KeyScope.TENANT) as bench:
        mine = await ask(bench, action(id="act_1", transaction="txn_1", key="k"))
        theirs = await ask(
            bench, action(id="act_1", transaction="txn_1", key="k"), principal=EVE_PAYS
        )
        assert (mine.status, theirs.status, theirs.replayed) == ("committed", "committed", False)
        assert len(desk.seen) == 2
        assert {one.tenant for one in desk.seen} == {TENANT, TenantId("globex")}
        assert len({one.provider_key for one in desk.seen}) == 2


@pytest.mark.rule("ID-1")
async def test_previews_and_effects_have_keys_of_their_own() -> None:
    desk = Desk([UNSURE], preview=[DONE], reconcile=[DONE])
    async with keyed(desk) as bench:
        dry = await ask(bench, action(Mode.DRY_RUN, key="k"))
        plan = await ask(bench, action(Mode.PLAN, key="k"))
        made = await ask(bench, action(key="k"))
        bench.wait(5)
        found = await ask(bench, action(Mode.RECONCILE, transaction=made.transaction_id, key="k"))
        assert [one.status for one in (dry, plan, made, found)] == [
            "dry_run_completed",
            "planned",
            "outcome_unknown",
            "reconciled",
        ]
        again = await ask(bench, action(Mode.DRY_RUN, key="k"))
        assert (again.action_id, again.replayed) == (dry.action_id, True)


@pytest.mark.rule("ID-1", "ID-2")
@pytest.mark.case("IDB-01")
async def test_a_key_of_one_effect_serves_no_other_plan_target_or_transaction() -> None:
    desk = Desk(compensate=[DONE])
    async with keyed(desk) as bench:
        for plan in ("plan_1", "plan_2"):
            await ask(bench, action(Mode.PLAN, plan=plan, input={"amount": 5}))
        done = await ask(bench, action(Mode.COMMIT, plan="plan_1", key="k", input={"amount": 5}))
        for asked in (
            action(Mode.COMMIT, plan="plan_2", key="k", input={"amount": 5}),
            action(Mode.COMPENSATE, target=done.action_id, key="k", input={"amount": 5}),
            action(key="k", input={"amount": 5}),
            action(key="k", transaction="txn_9", input={"amount": 5}),
        ):
            with refused_with("idempotency.input_mismatch"):
                await ask(bench, asked)
        assert len(desk.seen) == 1


@pytest.mark.case("IDB-04")
@pytest.mark.rule("ID-5")
async def test_equal_inputs_of_two_transactions_are_two_intents() -> None:
    async with Workbench() as bench:
        asked = [action(id=f"act_{n}", transaction=f"txn_{n}") for n in (1, 2)]
        for _ in range(2):
            for one in asked:
                await ask(bench, one)
        keys = {one.provider_key for one in await records(bench)}
        assert (bench.provider.charges, len(keys)) == (2, 2)
        assert await bench.check() == []


@pytest.mark.case("IDR-01")
@pytest.mark.rule("ID-3", "TX-REV-2")
async def test_many_equal_requests_at_once_make_one_claim_and_no_half_rows(
    place: Path | None,
) -> None:
    desk = Desk()
    async with keyed(desk, place) as bench:
        asked = action(id="act_1", transaction="txn_1", key="k")
        answers = await asyncio.gather(
            *(ask(bench, asked) for _ in range(32)), return_exceptions=True
        )
        codes = {one.code for one in answers if isinstance(one, AmendsError)}
        won = [one for one in answers if not isinstance(one, BaseException)]
        assert won
        assert {one.status for one in won} == {"committed"}
        assert codes <= {"transaction.in_progress", "idempotency.in_progress"}
        assert len(desk.seen) == 1
        snapshot = await bench.snapshot()
        assert (len(snapshot.records), len(snapshot.actions), len(snapshot.reservations)) == (
            1,
            1,
            1,
        )


@pytest.mark.case("IDR-03")
@pytest.mark.rule("ID-1", "ID-3")
async def test_a_commit_and_a_compensation_at_once_do_not_both_get_the_key(
    place: Path | None,
) -> None:
    desk = Desk(compensate=[DONE])
    async with keyed(desk, place) as bench:
        done = await ask(bench, action())
        await ask(bench, action(Mode.PLAN, plan="plan_1"))
        commit = action(Mode.COMMIT, id="act_c", plan="plan_1", key="k")
        offset = action(Mode.COMPENSATE, id="act_o", target=done.action_id, key="k", input={})
        answers = await asyncio.gather(
            ask(bench, commit), ask(bench, offset), return_exceptions=True
        )
        refused = [one.code for one in answers if isinstance(one, AmendsError)]
        assert refused == ["idempotency.input_mismatch"]
        [reservation] = (await bench.snapshot()).reservations
        ran = desk.seen[-1]
        assert (len(desk.seen), reservation.action_id) == (2, ran.action_id)


@pytest.mark.case("DUP-01")
@pytest.mark.rule("ID-5", "TX-EXEC-1")
async def test_a_fresh_key_is_no_fresh_attempt_of_a_transaction_whose_outcome_is_open() -> None:
    async with Workbench([faults.acknowledgement()]) as bench:
        first = await ask(bench, action(id="A1", transaction="T1", key="K1"))
        with refused_with("transaction.reconciliation_required") as caught:
            await ask(bench, action(id="A1", transaction="T1", key="K2"))
        record = await bench.record("T1")
        assert (first.status, caught.error.details["transaction_id"]) == ("outcome_unknown", "T1")
        assert (bench.provider.charges, record.idempotency_key) == (1, "K1")
        other = await ask(bench, action(id="A2", transaction="T2", key="K2"))
        assert (other.status, bench.provider.charges) == ("committed", 2)
        assert await bench.check() == []


@pytest.mark.case("DUP-03")
@pytest.mark.rule("ID-5")
async def test_the_providers_key_comes_from_identity_and_never_from_content() -> None:
    async with Workbench([faults.acknowledgement()]) as bench:
        plan = await ask(bench, action(Mode.PLAN, plan="plan_1"))
        await ask(bench, action(Mode.COMMIT, id="act_1", plan="plan_1"))
        changed = action(Mode.COMMIT, id="act_1", plan="plan_1", input={"amount": 501})
        with refused_with("action.id_conflict"):
            await ask(bench, changed)
        with refused_with("transaction.plan_not_committable"):
            await ask(bench, replace(changed, action_id=None))
        record = (await records(bench))[0]
        own = provider_key(TENANT, record.transaction_id, ActionId(plan.action_id))
        assert bench.effects == (record.provider_key,) == (own,)


@pytest.mark.case("CAN-02")
@pytest.mark.parametrize(
    ("first", "again", "same"),
    [(1, 1.0, True), (0, -0.0, True), (100, 1e2, True), (0.1 + 0.2, 0.3, False), (1, True, False)],
)
async def test_a_key_compares_numbers_by_value_and_never_takes_true_for_one(
    first: Json, again: Json, same: bool
) -> None:
    desk = Desk()
    async with keyed(desk) as bench:
        done = await ask(bench, action(key="k", input={"n": first}))
        asked = action(key="k", input={"n": again})
        if same:
            replayed = await ask(bench, asked)
            assert (replayed.replayed, replayed.action_id) == (True, done.action_id)
        else:
            with refused_with("idempotency.input_mismatch"):
                await ask(bench, asked)
        assert len(desk.seen) == 1


@pytest.mark.rule("ID-5")
async def test_one_provider_key_goes_with_every_attempt_of_a_record() -> None:
    desk = Desk([NotApplied(error=LATER), UNSURE], reconcile=[UNSURE, DONE])
    async with keyed(desk) as bench:
        asked = action(id="act_1", transaction="txn_1", key="k")
        await ask(bench, asked)
        await ask(bench, asked)
        for seconds in (5, 600):
            bench.wait(seconds)
            await bench.sweep()
        keys = {one.provider_key for one in desk.seen}
        assert (len(desk.seen), len(keys)) == (4, 1)


@pytest.mark.rule("ID-4")
async def test_a_retryable_failure_without_effect_gives_the_key_back() -> None:
    desk = Desk([NotApplied(error=LATER), DONE])
    async with keyed(desk) as bench:
        first = await ask(bench, action(key="k"))
        second = await ask(bench, action(key="k"))
        assert (first.status, second.status) == ("failed", "committed")
        assert first.action_id != second.action_id
        [reservation] = (await bench.snapshot()).reservations
        assert (reservation.action_id, reservation.revision) == (second.action_id, 2)


@pytest.mark.rule("ID-4")
@pytest.mark.parametrize("answer", [NotApplied(error=DECLINED), DONE])
async def test_every_other_ending_settles_the_key(answer: object) -> None:
    desk = Desk([answer])
    async with keyed(desk) as bench:
        first = await ask(bench, action(key="k"))
        again = await ask(bench, action(key="k"))
        assert (again.action_id, again.replayed) == (first.action_id, True)
        assert len(desk.seen) == 1


@pytest.mark.rule("ID-4")
async def test_a_keys_life_starts_at_the_settlement_of_its_action() -> None:
    desk = Desk([UNSURE, DONE], reconcile=[DONE])
    async with keyed(desk, ttl_ms=10_000) as bench:
        first = await ask(bench, action(key="k"))
        bench.wait(60)
        held = await ask(bench, action(key="k"))
        await bench.sweep()
        bench.wait(9.999)
        still = await ask(bench, action(key="k"))
        bench.wait(0.001)
        free = await ask(bench, action(key="k"))
        assert first.action_id == held.action_id == still.action_id
        assert free.action_id != first.action_id
        assert (held.status, still.status, free.status) == (
            "outcome_unknown",
            "reconciled",
            "committed",
        )


@pytest.mark.rule("ID-3")
async def test_a_pending_approval_keeps_its_key_and_a_dead_one_frees_it_later() -> None:
    desk = Desk()
    async with keyed(desk) as bench:
        waiting = await ask(bench, action(id="act_1", key="k", approval=True))
        bench.wait(3_600)
        held = await ask(bench, action(key="k"))
        assert (held.action_id, held.status) == ("act_1", "requires_human")
        await bench.bob.deny(waiting)
        done = await ask(bench, action(key="k"))
        assert (done.status, done.replayed, len(desk.seen)) == ("committed", False, 1)


@pytest.mark.rule("ID-3")
async def test_a_denied_actions_key_is_replayed_until_it_lapses() -> None:
    desk = Desk()
    async with keyed(desk) as bench:
        waiting = await ask(bench, action(id="act_1", key="k", approval=True))
        await bench.bob.deny(waiting)
        held = await ask(bench, action(key="k"))
        assert (held.action_id, held.status, held.replayed) == ("act_1", "failed", True)
        bench.wait(15 * 60)
        assert (await ask(bench, action(key="k"))).status == "committed"


@pytest.mark.rule("ID-3", "TX-CLAIM-1")
async def test_an_action_that_lost_its_key_meanwhile_does_not_run_under_it() -> None:
    desk = Desk()
    async with keyed(desk) as bench:
        waiting = await ask(bench, action(id="act_1", key="k", approval=True))
        await bench.bob.approve(waiting)
        bench.wait(25 * 3_600)
        await bench.sweep()
        other = await ask(bench, action(id="act_2", key="k"))
        replayed = await ask(bench, action(id="act_1", key="k", approval=True))
        assert (other.status, replayed.action_id, len(desk.seen)) == ("committed", "act_2", 1)


@pytest.mark.rule("TX-CLAIM-1")
async def test_a_key_that_is_taken_between_reading_and_claiming_loses_the_claim() -> None:
    desk = Desk()
    async with keyed(desk) as bench:

        async def overtaking() -> None:
            await ask(bench, action(id="act_fast", key="k"))

        before_next_write(bench, overtaking)
        slow = await ask(bench, action(id="act_slow", key="k"))
        assert (slow.action_id, slow.replayed, len(desk.seen)) == ("act_fast", True, 1)


@pytest.mark.rule("ID-3")
async def test_a_crash_after_the_claim_keeps_the_key_for_good() -> None:
    desk = Desk()
    async with keyed(desk) as bench:
        await claim(bench, action(id="act_1", key="k"))
        await bench.restart()
        bench.wait(86_400)
        await bench.sweep()
        again = await ask(bench, action(key="k"))
        assert (again.action_id, again.status, desk.seen) == ("act_1", "outcome_unknown", [])


async def test_a_reservation_whose_action_is_gone_blocks_rather_than_doubles() -> None:
    desk = Desk()
    async with keyed(desk) as bench:
        await ask(bench, action(id="act_1", key="k"))
        found_again = hidden(bench, "act_1")
        with refused_with("idempotency.in_progress"):
            await ask(bench, action(key="k"))
        found_again()
        assert await document(bench, "act_1") is not None
        assert len(desk.seen) == 1
