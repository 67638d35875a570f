"""Failures that happened in public, replayed at the command line: they cannot happen here."""

import base64
import json
import logging
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import apsw
import pytest

from amends.cli import exits, main
from tests.acceptance.terminals import WAIT_S, Running, Shop
from tests.unit.cli import shop
from tests.unit.cli.shell import SHOP, Said, Shell


@pytest.fixture
def place(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    return Shell(tmp_path, monkeypatch, capsys)


# ── STK-01: stopped in the middle ────────────────────────────────────────────────────────────────


class Point(NamedTuple):
    """Where a commit is when it is stopped, and whether money has moved by then."""

    name: str
    moved: int


BEFORE_CLAIM: Final = Point("credential", 0)
AFTER_CLAIM: Final = Point("entered", 0)
DURING_CALL: Final = Point("moved", 1)
BEFORE_PERSIST: Final = Point("answered", 1)
POINTS: Final = (BEFORE_CLAIM, AFTER_CLAIM, DURING_CALL, BEFORE_PERSIST)
UNKNOWN: Final = exits.OF_FAMILY["outcome_unknown"]


def once(number: signal.Signals) -> Callable[[Running], None]:
    def sends(running: Running) -> None:
        running.send(number)

    return sends


def twice(running: Running) -> None:
    running.send(signal.SIGINT)
    time.sleep(0.1)
    running.send(signal.SIGINT)


WAYS: Final[dict[str, tuple[Callable[[Running], None], int]]] = {
    "SIGINT": (once(signal.SIGINT), 130),
    "SIGINT twice": (twice, UNKNOWN),
    "SIGTERM": (once(signal.SIGTERM), 143),
    "SIGKILL": (once(signal.SIGKILL), -signal.SIGKILL),
}


def stopped(place: Shop, point: Point, way: str) -> int:
    """Have a commit stopped at the point; its exit code."""
    place.environment["AMENDS_APP"] = f"{SHOP}:hasty"
    place.planned("t1", shop.UNNAMED)
    place.hold(point.name)
    sends, _ = WAYS[way]
    with place.start("commit", "t1", "--yes", "--json") as commit:
        if point is BEFORE_PERSIST:
            return _stopped_before_it_is_stored(place, commit, sends)
        place.wait_for(point.name)
        sends(commit)
        if point is BEFORE_CLAIM and way in ("SIGINT", "SIGTERM"):
            place.let_go(point.name)
        return commit.end().code


def _stopped_before_it_is_stored(
    place: Shop, commit: Running, sends: Callable[[Running], None]
) -> int:
    """The provider has answered, and the store is held by somebody else just then."""
    place.hold("moved")
    place.wait_for("moved")
    holder = apsw.Connection(str(place.folder / "amends.db"))
    holder.execute("BEGIN IMMEDIATE")
    place.let_go("moved")
    place.wait_for("answered")
    time.sleep(0.1)
    sends(commit)
    time.sleep(0.2)
    holder.execute("ROLLBACK")
    holder.close()
    return commit.end().code


def resolved(place: Shop) -> str:
    """What the documented command makes of it: nobody edits the store by hand."""
    deadline = time.monotonic() + WAIT_S
    while True:
        said = place.json("reconcile", "t1", "--wait", "10", "--insist", "--as", "olga")
        if said.code == exits.OK:
            verdict: str = said.data["verdict"]
            return verdict
        assert said.code in (exits.OF_FAMILY["conflict"], UNKNOWN), said.err
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.case("STK-01")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.name)
def test_a_commit_that_is_stopped_leaves_nothing_that_a_command_cannot_resolve(
    place: Shop, point: Point, way: str
) -> None:
    code = stopped(place, point, way)
    status = place.status("t1")
    if point is BEFORE_CLAIM:
        assert (code, status) == (WAYS[way][1], "planned")
        assert place.json("commit", "t1", "--yes", *DEFAULT_SETTINGS).data["status"] == "committed"
    elif status == "committed":
        assert (code, point) == (exits.OK, BEFORE_PERSIST)
    else:
        assert status in ("committing", "outcome_unknown")
        assert code == (-signal.SIGKILL if way == "SIGKILL" else UNKNOWN)
        shown = place.run("tx", "show", "t1").out
        assert "amends reconcile t1" in shown
        assert resolved(place) == ("committed" if point.moved else "not_committed")
    assert len(place.books) == (1 if point is BEFORE_CLAIM else point.moved)


