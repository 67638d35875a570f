"""The shape of the house, read from the source as syntax trees; nothing of the product is imported.

Each check takes one module and yields what is wrong with it, so that a failure names the place. The
order of the rooms comes from the import-linter contract in `pyproject.toml`, which is its only
home. import-linter follows chains of imports; here every single import counts, those made inside a
function too. What ruff and mypy can see is deliberately left to them.
"""

import ast
import io
import math
import re
import statistics
import tokenize
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import pytest

ROOT: Final = Path(__file__).parents[2]
PRODUCT: Final = ROOT / "src" / "amends"
OTHER_CODE: Final = ("tests", "examples", "benchmarks", "scripts")

LINTER: Final = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
RANK: Final = {
    room.strip(" ()"): rank
    for rank, layer in enumerate(reversed(LINTER["contracts"][0]["layers"]))
    for room in layer.split("|")
} | {"__main__": math.inf}
PURE_ROOMS: Final = frozenset(room for room, rank in RANK.items() if rank <= 1)
LAZY_ROOMS: Final = frozenset({"testing", "simulation"})
FACADE: Final = "blocking"  # where names imported from `amends` itself stand: above `app`

IMPURE_MODULES: Final = frozenset(
    "apsw asyncio concurrent http io multiprocessing os pathlib random secrets select selectors "
    "shutil signal socket sqlite3 ssl subprocess tempfile threading time urllib".split()
)
IMPURE_METHODS: Final = frozenset("generate now today urandom utcnow uuid1 uuid4".split())
IMPURE_FUNCTIONS: Final = frozenset("input open print urandom uuid1 uuid4".split())
MUTABLE_TYPES: Final = frozenset(
    "bytearray Counter defaultdict deque dict list OrderedDict set WeakKeyDictionary WeakSet "
    "WeakValueDictionary".split()
)
READ_ONLY: Final = frozenset(
    "AbstractSet Collection Final frozenset Iterable Mapping Sequence".split()
)

FORBIDDEN_NAMES: Final = frozenset({"utils", "helpers", "manager", "base", "common"})
FORBIDDEN_COMMENT: Final = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|pragma: *no *(cover|branch)")
TYPE_IGNORE: Final = re.compile(r"#\s*type:\s*ignore")
EXPLAINED: Final = re.compile(r"#\s*type:\s*ignore\[[\w, -]+\]\s*#\s*\w.*\w")

FILE_LINES: Final = 500
CLASS_METHODS: Final = 20
NESTING: Final = 4
BODY_LINES: Final = 60
BODY_LINES_P90: Final = 30
BODY_LINES_MEDIAN: Final = 10

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Block: TypeAlias = (
    ast.If | ast.For | ast.AsyncFor | ast.While | ast.With | ast.AsyncWith
    | ast.Try | ast.TryStar | ast.Match
)  # fmt: skip
MutableLiteral: TypeAlias = (
    ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp
)


@dataclass(frozen=True)
class Module:
    """One source file. Its path starts at the package for the product, at the root for the rest."""

    path: str
    text: str
    tree: ast.Module

    @property
    def room(self) -> str:
        first = self.path.partition("/")[0].removesuffix(".py")
        return FACADE if first == "__init__" else first


def _module(path: str, text: str) -> Module:
    return Module(path, text, ast.parse(text))


def _read(folder: Path, start: Path) -> list[Module]:
    paths = sorted(folder.rglob("*.py"))
    return [_module(path.relative_to(start).as_posix(), path.read_text("utf-8")) for path in paths]


MODULES: Final = _read(PRODUCT, PRODUCT)
OTHER_MODULES: Final = [module for name in OTHER_CODE for module in _read(ROOT / name, ROOT)]


# ── reading a tree ───────────────────────────────────────────────────────────────────────────────


