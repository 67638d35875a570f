"""The command line around the commands: help, errors, exit codes, one JSON document."""

import io
import json
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import pytest

from amends.cli import exits, main, output
from amends.contracts.errors import FAMILIES, AmendsError

WAIT_S: Final = 20
HEAVY: Final = frozenset(
    "amends.app amends.runtime amends.simulation amends.stores amends.testing amends.cli.demo "
    "apsw asyncio cryptography jsonschema_rs localstripe msgspec nacl stripe".split()
)


def loaded_by(arguments: list[str]) -> set[str]:
    """The modules that are there after the command has run in a process of its own."""
    probe = (
        "import sys; from amends.cli.main import run; code = run(sys.argv[1:]);"
        "print(*sys.modules, file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe, *arguments],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=True,
    )
    assert done.stdout
    return set(done.stderr.split())


def command(monkeypatch: pytest.MonkeyPatch, folder: Path, body: str) -> None:
    """Register a command named `try`, in a module of its own, as the real ones are."""
    (folder / "tried_command.py").write_text(f"def tried(*, json: bool = False):\n    {body}\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "tried_command", raising=False)
    tried = main._Command("tried_command:tried", "Try it.")
    monkeypatch.setattr(main, "_COMMANDS", {"try": tried})


# ── help and version ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("CLI-2")
@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_load_no_command_and_nothing_heavy(option: str) -> None:
    assert not HEAVY & loaded_by([option])


def test_the_control_finds_what_the_help_of_a_command_loads() -> None:
    loaded = loaded_by(["demo", "--help"])
    assert "amends.cli.demo" in loaded
    assert not {"stripe", "amends.app", "amends.cli.demo.story"} & loaded


def test_help_names_every_command_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--help"]) == exits.OK
    said = capsys.readouterr().out
    for name, entry in main._COMMANDS.items():
        assert name in said
        assert entry.help.splitlines()[0] in said


def test_every_command_can_say_how_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    for name in main._COMMANDS:
        assert main.run([name, "--help"]) == exits.OK
        assert f"Usage: amends {name}" in capsys.readouterr().out


def test_the_package_can_be_run_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "amends", "--version"],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    try:
        expected = version("amends")
    except PackageNotFoundError:
        expected = "not installed"
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{expected}\n", "")


# ── exit codes ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("CLI-2")
def test_each_family_has_an_exit_code_of_its_own() -> None:
    assert exits.OF_FAMILY.keys() == FAMILIES.keys()
    taken = [exits.OK, exits.FAILED, exits.INTERRUPTED, exits.PIPE_CLOSED]
    codes = [*exits.OF_FAMILY.values(), *taken]
    assert len(set(codes)) == len(codes)


@pytest.mark.rule("CLI-2")
@pytest.mark.parametrize("family", FAMILIES)
def test_an_error_is_one_line_with_its_code_and_what_to_do(
    family: str, capsys: pytest.CaptureFixture[str]
) -> None:
    error = FAMILIES[family]("some.code", "It is\nso.", next_step="Do this.")
    assert output.report(error, as_json=False) == exits.OF_FAMILY[family]
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "[some.code] It is so. Do this.\n")


@pytest.mark.rule("CLI-2")
@pytest.mark.parametrize("family", FAMILIES)
def test_json_on_failure_is_one_document_with_everything_the_line_says_and_more(
    family: str, capsys: pytest.CaptureFixture[str]
) -> None:
    error: AmendsError = FAMILIES[family](
        "some.code", "It is so.", next_step="Do this.", details={"at": ["ä", 1, None]}
    )
    assert output.report(error, as_json=True) == exits.OF_FAMILY[family]
    said = capsys.readouterr()
    assert said.out.isascii()
    assert json.loads(said.out) == {
        "ok": False,
        "error": {
            "code": "some.code",
            "family": family,
            "message": "It is so.",
            "next_step": "Do this.",
            "details": {"at": ["ä", 1, None]},
        },
    }
    assert said.err == "[some.code] It is so. Do this.\n"


# ── from the command to the exit code ────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("return 1", exits.FAILED),
        ("return None", exits.OK),
        ("from amends import Conflict; raise Conflict('a.b', 'So.')", exits.OF_FAMILY["conflict"]),
        ("raise KeyboardInterrupt", exits.INTERRUPTED),
        ("raise ZeroDivisionError", exits.FAILED),
    ],
)
def test_what_a_command_does_decides_the_exit_code(
    body: str, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command(monkeypatch, tmp_path, body)
    assert main.run(["try"]) == code


@pytest.mark.parametrize(
    ("body", "code"),
    [("raise KeyboardInterrupt", "cli.interrupted"), ("raise ZeroDivisionError", "cli.fault")],
)
def test_json_is_promised_for_interruptions_and_faults_too(
    body: str,
    code: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command(monkeypatch, tmp_path, body)
    main.run(["try", "--json"])
    said = capsys.readouterr()
    assert json.loads(said.out)["error"]["code"] == code
    assert ("ZeroDivisionError" in said.err) == (code == "cli.fault")


@pytest.mark.parametrize("arguments", [["no-such-command"], ["demo", "--no-such-option"]])
def test_wrong_usage_is_one_line_and_exit_code_two(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(arguments) == exits.OF_FAMILY["misuse"]
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith("[cli.usage] Unknown ")
    assert re.search(r" See amends( demo)? --help\.\n$", said.err)


def test_wrong_usage_with_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    main.run(["demo", "--json", "--no-such-option"])
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "cli.usage"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["policy", "check", "RULES"], 8),
        (["policy", "check", "RULES", "--json"], 8),
        (["check", "no-app", "--json"], 2),
        (["--help"], 8),
    ],
)
def test_an_answer_that_cannot_be_written_is_said_and_changes_no_verdict(
    arguments: list[str], code: int, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text('version: 1\nrules:\n  - {id: all, match: {capability: "*"}, effect: allow}\n')
    told = [str(rules) if one == "RULES" else one for one in arguments]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "amends", *told],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
    assert ended.returncode == code
    assert "[cli.answer_not_written]" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_output_is_an_output_that_nobody_reads(closed: str) -> None:
    ended = subprocess.run(
        ["sh", "-c", f'"$0" -m amends --version {closed}', sys.executable],
        capture_output=True,
        timeout=WAIT_S,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_reader_that_has_left_is_no_fault() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "amends", "demo", "--json", "--no-such-option"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(WAIT_S) == exits.PIPE_CLOSED
    assert process.stderr is not None
    assert process.stderr.read().count("\n") == 1
    process.stderr.close()


@pytest.mark.parametrize("columns", ["0", "1", "7"])
def test_help_is_printed_on_a_terminal_without_columns(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    for tokens in (("--help",), ("execute", "--help"), ("tx", "show", "--help")):
        assert main.run(tokens) == exits.OK
        assert "Usage" in capsys.readouterr().out


def test_who_stops_reading_help_ends_it_as_any_command(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Gone())
    with pytest.raises(BrokenPipeError):
        main.run(["--help"])
