"""A folder of sealed records: explicit, private, and never made anew (ST-2, ST-6)."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from amends.contracts.errors import AmendsError
from amends.sealed.envelopes import Place
from amends.sealed.used_names import UsedNames
from amends.sealed.vault import Vault
from amends.testing.faulty_disk import FaultyDisk
from amends.testing.refusals import refused_with
from amends.wiring.sealing import ANCHOR, KEYS, SealedFolder

PLACE = Place("workflow-ledger", "release-42")


def test_a_record_is_kept_in_a_folder_and_found_again(tmp_path: Path) -> None:
    with closing(SealedFolder.make(tmp_path / "state")) as folder:
        Vault.initialise(folder.storage(PLACE, max_bytes=100), b"x" * 100)
    with closing(SealedFolder.open(tmp_path / "state")) as folder:
        assert Vault.open(folder.storage(PLACE, max_bytes=100)).payload == b"x" * 100
    modes = [path.stat().st_mode & 0o077 for path in (tmp_path / "state").rglob("*")]
    assert set(modes) == {0}


def test_the_anchor_can_lie_elsewhere_and_encryption_hides_the_payload(tmp_path: Path) -> None:
    anchor = tmp_path / "elsewhere.db"
    with closing(SealedFolder.make(tmp_path / "state", anchor=anchor)) as folder:
        storage = folder.storage(PLACE, max_bytes=100, encrypted=True)
        Vault.initialise(storage, b"secret" * 10)
    stored = (tmp_path / "state" / PLACE.namespace / PLACE.name).read_bytes()
    assert b"c2VjcmV0" not in stored
    assert not (tmp_path / "state" / ANCHOR).exists()
    with closing(SealedFolder.open(tmp_path / "state", anchor=anchor)) as folder:
        assert Vault.open(folder.storage(PLACE, max_bytes=100)).payload == b"secret" * 10


def test_a_folder_is_made_once_and_what_is_lost_is_not_made_anew(tmp_path: Path) -> None:
    SealedFolder.make(tmp_path / "state").close()
    with refused_with("sealed.initialised"):
        SealedFolder.make(tmp_path / "state")
    (tmp_path / "state" / ANCHOR).unlink()
    with refused_with("sealed.anchor_unreachable"):
        SealedFolder.open(tmp_path / "state")
    (tmp_path / "state" / KEYS).unlink()
    with refused_with("sealed.keys_unavailable"):
        SealedFolder.open(tmp_path / "state")


@pytest.mark.parametrize(
    "content", [b"", b"{}", b'{"active":"a","keys":{"a":"zz"}}', b'{"active":"a","keys":{}}']
)
def test_a_key_file_that_holds_no_ring_is_refused(tmp_path: Path, content: bytes) -> None:
    SealedFolder.make(tmp_path / "state").close()
    (tmp_path / "state" / KEYS).write_bytes(content)
    with refused_with("sealed.keys_malformed"):
        SealedFolder.open(tmp_path / "state")


@pytest.mark.rule("ST-6")
def test_keys_that_others_can_read_or_that_are_a_link_are_not_used(tmp_path: Path) -> None:
    SealedFolder.make(tmp_path / "state").close()
    keys = tmp_path / "state" / KEYS
    keys.chmod(0o640)
    with refused_with("sealed.file_unsafe"):
        SealedFolder.open(tmp_path / "state")
    keys.chmod(0o600)
    keys.rename(tmp_path / "elsewhere")
    keys.symlink_to(tmp_path / "elsewhere")
    with refused_with("sealed.keys_unavailable"):
        SealedFolder.open(tmp_path / "state")


@pytest.mark.rule("ST-6")
def test_the_names_of_folders_and_keys_are_durable_once_they_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[int] = []
    flush = os.fsync

    def note(descriptor: int) -> None:
        flushed.append(os.fstat(descriptor).st_ino)
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    with closing(SealedFolder.make(tmp_path / "state")) as folder:
        state = tmp_path / "state"
        assert flushed == [path.stat().st_ino for path in (tmp_path, state / KEYS, state)]
        folder.private("records")
        folder.private("records")
    assert flushed[3:] == [state.stat().st_ino]


def test_a_place_where_no_folder_can_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with refused_with("sealed.file_unsafe"):
        SealedFolder.make(tmp_path / "file" / "state")
    folder = SealedFolder.make(tmp_path / "state")
    with closing(folder), refused_with("sealed.file_unsafe"):
        folder.private("no/such")


# ── names that are used once ─────────────────────────────────────────────────────────────────────


def names_in(tmp_path: Path, disk: FaultyDisk | None = None) -> UsedNames:
    folder = tmp_path / "sessions"
    folder.mkdir(mode=0o700, exist_ok=True)
    return UsedNames(folder, disk=disk)


@pytest.mark.rule("WS-4")
def test_a_name_is_used_once_for_ever(tmp_path: Path) -> None:
    names_in(tmp_path).take("session-1")
    names_in(tmp_path).take("session-2")
    with refused_with("worker.session_used"):
        names_in(tmp_path).take("session-1")


@pytest.mark.rule("WS-4", "ST-6")
def test_a_name_that_may_not_be_durable_is_not_used(tmp_path: Path) -> None:
    disk = FaultyDisk()
    names_in(tmp_path, disk).take("first")
    calls = len(disk.calls)
    for number in range(1, calls):
        disk = FaultyDisk()
        disk.fail_at(number)
        with pytest.raises(AmendsError) as caught:
            names_in(tmp_path, disk).take(f"session-{number}")
        assert caught.value.code in {"sealed.write_failed", "sealed.file_unsafe"}


def test_a_folder_that_others_can_read_is_refused(tmp_path: Path) -> None:
    names = names_in(tmp_path)
    (tmp_path / "sessions").chmod(0o755)
    with refused_with("sealed.file_unsafe"):
        names.take("session-1")
