"""What the documentation says, held against the code and the files it speaks of.

Nothing here judges prose. It checks what can be checked: generated pages are what the code prints
now, rule ids and codes exist, links and paths lead somewhere, examples are the files they claim to
be, and code that is marked as runnable runs.

In Markdown, `<!-- file: path -->` before a block says that the block is that file, and the word
`runnable` after a fence's language says that the block is a whole program.
"""

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from amends.contracts.codes import CODES
from amends.transactions.table import TABLE
from scripts import print_reference, print_spec

ROOT: Final = Path(__file__).parents[2]
PRODUCT: Final = ROOT / "src" / "amends"
PAGES: Final = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
RULES: Final = [
    ROOT / "docs/spec" / page for page in ("transactions.md", "governance.md", "worker.md")
]
DECISIONS: Final = sorted((ROOT / "docs/adr").glob("[0-9]*.md"))
GENERATED: Final = print_spec.pages() | print_reference.pages()

FAMILY: Final = r"(?:TX-[A-Z]+|PO|AP|ID|RC|RD|RT|GR(?:-ID)?|FR|HL|PM|WJ|WS|ST|INT)"
RULE_ID: Final = re.compile(rf"(?<![\w-]){FAMILY}-\d+(?![\w-])")
DEFINED: Final = re.compile(rf"^(?:\*\*|\| )({RULE_ID.pattern})(?:\*\*| \|)", re.MULTILINE)
LINK: Final = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)
NOT_A_WORD: Final = re.compile(r"[^\w\- ]")
FENCED: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
TICKED: Final = re.compile(r"`([^`\n]+)`")
CODE: Final = re.compile(r"[a-z]+\.[a-z_]+")
PATH: Final = re.compile(
    r"[\w./-]+\.(?:py|toml|md|mmd|lock|txt)|(?:src|tests|docs|scripts)/[\w./-]+"
)
BLOCK: Final = re.compile(
    r"(?:^<!-- file: (?P<file>\S+) -->\n)?^```(?P<info>[^\n]*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """A fenced block: where it stands, which file it claims to be, its info string, its text."""

    page: str
    file: str | None
    info: str
    code: str


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _read(path: Path) -> str:
    return path.read_text("utf-8")


def _prose(path: Path) -> str:
    """A page without its fenced blocks."""
    return FENCED.sub("", _read(path))


def _blocks(page: str, text: str) -> Iterator[Block]:
    for found in BLOCK.finditer(text):
        yield Block(page, found["file"], found["info"], found["code"])


BLOCKS: Final = [block for path in PAGES for block in _blocks(_name(path), _read(path))]
QUOTED: Final = [block for block in BLOCKS if block.file is not None]
RUNNABLE: Final = [block for block in BLOCKS if block.info.split() == ["python", "runnable"]]
SOURCE: Final = "\n".join(_read(path) for path in sorted(PRODUCT.rglob("*.py")))


def _slug(heading: str) -> str:
    """The anchor that a heading has where Markdown is shown."""
    return NOT_A_WORD.sub("", heading.strip().lower()).replace(" ", "-")


# ── generated pages ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("page", GENERATED)
def test_a_generated_page_is_what_the_code_prints_now(page: str) -> None:
    assert _read(ROOT / page) == GENERATED[page], "run `make docs`"


def test_the_tables_hold_every_code_and_every_row() -> None:
    printed = GENERATED[print_spec.TABLES]
    assert [code for code in CODES if f"| `{code}` |" not in printed] == []
    assert [row.event for row in TABLE if f"| `{row.event}` |" not in printed] == []


def test_codes_are_found_where_they_are_raised() -> None:
    found = {one.code: one.family for one in print_spec.raised_codes()}
    assert found["store.poisoned"] == "unavailable"
    assert found["input.duplicate_key"] == "refused"
    assert found["schema.invalid"] == "refused"
    assert not found.keys() & CODES.keys()


# ── rule ids and codes ───────────────────────────────────────────────────────────────────────────


def _defined() -> Counter[str]:
    return Counter(found for page in RULES for found in DEFINED.findall(_read(page)))


def test_every_rule_is_written_down_once() -> None:
    assert [rule for rule, times in _defined().items() if times > 1] == []


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_every_rule_that_a_page_names_exists(path: Path) -> None:
    assert sorted(set(RULE_ID.findall(_read(path))) - _defined().keys()) == []


def test_every_rule_that_the_code_cites_exists() -> None:
    assert sorted(set(RULE_ID.findall(SOURCE)) - _defined().keys()) == []
    assert sorted({row.rule for row in TABLE} - _defined().keys()) == []


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_every_code_that_a_page_names_exists(path: Path) -> None:
    kinds = {code.partition(".")[0] for code in CODES}
    named = {word for word in TICKED.findall(_prose(path)) if CODE.fullmatch(word)}
    codes = {word for word in named if word.partition(".")[0] in kinds}
    assert sorted(code for code in codes if f'"{code}"' not in SOURCE) == []


# ── links, paths and blocks ──────────────────────────────────────────────────────────────────────


def _leads_somewhere(path: Path, target: str) -> bool:
    file, _, anchor = target.partition("#")
    there = (path.parent / file).resolve() if file else path
    if not anchor:
        return there.exists()
    return there.exists() and anchor in map(_slug, HEADING.findall(_read(there)))


def _dead_links(path: Path) -> list[str]:
    targets = [target for target in LINK.findall(_prose(path)) if "://" not in target]
    return [target for target in targets if not _leads_somewhere(path, target)]


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_every_link_within_the_project_leads_somewhere(path: Path) -> None:
    assert _dead_links(path) == []


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_every_file_that_a_page_names_exists(path: Path) -> None:
    named = {word for word in TICKED.findall(_prose(path)) if PATH.fullmatch(word)}
    places = (ROOT, PRODUCT, path.parent)
    missing = [name for name in named if not any((place / name).exists() for place in places)]
    assert sorted(missing) == []


@pytest.mark.parametrize("block", QUOTED, ids=lambda block: f"{block.page}:{block.file}")
def test_a_block_that_claims_to_be_a_file_is_that_file(block: Block) -> None:
    assert block.file is not None
    assert block.code == _read(ROOT / block.file)


@pytest.mark.parametrize("block", RUNNABLE, ids=lambda block: block.page)
def test_a_block_that_is_marked_runnable_runs(block: Block, tmp_path: Path) -> None:
    program = tmp_path / "block.py"
    program.write_text(block.code, "utf-8")
    ended = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(PRODUCT.parent)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


def test_there_is_something_to_quote_and_to_run() -> None:
    assert [block.file for block in QUOTED if block.page == "README.md"] == [
        "examples/first_capability.py"
    ]
    assert len(RUNNABLE) >= 3


# ── decisions ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.name)
def test_a_decision_says_why_what_and_what_follows(path: Path) -> None:
    headings = HEADING.findall(_read(path))
    assert headings[0].startswith(f"{int(path.name[:4])}. ")
    assert headings[1:4] == ["Context", "Decision", "Consequences"]


def test_decisions_are_numbered_without_gaps_and_all_listed() -> None:
    assert [int(path.name[:4]) for path in DECISIONS] == list(range(1, len(DECISIONS) + 1))
    listed = LINK.findall(_read(ROOT / "docs/adr/README.md"))
    assert [target for target in listed if target[:4].isdigit()] == [one.name for one in DECISIONS]