DEFAULT_SETTINGS: Final = ("--settings", f"{SHOP}:quick_settings")


# ── PLN-03: an old plan that was withdrawn ───────────────────────────────────────────────────────


@pytest.mark.case("PLN-03")
def test_committing_all_plans_of_a_request_leaves_a_withdrawn_one_alone(shell: Shell) -> None:
    request = ("--metadata", "request=42")
    shell.planned("staging", 5, *request)
    shell.planned("production", 6, *request)
    shell.planned("of-another-request", 7, "--metadata", "request=43")
    shell.json("withdraw", "production", "--yes")
    listed = shell.json("commit", "--all", "--request", "request=42")
    assert listed.error == "cli.confirmation_required"
    assert "To commit: 1\n  plan:staging  payments.charge\n" in listed.err
    assert "Skipped: 1\n  plan:production  transaction.plan_withdrawn\n" in listed.err
    done = shell.json("commit", "--all", "--request", "request=42", "--yes").data
    assert [one["plan_id"] for one in done["results"]] == ["plan:staging"]
    assert [(one["plan_id"], one["code"]) for one in done["skipped"]] == [
        ("plan:production", "transaction.plan_withdrawn")
    ]
    assert len(shop.books()) == 1
    claimed = shell.json("commit", "production", "--yes")
    assert claimed.error == "transaction.plan_not_committable"
    assert len(shop.books()) == 1


# ── APR-06: an approval for something else ───────────────────────────────────────────────────────


@pytest.mark.case("APR-06")
def test_an_approval_cannot_be_taken_to_another_plan(shell: Shell) -> None:
    """An approval belongs to one action; that action's id is how it would be quoted."""
    for name, amount in (("dev", 5), ("prod", 5000)):
        order = ("--input", json.dumps({"amount": amount}))
        shell.json("plan", "payments.wire", *order, "--transaction-id", name)
    waits = shell.json("commit", "dev", "--yes").json["data"]
    assert shell.as_("bob", "approve", waits["approval_id"]).code == exits.OK
    quoted = shell.json("commit", "prod", "--yes", "--action-id", waits["action_id"])
    assert (quoted.code, quoted.error) == (4, "action.id_conflict")
    own = shell.json("commit", "prod", "--yes")
    assert (own.code, own.error) == (3, "approval.required")
    assert own.json["data"]["approval_id"] != waits["approval_id"]
    assert shell.json("tx", "show", "prod").data["result"]["status"] == "requires_human"
    assert shell.json("approvals", waits["approval_id"]).data["state"] == "approved"
    assert shop.books() == []
    assert shell.json("commit", "dev", "--yes").data["output"] == {"wired": 5}
    assert len(shop.books()) == 1


# ── CLI-02: a failing run that says nothing to programs ──────────────────────────────────────────

ORDER: Final = ("--input", '{"amount": 5}')
WORDS: Final = ("--reference", "r", "--note", "n")
VERBS: Final = {
    "tx list": ("tx", "list"),
    "tx show": ("tx", "show", "no-such"),
    "tx watch": ("tx", "watch", "no-such"),
    "plan": ("plan", "no.such", *ORDER),
    "dry-run": ("dry-run", "no.such", *ORDER),
    "execute": ("execute", "no.such", *ORDER, "--yes"),
    "commit": ("commit", "no-such", "--yes"),
    "commit --all": ("commit", "--all", "--yes"),
    "resume": ("resume", "no-such", "--yes"),
    "approvals": ("approvals", "no-such"),
    "approve": ("approve", "no-such"),
    "deny": ("deny", "no-such"),
    "revoke": ("revoke", "no-such"),
    "reconcile": ("reconcile", "no-such"),
    "settle": ("settle", "no-such", "committed", *WORDS, "--yes"),
    "release": ("release", "no-such", "--yes"),
    "compensate": ("compensate", "no-such", "--yes"),
    "cancel": ("cancel", "no-such", "--yes"),
    "withdraw": ("withdraw", "no-such", "--yes"),
    "rule": ("rule", "no-such", "r", "--yes"),
    "hold": ("hold", "place", "no-such", "--reason", "r"),
}
OVER_FILES: Final = {
    "export": ("export", "no-such", "--out", "new.jsonl"),
    "verify": ("verify", "no-such"),
    "backup": ("backup", "copy.db"),
    "restore": ("restore", "no-such.db", "--yes"),
    "doctor": ("doctor",),
    "migrate": ("migrate",),
    "keys": ("keys", "list"),
    "checkpoint": ("checkpoint",),
    "prove": ("prove", "no-such"),
    "retention": ("retention", "run", "--dry-run"),
    "delegations": ("delegations",),
}
ELSEWHERE: Final = frozenset("demo notify delegate check policy worker".split())
"""Without a store, or of workers; each is shown beside its command."""
FINDS_ALL_THE_SAME: Final = {"tx list", "commit --all"}


