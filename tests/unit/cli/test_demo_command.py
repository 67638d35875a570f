"""Before and beside the story: what is missing, where files go, how it is told, what counts."""

import io
import json
import sys
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace
from rich.console import Console

from amends.cli import exits, main
from amends.cli.demo.race import two_racers
from amends.cli.demo.seen import (
    EXPECTED_REFUSALS,
    EXPECTED_TIMELINE,
    RELEASE_REFUSALS,
    RELEASE_TIMELINE,
    ReleaseSeen,
    Seen,
)
from amends.cli.demo.stage import Patience, Stage
from amends.cli.demo.teller import WIDTH, Teller, console
from amends.contracts.errors import Unavailable

RELEASED: Final = ReleaseSeen(
    published=1,
    withdrawn=1,
    killed=True,
    timeline=list(RELEASE_TIMELINE),
    refused=list(RELEASE_REFUSALS),
)
SHOWN: Final = Seen(
    release=RELEASED,
    charges=1,
    refunds=1,
    killed=True,
    timeline=list(EXPECTED_TIMELINE),
    refused=list(EXPECTED_REFUSALS),
    receipts_verified=True,
    tamper_detected=True,
)


# ── before it begins ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("missing", ["localstripe", "stripe"])
def test_without_the_extra_it_names_the_very_command_that_installs_it(
    missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    assert main.run(["demo", "--json"]) == exits.OF_FAMILY["misuse"]
    said = capsys.readouterr()
    assert said.err == (
        f"[demo.extra_missing] The demonstration needs {missing}. "
        'Run: python -m pip install "amends[demo]"\n'
    )
    assert json.loads(said.out)["error"]["code"] == "demo.extra_missing"


def test_a_folder_with_something_in_it_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    assert main.run(["demo", "--keep", str(tmp_path)]) == exits.OF_FAMILY["misuse"]
    assert capsys.readouterr().err.startswith("[demo.folder_unusable] ")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_folder_that_cannot_be_made_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main.run(["demo", "--keep", str(tmp_path / "file" / "folder")]) == 2
    assert capsys.readouterr().err.startswith("[demo.folder_unusable] ")


# ── what counts ──────────────────────────────────────────────────────────────────────────────────


def test_it_is_ok_only_when_everything_was_seen() -> None:
    assert SHOWN.ok
    assert SHOWN.as_json() | {"ok": True} == SHOWN.as_json()


@pytest.mark.parametrize(
    "seen",
    [
        replace(SHOWN, charges=2),
        replace(SHOWN, refunds=0),
        replace(SHOWN, killed=False),
        replace(SHOWN, timeline=[*EXPECTED_TIMELINE, "failed"]),
        replace(SHOWN, refused=list(EXPECTED_REFUSALS[1:])),
        replace(SHOWN, receipts_verified=False),
        replace(SHOWN, tamper_detected=False),
        replace(SHOWN, release=replace(RELEASED, withdrawn=2)),
        replace(SHOWN, release=replace(RELEASED, killed=False)),
        replace(SHOWN, release=replace(RELEASED, timeline=[])),
        replace(SHOWN, release=replace(RELEASED, refused=[])),
    ],
)
def test_one_thing_that_was_not_as_it_had_to_be_makes_it_not_ok(seen: Seen) -> None:
    assert not seen.ok
    assert seen.as_json()["ok"] is False


# ── how it is told ───────────────────────────────────────────────────────────────────────────────


def told(*, terminal: bool) -> str:
    out = io.StringIO()
    teller = Teller(Console(file=out, force_terminal=terminal, width=80), pause_s=0)
    teller.title("A title", "A sentence.")
    teller.chapter("A chapter", "What is wanted.")
    teller.found("It was done.", "committed")
    teller.refused("It was tried again.", "some.code")
    teller.counted("At the provider: 1 charge.")
    with teller.waiting("Waiting for it …", 0.1) as tick:
        tick()
    teller.end("The end.", "green", "And so on.")
    return out.getvalue()


def test_a_pipe_gets_plain_lines_without_trailing_blanks() -> None:
    assert told(terminal=False).splitlines() == [
        "",
        "A title",
        "A sentence.",
        "",
        "1  A chapter",
        "   What is wanted.",
        "   ✓ It was done.  committed",
        "   ✗ It was tried again.  refused: some.code",
        "   = At the provider: 1 charge.",
        "   Waiting for it …",
        "",
        "The end.",
        "And so on.",
        "",
    ]


def test_a_terminal_gets_colour_and_a_bar_and_the_same_words() -> None:
    said = told(terminal=True)
    assert "\x1b[" in said
    assert "━" in said
    for word in told(terminal=False).split():
        assert word in said


def test_a_stream_that_lacks_our_marks_gets_question_marks_and_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    Teller(console(quiet=False), pause_s=0).found("Done.", "committed")
    sys.stdout.flush()
    assert raw.getvalue() == b"   ? Done.  committed\n"


def test_a_wide_terminal_does_not_make_long_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    assert console(quiet=False).width == WIDTH


# ── when it goes wrong ───────────────────────────────────────────────────────────────────────────


def test_a_wait_ends_at_the_deadline_and_says_for_what_it_waited() -> None:
    patience = Patience(0.05)
    with pytest.raises(Unavailable) as late:
        patience.until(lambda: False, awaited="for nothing")
    assert late.value.code == "demo.too_slow"
    assert "for nothing" in late.value.message
    assert patience.left_s > 0


def test_a_racer_that_fails_is_noticed_at_once_and_none_is_left(tmp_path: Path) -> None:
    stage = Stage(folder=str(tmp_path), provider_address="http://127.0.0.1:9")
    stage.database.mkdir()
    with pytest.raises(Unavailable) as failed, two_racers(stage, "act-1", Patience(20)):
        raise AssertionError("a race was begun")
    assert failed.value.code == "demo.racer_failed"
    assert any((tmp_path / f"{lane}.log").stat().st_size for lane in ("first", "second"))
