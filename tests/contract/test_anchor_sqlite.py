"""The anchor's contract over a SQLite file."""

import shutil
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from amends.sealed.sqlite_anchor import SqliteAnchor
from amends.testing.anchor_contract import AnchorBench, AnchorContract
from amends.wiring.anchors import OpenAnchor


class SqliteBench(AnchorBench):
    """A file in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._file, self._kept = folder / "anchor.db", folder / "kept.db"
        SqliteAnchor.create_file(self._file)

    def open(self) -> OpenAnchor:
        return SqliteAnchor.open_file(self._file)

    def keep(self) -> None:
        shutil.copy2(self._file, self._kept)

    def put_back(self) -> None:
        shutil.copy2(self._kept, self._file)

    def reseatings(self) -> list[tuple[str, str]]:
        with closing(apsw.Connection(str(self._file))) as connection:
            return list(connection.execute("SELECT who, why FROM reseatings ORDER BY rowid"))


class TestSqliteAnchor(AnchorContract):
    """As it is used."""

    @pytest.fixture
    def bench(self, tmp_path: Path) -> AnchorBench:
        return SqliteBench(tmp_path)
