"""Prints the tables of the specification from the code that obeys them.

`docs/spec/tables.md` and `docs/spec/statuses.mmd` are made here and nowhere else; a test compares
them with what the code says now. Rules in words are written by hand beside them.
"""

import ast
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from amends.contracts import approvals, enums, evidence, worker_grant, worker_payload
from amends.contracts.codes import CODES
from amends.contracts.enums import Status, WireStatus
from amends.contracts.errors import FAMILIES, Unavailable
from amends.protocol import table as sessions
from amends.receipts import verify
from amends.transactions import registration
from amends.transactions.binding import CHECKS, CLAIM_LOST
from amends.transactions.projection import NEXT_STEPS
from amends.transactions.replay import TERMINAL
from amends.transactions.table import TABLE, Row

ROOT: Final = Path(__file__).parents[1]
PRODUCT: Final = ROOT / "src" / "amends"
TABLES: Final = "docs/spec/tables.md"
DIAGRAM: Final = "docs/spec/statuses.mmd"

HEAD: Final = """\
# Tables

This page is printed from the code by `make docs`. Do not edit it: change the code, then print it
again. The rules in words are in [transactions.md](transactions.md),
[governance.md](governance.md) and [worker.md](worker.md).
"""
VOCABULARIES: Final = (enums, approvals, evidence, verify, worker_payload, worker_grant)
FAMILY_NAMES: Final = {kind.__name__: kind.family for kind in FAMILIES.values()}
RAISERS: Final = FAMILY_NAMES | {"Failure": Unavailable.family}
"""What makes an error where it arises; the SQLite driver's failures become `Unavailable`."""


class Raised(NamedTuple):
    """A code whose texts stand where it is raised. `…` stands for what is filled in there."""

    code: str
    family: str
    message: str
    next_step: str


def pages() -> dict[str, str]:
    """Every generated page: its path from the root, and its text."""
    return {TABLES: tables(), DIAGRAM: diagram()}


def tables() -> str:
    """The page of tables."""
    sections = (
        HEAD,
        _section("Statuses", _statuses()),
        _section("Transitions", _transitions()),
        _section("The statuses as a picture", f"```mermaid\n{diagram()}```\n"),
        _section("Plan binding", _binding()),
        _section("What a declaration must satisfy", _demands()),
        _section("Sessions", _sessions()),
        _section("Codes", _codes()),
        _section("Codes that are raised where they arise", _raised_codes()),
        _section("Enumerations", _enumerations()),
    )
    return "\n".join(sections)


def diagram() -> str:
    """The moves between statuses; events that leave the status as it is are left out."""
    moves: dict[tuple[str, str], list[str]] = {}
    for row in TABLE:
        for before in _before(row):
            if row.after is not None and before != row.after:
                moves.setdefault((before, row.after), []).append(row.event.value)
    lines = [
        f"    {before} --> {after}: {', '.join(why)}" for (before, after), why in moves.items()
    ]
    ends = [f"    {status} --> [*]" for status in Status if status in TERMINAL]
    return "\n".join(["stateDiagram-v2", *lines, *ends]) + "\n"


def _before(row: Row) -> Sequence[str]:
    """The statuses a row starts from, in the order of the enumeration; `[*]` is no record yet."""
    before = row.before
    return ["[*]"] if before is None else [status.value for status in Status if status in before]


def _section(title: str, body: str) -> str:
    return f"## {title}\n\n{body}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines
    )


def _code(text: str) -> str:
    return f"`{text}`"


def _statuses() -> str:
    stored = {status.value for status in Status}
    rows = [
        (
            _code(status.value),
            "yes" if status.value in stored else "no, only shown",
            "yes" if status.value in TERMINAL else "",
            " ".join(f"`{step.call}`: {step.text}" for step in NEXT_STEPS[status]),
        )
        for status in WireStatus
    ]
    text = (
        "A failed record is terminal unless the right retry may reopen it (TX-EXEC-1). What can\n"
        "be done next also depends on the verdict and on the mode: a partial effect can be\n"
        "compensated, and a compensation never can.\n\n"
    )
    return text + _table(("status", "stored", "terminal", "what can be done next"), rows)


def _transitions() -> str:
    rows = [
        (
            _code(row.event.value),
            ", ".join("none yet" if name == "[*]" else _code(name) for name in _before(row)),
            "stays" if row.after is None else _code(row.after.value),
            row.rule,
        )
        for row in TABLE
    ]
    text = (
        "What has no row is refused with `transaction.transition_refused`, and a refused change\n"
        "leaves the record as it was (TX-REV-1).\n\n"
    )
    return text + _table(("event", "from", "to", "rule"), rows)


def _binding() -> str:
    checks = [(check.number, check.code) for check in CHECKS]
    rows = [
        (number, _code(code), CODES[code].message, CODES[code].next_step)
        for number, code in [*checks, ("14", CLAIM_LOST)]
    ]
    text = (
        "A commit is checked against its plan in this order; the first check that does not hold\n"
        "names the code. The last one is the store's compare-and-set: losing it has a code of its\n"
        "own (TX-COMMIT).\n\n"
    )
    return text + _table(("check", "code", "what it says", "what to do"), rows)


