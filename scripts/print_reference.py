"""Prints the reference of the library from its source: signatures as written, and docstrings.

What `amends` exports becomes `docs/reference/library.md`, the contracts that capabilities declare
become `docs/reference/declarations.md`, what `amends check` tells becomes
`docs/reference/checks.md`. A test compares them with the source as it is now.

Signatures are read from the source and not from the running objects, since these print differently
from one version of Python to the next.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final, NewType, TypeAlias

from amends import blocking
from amends.app import public
from amends.connectors.signals import Signal
from amends.contracts import approval_policy, declarations
from amends.contracts.errors import AmendsError
from amends.transactions.registration import DEMANDS
from amends.transactions.risks import RISKS, UNKNOWN_ACCEPTED

ROOT: Final = Path(__file__).parents[1]
LIBRARY: Final = "docs/reference/library.md"
DECLARATIONS: Final = "docs/reference/declarations.md"
CHECKS: Final = "docs/reference/checks.md"
DECLARED: Final = (declarations, approval_policy)
MADE: Final = "This page is printed from the source by `make docs`. Do not edit it.\n"
WIDTH: Final = 88
MIXINS: Final = "amends.app."
"""Where a class may be split into parts that readers see as one."""

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def pages() -> dict[str, str]:
    """Every generated page: its path from the root, and its text."""
    return {LIBRARY: library(), DECLARATIONS: declared(), CHECKS: checks()}


def library() -> str:
    """The page of what `amends` exports, and of its blocking twin."""
    head = (
        f"# The library\n\n{MADE}\nEverything here is imported from `amends`. What a capability "
        "declares is in\n[declarations.md](declarations.md), codes and enumerations are in\n"
        "[the tables](../spec/tables.md).\n"
    )
    names = sorted(public.__all__, key=lambda name: (_is_error(name), name.lower()))
    entries = [_entry(name, getattr(public, name)) for name in names if not _is_declared(name)]
    portal = f"## `{blocking.__name__}`\n\n{inspect.getdoc(blocking)}\n"
    return "\n".join([head, *entries, portal])


def declared() -> str:
    """The page of contracts and approval policies."""
    parts = [
        f"# What a capability declares\n\n{MADE}\nThe arguments of `amends.capability` take these "
        "records. Durations are milliseconds. The values\nof the enumerations are in "
        "[the tables](../spec/tables.md#enumerations). What `amends` does not export\nis imported "
        "from the module that heads its part.\n"
    ]
    for module in DECLARED:
        parts.append(f"## `{module.__name__}`\n\n{inspect.getdoc(module)}\n")
        parts += [_entry(kind.__name__, kind, level=3) for kind in _own_classes(module)]
    return "\n".join(parts)


def checks() -> str:
    """The page of what `amends check` tells."""
    rows = [f"| `{one.code}` | {one.weight} | {one.why} | {one.todo} |" for one in RISKS]
    faults = [f"| `{one.code}` | {one.text} |" for one in DEMANDS]
    parts = (
        f"# What `amends check` tells\n\n{MADE}\nA risk fails the check until it is changed or "
        "accepted: by `--silence CODE`, by `--silence\ncapability.id:CODE`, or by "
        "`accepted_risks` in the declaration. A note fails nothing. A declaration\nthat accepts "
        f"a code which there is not has the risk `{UNKNOWN_ACCEPTED}`.\n",
        "## Risks\n\n| code | weight | why | what to do |\n| --- | --- | --- | --- |",
        "\n".join(rows),
        "\n## Faults\n\nA fault keeps a capability from being registered, and cannot be silenced. "
        "Schemas, pointers and ids\nthat do not hold are faults as well.\n\n| code | what is "
        "wrong |\n| --- | --- |",
        "\n".join(faults),
    )
    return "\n".join(parts) + "\n"


def _is_declared(name: str) -> bool:
    module = getattr(getattr(public, name), "__module__", None)
    return module in {module.__name__ for module in DECLARED}


def _defined(name: str) -> str:
    """The line by which a module that `public` imports from defines an alias or a new type."""
    for module in _imported(ast.parse(inspect.getsource(public))):
        for node in ast.walk(ast.parse(inspect.getsource(import_module(module)))):
            match node:
                case ast.Assign([ast.Name(found)]) | ast.AnnAssign(ast.Name(found)) if (
                    found == name
                ):
                    return ast.unparse(node)
    raise LookupError(name)


def _imported(tree: ast.Module) -> Iterator[str]:
    return (node.module for node in tree.body if isinstance(node, ast.ImportFrom) if node.module)


def _own_classes(module: ModuleType) -> Iterator[type]:
    for value in vars(module).values():
        if isinstance(value, type) and value.__module__ == module.__name__:
            yield value


def _is_error(name: str) -> bool:
    value = getattr(public, name)
    return isinstance(value, type) and issubclass(value, AmendsError)


def _entry(name: str, value: object, level: int = 2) -> str:
    head = f"{'#' * level} `{name}`\n"
    doc = f"{inspect.getdoc(value)}\n"
    if getattr(value, "__name__", None) != name or isinstance(value, NewType):
        return f"{head}\n{_fenced(_defined(name))}"
    if not isinstance(value, type):
        return "\n".join([head, _fenced(_signature(_function(value))), doc])
    parts = [head, doc]
    if fields := list(_fields(value)):
        parts.append(_fenced("\n".join(fields)))
    if issubclass(value, Signal):
        parts.append(_fenced(_signature(_constructor(value))))
    parts += [_method(method, level + 1) for method in _methods(value)]
    return "\n".join(parts)


def _fenced(code: str) -> str:
    return f"```python\n{code}\n```\n"


def _tree(value: object) -> ast.stmt:
    source = inspect.getsource(value)  # type: ignore[arg-type]  # a class or a function, as exported
    return ast.parse(textwrap.dedent(source)).body[0]


def _function(value: object) -> Function:
    tree = _tree(value)
    assert isinstance(tree, Function)
    return tree


def _bodies(kind: type) -> Iterator[list[ast.stmt]]:
    """The class and the parts it is made of."""
    for part in kind.__mro__:
        if part is kind or part.__module__.startswith(MIXINS):
            tree = _tree(part)
            assert isinstance(tree, ast.ClassDef)
            yield tree.body


def _fields(kind: type) -> Iterator[str]:
    for body in _bodies(kind):
        for statement in body:
            if isinstance(statement, ast.AnnAssign) and not _is_constant(statement):
                yield ast.unparse(statement)


def _is_constant(statement: ast.AnnAssign) -> bool:
    return ast.unparse(statement.annotation).startswith(("ClassVar", "Final"))


def _constructor(kind: type) -> Function:
    """How a handler makes what it raises; other constructors are the library's own business."""
    made = [one for body in _bodies(kind) for one in body if isinstance(one, Function)]
    return next(one for one in made if one.name == "__init__")


