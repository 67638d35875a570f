"""The shell that tests of commands are run in."""

from pathlib import Path

import pytest

from tests.unit.cli.shell import Shell


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    return Shell(tmp_path, monkeypatch, capsys)