def is_one_document(said: Said, code: int) -> bool:
    """Standard output is one document; what went wrong stands in it and on standard error."""
    assert said.error
    assert said.out.isascii()
    return said.code == code


@pytest.mark.case("CLI-02")
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_says_in_one_document_why_it_did_not_work(shell: Shell, verb: str) -> None:
    tokens = VERBS[verb]
    shell.planned("there")
    before = shell.json("tx", "list").data
    bad = shell.json(*tokens, "--no-such-option")
    assert is_one_document(bad, 2)
    interrupted = shell.as_("olga", *tokens, "--app", f"{SHOP}:interrupt")
    assert is_one_document(interrupted, exits.INTERRUPTED)
    missing = shell.as_("olga", *tokens, "--store", "sqlite:////no/such/folder/amends.db")
    assert is_one_document(missing, 8)
    if verb not in FINDS_ALL_THE_SAME:
        unknown_id = shell.as_("olga", *tokens)
        assert is_one_document(unknown_id, 3)
        assert unknown_id.error.endswith("_found")
    assert shell.json("tx", "list").data == before
    assert shop.books() == []


@pytest.mark.case("CLI-02")
@pytest.mark.parametrize("verb", OVER_FILES)
def test_every_verb_over_a_store_says_so_too(shell: Shell, verb: str) -> None:
    tokens = OVER_FILES[verb]
    shell.planned("there")
    assert is_one_document(shell.json(*tokens, "--no-such-option"), 2)
    if verb != "export":  # which takes any number of transactions
        assert is_one_document(shell.json(*tokens, "stray", "stray"), 2)
    nowhere = ("--store", "sqlite:////no/such/folder/amends.db")
    if verb == "verify":
        tokens = ("verify",)
    assert is_one_document(shell.json(*tokens, *nowhere), 8)
    if verb in ("export", "prove"):
        unknown_id = shell.json(*tokens)
        assert is_one_document(unknown_id, 3)
        assert unknown_id.error.endswith("_found")
    assert not list(shell.folder.glob("new.jsonl"))


def test_no_verb_is_forgotten() -> None:
    told = {tokens[0] for tokens in (*VERBS.values(), *OVER_FILES.values())}
    assert told | ELSEWHERE == set(main._COMMANDS)


@pytest.mark.case("CLI-02")
def test_a_conflict_and_an_unknown_outcome_are_one_document_each(shell: Shell) -> None:
    shell.done("done")
    shell.done("unknown", shop.BREAKS)
    shell.json("compensate", "done", "--input", '"x"', "--yes")
    conflicts = [
        ("cancel", "done", "--yes"),
        ("withdraw", "done", "--yes"),
        ("reconcile", "done"),
        ("compensate", "done", "--input", '"x"', "--yes"),
        ("settle", "done", "committed", *WORDS, "--yes"),
        ("release", "done", "--yes"),
    ]
    for tokens in conflicts:
        operator = tokens[0] in ("settle", "release")
        said = shell.as_("olga", *tokens) if operator else shell.json(*tokens)
        assert is_one_document(said, 4), tokens
    again = ("--transaction-id", "unknown", "--yes")
    for tokens in [
        ("execute", "payments.charge", "--input", f'{{"amount": {shop.BREAKS}}}', "--yes"),
        ("cancel", "unknown", "--yes"),
        ("resume", shell.json("tx", "show", "unknown").data["result"]["action_id"], "--yes"),
    ]:
        assert is_one_document(shell.json(*tokens), 5), tokens
    taken = shell.json("execute", "payments.charge", *ORDER, *again)
    assert is_one_document(taken, 4)