def _methods(kind: type) -> Iterator[Function]:
    for body in _bodies(kind):
        for statement in body:
            if isinstance(statement, Function) and _is_shown(statement):
                yield statement


def _is_shown(function: Function) -> bool:
    """Public and documented; overloads are left out."""
    return not function.name.startswith("_") and ast.get_docstring(function) is not None


def _method(function: Function, level: int) -> str:
    decorators = [f"@{ast.unparse(one)}\n" for one in function.decorator_list]
    signature = "".join(decorators) + _signature(function)
    doc = inspect.cleandoc(ast.get_docstring(function) or "")
    return f"{'#' * level} `{function.name}`\n\n{_fenced(signature)}\n{doc}\n"


def _signature(function: Function) -> str:
    """The first lines of a function as written, with one argument a line when they are many."""
    word = "async def" if isinstance(function, ast.AsyncFunctionDef) else "def"
    returns = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    told = list(_arguments(function.args))
    line = f"{word} {function.name}({', '.join(told)}){returns}"
    if len(line) <= WIDTH:
        return line
    lines = "".join(f"    {one},\n" for one in told)
    return f"{word} {function.name}(\n{lines}){returns}"


def _arguments(arguments: ast.arguments) -> Iterator[str]:
    plain = [*arguments.posonlyargs, *arguments.args]
    without = [None] * (len(plain) - len(arguments.defaults))
    for place, pair in enumerate(zip(plain, [*without, *arguments.defaults], strict=True)):
        if place and place == len(arguments.posonlyargs):
            yield "/"
        yield _argument(*pair)
    if arguments.vararg or arguments.kwonlyargs:
        yield f"*{ast.unparse(arguments.vararg) if arguments.vararg else ''}"
    for pair in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _argument(*pair)
    if arguments.kwarg:
        yield f"**{ast.unparse(arguments.kwarg)}"


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    equals = "" if default is None else f" = {ast.unparse(default)}"
    return ast.unparse(argument) + equals


def main() -> None:
    """Write every generated page."""
    for path, text in pages().items():
        (ROOT / path).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
