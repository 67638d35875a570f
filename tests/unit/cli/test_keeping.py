"""Commands about keeping: holds, retention, and what another tenant's ids are answered."""

from collections.abc import Sequence
from typing import Final

import apsw
import pytest

from amends.cli import exits, main
from amends.testing.invariants import canary_absent
from tests.unit.cli.shell import Said, Shell

CANARY: Final = "kanarienvogel-7319"
KEPT: Final = "tests.unit.cli.kept"


@pytest.fixture
def noted(shell: Shell) -> Shell:
    """A note that was written, and whose time is over at once."""
    shell.monkeypatch.setenv("AMENDS_APP", f"{KEPT}:capabilities")
    note = f'{{"text": "{CANARY}"}}'
    ids = ("--transaction-id", "t1", "--action-id", "a1", "--yes")
    assert shell.json("execute", "notes.write", "--input", note, *ids).code == exits.OK
    return shell


def told(shell: Shell, *tokens: str) -> Said:
    return shell(*tokens, "--principals", str(shell.principals), "--as", "olga")


def test_what_is_due_is_forgotten_and_its_bytes_with_it(noted: Shell) -> None:
    assert noted.as_("olga", "retention", "run", "--dry-run").data["forgotten"] == ["t1"]
    assert "would be forgotten: 1" in told(noted, "retention", "run", "--dry-run").out
    assert noted.as_("olga", "retention", "run").error == "cli.confirmation_required"
    assert canary_absent(CANARY, noted.database.read_bytes()) != []
    done = noted.as_("olga", "retention", "run", "--yes").data
    assert (done["forgotten"], done["compacted"]) == (["t1"], True)
    left = [one.read_bytes() for one in noted.folder.glob("amends.db*")]
    assert canary_absent(CANARY, *left) == []
    view = noted.json("tx", "show", "t1", "--result").data
    assert view["result"]["status"] == "committed"
    assert view["forgotten_at"] is not None
    assert "what happened stays" in told(noted, "tx", "show", "t1").out
    assert noted.json("verify", "--store", f"sqlite:///{noted.database}").code == exits.OK
    again = told(noted, "retention", "run", "--yes", "--no-compact").out
    assert again == "Transactions forgotten: 0, refused requests: 0.\n"


def test_what_is_held_is_kept_until_the_hold_is_lifted(noted: Shell) -> None:
    assert noted.as_("olga", "hold", "list").data["items"] == []
    assert told(noted, "hold", "list").out == "Nothing is held.\n"
    placed = noted.as_("olga", "hold", "place", "a1", "--reason", "case 7").data
    assert (placed["transaction_id"], placed["placed"]) == ("t1", True)
    assert "held" in told(noted, "tx", "show", "t1").out
    kept = noted.as_("olga", "retention", "run", "--yes").data["kept"]
    assert [(one["transaction_id"], one["reason"]) for one in kept] == [("t1", "held")]
    assert "a legal hold is on it" in told(noted, "retention", "run", "--yes").out
    assert "case 7" in told(noted, "hold", "list").out
    lift = ("hold", "lift", "t1", "--reason", "over")
    assert noted.as_("olga", *lift).error == "cli.confirmation_required"
    assert noted.as_("olga", *lift, "--yes").data["placed"] is False
    assert noted.as_("olga", "hold", "list").data["items"] == []
    assert len(noted.as_("olga", "hold", "list", "--all").data["items"]) == 1
    assert noted.as_("olga", "retention", "run", "--yes").data["forgotten"] == ["t1"]


def test_a_hold_that_cannot_be_read_is_listed_as_such(noted: Shell) -> None:
    assert noted.as_("olga", "hold", "place", "t1", "--reason", "case 7").data
    connection = apsw.Connection(str(noted.database))
    connection.execute("UPDATE legal_holds SET body = '{'")
    connection.close()
    [item] = noted.as_("olga", "hold", "list").data["items"]
    assert item["transaction_id"] == "t1"
    assert "unreadable" in item
    assert "unreadable" in told(noted, "hold", "list").out
    kept = noted.as_("olga", "retention", "run", "--yes").data["kept"]
    assert [one["reason"] for one in kept] == ["unreadable"]