def _functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def _at_import(node: ast.AST) -> Iterator[ast.AST]:
    """What runs when the module is imported: everything outside functions."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, Function | ast.Lambda):
            yield child
            yield from _at_import(child)


def _imported(node: ast.AST, path: str) -> list[str]:
    """The dotted names that an import statement asks for; none for any other node."""
    match node:
        case ast.Import(names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module, names, level):
            package = ["amends", *path.split("/")[:-1]]
            above = package[: len(package) - level + 1] if level else []
            source = ".".join([*above, *([module] if module else [])])
            return [f"{source}.{alias.name}" for alias in names]
        case _:
            return []


def _room_of(dotted: str) -> str | None:
    """The room that a dotted name leads to; None when it is not ours."""
    top, first, *_ = [*dotted.split("."), ""]
    return None if top != "amends" else first if first in RANK else FACADE


def _body_lines(function: Function) -> int:
    """Lines from the first statement to the last; a docstring or a bare `...` is none."""
    body = [
        statement
        for statement in function.body
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
    ]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def _depth(node: ast.AST) -> int:
    """How deep blocks nest under the node; an `elif` is no deeper than its `if`."""
    deepest = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function | ast.ClassDef):
            continue
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]
        deeper = isinstance(child, Block) and not is_elif
        deepest = max(deepest, _depth(child) + deeper)
    return deepest


def _head(node: ast.expr) -> str:
    """The word that an annotation or a called name comes down to: `t.Final[int]` to Final."""
    return ast.unparse(node).partition("[")[0].rpartition(".")[2]


def _is_mutable(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call):
        return _head(value.func) in MUTABLE_TYPES
    return isinstance(value, MutableLiteral)


def _comments(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


# ── checks of one module ─────────────────────────────────────────────────────────────────────────


def imports_only_rooms_below(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        for dotted in _imported(node, module.path):
            room = _room_of(dotted)
            if room and room != module.room and RANK[room] >= RANK[module.room]:
                yield f"{module.path} imports {dotted}"


def imports_the_test_kit_lazily(module: Module) -> Iterator[str]:
    if module.room not in {"cli", "__main__"}:
        return
    for node in _at_import(module.tree):
        for dotted in _imported(node, module.path):
            if _room_of(dotted) in LAZY_ROOMS:
                yield f"{module.path} imports {dotted} before a command asks for it"


def is_pure(module: Module) -> Iterator[str]:
    if module.room not in PURE_ROOMS:
        return
    for node in ast.walk(module.tree):
        match node:
            case ast.AsyncFunctionDef(name):
                yield f"{module.path}:{node.lineno} {name} is async"
            case ast.Call(ast.Attribute(_, name)) if name in IMPURE_METHODS:
                yield f"{module.path}:{node.lineno} calls .{name}()"
            case ast.Call(ast.Name(name)) if name in IMPURE_FUNCTIONS:
                yield f"{module.path}:{node.lineno} calls {name}()"
            case _:
                for dotted in _imported(node, module.path):
                    if dotted.partition(".")[0] in IMPURE_MODULES:
                        yield f"{module.path} imports {dotted}"


def is_small(module: Module) -> Iterator[str]:
    lines = module.text.count("\n")
    if lines > FILE_LINES:
        yield f"{module.path} has {lines} lines"
    for function in _functions(module.tree):
        where = f"{module.path}:{function.lineno} {function.name}"
        if (lines := _body_lines(function)) > BODY_LINES:
            yield f"{where} has {lines} lines"
        if (depth := _depth(function)) > NESTING:
            yield f"{where} nests {depth} blocks"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef):
            methods = sum(isinstance(child, Function) for child in node.body)
            if methods > CLASS_METHODS:
                yield f"{module.path}:{node.lineno} {node.name} has {methods} methods"


def is_named_for_its_job(module: Module) -> Iterator[str]:
    for name in FORBIDDEN_NAMES.intersection(module.path.removesuffix(".py").split("/")):
        yield f"{module.path} is called {name}"


def keeps_no_state(module: Module) -> Iterator[str]:
    for statement in module.tree.body:
        match statement:
            case ast.Assign([ast.Name("__all__")]):
                continue
            case ast.Assign(value=value) if _is_mutable(value):
                yield f"{module.path}:{statement.lineno} keeps something that can change"
            case ast.AnnAssign(_, kind, value) if (
                _is_mutable(value) and _head(kind) not in READ_ONLY
            ):
                yield f"{module.path}:{statement.lineno} keeps something that can change"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Global):
            yield f"{module.path}:{node.lineno} rebinds the global {', '.join(node.names)}"


def has_a_docstring(module: Module) -> Iterator[str]:
    if not ast.get_docstring(module.tree):
        yield f"{module.path} does not say what it is for"


def has_honest_comments(module: Module) -> Iterator[str]:
    for line, comment in _comments(module.text):
        if FORBIDDEN_COMMENT.search(comment):
            yield f"{module.path}:{line} {comment}"
        if TYPE_IGNORE.search(comment) and not EXPLAINED.search(comment):
            yield f"{module.path}:{line} gives no code and reason: {comment}"


Check: TypeAlias = Callable[[Module], Iterator[str]]
CHECKS_EVERYWHERE: Final[tuple[Check, ...]] = (
    is_named_for_its_job,
    has_a_docstring,
    has_honest_comments,
)
CHECKS_OF_THE_PRODUCT: Final[tuple[Check, ...]] = (
    imports_only_rooms_below,
    imports_the_test_kit_lazily,
    is_pure,
    is_small,
    keeps_no_state,
)


@pytest.mark.parametrize("check", CHECKS_OF_THE_PRODUCT + CHECKS_EVERYWHERE)
def test_every_module_of_the_product(check: Check) -> None:
    assert [offence for module in MODULES for offence in check(module)] == []


@pytest.mark.parametrize("check", CHECKS_EVERYWHERE)
def test_every_module_beside_the_product(check: Check) -> None:
    assert [offence for module in OTHER_MODULES for offence in check(module)] == []


# ── checks of the whole ──────────────────────────────────────────────────────────────────────────


def test_every_room_has_a_place_in_the_order() -> None:
    assert {module.room for module in MODULES} <= RANK.keys()


def test_functions_are_short_as_a_rule() -> None:
    sizes = [_body_lines(function) for module in MODULES for function in _functions(module.tree)]
    sizes = [size for size in sizes if size]
    assert statistics.median(sizes) <= BODY_LINES_MEDIAN
    assert statistics.quantiles(sizes, n=10)[-1] <= BODY_LINES_P90


def test_exactly_one_module_calls_a_connector() -> None:
    callers = {
        module.path
        for module in MODULES
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".carry_out")
    }
    assert callers == {"runtime/attempt.py"}


# ── the checks themselves can fail ───────────────────────────────────────────────────────────────

METHODS: Final = "\n".join(f"    def m{number}(self): ..." for number in range(CLASS_METHODS + 1))
NESTED: Final = "".join(f"{'    ' * depth}if x:\n" for depth in range(1, 6)) + " " * 24 + "pass"

BAD: Final[list[tuple[Check, str, str]]] = [
    (imports_only_rooms_below, "contracts/a.py", "from amends.runtime import b"),
    (imports_only_rooms_below, "contracts/a.py", "def f():\n    import amends.app"),
    (imports_only_rooms_below, "stores/a.py", "from amends.connectors.http import b"),
    (imports_only_rooms_below, "stores/deep/a.py", "from ...connectors import b"),
    (imports_only_rooms_below, "stores/a.py", "from .. import runtime"),
    (imports_only_rooms_below, "app/a.py", "from amends import Amends"),
    (imports_only_rooms_below, "app/a.py", "from amends import testing"),
    (imports_only_rooms_below, "testing/a.py", "import amends.simulation"),
    (imports_the_test_kit_lazily, "cli/a.py", "from amends.testing import b"),
    (imports_the_test_kit_lazily, "cli/a.py", "if True:\n    from amends import simulation"),
    (is_pure, "contracts/a.py", "import time"),
    (is_pure, "receipts/a.py", "def f():\n    from os.path import join"),
    (is_pure, "transactions/a.py", "at = datetime.now(UTC)"),
    (is_pure, "governance/a.py", "one = uuid4()"),
    (is_pure, "governance/a.py", "async def f(): ..."),
    (is_small, "stores/a.py", "\n" * (FILE_LINES + 1)),
    (is_small, "stores/a.py", "def f():" + "\n    x = 1" * (BODY_LINES + 1)),
    (is_small, "stores/a.py", f"class A:\n{METHODS}"),
    (is_small, "stores/a.py", f"def f():\n{NESTED}"),
    (is_named_for_its_job, "stores/utils.py", ""),
    (is_named_for_its_job, "common/a.py", ""),
    (keeps_no_state, "stores/a.py", "seen = {}"),
    (keeps_no_state, "stores/a.py", "seen: dict[str, Sequence[int]] = {}"),
    (keeps_no_state, "stores/a.py", "seen = collections.defaultdict(list)"),
    (keeps_no_state, "stores/a.py", "def f():\n    global seen\n    seen = 1"),
    (has_a_docstring, "stores/a.py", "x = 1"),
    (has_honest_comments, "stores/a.py", "x = 1  # TODO"),
    (has_honest_comments, "stores/a.py", "x = 1  # pragma: no cover"),
    (has_honest_comments, "stores/a.py", "x = 1  # type: ignore"),
    (has_honest_comments, "stores/a.py", "x = 1  # type: ignore[misc]"),
]
GOOD: Final[list[tuple[Check, str, str]]] = [
    (imports_only_rooms_below, "stores/a.py", "from . import b\nfrom ..contracts import c"),
    (imports_only_rooms_below, "testing/a.py", "from amends import Amends, runtime"),
    (imports_only_rooms_below, "simulation/a.py", "import amends.testing.b, amendsical"),
    (imports_the_test_kit_lazily, "cli/a.py", "def f():\n    from amends import testing"),
    (is_pure, "contracts/a.py", "from datetime import datetime\ndef f(now): return now"),
    (is_pure, "runtime/a.py", "import asyncio"),
    (is_small, "stores/a.py", "def f():\n    if a: ...\n" + "    elif b: ...\n" * 9),
    (keeps_no_state, "stores/a.py", "__all__ = ['a']\na: t.Final = {1: 2}\nb = frozenset({1})"),
    (keeps_no_state, "stores/a.py", "class A:\n    def f(self):\n        seen = {}"),
    (has_honest_comments, "stores/a.py", "x = '# TODO'  # type: ignore[misc]  # untyped library"),
]


@pytest.mark.parametrize(("check", "path", "text"), BAD)
def test_a_check_finds_what_it_is_for(check: Check, path: str, text: str) -> None:
    assert list(check(_module(path, text)))


@pytest.mark.parametrize(("check", "path", "text"), GOOD)
def test_a_check_lets_pass_what_is_allowed(check: Check, path: str, text: str) -> None:
    assert list(check(_module(path, text))) == []
