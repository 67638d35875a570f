"""The command line in processes of its own, and processes that die in an operation."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import apsw

from tests.acceptance.children import SAME_CODE

ROOT: Final = Path(__file__).parents[2]
PROGRAM: Final = Path(__file__).with_name("operations_children.py")
WAIT_S: Final = 60
APP: Final = "tests.acceptance.disk_full_app:charge"


def environment(**more: str) -> Mapping[str, str]:
    """This environment, in which the same code is found."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join((SAME_CODE, str(ROOT))), **more}


def amends(*tokens: str, **more: str) -> tuple[int, Any]:
    """Run a command; its exit code and its one document."""
    done = subprocess.run(
        [sys.executable, "-m", "amends", *tokens, "--json"],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        env=environment(**more),
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


def start(part: str, *arguments: object, **more: str) -> "subprocess.Popen[str]":
    """Start a part of `operations_children`."""
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), part, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(**more),
    )


def integrity(path: Path) -> object:
    """What SQLite finds wrong with a file."""
    connection = apsw.Connection(str(path))
    found = connection.pragma("integrity_check")
    connection.close()
    return found
