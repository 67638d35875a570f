"""The store's signing key: made once, for this user alone, and never half."""

import copy
import json
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from amends.contracts.errors import AmendsError, Unavailable
from amends.receipts.keyset import to_base64url
from amends.receipts.signing import Ed25519Signer, KeyRing
from amends.testing.refusals import refused_with
from amends.wiring.identifiers import Identifiers, new_id, new_owner
from amends.wiring.keys import (
    FileSigner,
    add_keys,
    compromise_key,
    ephemeral_key,
    key_path,
    leftovers,
    load_or_make_key,
    read_keys,
    rotate_key,
)


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


def test_identifiers_of_a_runtime_are_all_different_and_a_forked_child_makes_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ids = Identifiers()
    made = [ids("act_") for _ in range(1000)]
    assert all(one.startswith("act_") and len(one) == 36 for one in made)
    assert len({one[-18:] for one in made}) == 1000
    monkeypatch.setattr(os, "getpid", lambda: 1)
    child = copy.deepcopy(ids)
    monkeypatch.undo()
    left = {ids("act_")[-18:] for _ in range(256)}
    monkeypatch.setattr(os, "getpid", lambda: 1)
    assert left.isdisjoint({child("act_")[-18:] for _ in range(256)})


# ── the ring ─────────────────────────────────────────────────────────────────────────────────────

NOW: Final = datetime(2025, 3, 1, 12, 0, tzinfo=UTC)
DAY: Final = timedelta(days=1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "amends.db.key"
    load_or_make_key(path)
    return path


@pytest.mark.rule("RC-2")
def test_a_rotation_makes_a_new_key_and_keeps_the_public_part_of_the_old_one(path: Path) -> None:
    old = load_or_make_key(path)
    private = path.read_text()
    rotated = rotate_key(path, NOW)
    assert [key.key_id for key in rotated.published] == [old.key_id, rotated.signer.key_id]
    assert [(key.since, key.until) for key in rotated.published] == [(None, NOW), (NOW, None)]
    assert read_keys(path).published == rotated.published
    assert read_keys(path).signer.key_id == rotated.signer.key_id
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    gone = json.loads(private)["keys"][0]["d"]
    assert gone not in path.read_text()
    assert [one.name for one in path.parent.iterdir()] == [path.name]


@pytest.mark.rule("RC-2")
def test_a_file_of_an_earlier_version_can_be_read_and_rotated(tmp_path: Path) -> None:
    path = tmp_path / "amends.db.key"
    path.write_text("07" * 32 + "\n")
    old = load_or_make_key(path)
    assert old.public_key == Ed25519Signer(b"\7" * 32).public_key
    assert rotate_key(path, NOW).published[0].key_id == old.key_id
    assert len(read_keys(path).ring) == 2


@pytest.mark.rule("RC-2")
def test_what_runs_notices_a_rotation_and_goes_on_without_a_file(path: Path) -> None:
    signer = FileSigner(path)
    first = signer.key_id
    second = rotate_key(path, NOW).signer.key_id
    assert signer.held().key_id == signer.key_id == second != first
    assert signer.public_key == signer.held().public_key
    assert signer.ring.confirms(second, b"x", signer.sign(b"x").hex())
    path.write_text("{")
    assert signer.key_id == second
    path.unlink()
    assert signer.key_id == second


@pytest.mark.rule("RC-2")
def test_rotations_at_once_lose_no_key(path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: rotate_key(path, NOW).signer.key_id, range(16)))
    assert len(set(made)) == 16
    assert {key.key_id for key in read_keys(path).published} >= set(made)
    assert len(read_keys(path).published) == 17


@pytest.mark.rule("RC-2")
def test_a_key_in_use_that_was_in_other_hands_is_rotated_at_once(path: Path) -> None:
    key_id = load_or_make_key(path).key_id
    keys = compromise_key(path, key_id, NOW - DAY, NOW)
    old, new = keys.published
    assert (old.compromised, old.until, new.compromised) == (NOW - DAY, NOW, None)
    assert keys.signer.key_id == new.key_id
    later = compromise_key(path, key_id, NOW, NOW + DAY)
    assert later.published == keys.published, "the earlier instant stands"
    earlier = compromise_key(path, key_id, NOW - 2 * DAY, NOW + DAY)
    assert earlier.published[0].compromised == NOW - 2 * DAY
    with refused_with("key.unknown"):
        compromise_key(path, "0" * 16, NOW, NOW)


@pytest.mark.rule("RC-2")
@pytest.mark.parametrize("step", range(8))
def test_a_rotation_that_is_killed_at_any_step_leaves_a_store_that_can_sign(
    path: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dies before each call to the system in turn; what is there knows every key that signed."""
    before = read_keys(path)
    calls = count(0)

    def dying(real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **named: object) -> object:
            if next(calls) == step:
                raise Killed
            return real(*args, **named)

        return call

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", dying(os.open))
        patched.setattr(os, "fsync", dying(os.fsync))
        patched.setattr(Path, "replace", dying(Path.replace))
        patched.setattr(Path, "unlink", lambda *_, **__: None)
        with suppress(Killed):
            rotate_key(path, NOW)
    after = read_keys(path)
    assert before.signer.key_id in after.ring
    assert after.ring.confirms(after.signer.key_id, b"x", after.signer.sign(b"x").hex())
    assert rotate_key(path, NOW).signer.key_id not in before.ring
    left = leftovers(path)
    assert all(stat.S_IMODE((path.parent / name).stat().st_mode) == 0o600 for name in left)


class Killed(BaseException):
    """Nothing is done any more."""


def test_keys_that_cannot_be_replaced_are_left_as_they_are(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "no space")

    monkeypatch.setattr(os, "fsync", full)
    with refused_with("key.unavailable"):
        rotate_key(path, NOW)
    assert path.read_bytes() == before
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_keys_that_are_not_there_cannot_be_rotated(tmp_path: Path) -> None:
    with refused_with("key.unavailable"):
        rotate_key(tmp_path / "none.key", NOW)


@pytest.mark.parametrize(
    "content",
    [
        '{"keys":[]}',
        '{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AAAA"}]}',
        "{",
        "{}",
    ],
)
def test_a_set_without_a_key_to_sign_with_is_corrupt(content: str, tmp_path: Path) -> None:
    path = tmp_path / "amends.db.key"
    path.write_text(content)
    with refused_with("key.corrupt"):
        load_or_make_key(path)


def test_halves_that_do_not_belong_together_are_corrupt(path: Path) -> None:
    document = json.loads(path.read_text())
    document["keys"][0]["d"] = to_base64url(bytes(32))
    path.write_text(json.dumps(document))
    with refused_with("key.corrupt"):
        read_keys(path)


def test_keys_of_others_are_added_before_ones_own_and_nothing_that_is_known_changes(
    path: Path,
) -> None:
    others = KeyRing([ephemeral_key().public_key, ephemeral_key().public_key])
    ours = load_or_make_key(path)
    for _ in range(2):
        keys = add_keys(path, others, NOW)
        assert [one.key_id for one in keys.published] == [
            *(one.key_id for one in others.published),
            ours.key_id,
        ]
        assert read_keys(path).published == keys.published
    assert keys.published[-1].since is None
    path.unlink()
    begun = add_keys(path, others, NOW)
    assert begun.published[-1].since == NOW
    assert begun.signer.key_id != ours.key_id
