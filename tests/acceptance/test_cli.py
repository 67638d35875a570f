"""`amends` as people run it: at a terminal, in a pipeline, interrupted, and in a hurry."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from amends.cli import exits
from tests.acceptance.children import SAME_CODE
from tests.acceptance.terminals import Shop, Terminal
from tests.unit.cli import shop

ORDER: Final = ("payments.charge", "--input", '{"amount": 5}')


@pytest.fixture
def place(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


# ── at a terminal ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("CLI-2", "CLI-3")
def test_a_person_is_asked_sees_a_bar_and_reads_the_outcome_in_colour(place: Shop) -> None:
    place.planned("t1")
    place.hold("entered")
    with Terminal(place, "commit", "t1") as terminal:
        terminal.shows('input       \x1b[0m{"amount":5,"currency":"eur"}')
        terminal.shows("stopping this command does not take anything back")
        terminal.shows("Commit? [y/N] ")
        assert place.books == []
        terminal.types("y\n")
        terminal.shows("Waiting for the provider [")
        place.let_go("entered")
        assert terminal.end() == exits.OK
    assert "\x1b[32mcommitted" in terminal.shown
    assert "It is done: the effect is there." in terminal.shown
    assert len(place.books) == 1


@pytest.mark.parametrize(("keys", "code"), [("n\n", 3), ("\n", 3), ("\x04", 3), ("\x03", 130)])
def test_a_person_who_does_not_say_yes_has_done_nothing(place: Shop, keys: str, code: int) -> None:
    place.planned("t1")
    with Terminal(place, "commit", "t1") as terminal:
        terminal.shows("Commit? [y/N] ")
        terminal.types(keys)
        assert terminal.end() == code
    assert place.status("t1") == "planned"
    assert place.books == []


WHILE_IT_STARTS: Final = """
import os, signal, sys

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)

module = sys.argv[1]
sys.argv[1:] = ["tx", "list", "--store", "sqlite:///none.db"]
signal.signal(signal.SIGINT, signal.{before})
sys.meta_path.insert(0, Interrupts())
from amends.cli.starting import start
start()
"""


@pytest.mark.rule("CLI-2")
@pytest.mark.parametrize("module", ["cyclopts", "amends.cli.output", "amends.contracts.errors"])
def test_ctrl_c_while_the_program_is_being_imported_ends_it_quietly(
    module: str, tmp_path: Path
) -> None:
    ended = _interrupted_at(module, "default_int_handler", tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (exits.INTERRUPTED, b"", b"")


@pytest.mark.rule("CLI-2")
def test_an_ignored_ctrl_c_stays_ignored_while_the_program_starts(tmp_path: Path) -> None:
    ended = _interrupted_at("cyclopts", "SIG_IGN", tmp_path)
    assert (ended.returncode, b"store.not_found" in ended.stderr) == (8, True)


def _interrupted_at(module: str, before: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """A process that has Ctrl-C pressed just as it imports a module."""
    program = WHILE_IT_STARTS.replace("{before}", before)
    return subprocess.run(
        [sys.executable, "-c", program, module],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": SAME_CODE},
        capture_output=True,
        timeout=60,
    )


def test_ctrl_c_twice_at_a_terminal_leaves_at_once_and_says_where_to_look(place: Shop) -> None:
    place.planned("t1")
    place.hold("moved")
    with Terminal(place, "commit", "t1", "--yes") as terminal:
        place.wait_for("moved")
        terminal.shows("Waiting for the provider [")
        terminal.types("\x03")
        terminal.shows("Stopping. ")
        terminal.types("\x03")
        assert terminal.end() == exits.OF_FAMILY["outcome_unknown"]
    assert "look with amends tx show t1, then amends reconcile t1." in terminal.shown
    assert place.status("t1") == "committing"


def test_a_terminal_that_closes_ends_no_effect_half_way(place: Shop) -> None:
    """The window is closed while the provider is at it: the attempt has its time to end."""
    place.planned("t1", shop.SLOW)
    place.hold("moved")
    with Terminal(place, "commit", "t1", "--yes") as terminal:
        place.wait_for("moved")
        place.let_go("moved")
        assert terminal.closes() == exits.PIPE_CLOSED
    assert place.status("t1") == "committed"
    assert len(place.books) == 1


def test_what_is_watched_is_told_line_by_line_until_it_has_ended(place: Shop) -> None:
    place.planned("t1")
    place.hold("entered")
    with place.start("commit", "t1", "--yes") as commit:
        place.wait_for("entered")
        with Terminal(place, "tx", "watch", "t1") as terminal:
            terminal.shows("commit_started")
            assert "provider_accepted" not in terminal.shown
            place.let_go("entered")
            assert terminal.end() == exits.OK
        assert commit.end().code == exits.OK
    assert "It is done: the effect is there." in terminal.shown


# ── in a pipeline ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.case("CLI-02")
def test_a_reader_that_leaves_stops_no_effect(place: Shop) -> None:
    place.planned("t1")
    place.hold("entered")
    with place.start("commit", "t1", "--yes", "--json") as commit:
        place.wait_for("entered")
        commit.closes_output()
        place.let_go("entered")
        assert commit.death() == exits.PIPE_CLOSED
    assert place.status("t1") == "committed"
    assert len(place.books) == 1


def test_a_long_list_is_cut_off_by_its_reader_without_a_word(place: Shop) -> None:
    for number in range(3):
        place.planned(f"t{number}")
    line = f"{sys.executable} -m amends tx list; echo ${{PIPESTATUS[0]}} >&2"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {{ sleep 1; {line}; }} | true"],
        env=place.environment,
        cwd=place.folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr.split()) == ("", [str(exits.PIPE_CLOSED)])


def test_an_approval_that_is_waited_for_is_used_as_soon_as_it_is_there(place: Shop) -> None:
    with place.start("execute", "payments.wire", *ORDER[1:], "--yes", "--wait", "30") as waits:
        waits.says("amends approve apr_")
        [item] = place.json("approvals", "--as", "bob").data["items"]
        assert place.json("approve", item["approval_id"], "--as", "bob").code == exits.OK
        said = waits.end()
    assert said.code == exits.OK
    assert said.out.startswith("committed  It is done: the effect is there.\n")
    assert len(place.books) == 1


# ── in a hurry ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("TX-SETTLE-4")
def test_a_plain_handler_that_never_answers_does_not_keep_the_process(place: Shop) -> None:
    """Nothing can interrupt a thread: the outcome is settled as unknown, and the process goes."""
    with place.start(
        "execute", "payments.stuck", *ORDER[1:], "--transaction-id", "t1", "--yes"
    ) as stuck:
        place.wait_for("entered")
        began = time.monotonic()
        stuck.send(signal.SIGTERM)
        said = stuck.end()
    assert (said.code, time.monotonic() - began < 10) == (5, True)
    assert "Nobody knows yet: it may have happened." in said.out
    assert place.status("t1") == "outcome_unknown"


@pytest.mark.parametrize("kind", ["bash", "zsh", "fish"])
def test_completion_is_written_where_it_is_asked_for_and_nowhere_else(
    place: Shop, kind: str
) -> None:
    home = place.folder / "home"
    home.mkdir()
    place.environment["HOME"] = str(home)
    script = place.folder / "completion"
    said = place.run("--install-completion", "--shell", kind, "--output", str(script))
    assert said.code == exits.OK
    assert str(script) in said.out
    written = script.read_text()
    assert all(name in written for name in ("commit", "reconcile", "--idempotency-key"))
    assert list(home.iterdir()) == []
    if kind == "bash":
        assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0
