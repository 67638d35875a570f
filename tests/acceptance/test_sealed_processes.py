"""Sealed records and real processes: one writer at a time, and `kill -9` in mid-save."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from amends.sealed.vault import Vault
from tests.unit.sealed.stage import storage_in

Process: TypeAlias = subprocess.Popen[str]

PROGRAM: Final = Path(__file__).with_name("sealed_child.py")
ROOT: Final = Path(__file__).parents[2]
KILLS: Final = 5


@contextmanager
def a_writer(folder: Path) -> Iterator[Process]:
    """A process that has opened the record."""
    paths = os.pathsep.join(filter(None, [str(ROOT), *sys.path]))
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def heard(process: Process) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: Process, line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


@pytest.mark.rule("ST-3")
@pytest.mark.fault(40)
def test_the_later_of_two_processes_writes_and_the_earlier_is_fenced_out(tmp_path: Path) -> None:
    Vault.initialise(storage_in(tmp_path), b"0")
    with a_writer(tmp_path) as one:
        assert int(heard(one)) == 2
        tell(one, "1")
        assert heard(one) == "saved"
        with a_writer(tmp_path) as other:
            assert int(heard(other)) == 3
            tell(one, "2")
            assert heard(one) == "sealed.fenced"
            tell(one, "3")
            assert heard(one) == "sealed.poisoned"
            tell(other, "4")
            assert heard(other) == "saved"
    assert Vault.open(storage_in(tmp_path)).payload == b"4"


@pytest.mark.rule("ST-2", "ST-6")
@pytest.mark.fault(39)
def test_a_writer_that_is_killed_loses_nothing_that_it_said_was_durable(tmp_path: Path) -> None:
    Vault.initialise(storage_in(tmp_path), b"0")
    for kills in range(KILLS):
        with a_writer(tmp_path) as writer:
            heard(writer)
            tell(writer, "count")
            said = [int(heard(writer)) for _ in range(3 + kills)][-1]
        found = int(Vault.open(storage_in(tmp_path)).payload)
        assert found >= said
