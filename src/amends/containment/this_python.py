"""The running Python, and Amends itself, as the program of a container.

The interpreter, its libraries, those of the system, and the code that is named. Programs of the
system are not among it, and neither is the working directory.
"""

import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from amends.containment.description import Link, Program
from amends.containment.provisions import lies_in

_SYSTEM: Final = tuple(
    map(
        Path,
        ("/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/share/zoneinfo", "/etc/ld.so.cache"),
    )
)
_LAYOUT: Final = (Path("/lib"), Path("/lib32"), Path("/lib64"))
_ENVIRONMENT: Final = (
    ("HOME", "/tmp"),  # noqa: S108 - the container's own
    ("LANG", "C.UTF-8"),
    ("PYTHONDONTWRITEBYTECODE", "1"),
    ("TZ", "UTC"),
)


def this_python(
    *,
    code: Iterable[Path] = (),
    state: Iterable[Path] = (),
    environment: Mapping[str, str] | None = None,
) -> Program:
    """What a worker that this Python runs needs.

    `code` are folders that adapters are imported from; they are also searched. `state` are the
    worker's own folders, that of an anchor that is kept elsewhere included. Raises `Misuse`
    (`containment.path_refused`).
    """
    imported = [_plain(folder) for folder in code]
    package = Path(__file__).resolve().parents[1]
    wanted = [*_interpreter(), *_libraries(), *_system(), package, *imported]
    searched = os.pathsep.join(dict.fromkeys(map(str, [*imported, package.parent])))
    return Program(
        interpreter=sys.executable,
        read_only=_least(wanted),
        writable=tuple(str(_plain(folder)) for folder in state),
        links=tuple(Link(str(one), str(one.readlink())) for one in _LAYOUT if one.is_symlink()),
        environment=(
            *_ENVIRONMENT,
            ("PYTHONPATH", searched),
            *(environment or {}).items(),
        ),
    )


def _plain(path: Path) -> Path:
    """Absolute, and without steps back; links on the way stay."""
    return Path(os.path.normpath(path.absolute()))


def _interpreter() -> Iterator[Path]:
    """The file, and every link on the way to it."""
    path = _plain(Path(sys.executable))
    while path.is_symlink():
        yield path
        path = _plain(path.parent / path.readlink())
    yield path
    yield path.resolve()


def _libraries() -> Iterator[Path]:
    if sys.prefix != sys.base_prefix:
        yield Path(sys.prefix)
    for name in ("stdlib", "platstdlib", "purelib", "platlib"):
        yield Path(sysconfig.get_path(name))
    for variable in ("LIBDIR", "DESTSHARED"):
        if named := sysconfig.get_config_var(variable):
            yield Path(str(named))


def _system() -> Iterator[Path]:
    yield from _SYSTEM
    yield from (path for path in _LAYOUT if not path.is_symlink())


def _least(paths: Iterable[Path]) -> tuple[str, ...]:
    """Those that exist, without what lies in another one."""
    there = list(dict.fromkeys(str(path) for path in paths if path.exists()))
    return tuple(
        path for path in there if not any(path != one and lies_in(path, one) for one in there)
    )
