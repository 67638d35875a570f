"""Commands over a store's file: what they say, what they end with, and what they leave alone."""

import json
from pathlib import Path
from typing import Final

import apsw
import pytest

from amends.cli import exits
from amends.cli.operations import progress
from amends.cli.operations.faults import EXIT_OF_FAULT, MEANING
from amends.receipts.bundle import SealFault
from amends.receipts.checkpoint import LogFault
from amends.receipts.verify import FaultCode
from amends.stores.sqlite.migrations import MIGRATIONS
from amends.wiring import places
from amends.wiring.keys import key_path
from tests.unit.cli import shop
from tests.unit.cli.shell import Said, Shell

LIVE: Final = ("verify", "--store")


@pytest.fixture
def filled(shell: Shell) -> Shell:
    """A done transaction, a plan, and an outcome that nobody knows."""
    assert shell.done("txn_done").code == exits.OK
    shell.planned("txn_plan")
    assert shell.done("txn_lost", amount=13).code == exits.OF_FAMILY["outcome_unknown"]
    return shell


def change(shell: Shell, sql: str) -> None:
    connection = apsw.Connection(str(shell.database))
    connection.execute(sql)
    connection.close()


def live(shell: Shell, *more: str) -> Said:
    return shell.json(*LIVE, f"sqlite:///{shell.database}", *more)


# ── export and verify ────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("RC-3", "CLI-2")
def test_what_is_exported_verifies_anywhere(filled: Shell) -> None:
    data = filled.json("export", "txn_done", "txn_plan", "--out", "r.jsonl").data
    assert (data["chains"], data["receipts"], data["file"]) == (2, 5, "r.jsonl")
    key = data["keys"][0]
    filled.database.unlink()
    said = filled.json("verify", "r.jsonl", "--key", key).data
    assert (said["store"], said["keys"], said["chains"]) == (data["store"], "given", 2)
    assert [one["transaction_id"] for one in said["heads"]] == ["txn_done", "txn_plan"]
    assert said["faults"] == []
    told = filled("verify", "r.jsonl")
    assert told.code == exits.OK
    assert "txn_done=4:" in told.out
    assert "agrees with itself" in told.out


def test_a_bundle_can_go_to_standard_output(filled: Shell) -> None:
    said = filled("export", "txn_done")
    assert said.code == exits.OK
    lines = said.out.splitlines()
    assert len(lines) == 3
    last = json.loads(lines[2])
    assert (last["chains"], last["receipts"]) == (1, 4)


def test_everything_can_be_exported_at_once(filled: Shell) -> None:
    assert filled.json("export", "--all", "--out", "all.jsonl").data["chains"] == 3
    told = filled("export", "--all", "--out", "more.jsonl")
    assert told.out.startswith("Written to more.jsonl. Chains: 3")


@pytest.mark.parametrize(
    ("tokens", "code"),
    [
        ((), "cli.transactions_required"),
        (("txn_done", "--all"), "cli.transactions_required"),
        (("txn_done",), "cli.out_required"),
        (("-x",), "cli.usage"),
        (("txn_none", "--out", "r.jsonl"), "transaction.not_found"),
        (("txn_done", "--tenant", "elsewhere", "--out", "r.jsonl"), "transaction.not_found"),
        (("txn_done", "--out", "amends.db"), "backup.target_exists"),
        (("txn done", "--out", "r.jsonl"), "input.invalid_id"),
        (("txn_done", "--out", "r.jsonl", "--store", "memory:"), "store.no_file"),
        (("txn_done", "--out", "r.jsonl", "--store", "sqlite:///none.db"), "store.not_found"),
    ],
)
def test_what_cannot_be_exported_is_refused(
    filled: Shell, tokens: tuple[str, ...], code: str
) -> None:
    assert filled.json("export", *tokens).error == code
    assert not (filled.folder / "r.jsonl").exists()


