"""What runs inside a container tells the truth where nothing is contained."""

import os
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from amends.containment import inside


def look(**asked: list[str]) -> Any:
    return inside.look(
        {"namespaces": [], "write": [], "sealed": [], "read": [], "reach": []} | asked
    )


@pytest.mark.parametrize("name", ["pid", "net", "ipc", "uts", "mnt", "user"])
def test_it_names_the_namespaces_that_it_is_in(name: str) -> None:
    own = str(Path(f"/proc/self/ns/{name}").readlink())
    assert look(namespaces=[name])["namespaces"] == {name: own}


def test_it_finds_what_it_can_write_and_leaves_it_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("kept")
    paths = [str(tmp_path), str(file), str(tmp_path / "none" / "none")]
    assert look(write=paths)["written"] == paths[:2]
    assert file.read_text() == "kept"
    assert list(tmp_path.iterdir()) == [file]


def test_it_finds_what_it_can_read(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert look(read=[str(file), str(tmp_path / "none")])["read"] == [str(file)]


def test_what_is_mounted_to_be_written_is_not_sealed(tmp_path: Path) -> None:
    assert look(sealed=[str(tmp_path), str(tmp_path / "none")])["not_sealed"] == [str(tmp_path)]


def test_it_reaches_a_socket_of_its_own_network() -> None:
    name = f"amends-test-{os.getpid()}"
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as end:
        end.bind("\0" + name)
        end.listen()
        assert look(reach=[name])["reached"] == [name]
    assert look(reach=[name])["reached"] == []


def test_it_sees_its_processes_descriptors_session_and_capabilities() -> None:
    ours, theirs = os.pipe()
    try:
        found = look()
    finally:
        os.close(ours)
        os.close(theirs)
    assert os.getpid() in found["processes"]
    assert {ours, theirs} <= set(found["descriptors"])
    assert (found["session"], found["user"]) == (os.getsid(0), os.getuid())
    assert set(found["status"]) == {"NoNewPrivs", "CapPrm", "CapEff", "CapBnd", "CapAmb"}
    assert "lo" in found["interfaces"]


def test_it_sees_its_own_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMENDS_TRIED", "1")
    assert "AMENDS_TRIED" in look()["environment"]


def test_it_reads_the_variables_of_a_process_that_lets_it() -> None:
    sleeper = subprocess.Popen(
        [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "AMENDS_THEIRS": "1"},
    )
    assert sleeper.stdout is not None
    try:
        sleeper.stdout.readline()
        assert "AMENDS_THEIRS" in inside._environment_of(str(sleeper.pid))
    finally:
        sleeper.communicate()
    assert inside._environment_of("none") == set()
