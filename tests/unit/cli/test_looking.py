"""A store that this user may only read: what is looked at, and what is refused with a way out."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import apsw
import pytest

from amends.cli import exits
from tests.unit.cli.shell import Shell

NOBODY: Final = 65_534
LOOKS: Final = (("tx", "list"), ("tx", "show", "txn_done"), ("verify",), ("export", "txn_done"))


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    """A store with one transaction, in a folder that every user can enter."""
    folder = Path(tempfile.mkdtemp(prefix="amends-looking-"))
    try:
        folder.chmod(0o755)
        shell = Shell(folder, monkeypatch, capsys)
        assert shell.done("txn_done").code == exits.OK
        for tokens in (("tx", "list"), ("tx", "show", "txn_done"), ("export", "txn_done")):
            shell(*tokens)  # whatever is imported on the way cannot be, as somebody else
        shell("verify", "--store", url(shell))
        yield shell
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def url(shell: Shell) -> str:
    return f"sqlite:///{shell.database}"


@contextmanager
def only_reading(
    shell: Shell, *, folder: int, file: int = 0o444, key: int = 0o444
) -> Iterator[None]:
    """As a user who is not the owner, or, where tests run as one, without permission to write."""
    for one in shell.folder.iterdir():
        if one.name.startswith("amends.db"):
            one.chmod(key if one.suffix == ".key" else file)
    shell.folder.chmod(folder)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        shell.folder.chmod(0o755)


def test_what_nobody_can_write_is_looked_at_and_left_as_it_is(shared: Shell) -> None:
    assert not shared.database.with_name("amends.db-wal").exists()
    before = shared.database.read_bytes()
    with only_reading(shared, folder=0o555):
        assert "txn_done" in shared("tx", "list").out
        assert "committed" in shared("tx", "show", "txn_done").out
        assert shared.json("verify", "--store", url(shared)).data["faults"] == []
        bundle = shared("export", "txn_done")
        assert (bundle.code, "txn_done" in bundle.out) == (exits.OK, True)
        assert shared.done("txn_new").error == "store.unavailable"
    assert shared.database.read_bytes() == before


def test_who_may_not_read_the_key_exports_what_others_verify_with_their_keys(
    shared: Shell,
) -> None:
    assert shared.json("keys", "export", "--out", "keys.json").code == exits.OK
    assert shared.json("checkpoint").code == exits.OK
    shared.folder.joinpath("keys.json").chmod(0o444)
    assert shared("prove", "txn_done").code == exits.OK
    with only_reading(shared, folder=0o555, key=0):
        said = shared("export", "txn_done")
        assert (said.code, "not sealed" in said.err) == (exits.OK, True)
        assert shared("prove", "txn_done").code == exits.OK
        kept = shared.json("verify", "--store", url(shared), "--keys", "keys.json")
        assert (kept.code, kept.data["faults"]) == (exits.OK, [])
        assert shared.json("verify", "--store", url(shared)).error == "key.unavailable"
    (shared.folder / "bundle.jsonl").write_text(said.out)
    assert shared.json("verify", "bundle.jsonl", "--keys", "keys.json").error == "bundle.unsealed"
    assert shared.json("export", "txn_done", "--out", "own.jsonl").data["sealed"] is True


def test_a_bundle_without_a_key_says_that_it_is_not_sealed(shared: Shell) -> None:
    with only_reading(shared, folder=0o755, key=0):
        pass
    shared.database.with_name("amends.db.key").unlink()
    said = shared.json("export", "txn_done", "--out", "bare.jsonl")
    assert (said.data["sealed"], said.data["keys"]) == (False, [])
    assert "not sealed" in said.err


def test_a_log_that_lies_beside_the_file_is_read_with_it(shared: Shell) -> None:
    """Another program has the store open, and what it wrote last is in the log alone."""
    held = apsw.Connection(str(shared.database))
    try:
        held.execute("PRAGMA user_version = 7")
        assert shared.database.with_name("amends.db-wal").stat().st_size
        with only_reading(shared, folder=0o755):
            assert "txn_done" in shared("tx", "list").out
            assert shared.json("verify", "--store", url(shared)).code == exits.OK
    finally:
        held.close()


@pytest.mark.parametrize("tokens", LOOKS)
@pytest.mark.parametrize("how", ["log", "journal", "others"])
def test_a_log_is_never_passed_over_and_nothing_is_read_that_others_may_write(
    shared: Shell, how: str, tokens: tuple[str, ...]
) -> None:
    if how == "log":
        held = apsw.Connection(str(shared.database))
        held.execute("PRAGMA user_version = 7")
        log = shared.database.with_name("amends.db-wal")
        kept = log.read_bytes()
        held.close()
        log.write_bytes(kept)
    elif how == "journal":
        shared.database.with_name("amends.db-journal").write_bytes(b"not rolled back")
    with only_reading(shared, folder=0o555, file=0o464 if how == "others" else 0o444):
        more = ("--store", url(shared)) if tokens == ("verify",) else ()
        said = shared(*tokens, *more)
    assert (said.code, "[store.read_only]" in said.err) == (8, True)
    assert "amends backup" in said.err