def test_every_kind_of_fault_has_an_exit_code_and_words_of_its_own() -> None:
    kinds = (*FaultCode, *LogFault, *SealFault)
    assert {one.value for one in kinds} <= EXIT_OF_FAULT.keys()
    assert EXIT_OF_FAULT.keys() == MEANING.keys()
    codes = [*EXIT_OF_FAULT.values(), *exits.OF_FAMILY.values(), exits.OK, exits.FAILED]
    assert len(set(codes)) == len(codes)
    assert max(EXIT_OF_FAULT.values()) < exits.KILLED


SPOILT: Final = {
    "receipt.hash_mismatch": '"status":"committed"=>"status":"failed"',
    "receipt.gap": "receipt 2",
    "receipt.signature_invalid": '"signature":"=>"signature":"00',
    "bundle.malformed": '"receipts":[=>"more":1,"receipts":[',
    "bundle.cut": "last line",
    "bundle.unknown_format": "receipts-2=>receipts-3",
}


def spoil(file: Path, fault: str) -> None:
    """Change a bundle so that it has this fault."""
    lines = file.read_text().splitlines(keepends=True)
    recipe = SPOILT[fault]
    if recipe == "last line":
        lines.pop()
    elif recipe == "receipt 2":
        chain, footer = json.loads(lines[1]), json.loads(lines[2])
        del chain["receipts"][1]
        footer["receipts"] -= 1
        lines[1:] = [json.dumps(one, separators=(",", ":")) + "\n" for one in (chain, footer)]
    else:
        old, _, new = recipe.partition("=>")
        if fault == "receipt.signature_invalid":
            at = lines[1].rindex(old) + len(old)
            lines[1] = lines[1][:at] + "00" + lines[1][at + 2 :]
        else:
            lines = [line.replace(old, new) for line in lines]
    file.write_text("".join(lines))


@pytest.mark.rule("RC-3")
@pytest.mark.parametrize("fault", SPOILT)
def test_a_spoilt_bundle_ends_with_the_code_of_its_fault(filled: Shell, fault: str) -> None:
    filled.json("export", "txn_done", "--out", "r.jsonl")
    spoil(filled.folder / "r.jsonl", fault)
    said = filled.json("verify", "r.jsonl")
    assert said.error == fault
    assert said.code == EXIT_OF_FAULT[fault]
    told = filled("verify", "r.jsonl")
    assert told.code == EXIT_OF_FAULT[fault]


@pytest.mark.rule("RC-3")
def test_a_fault_is_told_with_its_place(filled: Shell) -> None:
    filled.json("export", "txn_done", "--out", "r.jsonl")
    spoil(filled.folder / "r.jsonl", "receipt.gap")
    (fault,) = filled.json("verify", "r.jsonl").json["data"]["faults"]
    assert (fault["transaction_id"], fault["position"], fault["number"]) == ("txn_done", 1, 3)
    assert "txn_done, receipt 3 (position 1)" in filled("verify", "r.jsonl").out


@pytest.mark.rule("RC-3")
def test_a_head_that_was_kept_shows_a_cut_tail_and_a_missing_chain(filled: Shell) -> None:
    head = live(filled, "txn_done").data["heads"][0]
    kept = f"txn_done={head['number']}:{head['hash']}"
    assert live(filled, "txn_done", "--head", kept).code == exits.OK
    filled.json("export", "txn_done", "--out", "r.jsonl")
    later = f"txn_done={head['number'] + 1}:{'ab' * 32}"
    cut = filled.json("verify", "r.jsonl", "--head", later)
    assert (cut.error, cut.code) == ("receipt.cut_tail", EXIT_OF_FAULT["receipt.cut_tail"])
    assert "the end" in filled("verify", "r.jsonl", "--head", later).out
    gone = filled.json("verify", "r.jsonl", "--head", f"txn_gone=1:{'ab' * 32}")
    assert gone.error == "bundle.head_unmatched"