@pytest.mark.case("CLI-02")
@pytest.mark.parametrize("verb", ["plan", "execute", "tx list", "tx show", "approve"])
def test_a_reader_that_has_left_changes_nothing_about_what_is_done(place: Shop, verb: str) -> None:
    place.planned("t1")
    tokens = {
        "plan": ("plan", "payments.charge", *ORDER, "--transaction-id", "t2"),
        "execute": ("execute", "payments.charge", *ORDER, "--transaction-id", "t2", "--yes"),
        "tx list": ("tx", "list"),
        "tx show": ("tx", "show", "t1"),
        "approve": ("approve", "no-such"),
    }[verb]
    for more in ((), ("--json",)):
        again = ("--action-id", "act-again") if verb in ("plan", "execute") else ()
        with place.start(*tokens, *again, *more) as running:
            running.closes_output()
            code = running.death()
        assert code in (exits.PIPE_CLOSED, 3)
    assert len(place.books) == (1 if verb == "execute" else 0)
    if verb in ("plan", "execute"):
        assert place.status("t2") == ("planned" if verb == "plan" else "committed")


# ── SEC-01: a secret that comes out by a side door ───────────────────────────────────────────────

CANARY: Final = "canary-5d1c9e"
ENCODED: Final = base64.b64encode(CANARY.encode()).decode().rstrip("=")[:-1]
HIDDEN: Final = {
    "address": CANARY,
    "token": CANARY,
    "notes": {"nested": f"https://me:{CANARY}@host/{CANARY}", CANARY: "a key", "b": ENCODED},
    "tags": [CANARY, f"x{CANARY}x"],
}


def said_about_secrets(shell: Shell) -> list[Said]:
    """Everything that can be said about actions whose capability requires redaction."""
    secret = ("--input", json.dumps(HIDDEN))
    said = []
    for form in ((), ("--json",)):
        name = f"t{len(form)}"
        ids = ("--transaction-id", name, "--metadata", f"note={CANARY}")
        said += [
            shell("dry-run", "parcels.send", *secret, *form),
            shell("plan", "parcels.send", *secret, *ids, *form),
            shell("tx", "show", name, "--result", *form),
            shell("commit", name, "--yes", *form),
            shell("commit", name, "--yes", "--input", '{"token": "another"}', *form),
            shell("commit", name, "--yes", *secret, *form),
            shell("commit", "--all", "--yes", *form),
            shell("tx", "show", name, "--result", *form),
            shell("tx", "list", *form),
            shell("execute", "parcels.send", *secret, "--yes", "--approval", *form),
            shell("approvals", *form),
        ]
        said += approved_with_secret_words(shell, name, form)
        for trouble in ("break", "refuse"):
            hidden = json.dumps(HIDDEN | {"address": trouble})
            said.append(shell("execute", "parcels.send", "--input", hidden, "--yes", *form))
        for broken in (
            json.dumps(HIDDEN | {"address": 1}),
            json.dumps(HIDDEN)[:-1],
            json.dumps({CANARY: CANARY}),
            json.dumps(HIDDEN) * 2,
        ):
            said.append(shell("plan", "parcels.send", "--input", broken, *form))
        said.append(shell("plan", "parcels.send", json.dumps(HIDDEN), *form))
    return said


def approved_with_secret_words(shell: Shell, name: str, form: tuple[str, ...]) -> list[Said]:
    """An approval whose reason quotes the secret, then everything that looks at a whole store."""
    as_bob = ("--principals", str(shell.principals), "--as", "bob")
    secret = ("--input", json.dumps(HIDDEN), "--approval", "--transaction-id", f"asked-{name}")
    waits = shell.json("execute", "parcels.send", *secret, "--yes")
    asked = waits.json["data"]["approval_id"]
    words = f"{CANARY} has called"
    out = shell.folder / f"{name}.jsonl"
    return [
        waits,
        shell("approve", asked, "--reason", words, *as_bob, *form),
        shell("approvals", asked, *form),
        shell("tx", "show", f"asked-{name}", *form),
        shell("export", "--all", "--out", str(out), *form),
        shell("verify", str(out), *form),
        shell("doctor", *form),
        shell("backup", str(shell.folder / f"amends.db.{name}"), *form),
    ]


@pytest.mark.case("SEC-01")
def test_a_secret_comes_out_nowhere_and_its_plan_can_be_committed(
    shell: Shell, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    said = said_about_secrets(shell)
    committed = [one for one in said if one.code == 0 and '"status": "committed"' in one.out]
    assert committed
    assert "act" in committed[0].out
    everything = "\n".join(one.out + one.err for one in said) + caplog.text
    stored = b"".join(path.read_bytes() for path in shell.folder.iterdir() if path.is_file())
    for secret in (CANARY, ENCODED):
        assert secret not in everything
        assert secret.encode() not in stored
    assert any("input.schema_mismatch" in one.err for one in said)
    assert any("transaction.plan_input_hash_mismatch" in one.err for one in said)
