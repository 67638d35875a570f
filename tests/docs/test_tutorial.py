"""The pages that are followed step by step, done from the first line to the last as by a newcomer.

`<!-- save: name -->` before a block says that its text goes into that file. In blocks of `console`
each `$` line is typed, and the lines below it have to appear in what it prints, in that order.
Spaces do not count, `…` stands for anything, and `apr_…` in a command for the last approval that
was printed.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
PAGES: Final = sorted(
    page for page in DOCS.rglob("*.md") if "<!-- save:" in page.read_text("utf-8")
)
STEP: Final = re.compile(
    r"^(?:<!-- save: (?P<name>\S+) -->\n```\w+\n(?P<text>.*?)|```console\n(?P<typed>.*?))^```$",
    re.MULTILINE | re.DOTALL,
)
TYPED: Final = re.compile(r"^\$ ", re.MULTILINE)
APPROVAL: Final = re.compile(r"apr_[0-9a-f]+")
WAIT_S: Final = 60

SHOWN: Final = re.compile(r"^ *(?:\$ )?amends ([a-z].*)$", re.MULTILINE)
GROUPS: Final = ("tx", "hold", "keys", "retention")
"""Commands that have commands of their own."""

FENCED: Final = re.compile(r"^ *```(?:shell|console)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


class Command(NamedTuple):
    """A line that is typed, and the lines that it has to print."""

    line: str
    prints: tuple[str, ...]


def _commands(typed: str) -> Iterator[Command]:
    for part in TYPED.split(typed)[1:]:
        line, *prints = part.splitlines()
        yield Command(line, tuple(prints))


def _plain(line: str) -> str:
    return " ".join(line.split())


def _appears(expected: str, line: str) -> bool:
    parts = (re.escape(part) for part in _plain(expected).split("…"))
    return re.fullmatch(".*".join(parts), _plain(line)) is not None


class Newcomer:
    """Somebody at a shell, in a folder of their own."""

    def __init__(self, folder: Path, tools: Path) -> None:
        self._folder = folder
        kept = {name: os.environ[name] for name in ("LANG", "HOME") if name in os.environ}
        self._environment = kept | {
            "PATH": f"{tools}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
        }
        self._approval = ""

    def save(self, name: str, text: str) -> None:
        """Put a file there."""
        (self._folder / name).write_text(text, "utf-8")

    def type(self, command: Command) -> list[str]:
        """Type a line; what it printed, in lines."""
        words = shlex.split(command.line)
        if words[0] == "export":
            self._environment |= dict(word.split("=", 1) for word in words[1:])
            return []
        done = subprocess.run(
            ["sh", "-c", command.line.replace("apr_…", self._approval)],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        for found in APPROVAL.findall(done.stdout):
            self._approval = found
        return done.stdout.splitlines()


@pytest.fixture
def newcomer(tmp_path: Path) -> Newcomer:
    """A newcomer to whom `python` and `amends` are those under test."""
    folder, tools = tmp_path / "shop", tmp_path / "bin"
    for one in (folder, tools):
        one.mkdir()
    for name, words in (("python", ""), ("amends", " -m amends")):
        tool = tools / name
        tool.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)}{words} "$@"\n', "utf-8")
        tool.chmod(0o755)
    return Newcomer(folder, tools)


def _missing(expected: tuple[str, ...], printed: list[str]) -> list[str]:
    """The lines that do not come, in their order."""
    rest = iter(printed)
    return [one for one in expected if not any(_appears(one, line) for line in rest)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_that_is_followed_does_what_it_shows(page: Path, newcomer: Newcomer) -> None:
    typed = 0
    for step in STEP.finditer(page.read_text("utf-8")):
        if step["name"] is not None:
            newcomer.save(step["name"], step["text"])
            continue
        for command in _commands(step["typed"]):
            printed = newcomer.type(command)
            assert _missing(command.prints, printed) == [], (command.line, printed)
            typed += 1
    assert typed > 0


def _shown() -> dict[str, set[str]]:
    """The commands that pages show outside of comments, each with the options it is given."""
    shown: dict[str, set[str]] = {}
    for page in DOCS.rglob("*.md"):
        for block in FENCED.findall(page.read_text("utf-8")):
            for line in SHOWN.findall(block):
                words = shlex.split(line)
                name = " ".join(words[:2] if words[0] in GROUPS else words[:1])
                options = {word for word in words if word.startswith("--")}
                shown.setdefault(name, set()).update(options)
    return shown


def test_every_command_that_a_page_shows_takes_its_options(newcomer: Newcomer) -> None:
    shown = _shown()
    assert {"settle", "restore", "tx show"} <= shown.keys()
    for name, options in shown.items():
        known = set(re.findall(r"--[a-z-]+", "\n".join(newcomer.type(_help(name)))))
        assert options - known == set(), name
        assert "--store" in known


def _help(name: str) -> Command:
    return Command(f"amends {name} --help", ())


def test_the_tutorial_is_among_the_pages_that_are_followed() -> None:
    assert DOCS / "tutorial.md" in PAGES


def test_a_line_that_does_not_come_is_missed() -> None:
    printed = ["order-17   committed", "  at 12:30  planned"]
    assert _missing(("order-17 committed", "at … planned"), printed) == []
    assert _missing(("at … planned", "order-17 committed"), printed) == ["order-17 committed"]
    assert _missing(("order-17 failed",), printed) == ["order-17 failed"]
