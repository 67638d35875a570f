"""Where the tests of the runtime keep their store: in memory, and where it is cheap in a file."""

from pathlib import Path

import pytest

from amends.testing.fixtures import make_workbench, workbench

__all__ = ["make_workbench", "place", "workbench"]


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """The file of a SQLite store, or none for a store in memory."""
    return tmp_path / "amends.db" if request.param == "sqlite" else None
