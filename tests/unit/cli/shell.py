"""A shell for tests: commands run in this process, over a store and a shop of the test's own."""

import io
import json
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from amends.cli import main
from tests.unit.cli import shop

SHOP: Final = "tests.unit.cli.shop"
PRINCIPALS: Final = """
[[principals]]
id = "olga"
kind = "operator"
os_users = ["*"]

[[principals]]
id = "bob"
scopes = ["amends:approve"]
os_users = ["*"]

[[principals]]
id = "alice"
os_users = ["*"]

[[principals]]
id = "eve"
scopes = []
os_users = ["*"]

[[principals]]
id = "stranger"
tenant = "elsewhere"
os_users = ["*"]

[[principals]]
id = "nobody"
os_users = ["nobody-at-all"]
"""


class Said(NamedTuple):
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on standard output."""
        return json.loads(self.out)

    @property
    def data(self) -> Any:
        """What a command that went well found."""
        assert self.json["ok"], self.err
        return self.json["data"]

    @property
    def error(self) -> str:
        """The code of what went wrong, which is said in both places."""
        code: str = self.json["error"]["code"]
        assert f"[{code}]" in self.err
        assert not self.json["ok"]
        return code


class Terminal(io.StringIO):
    """A terminal on which the answer is typed already."""

    def isatty(self) -> bool:
        return True


class Shell:
    """Runs commands; `shell("plan", …)` as it is typed, `shell.json("plan", …)` for programs."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.folder = folder
        self.database = folder / "amends.db"
        self.principals = folder / "principals.toml"
        self.principals.write_text(PRINCIPALS)
        self.principals.chmod(0o600)
        self.monkeypatch = monkeypatch
        self._capsys = capsys
        monkeypatch.chdir(folder)
        monkeypatch.setenv("AMENDS_STORE", f"sqlite:///{self.database}")
        monkeypatch.setenv("AMENDS_APP", f"{SHOP}:capabilities")
        monkeypatch.setenv(shop.BOOKS, str(folder / "books"))
        monkeypatch.setenv("NO_COLOR", "1")

    def __call__(self, *tokens: str) -> Said:
        self._capsys.readouterr()
        code = main.run(tokens)
        said = self._capsys.readouterr()
        return Said(code, said.out, said.err)

    def json(self, *tokens: str) -> Said:
        """The same, for programs."""
        return self(*tokens, "--json")

    def as_(self, who: str, *tokens: str) -> Said:
        """The same, as a principal of the file."""
        return self.json(*tokens, "--principals", str(self.principals), "--as", who)

    def types(self, text: str) -> None:
        """What is typed at the terminal from now on."""
        self.monkeypatch.setattr(sys, "stdin", Terminal(text))
        self.monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

    def pipes(self, content: bytes) -> None:
        """What comes from a pipe from now on."""
        self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    def planned(self, transaction_id: str, amount: int = 5, *more: str) -> None:
        """A plan that is there."""
        order = json.dumps({"amount": amount})
        ids = ("--transaction-id", transaction_id)
        assert self.json("plan", "payments.charge", "--input", order, *ids, *more).data

    def done(self, transaction_id: str, amount: int = 5) -> Said:
        """Something that is carried out without a plan."""
        order = json.dumps({"amount": amount})
        ids = ("--transaction-id", transaction_id, "--yes")
        return self.json("execute", "payments.charge", "--input", order, *ids)
