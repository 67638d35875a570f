"""Receipts of a store's file: exported without anything else, and checked further than a bundle."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from amends.app.amends import Amends
from amends.contracts.evidence import Tail
from amends.contracts.ids import TenantId, TransactionId
from amends.contracts.times import EPOCH, format_instant
from amends.receipts.audit import BundleAudit, CheckedChain, Finding
from amends.receipts.bundle import Bundle
from amends.receipts.signing import Ed25519Signer, KeyRing
from amends.testing.refusals import refused_with
from amends.testing.workbench import CHARGE
from amends.wiring.auditing import BEHIND, check_store, given_key, identify, public_keys
from amends.wiring.bundling import Chosen, bundle_of, count_chosen, write_bundle
from amends.wiring.checkpointing import make_checkpoint
from tests.unit.wiring.store_files import ORDER, TENANT, change, fill, work

DONE = TransactionId("txn_done")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "amends.db"
    fill(path)
    return path


def check(path: Path, *ids: str, head: Tail | None = None) -> list[CheckedChain]:
    heads = {TransactionId(ids[0]): head} if head else {}
    wanted = [TransactionId(one) for one in ids]
    return list(check_store(path, public_keys(path), heads, wanted, TENANT))


def found(path: Path) -> dict[str, list[Finding]]:
    return {one.transaction_id: list(one.findings) for one in check(path) if one.findings}


# ── exporting ────────────────────────────────────────────────────────────────────────────────────


def chosen(*ids: str, tenant: str = TENANT) -> Chosen:
    return Chosen(transactions=tuple(map(TransactionId, ids)), tenant=TenantId(tenant))


def names(path: Path, one: Chosen) -> set[str]:
    return {
        line.chain.removeprefix("transaction:txn_")
        for line in Bundle(bundle_of(path, one)).chains()
    }


def test_a_bundle_holds_the_chains_that_were_asked_for(store: Path) -> None:
    lines = list(bundle_of(store, chosen("txn_done")))
    bundle = Bundle(lines)
    assert list(bundle.keys) == list(public_keys(store))
    (chain,) = bundle.chains()
    assert (chain.tenant, chain.chain) == (TENANT, "transaction:txn_done")
    audit = BundleAudit(Bundle(lines), public_keys(store), {})
    (checked,) = audit.chains()
    assert (checked.transaction_id, checked.findings) == (DONE, ())
    assert checked.head == check(store, "txn_done")[0].head
    assert (audit.log().findings, audit.seal()) == ((), None)


def test_all_chains_of_all_tenants_can_be_exported(store: Path) -> None:
    assert identify(store)[1] == count_chosen(store, Chosen()) == 5
    assert names(store, Chosen()) == {"done", "plan", "lost", "again", "asks"}
    assert names(store, chosen()) == {"done", "plan", "lost", "again", "asks"}
    assert names(store, chosen(tenant="elsewhere")) == set()


def test_what_has_a_step_in_a_time_can_be_exported(store: Path) -> None:
    """A request that waits has receipts, too, and no record yet."""
    for day, name in enumerate(("done", "plan", "lost", "again", "asks"), start=1):
        at = format_instant(EPOCH + timedelta(days=day))
        sql = "UPDATE receipts SET body = json_set(body, '$.step.at', ?) WHERE chain LIKE ?"
        change(store, sql, at, f"%{name}")
    third = EPOCH + timedelta(days=3)
    assert names(store, Chosen(since=third)) == {"lost", "again", "asks"}
    assert names(store, Chosen(until=third)) == {"done", "plan"}
    moment = Chosen(since=third, until=third + timedelta(seconds=1), tenant=TENANT)
    assert names(store, moment) == {"lost"}
    assert names(store, Chosen(since=third, tenant=TenantId("elsewhere"))) == set()
    change(store, "UPDATE receipts SET body = '{' WHERE chain LIKE '%done' AND number = 2")
    with refused_with("store.receipt_corrupt"):
        names(store, Chosen(since=third - timedelta(days=1)))


@pytest.mark.parametrize(("tenant", "id_"), [(TENANT, "txn_none"), ("elsewhere", "txn_done")])
def test_what_is_not_there_is_not_exported(store: Path, tenant: str, id_: str) -> None:
    with refused_with("transaction.not_found"):
        list(bundle_of(store, chosen(id_, tenant=tenant)))


@pytest.mark.case("STK-09")
def test_receipts_are_exported_although_their_record_contradicts_itself(store: Path) -> None:
    change(store, "UPDATE transactions SET status = 'compensated' WHERE id = 'txn_done'")
    (chain,) = Bundle(bundle_of(store, chosen("txn_done"))).chains()
    assert len(chain.receipts) == 3


def test_a_receipt_that_cannot_be_read_is_not_left_out_in_silence(store: Path) -> None:
    change(store, "UPDATE receipts SET body = '{' WHERE chain LIKE '%done' AND number = 2")
    with refused_with("store.receipt_corrupt") as caught:
        list(bundle_of(store, chosen("txn_done")))
    assert caught.error.details == {"chain": "transaction:txn_done", "number": 2}


@pytest.mark.rule("RC-4", "RD-2")
def test_nothing_but_receipts_is_in_a_bundle(tmp_path: Path) -> None:
    path = tmp_path / "amends.db"
    canary = "canary-4929-1234"

    async def doing(amends: Amends) -> None:
        await amends.execute(
            CHARGE, {"card": canary}, transaction_id="txn_1", metadata={"note": canary}
        )
        await amends.plan(CHARGE, {"card": canary}, transaction_id="txn_2")

    work(path, doing, {"card": canary})
    assert canary.encode() in path.read_bytes()
    make_checkpoint(path)
    written = b"".join([*bundle_of(path, Chosen()), *bundle_of(path, chosen("txn_1"))])
    assert canary.encode() not in written
    lines = [json.loads(line) for line in written.splitlines()]
    members = {"format", "store", "keys", "checkpoints", "whole"}
    members |= {"tenant", "chain", "receipts", "places", "proofs"}
    members |= {"chains", "digest", "key_id", "signature"}
    assert {member for line in lines for member in line} == members


def test_a_bundle_is_written_whole_or_not_at_all(store: Path, tmp_path: Path) -> None:
    target = tmp_path / "bundle.jsonl"
    change(store, "UPDATE receipts SET body = '{' WHERE chain LIKE '%plan' AND number = 1")
    with refused_with("store.receipt_corrupt"):
        write_bundle(target, bundle_of(store, Chosen()))
    assert not target.exists()
    write_bundle(target, bundle_of(store, chosen("txn_done")))
    with refused_with("backup.target_exists"):
        write_bundle(target, [b""])
    assert len(list(Bundle(target.read_bytes().splitlines()).chains())) == 1


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_key_is_given_in_hex_as_a_file_or_as_the_stores_own(store: Path, tmp_path: Path) -> None:
    (key,) = public_keys(store)
    file = tmp_path / "published.txt"
    file.write_text(f"{key.hex()}\n")
    own = store.with_name("amends.db.key")
    assert given_key(key.hex()) == given_key(str(file)) == given_key(str(own)) == key


@pytest.mark.parametrize("given", ["", "zz", "00" * 31, "no/such/file"])
def test_what_is_no_key_is_refused(given: str) -> None:
    with refused_with("key.not_given"):
        given_key(given)


def test_a_file_without_a_key_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "published.txt"
    file.write_text("nothing")
    with refused_with("key.not_given"):
        given_key(str(file))


def test_without_its_key_file_a_store_has_no_key_and_none_is_made(store: Path) -> None:
    key = store.with_name("amends.db.key")
    key.unlink()
    assert len(public_keys(store)) == 0
    bundle = Bundle(bundle_of(store, chosen("txn_done")))
    assert bundle.header.keys == ()
    assert len(list(bundle.chains())) == 1
    assert bundle.seal_fault(KeyRing()) is None
    assert not key.exists()


# ── checking a store ─────────────────────────────────────────────────────────────────────────────


def test_a_store_that_is_well_has_no_findings_and_tells_its_heads(store: Path) -> None:
    checked = check(store)
    assert len(checked) == 5
    assert all(one.head is not None and one.head.number == one.receipts for one in checked)


def test_one_transaction_can_be_checked_and_one_that_is_not_there_not(store: Path) -> None:
    assert [one.transaction_id for one in check(store, "txn_done", "txn_plan")] == [
        "txn_done",
        "txn_plan",
    ]
    with refused_with("transaction.not_found"):
        check(store, "txn_none")


@pytest.mark.case("JRN-07")
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_byte_that_was_changed_is_found_at_its_exact_place(store: Path, number: int) -> None:
    flip = (
        "UPDATE receipts SET body = replace(body, '\"local\"', '\"locam\"')"
        " WHERE chain LIKE '%done' AND number = ?"
    )
    change(store, flip, number)
    assert found(store) == {"txn_done": [Finding("receipt.hash_mismatch", number - 1, number)]}


@pytest.mark.case("JRN-07")
def test_a_receipt_that_became_unreadable_is_found_at_its_exact_place(store: Path) -> None:
    change(store, "UPDATE receipts SET body = '{' WHERE chain LIKE '%done' AND number = 2")
    assert found(store) == {"txn_done": [Finding("store.receipt_corrupt", 1, 2)]}


@pytest.mark.case("JRN-07")
def test_a_last_receipt_that_was_deleted_is_missed_by_its_record(store: Path) -> None:
    """The record knows its revision, so that nobody has to have kept the head outside."""
    change(store, "DELETE FROM receipts WHERE chain LIKE '%done' AND number = 3")
    assert Finding("receipt.cut_tail", 2, None) in found(store)["txn_done"]


def test_a_deletion_in_the_middle_is_a_gap(store: Path) -> None:
    change(store, "DELETE FROM receipts WHERE chain LIKE '%done' AND number = 2")
    assert found(store) == {"txn_done": [Finding("receipt.gap", 1, 3)]}


def test_receipts_that_have_vanished_altogether_are_missed(store: Path) -> None:
    change(store, "DELETE FROM receipts WHERE chain LIKE '%done'")
    assert found(store) == {"txn_done": [Finding("receipt.empty", 0, None)]}
    codes = [one.code for one in check(store, "txn_done")[0].findings]
    assert codes == ["receipt.empty", "receipt.cut_tail"]


def test_a_record_that_was_put_back_is_behind_its_receipts(store: Path) -> None:
    older = (
        "UPDATE transactions SET revision = 1, body = replace(body, '\"revision\":2',"
        " '\"revision\":1') WHERE id = 'txn_done'"
    )
    change(store, older)
    assert found(store) == {"txn_done": [Finding(BEHIND, 3, None)]}


def test_a_record_that_cannot_be_read_is_a_finding_of_its_own(store: Path) -> None:
    change(store, "UPDATE transactions SET status = 'half_done' WHERE id = 'txn_done'")
    assert found(store) == {"txn_done": [Finding("store.record_corrupt", 3, None)]}


def test_a_head_that_was_kept_is_compared_once(store: Path) -> None:
    (whole,) = check(store, "txn_done")
    head = whole.head
    assert head is not None
    assert check(store, "txn_done", head=head)[0].findings == ()
    change(store, "DELETE FROM receipts WHERE chain LIKE '%done' AND number = 3")
    findings = check(store, "txn_done", head=head)[0].findings
    assert [one.code for one in findings].count("receipt.cut_tail") == 1


def test_another_key_confirms_nothing(store: Path) -> None:
    other = KeyRing([Ed25519Signer(b"\7" * 32).public_key])
    (checked,) = check_store(store, other, {}, [DONE], TENANT)
    assert [one.code for one in checked.findings] == ["receipt.key_unknown"]


def test_a_store_at_work_is_checked_as_of_one_moment(store: Path) -> None:
    async def meanwhile(amends: Amends) -> list[CheckedChain]:
        checking = check_store(store, public_keys(store), {}, (), TENANT)
        first = next(checking)
        await amends.commit("plan:txn_plan")
        await amends.execute(CHARGE, ORDER, transaction_id="txn_zzz")
        return [first, *checking]

    assert all(one.findings == () for one in work(store, meanwhile))