@pytest.mark.parametrize(
    ("tokens", "code"),
    [
        ((), "cli.bundle_required"),
        (("a", "b"), "cli.bundle_required"),
        (("none.jsonl",), "verify.no_bundle"),
        (("amends.db", "--head", "txn_1=x:y"), "cli.head_invalid"),
        (("amends.db", "--head", "txn_1=1:zz"), "cli.head_invalid"),
        (("amends.db", "--head", "1"), "cli.pair_invalid"),
        (("amends.db", "--key", "zz"), "key.not_given"),
        (("--store", "sqlite:///none.db"), "store.not_found"),
        (("--store", "sqlite:///amends.db", "txn_none"), "transaction.not_found"),
        (("amends.db",), "bundle.malformed"),
    ],
)
def test_what_cannot_be_verified_is_refused(
    filled: Shell, tokens: tuple[str, ...], code: str
) -> None:
    assert filled.json("verify", *tokens).error == code


@pytest.mark.case("JRN-07")
def test_a_store_is_verified_where_it_lies(filled: Shell) -> None:
    data = live(filled).data
    assert (data["chains"], data["keys"], data["faults"]) == (3, "store", [])
    change(filled, "DELETE FROM receipts WHERE chain LIKE '%done' AND number = 4")
    cut = live(filled)
    assert cut.code == EXIT_OF_FAULT["receipt.cut_tail"]
    codes = {one["code"] for one in cut.json["data"]["faults"]}
    assert "receipt.cut_tail" in codes


