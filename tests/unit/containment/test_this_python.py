"""The program of a container is the running Python and the code that is named; no more."""

import sys
from pathlib import Path

import pytest

import amends
from amends.containment.provisions import lies_in
from amends.containment.this_python import this_python


def test_the_interpreter_and_every_link_to_it_are_there() -> None:
    program = this_python()
    path = Path(program.interpreter)
    while True:
        assert any(lies_in(str(path), one) for one in program.read_only)
        if not path.is_symlink():
            break
        path = path.parent / path.readlink()


def test_amends_itself_can_be_imported_and_nothing_beside_it_is_there() -> None:
    program = this_python()
    package = Path(amends.__file__).resolve().parent
    assert any(lies_in(str(package), one) for one in program.read_only)
    assert str(package.parent) in dict(program.environment)["PYTHONPATH"].split(":")
    assert not any(lies_in(str(Path(__file__)), one) for one in program.read_only)


def test_the_working_directory_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not any(lies_in(str(tmp_path), one) for one in this_python().read_only)


def test_code_is_searched_state_can_be_written_and_variables_are_added(tmp_path: Path) -> None:
    code, state = tmp_path / "code", tmp_path / "state"
    code.mkdir()
    program = this_python(code=[code], state=[state], environment={"REGION": "eu"})
    assert str(code) in program.read_only
    assert program.writable == (str(state),)
    environment = dict(program.environment)
    assert environment["PYTHONPATH"].split(":")[0] == str(code)
    assert environment["REGION"] == "eu"
    assert not {"PATH", "USER"} & environment.keys()


def test_what_lies_in_another_path_is_named_once() -> None:
    paths = this_python().read_only
    assert [(a, b) for a in paths for b in paths if a != b and lies_in(a, b)] == []
    assert all(Path(path).exists() for path in paths)


def test_a_python_without_an_environment_of_its_own_brings_no_prefix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    assert sys.base_prefix not in this_python().read_only
