"""Real containers to break out of: once as the user of the tests, and once as nobody, if root can.

Each has a ground of its own: folders and files that are granted, and some that are not and that
every user of the machine may read and write, so that only the container keeps anybody out.
"""

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from msgspec.structs import replace

from amends.containment.bubblewrap import arguments
from amends.containment.description import Containment, Link, Program, describe
from amends.containment.probing import find_bubblewrap
from amends.containment.provisions import FileRoot, Provision, SecretFile
from amends.containment.this_python import this_python
from amends.contracts.worker_grant import CapabilityGrant, Resource, ResourceKind

NOBODY: Final = 65534
IN: Final = Resource(ResourceKind.FILE_ROOT, "in")
OUT: Final = Resource(ResourceKind.FILE_ROOT, "out")
TOKEN: Final = Resource(ResourceKind.SECRET, "token")
OTHERS_PYTHONS: Final = ("/usr/bin/python3", "/usr/local/bin/python3")


class Ground(NamedTuple):
    """What lies around the container."""

    folder: Path

    @property
    def granted(self) -> Path:
        return self.folder / "granted"

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def token(self) -> Path:
        return self.folder / "token"

    @property
    def hidden(self) -> Path:
        return self.folder / "hidden"


class Container(NamedTuple):
    """A container, how it is entered, and its ground."""

    ground: Ground
    bubblewrap: tuple[str, ...]
    containment: Containment

    @property
    def environment(self) -> dict[str, str]:
        return dict(self.containment.environment)

    def command(self, program: str, *words: str) -> list[str]:
        """The command that runs this program inside."""
        inner = (self.containment.interpreter, "-c", program, *words)
        return [*self.bubblewrap, *arguments(self.containment), *inner]

    def run(self, program: str, *words: str, **options: Any) -> Any:
        """What a program prints inside, as JSON."""
        ended = subprocess.run(
            self.command(program, *words),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            **options,
        )
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    def granting(self, provisions: Mapping[Resource, Provision], program: Program) -> "Container":
        """The same with other grants."""
        grant = replace(CapabilityGrant.json("tried"), resources=tuple(provisions))
        return self._replace(containment=describe(program, [grant], provisions))


@contextmanager
def a_container(user: str) -> Iterator[Container]:
    """A container of this user, or of nobody."""
    with tempfile.TemporaryDirectory(prefix="amends-contained-") as folder:
        ground = _laid_out(Path(folder))
        program = program_of(user, ground)
        provisions: dict[Resource, Provision] = {
            IN: FileRoot(str(ground.granted)),
            OUT: FileRoot(str(ground.out), writable=True),
            TOKEN: SecretFile(str(ground.token)),
        }
        empty = Container(ground, entered_by(user), describe(program, (), {}))
        yield empty.granting(provisions, program)


def _laid_out(folder: Path) -> Ground:
    ground = Ground(folder)
    folder.chmod(0o755)
    for one in (ground.granted, ground.out, ground.state, ground.hidden):
        one.mkdir()
        one.chmod(0o777)
    for file in (ground.granted / "file", ground.hidden / "file", ground.token):
        file.write_text("untouched")
        file.chmod(0o666)
    return ground


def need_namespaces(user: str) -> None:
    """Expect the test to fail where the kernel refuses; another test shows what is said then."""
    if not namespaces_are_made(user):
        pytest.xfail("the kernel lets this user make no namespaces")


def users() -> list[str]:
    """As whom containers can be tried here."""
    return ["ourselves", "nobody"] if os.geteuid() == 0 else ["ourselves"]


def entered_by(user: str) -> tuple[str, ...]:
    """How `bwrap` is called as this user."""
    if user == "ourselves":
        return find_bubblewrap()
    setpriv = shutil.which("setpriv")
    assert setpriv, "setpriv, of the package util-linux, is not there"
    become = (f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    return (setpriv, *become, *find_bubblewrap())


def program_of(user: str, ground: Ground) -> Program:
    """This Python; for nobody one that everybody may read, which root's own often is not."""
    program = this_python(state=[ground.state])
    if user == "ourselves" or all(map(_open_to_all, program.read_only)):
        return program
    python = python_for_all()
    paths = [python, os.path.realpath(python), "/usr/lib", "/usr/lib64", "/usr/local/lib"]
    return Program(
        interpreter=python,
        read_only=tuple(dict.fromkeys(filter(os.path.exists, paths))),
        writable=program.writable,
        links=tuple(Link(link.path, link.target) for link in program.links),
        environment=(("LANG", "C.UTF-8"),),
    )


def python_for_all() -> str:
    """A Python that everybody may run."""
    python = next(filter(_open_to_all, (sys.executable, *OTHERS_PYTHONS)), None)
    assert python, "no Python that everybody may run: apt-get install python3"
    return python


def _open_to_all(path: str) -> bool:
    real = Path(path).resolve()
    return real.exists() and all(
        one.stat().st_mode & (stat.S_IXOTH if one.is_dir() else stat.S_IROTH)
        for one in (real, *real.parents)
    )


def namespaces_are_made(user: str) -> bool:
    """Whether the kernel lets this user make namespaces; asked without any code of ours."""
    tried = [*entered_by(user), "--unshare-user", "--ro-bind", "/", "/", "--", sys.executable]
    words = ["true"] if user == "nobody" else [*tried[-1:], "-c", ""]
    return subprocess.run([*tried[:-1], *words], capture_output=True, check=False).returncode == 0