def _demands() -> str:
    """The demands of registration, read from its source: its table holds functions, not texts."""
    tree = ast.parse(inspect.getsource(registration))
    rows = [
        (_code(code), text)
        for node in ast.walk(tree)
        for code, text in _constant_pair(node, "Demand")
    ]
    text = (
        "Registration checks all of these and reports every fault at once, in the details of\n"
        "`capability.invalid` (TX-CONTRACT-2).\n\n"
    )
    return text + _table(("fault", "what is wrong"), rows)


def _constant_pair(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
    match node:
        case ast.Call(ast.Name(called), [ast.Constant(str(one)), ast.Constant(str(two)), *_]):
            if called == name:
                yield one, two


def _sessions() -> str:
    rows = [
        (
            _code(row.kind.value),
            row.sender.value,
            _code(row.before.value),
            "stays" if row.before is row.after else _code(row.after.value),
            ", ".join(str(version.value) for version in sorted(row.versions)),
            row.rule,
        )
        for row in sessions.TABLE
    ]
    text = (
        "Which message may pass between host and worker, and in which state of the session. What\n"
        "has no row poisons the session of whoever receives it. Version 5 begins at `ready`. A\n"
        "session that broke is `poisoned`, and one whose bytes ended is `ended`.\n\n"
    )
    return text + _table(("message", "sent by", "in", "then", "versions", "rule"), rows)


def _codes() -> str:
    parts = [
        "A family says what the caller does next, a code says why. A code is raised, or stands in\n"
        "the `error` of a stored result.\n"
    ]
    for family, kind in FAMILIES.items():
        rows = [
            (_code(code), entry.message, entry.next_step, "yes" if entry.retryable else "")
            for code, entry in CODES.items()
            if entry.family is kind
        ]
        parts.append(f"### `{kind.__name__}`\n\nFamily `{family}`. {inspect.getdoc(kind)}\n")
        if rows:
            parts.append(_table(("code", "what it says", "what to do", "same again, later"), rows))
    return "\n".join(parts)


def _raised_codes() -> str:
    rows = [
        (_code(one.code), _code(one.family), one.message, one.next_step) for one in raised_codes()
    ]
    text = (
        "Stores, parsing, schemas, connectors and keys write their texts where they know the\n"
        "place or the file. `…` stands for what is filled in.\n\n"
    )
    return text + _table(("code", "family", "what it says", "what to do"), rows)


def _enumerations() -> str:
    parts = [
        f"### {kind.__name__}\n\n{inspect.getdoc(kind)}\n\n"
        + ", ".join(_code(member.value) for member in kind)
        + "\n"
        for module in VOCABULARIES
        for kind in _enums_of(vars(module), module.__name__)
    ]
    return "\n".join(parts)


def _enums_of(names: Mapping[str, object], module: str) -> Iterator[type[StrEnum]]:
    for value in names.values():
        if isinstance(value, type) and issubclass(value, StrEnum) and value.__module__ == module:
            yield value


# ── codes outside the table, read from the source ────────────────────────────────────────────────


def raised_codes() -> list[Raised]:
    """Every code that is not in the table, sorted, each once."""
    found = {
        one.code: one
        for path in sorted(PRODUCT.rglob("*.py"))
        if path.relative_to(PRODUCT).parts[0] not in {"testing", "simulation"}
        for one in _raised_in(ast.parse(path.read_text("utf-8")))
        if one.code not in CODES
    }
    return sorted(found.values())


def _raised_in(tree: ast.Module) -> Iterator[Raised]:
    constants = dict(_constants(tree))
    for node in ast.walk(tree):
        match node:
            case ast.Call(ast.Name(name), [code, message, *rest], keywords) if name in RAISERS:
                given = {word.arg: word.value for word in keywords}
                step = given.get("next_step") or (rest[0] if rest else None)
                texts = [_text(part, constants) for part in (code, message, step)]
                if _is_code(texts[0]):
                    yield Raised(texts[0], RAISERS[name], texts[1], texts[2])
            case ast.Dict(keys, values):
                yield from _reasons(keys, values, constants)


def _reasons(
    keys: Sequence[ast.expr | None], values: Sequence[ast.expr], constants: Mapping[str, str]
) -> Iterator[Raised]:
    """A table from code to message and next step, as admission keeps one; all are refusals."""
    for key, value in zip(keys, values, strict=True):
        match key, value:
            case ast.Constant(str(code)), ast.Tuple([message, step]) if _is_code(code):
                texts = _text(message, constants), _text(step, constants)
                yield Raised(code, "refused", f"{texts[0]}.", texts[1])


def _is_code(text: str) -> bool:
    return "." in text and text.replace(".", "").replace("_", "").isalpha() and text.islower()


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        match node:
            case ast.AnnAssign(ast.Name(name), value=ast.Constant(str(text))):
                yield name, text


def _text(node: ast.expr | None, constants: Mapping[str, str]) -> str:
    """The text of an expression, as far as it can be read."""
    match node:
        case ast.Constant(str(text)):
            return text
        case ast.JoinedStr(parts):
            return "".join(_text(part, constants) for part in parts)
        case ast.Name(name) if name in constants:
            return constants[name]
        case None:
            return ""
        case _:
            return "…"


def main() -> None:
    """Write every generated page."""
    for path, text in pages().items():
        (ROOT / path).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