def test_of_many_chains_only_those_with_a_fault_are_told(
    filled: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amends.cli.operations.checking.SHOWN", 2)
    change(filled, "DELETE FROM receipts WHERE chain LIKE '%done' AND number = 2")
    told = filled(*LIVE, f"sqlite:///{filled.database}")
    assert told.out.count("fault ") == 1
    assert "ok " not in told.out


# ── backup and restore ───────────────────────────────────────────────────────────────────────────


def test_a_backup_says_what_it_holds_and_how_to_keep_it(filled: Shell) -> None:
    data = filled.json("backup", "b.db").data
    assert data["file"].endswith("/b.db")
    assert data["key"].endswith("/b.db.key")
    told = filled("backup", "c.db", "--no-key")
    assert "found whole" in told.out
    assert "The key was left out" in told.out
    assert "whoever has them" in filled("backup", "d.db").out
    assert filled.json("backup", "b.db").error == "backup.target_exists"


@pytest.mark.rule("TX-LEASE-3", "CLI-3")
def test_a_restore_says_what_is_frozen_and_what_it_does_not_guarantee(filled: Shell) -> None:
    filled.json("backup", "b.db")
    filled.planned("txn_new")
    said = filled("restore", "b.db", "--yes")
    assert said.code == exits.OK
    assert "does not know of it" in said.err
    for text in ("txn_plan", "txn_lost", "amends release", "kept as amends.db.replaced-"):
        assert text in said.out
    assert "txn_new" in said.out.partition("knew more")[2]
    assert "would be carried out again" in said.out
    again = filled.json("restore", "b.db", "--yes").data
    assert [one["transaction_id"] for one in again["frozen"]["records"]] == [
        "txn_lost",
        "txn_plan",
    ]
    assert again["lineage"] != again["from_lineage"]
    assert filled.as_("olga", "release", "txn_plan", "--yes").code == exits.OK
    assert filled.json("commit", "plan:txn_plan", "--yes").code == exits.OK


@pytest.mark.rule("CLI-3")
def test_a_store_is_replaced_only_after_a_yes(filled: Shell) -> None:
    filled.json("backup", "b.db")
    before = filled.database.read_bytes()
    assert filled.json("restore", "b.db").error == "cli.confirmation_required"
    filled.types("no\n")
    assert filled.json("restore", "b.db").error == "cli.not_confirmed"
    assert filled.database.read_bytes() == before
    filled.types("yes\n")
    assert filled.json("restore", "b.db").code == exits.OK


def test_a_new_store_needs_no_yes_and_a_new_key_is_told(filled: Shell) -> None:
    filled.json("backup", "b.db", "--no-key")
    told = filled("restore", "b.db", "--store", "sqlite:///new.db")
    assert told.code == exits.OK
    assert "a new one was made" in told.out
    assert filled.json("restore", "none.db", "--yes").error == "restore.no_backup"


def test_a_backup_in_which_nothing_was_open_says_so(shell: Shell) -> None:
    shell.done("txn_done")
    shell.json("backup", "b.db")
    assert "Nothing was open in it" in shell("restore", "b.db", "--yes").out


def test_what_cannot_be_frozen_is_named(filled: Shell) -> None:
    change(filled, "UPDATE transactions SET body = '{' WHERE id = 'txn_lost'")
    filled.json("backup", "b.db")
    told = filled("restore", "b.db", "--yes")
    assert "nothing can be done with it: txn_lost" in told.out


# ── doctor and migrate ───────────────────────────────────────────────────────────────────────────


def test_a_doctor_lists_every_check(filled: Shell) -> None:
    told = filled("doctor")
    assert told.code == exits.OK
    assert told.out.count("\n") >= 16
    assert "app" in told.out
    data = filled.json("doctor", "--quick").data
    assert {one["level"] for one in data["checks"]} == {"ok"}
    assert data["checks"][0]["says"] == "The app declares 6 capabilities."
    alone = filled.json("doctor", "--quick", "--app", "tests.unit.cli.shop:charge").data
    assert alone["checks"][0]["says"] == "The app declares 1 capability."


def test_a_fault_ends_a_doctor_with_one_and_says_what_to_do(filled: Shell) -> None:
    filled.database.with_name("amends.db.key").unlink()
    said = filled.json("doctor")
    assert (said.code, said.error) == (exits.FAILED, "doctor.faults")
    assert said.json["error"]["details"] == {"faults": ["key"]}
    told = filled("doctor")
    assert "fault " in told.out
    assert "Put it back from a backup." in told.out


def test_a_warning_ends_a_doctor_well_and_names_what_it_means(filled: Shell) -> None:
    filled.json("backup", "b.db")
    filled("restore", "b.db", "--yes")
    told = filled("doctor")
    assert told.code == exits.OK
    assert "warn" in told.out
    assert "txn_plan restored" in told.out


def test_an_app_that_cannot_be_loaded_is_a_fault_among_others(filled: Shell) -> None:
    said = filled.json("doctor", "--app", "tests.unit.cli.shop:listed_badly")
    assert said.code == exits.FAILED
    assert "cli.app_invalid" in said.json["data"]["checks"][0]["says"]
    assert len(said.json["data"]["checks"]) > 10


def test_settings_and_principals_are_checked_where_they_are_named(filled: Shell) -> None:
    named = ("--settings", "tests.unit.cli.shop:settings", "--principals", "principals.toml")
    checks = {one["name"]: one for one in filled.json("doctor", *named).data["checks"]}
    assert checks["settings"]["says"] == "They drain 400 ms, with a grace of 200 ms."
    assert checks["principals"]["says"] == "6 principals are listed."
    filled.principals.chmod(0o666)
    said = filled.json("doctor", "--settings", "nowhere", "--principals", "principals.toml")
    assert said.json["error"]["details"] == {"faults": ["settings", "principals"]}


def test_a_doctor_needs_no_app(filled: Shell) -> None:
    filled.monkeypatch.delenv("AMENDS_APP")
    assert filled.json("doctor").data["checks"][0]["name"] == "file"
    assert filled.json("doctor", "--store", "sqlite:///none.db").error == "store.not_found"


def test_migrating_takes_the_missing_steps_once(shell: Shell) -> None:
    shell.database.touch()
    missing = shell.json("migrate", "--dry-run").data["missing"]
    assert missing == [one.number for one in MIGRATIONS]
    assert "missing" in shell("migrate", "--dry-run").out
    assert shell.database.read_bytes() == b""
    assert "taken" in shell("migrate").out
    assert "nothing was to be done" in shell("migrate").out
    data = shell.json("migrate").data
    assert (data["missing"], data["taken"]) == ([], [])


@pytest.mark.case("VER-01")
def test_a_store_of_a_later_version_is_refused_by_every_command(filled: Shell) -> None:
    change(filled, "INSERT INTO migrations VALUES (99, 'later', 'x', 0)")
    url = f"sqlite:///{filled.database}"
    for tokens in (("migrate",), ("backup", "b.db"), ("export", "txn_done", "--out", "r.jsonl")):
        assert filled.json(*tokens).error == "store.schema_too_new"
    assert filled.json("verify", "--store", url).error == "store.schema_too_new"
    assert filled.json("doctor").error == "doctor.faults"


# ── progress ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("CLI-2")
def test_long_work_shows_a_bar_on_a_terminal_and_nothing_elsewhere(
    filled: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Copying" not in filled("backup", "a.db").err
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with progress.phases() as phase:
        told = phase("Copying")
        told(1, 2)
        told(2, 2)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "Copying" in filled("backup", "b.db").err


@pytest.mark.parametrize(
    "tokens",
    [
        ("tx", "list"),
        ("plan", "payments.charge", "--input", '{"amount": 5}'),
        ("verify",),
        ("export", "--all"),
        ("doctor",),
        ("migrate",),
        ("restore", "--yes"),
        ("keys", "list"),
        ("checkpoint",),
        ("prove", "t1"),
    ],
    ids=lambda tokens: tokens[0],
)
def test_a_server_without_its_driver_is_a_missing_extra_and_no_fault_of_ours(
    shell: Shell, tokens: tuple[str, ...]
) -> None:
    shell.monkeypatch.setattr(places, "DRIVER", "no_such_driver_of_ours")
    said = shell(*tokens, "--store", "postgresql://127.0.0.1:1/none")
    assert (said.code, said.out) == (2, "")
    assert said.err.endswith(
        "[store.driver_missing] What speaks with PostgreSQL is not installed. "
        "Install it with pip install 'amends[postgres]'.\n"
    )


# ── a key that is lost ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "tokens",
    [
        ("execute", "payments.charge", "--input", '{"amount": 5}', "--yes"),
        ("cancel", "txn_plan", "--yes"),
        ("checkpoint",),
        ("keys", "rotate"),
    ],
    ids=" ".join,
)
def test_a_store_that_has_lost_its_key_gets_no_other_one_by_itself(
    filled: Shell, tokens: tuple[str, ...]
) -> None:
    key = key_path(filled.database)
    kept = key.read_bytes()
    key.unlink()
    said = filled.json(*tokens)
    assert (said.code, said.error) == (8, "key.missing")
    assert filled.json("tx", "list").code == exits.OK
    assert not key.exists()
    key.write_bytes(kept)
    assert live(filled).code == exits.OK
    assert len(shop.books()) == 2


@pytest.mark.parametrize(("old", "before"), [((), 28), (("old.json",), exits.OK)])
def test_a_new_key_is_made_when_that_is_asked_for_and_follows_the_old_ones_that_are_given(
    filled: Shell, old: tuple[str, ...], before: int
) -> None:
    filled.json("keys", "export", "--out", "old.json")
    key_path(filled.database).unlink()
    keys = filled.json("keys", "add", *old).data["keys"]
    assert len(keys) == 1 + len(old)
    assert filled.done("txn_after").code == exits.OK
    assert live(filled, "txn_after").code == exits.OK
    assert live(filled, "txn_done").code == before
    assert live(filled, "txn_done", "--keys", "old.json").code == exits.OK
