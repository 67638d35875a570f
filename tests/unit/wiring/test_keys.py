"""The store's signing key: made once, for this user alone, and never half."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from amends.contracts.errors import AmendsError, Unavailable
from amends.testing.refusals import refused_with
from amends.wiring.identifiers import new_id, new_owner
from amends.wiring.keys import ephemeral_key, key_path, load_or_make_key


@pytest.mark.rule("RC-2")
def test_a_key_is_made_beside_its_database_for_its_owner_alone(tmp_path: Path) -> None:
    path = key_path(tmp_path / "amends.db")
    signer = load_or_make_key(path)
    assert path.name == "amends.db.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_or_make_key(path).public_key == signer.public_key
    assert [one.name for one in tmp_path.iterdir()] == ["amends.db.key"]
    assert signer.public_key.hex() not in path.read_text()


@pytest.mark.rule("RC-2")
def test_many_openings_at_once_agree_on_one_key(tmp_path: Path) -> None:
    path = tmp_path / "amends.db.key"
    with ThreadPoolExecutor(8) as pool:
        signers = list(pool.map(load_or_make_key, [path] * 32))
    assert len({one.public_key for one in signers}) == 1
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("content", ["", "zz" * 32, "ab" * 31, "ab" * 33, "-----BEGIN KEY-----"])
def test_a_file_that_holds_no_key_is_corrupt_and_is_not_replaced(
    content: str, tmp_path: Path
) -> None:
    path = tmp_path / "amends.db.key"
    path.write_text(content)
    with refused_with("key.corrupt"):
        load_or_make_key(path)
    assert path.read_text() == content


def test_a_key_that_cannot_be_read_or_made_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "amends.db.key"
    folder.mkdir()
    foreign = tmp_path / "foreign.key"
    foreign.write_bytes(b"\xff\xfe")
    for path in (folder, foreign, tmp_path / "nowhere" / "amends.db.key"):
        with pytest.raises(AmendsError) as caught:
            load_or_make_key(path)
        assert isinstance(caught.value, Unavailable)
        assert caught.value.code == "key.unavailable"
        assert str(tmp_path) not in str(caught.value)


def test_keys_of_a_memory_differ() -> None:
    assert ephemeral_key().public_key != ephemeral_key().public_key


def test_identifiers_are_ordered_and_owners_are_never_the_same() -> None:
    ids = [new_id("act_") for _ in range(3)]
    assert all(one.startswith("act_") and len(one) == 36 for one in ids)
    assert len(set(ids)) == 3
    assert new_owner() != new_owner()
    assert str(os.getpid()) in new_owner()