@pytest.mark.parametrize(
    ("tokens", "code"),
    [
        (("hold", "place", "t1", "--reason", "r"), "hold.not_allowed"),
        (("hold", "lift", "t1", "--reason", "r", "--yes"), "hold.not_allowed"),
        (("hold", "list"), "hold.not_allowed"),
        (("retention", "run", "--yes"), "retention.not_allowed"),
        (("release", "t1", "--yes"), "transaction.release_not_allowed"),
    ],
)
def test_whoever_may_not_hears_what_it_takes(
    noted: Shell, tokens: Sequence[str], code: str
) -> None:
    said = noted.as_("alice", *tokens)
    assert said.error == code
    assert "--principals" in said.err or "[[principals]]" in said.err or "--as" in said.err


COMMANDS: Final = (
    ("tx", "show", "TX"),
    ("tx", "show", "ACT"),
    ("tx", "show", "PLAN"),
    ("tx", "watch", "TX"),
    ("tx", "list"),
    ("approvals",),
    ("approvals", "APR"),
    ("commit", "PLAN", "--yes"),
    ("resume", "ACT", "--yes"),
    ("approve", "APR", "--yes"),
    ("deny", "APR", "--yes"),
    ("revoke", "APR", "--yes"),
    ("reconcile", "TX"),
    ("reconcile", "--due"),
    ("settle", "TX", "committed", "--reference", "r", "--note", "n", "--yes"),
    ("compensate", "ACT", "--input", '"x"', "--yes"),
    ("cancel", "ACT", "--yes"),
    ("withdraw", "TX", "--yes"),
    ("rule", "COR", "r", "--yes"),
    ("release", "TX", "--yes"),
    ("hold", "place", "TX", "--reason", "r"),
    ("hold", "lift", "TX", "--reason", "r", "--yes"),
    ("hold", "list", "--all"),
    ("retention", "run", "--dry-run"),
    ("policy", "explain", "ACT"),
    ("delegations",),
    ("approve", "apr_0", "--under", "DEL", "--yes"),
    ("revoke", "DEL", "--yes"),
)
OVER_FILES: Final = frozenset(
    "backup check checkpoint doctor export keys migrate prove restore verify worker".split()
)
"""Commands over whole files, of all tenants: the permissions of the file govern them."""

MAKING: Final = frozenset("delegate demo dry-run execute notify plan".split())
"""Commands that name nothing that is there; ids of one's own are walked in tests/cases."""

THEIRS: Final = {"TX": "t1", "ACT": "a1", "PLAN": "plan:t1", "COR": "cor_1"}
NOWHERE: Final = {
    "TX": "t0",
    "ACT": "a0",
    "PLAN": "plan:t0",
    "APR": "apr_000000000000",
    "COR": "cor_0",
    "DEL": "del_0",
}
FOREIGN: Final = """
[[principals]]
id = "foreign"
kind = "operator"
tenant = "elsewhere"
os_users = ["*"]
"""


def without(text: str, ids: dict[str, str]) -> str:
    for one in sorted(ids.values(), key=len, reverse=True):
        text = text.replace(one, "…")
    return text


@pytest.mark.case("TEN-03", "TEN-04")
@pytest.mark.parametrize("tokens", COMMANDS, ids=lambda one: "-".join(one[:2]))
@pytest.mark.parametrize("who", ["stranger", "foreign"])
def test_a_command_answers_another_tenants_id_like_one_that_does_not_exist(
    shell: Shell, tokens: Sequence[str], who: str
) -> None:
    shell.principals.write_text(shell.principals.read_text() + FOREIGN)
    wire = ("plan", "payments.wire", "--input", '{"amount": 5}', "--transaction-id", "t1")
    assert shell.json(*wire, "--action-id", "a1").data
    waiting = shell.json("commit", "t1", "--yes")
    lent = shell.as_("bob", "delegate", "alice").data["delegation_id"]
    theirs = THEIRS | {"APR": str(waiting.json["data"]["approval_id"]), "DEL": str(lent)}
    before = shell.json("tx", "show", "t1").data
    said, unsaid = (
        shell.as_(who, *[ids.get(one, one) for one in tokens]) for ids in (theirs, NOWHERE)
    )
    assert said.code == unsaid.code
    assert without(said.out + said.err, theirs) == without(unsaid.out + unsaid.err, NOWHERE)
    assert shell.json("tx", "show", "t1").data == before


def test_every_command_is_walked_or_names_nothing_of_a_tenant() -> None:
    """A new command has to say here how another tenant's ids are typed to it."""
    assert {one[0] for one in COMMANDS} | OVER_FILES | MAKING == main._COMMANDS.keys()
