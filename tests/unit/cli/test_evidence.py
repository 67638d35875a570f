"""Keys, checkpoints and bundles by command: every way of spoiling evidence has a verdict.

Each spoiler does with a bundle or a store what somebody could do who has some access and no key, or
a key of another store; the table says what the command then says.
"""

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw
import msgspec
import pytest

from amends.cli import exits
from amends.cli.operations.faults import EXIT_OF_FAULT
from amends.contracts.evidence import Receipt, Tail
from amends.contracts.times import format_instant
from amends.receipts.bundle import Bundle, ChainLine, Header, write_lines
from amends.receipts.chain import GENESIS, receipt_hash, seal
from amends.receipts.signing import Ed25519Signer, signed_bytes
from amends.wiring.keys import key_path, read_keys
from tests.unit.cli.shell import Said, Shell

FOREIGN: Final = Ed25519Signer(b"\7" * 32)


@pytest.fixture
def filled(shell: Shell) -> Shell:
    """Two transactions that are done, a checkpoint that was handed out, and the pinned keys."""
    assert shell.done("txn_done").code == exits.OK
    assert shell.done("txn_more").code == exits.OK
    shell.json("checkpoint", "--out", "kept.txt")
    shell.json("keys", "export", "--out", "keys.json")
    return shell


class Opened(NamedTuple):
    """A bundle in its parts, to be changed."""

    header: Header
    chains: list[ChainLine]

    def written(self, signer: Ed25519Signer | None) -> bytes:
        return b"".join(write_lines(self.header, self.chains, signer))


def opened(file: Path) -> Opened:
    bundle = Bundle(file.read_bytes().splitlines(keepends=True))
    return Opened(bundle.header, list(bundle.chains()))


Spoiler = Callable[[Opened, Ed25519Signer], bytes]


def of(parts: Opened, number: int, receipts: list[Receipt], **fields: object) -> Opened:
    """The parts with other receipts in one chain."""
    chains = list(parts.chains)
    chains[number] = msgspec.structs.replace(chains[number], receipts=tuple(receipts), **fields)
    return Opened(parts.header, chains)


def altered(parts: Opened, _: Ed25519Signer) -> bytes:
    first, *rest = parts.chains[0].receipts
    step = msgspec.structs.replace(first.step, revision=7)
    return of(parts, 0, [msgspec.structs.replace(first, step=step), *rest]).written(None)


def reordered(parts: Opened, _: Ed25519Signer) -> bytes:
    one, two, *rest = parts.chains[0].receipts
    return of(parts, 0, [two, one, *rest]).written(None)


def gapped(parts: Opened, _: Ed25519Signer) -> bytes:
    one, _two, *rest = parts.chains[0].receipts
    return of(parts, 0, [one, *rest]).written(None)


def doubled(parts: Opened, _: Ed25519Signer) -> bytes:
    one, *rest = parts.chains[0].receipts
    return of(parts, 0, [one, one, *rest]).written(None)


def mixed(parts: Opened, _: Ed25519Signer) -> bytes:
    """A receipt of another chain put in."""
    theirs = parts.chains[1].receipts[0]
    return of(parts, 0, [*parts.chains[0].receipts, theirs]).written(None)


def made_anew(parts: Opened, by: Ed25519Signer) -> Opened:
    """A whole chain with another story, hashed, linked and signed as the store would have done."""
    receipts: list[Receipt] = []
    for old in parts.chains[0].receipts:
        step = msgspec.structs.replace(old.step, code="another.story")
        tail = Tail(receipts[-1].number, receipts[-1].hash) if receipts else None
        receipts += seal(tail, [step], by)
    return of(parts, 0, receipts)


def resigned(parts: Opened, _: Ed25519Signer) -> bytes:
    return made_anew(parts, FOREIGN).written(FOREIGN)


def resigned_under_its_name(parts: Opened, own: Ed25519Signer) -> bytes:
    """Signed with another key, but under the id of the store's own."""
    forged = made_anew(parts, FOREIGN)
    receipts = [
        msgspec.structs.replace(one, key_id=own.key_id) for one in forged.chains[0].receipts
    ]
    return of(parts, 0, receipts).written(None)


def rewritten_with_the_own_key(parts: Opened, own: Ed25519Signer) -> bytes:
    """What only the keeper of the store can do: everything anew, with the genuine key."""
    forged = made_anew(parts, own)
    chains = [msgspec.structs.replace(one, proofs=()) for one in forged.chains]
    header = msgspec.structs.replace(forged.header, checkpoints=())
    return Opened(header, chains).written(own)


def unsigned(parts: Opened, _: Ed25519Signer) -> bytes:
    *rest, last = parts.chains[0].receipts
    bare = msgspec.structs.replace(last, key_id=None, signature=None)
    return of(parts, 0, [*rest, bare]).written(None)


def unlinked(parts: Opened, own: Ed25519Signer) -> bytes:
    """A first receipt that is not the first: the chain begins nowhere."""
    one, *rest = parts.chains[0].receipts
    loose = msgspec.structs.replace(rest[0], previous=GENESIS)
    loose = msgspec.structs.replace(loose, hash=receipt_hash(loose))
    signature = own.sign(signed_bytes(loose.hash)).hex()
    loose = msgspec.structs.replace(loose, key_id=own.key_id, signature=signature)
    return of(parts, 0, [one, loose, *rest[1:]]).written(own)


def shortened(parts: Opened, _: Ed25519Signer) -> bytes:
    """Only the first step is left: an attempt that is under way, which nobody signed yet."""
    return of(parts, 0, list(parts.chains[0].receipts[:1]), proofs=()).written(None)


def without_a_chain(parts: Opened, _: Ed25519Signer) -> bytes:
    return Opened(parts.header, parts.chains[:1]).written(None)


def chains_exchanged(parts: Opened, _: Ed25519Signer) -> bytes:
    """The lines in another order, with the old last line."""
    first, one, two, last = parts.written(None).splitlines(keepends=True)
    return first + two + one + last


def cut_short(parts: Opened, own: Ed25519Signer) -> bytes:
    return parts.written(own)[:-100]


def without_the_end(parts: Opened, own: Ed25519Signer) -> bytes:
    return b"".join(parts.written(own).splitlines(keepends=True)[:-1])


def sealed_by_another(parts: Opened, _: Ed25519Signer) -> bytes:
    return parts.written(FOREIGN)


def with_another_path(parts: Opened, own: Ed25519Signer) -> bytes:
    chain = parts.chains[0]
    (proof,) = chain.proofs
    wrong = msgspec.structs.replace(proof, path=("00" * 32, *proof.path[1:]))
    return of(parts, 0, list(chain.receipts), proofs=(wrong,)).written(own)


def with_a_checkpoint_of_its_own(parts: Opened, own: Ed25519Signer) -> bytes:
    (one,) = parts.header.checkpoints
    at = one.note.index("time 2") + 5
    other = msgspec.structs.replace(one, note=f"{one.note[:at]}1{one.note[at + 1 :]}")
    header = msgspec.structs.replace(parts.header, checkpoints=(other,))
    return Opened(header, parts.chains).written(own)


def with_a_checkpoint_that_is_none(parts: Opened, own: Ed25519Signer) -> bytes:
    (one,) = parts.header.checkpoints
    other = msgspec.structs.replace(one, note="nothing")
    header = msgspec.structs.replace(parts.header, checkpoints=(other,))
    return Opened(header, parts.chains).written(own)


def as_of_another_store(parts: Opened, own: Ed25519Signer) -> bytes:
    header = msgspec.structs.replace(parts.header, store="0198bb")
    return Opened(header, parts.chains).written(own)


VERDICTS: Final[dict[Spoiler, str]] = {
    altered: "receipt.hash_mismatch",
    mixed: "receipt.foreign",
    gapped: "receipt.gap",
    reordered: "receipt.reordered",
    doubled: "receipt.duplicate",
    unlinked: "receipt.broken_link",
    resigned: "receipt.key_unknown",
    resigned_under_its_name: "receipt.signature_invalid",
    unsigned: "receipt.signature_missing",
    cut_short: "bundle.malformed",
    without_the_end: "bundle.cut",
    chains_exchanged: "bundle.altered",
    shortened: "bundle.unsealed",
    without_a_chain: "bundle.unsealed",
    sealed_by_another: "bundle.key_unknown",
    with_another_path: "checkpoint.proof_invalid",
    with_a_checkpoint_of_its_own: "checkpoint.signature_invalid",
    with_a_checkpoint_that_is_none: "checkpoint.malformed",
    as_of_another_store: "checkpoint.foreign",
}


def spoilt(filled: Shell, spoiler: Spoiler, *what: str) -> Path:
    """A bundle that was exported and then changed."""
    file = filled.folder / "r.jsonl"
    filled.json("export", *what, "--out", file.name)
    own = read_keys(key_path(filled.database)).signer
    file.write_bytes(spoiler(opened(file), own))
    return file


def verdict(said: Said) -> str:
    """The code of a verdict; the exit code has to be its own."""
    assert said.code == EXIT_OF_FAULT[said.error]
    return said.error


@pytest.mark.rule("RC-3", "CLI-2")
@pytest.mark.parametrize("spoiler", VERDICTS, ids=lambda one: one.__name__)
def test_every_way_of_spoiling_a_bundle_has_its_verdict(filled: Shell, spoiler: Spoiler) -> None:
    file = spoilt(filled, spoiler, "txn_done", "txn_more")
    said = filled.json("verify", file.name, "--keys", "keys.json")
    assert verdict(said) == VERDICTS[spoiler]
    assert filled("verify", file.name, "--keys", "keys.json").code == said.code


def test_a_bundle_that_nobody_spoilt_holds(filled: Shell) -> None:
    file = spoilt(filled, lambda parts, own: parts.written(own), "txn_done", "txn_more")
    kept = ("--keys", "keys.json", "--checkpoint", "kept.txt")
    data = filled.json("verify", file.name, *kept).data
    assert (data["chains"], data["keys"], data["faults"]) == (2, "given", [])
    assert [one["size"] for one in data["checkpoints"]] == [data["receipts"]]
    told = filled("verify", file.name, *kept)
    assert "checkpoint of 8 receipts" in told.out


@pytest.mark.rule("RC-3")
def test_a_history_made_anew_with_the_genuine_key_is_caught_by_what_was_kept(
    filled: Shell,
) -> None:
    """Nothing in it is wrong by itself. A head shows it, a checkpoint of everything shows it, and
    of some transactions a checkpoint shows that nothing leads to it.
    """
    head = filled.json("verify", "--store", f"sqlite:///{filled.database}").data["heads"][0]
    file = spoilt(filled, rewritten_with_the_own_key, "txn_done", "txn_more")
    believed = ("verify", file.name, "--keys", "keys.json")
    assert filled.json(*believed).code == exits.OK
    kept = f"{head['transaction_id']}={head['number']}:{head['hash']}"
    assert verdict(filled.json(*believed, "--head", kept)) == "receipt.fork"
    assert verdict(filled.json(*believed, "--checkpoint", "kept.txt")) == "checkpoint.unproven"
    file.unlink()
    spoilt(filled, made_whole_anew, "--all")
    assert filled.json(*believed).code == exits.OK
    assert verdict(filled.json(*believed, "--checkpoint", "kept.txt")) == "checkpoint.differs"


def made_whole_anew(parts: Opened, own: Ed25519Signer) -> bytes:
    forged = made_anew(parts, own)
    header = msgspec.structs.replace(forged.header, checkpoints=())
    return Opened(header, forged.chains).written(own)


@pytest.mark.rule("RC-3")
def test_a_tail_that_the_keeper_cut_off_is_caught_by_a_head_or_a_checkpoint(filled: Shell) -> None:
    def cut(parts: Opened, own: Ed25519Signer) -> bytes:
        chain = parts.chains[1]
        header = msgspec.structs.replace(parts.header, checkpoints=())
        left = Opened(header, parts.chains)
        less = of(left, 1, list(chain.receipts[:1]), places=chain.places[:1])
        return less.written(own)

    filled.json("export", "--all", "--out", "before.jsonl")
    head = opened(filled.folder / "before.jsonl").chains[1].receipts[-1]
    file = spoilt(filled, cut, "--all")
    believed = ("verify", file.name, "--keys", "keys.json")
    assert verdict(filled.json(*believed, "--checkpoint", "kept.txt")) == "checkpoint.cut"
    kept = f"txn_more={head.number}:{head.hash}"
    assert verdict(filled.json(*believed, "--head", kept)) == "receipt.cut_tail"


# ── a store ──────────────────────────────────────────────────────────────────────────────────────


def change(shell: Shell, sql: str) -> None:
    connection = apsw.Connection(str(shell.database))
    connection.execute(sql)
    assert connection.total_changes()
    connection.close()


@pytest.mark.rule("RC-3")
@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("DELETE FROM receipts WHERE chain LIKE '%more' AND number = 4", "receipt.cut_tail"),
        ("DELETE FROM receipts WHERE chain LIKE '%more'", "receipt.empty"),
        ("UPDATE receipts SET hash = 'zz' WHERE position = 1", "checkpoint.cut"),
        ("UPDATE receipts SET hash = printf('%064d', 0) WHERE position = 1", "checkpoint.differs"),
        (
            "UPDATE log_checkpoints SET body = replace(body, '\\n8\\n', '\\n7\\n')",
            "checkpoint.signature_invalid",
        ),
        ("UPDATE log_checkpoints SET body = replace(body, 'time ', '')", "checkpoint.malformed"),
    ],
)
def test_a_store_that_was_changed_does_not_lead_through_its_checkpoint(
    filled: Shell, sql: str, code: str
) -> None:
    change(filled, sql)
    live = ("verify", "--store", f"sqlite:///{filled.database}")
    said = filled.json(*live, "--checkpoint", "kept.txt")
    expected = "checkpoint.signature_invalid" if code == "checkpoint.malformed" else code
    assert verdict(said) == expected


@pytest.mark.rule("RC-3")
def test_receipts_and_records_that_went_together_are_missed_by_a_kept_checkpoint(
    filled: Shell,
) -> None:
    """Taken out so that nothing in the store contradicts anything else."""
    change(filled, "DELETE FROM receipts WHERE chain LIKE '%more'")
    change(filled, "DELETE FROM transactions WHERE id = 'txn_more'")
    change(filled, "DELETE FROM log_checkpoints")
    live = ("verify", "--store", f"sqlite:///{filled.database}")
    assert filled.json(*live).code == exits.OK
    assert verdict(filled.json(*live, "--checkpoint", "kept.txt")) == "checkpoint.cut"
    assert verdict(filled.json(*live, "txn_done", "--checkpoint", "kept.txt")) == "checkpoint.cut"


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("RC-2")
def test_receipts_of_old_and_new_keys_verify_by_what_was_published(filled: Shell) -> None:
    (first,) = filled.json("keys", "list").data["keys"]
    old, new = filled.json("keys", "rotate").data["keys"]
    assert (old["key_id"], old["since"], new["until"]) == (first["key_id"], None, None)
    assert old["until"] == new["since"]
    assert filled.done("txn_new").code == exits.OK
    filled.json("export", "--all", "--out", "all.jsonl")
    assert verdict(filled.json("verify", "all.jsonl", "--keys", "keys.json")) == (
        "receipt.key_unknown"
    )
    filled("keys", "export", "--out", "both.json")
    assert filled.json("verify", "all.jsonl", "--keys", "both.json").code == exits.OK
    assert filled.json("verify", "--store", f"sqlite:///{filled.database}").code == exits.OK
    told = filled("keys", "list").out
    assert f"{old['key_id']}  from the beginning to 20" in told
    assert told.rstrip().endswith("to now")


@pytest.mark.rule("RC-2")
def test_a_compromised_key_is_believed_only_before_what_was_kept(filled: Shell) -> None:
    (key,) = filled.json("keys", "list").data["keys"]
    now = format_instant(datetime.now(UTC) + timedelta(seconds=2))
    said = filled.json("keys", "compromised", key["key_id"], "--since", now).data["keys"]
    assert [one["compromised"] is None for one in said] == [False, True]
    assert "in other hands since" in filled("keys", "list").out
    filled.json("export", "--all", "--out", "all.jsonl")
    filled.json("keys", "export", "--out", "new.json")
    believed = ("verify", "all.jsonl", "--keys", "new.json")
    assert verdict(filled.json(*believed)) == "receipt.key_compromised"
    assert filled.json(*believed, "--checkpoint", "kept.txt").code == exits.OK
    live = ("verify", "--store", f"sqlite:///{filled.database}")
    assert verdict(filled.json(*live)) == "receipt.key_compromised"
    assert filled.json(*live, "--checkpoint", "kept.txt").code == exits.OK
    earlier = format_instant(datetime.now(UTC) - timedelta(hours=1))
    filled.json("keys", "compromised", key["key_id"], "--since", earlier)
    assert verdict(filled.json(*live, "--checkpoint", "kept.txt")) == "receipt.key_compromised"


@pytest.mark.rule("RC-2")
def test_published_keys_are_a_jwk_set_without_a_private_part(filled: Shell) -> None:
    printed = filled("keys", "export").out
    assert json.loads(printed) == json.loads((filled.folder / "keys.json").read_text())
    (key,) = json.loads(printed)["keys"]
    assert (key["kty"], key["crv"], key["alg"]) == ("OKP", "Ed25519", "EdDSA")
    assert "d" not in key


@pytest.mark.parametrize(
    ("tokens", "code"),
    [
        (("keys", "compromised", "0" * 16, "--since", "2026-01-01T00:00:00Z"), "key.unknown"),
        (("keys", "compromised", "0" * 16, "--since", "soon"), "input.invalid_time"),
        (("keys", "export", "--out", "kept.txt"), "backup.target_exists"),
        (("keys", "list", "--store", "memory:"), "store.no_file"),
        (("checkpoint", "--out", "kept.txt"), "backup.target_exists"),
        (("prove", "txn_none"), "transaction.not_found"),
        (("prove", "txn_done", "--checkpoint", "none.txt"), "checkpoint.no_file"),
        (("prove", "txn_done", "--checkpoint", "keys.json"), "checkpoint.malformed"),
        (("export", "--all", "--since", "soon", "--out", "r.jsonl"), "input.invalid_time"),
        (("export", "txn_done", "--since", "2026-01-01T00:00:00Z"), "cli.transactions_required"),
        (("verify", "amends.db", "--keys", "none.json"), "key.not_given"),
        (("verify", "amends.db", "--keys", "kept.txt"), "keys.malformed"),
        (("verify", "amends.db", "--checkpoint", "none.txt"), "checkpoint.no_file"),
        (("verify", "amends.db", "--nothing"), "cli.usage"),
        (("verify", "-", "-"), "cli.bundle_required"),
    ],
)
def test_what_cannot_be_asked_is_refused(filled: Shell, tokens: tuple[str, ...], code: str) -> None:
    assert filled.json(*tokens).error == code


# ── checkpoints and proofs ───────────────────────────────────────────────────────────────────────


def test_a_checkpoint_is_printed_as_it_is_kept(filled: Shell) -> None:
    printed = filled("checkpoint")
    assert printed.out == (filled.folder / "kept.txt").read_text()
    data = filled.json("checkpoint").data
    assert (data["size"], data["note"], data["file"]) == (8, printed.out, None)


@pytest.mark.rule("RC-3")
def test_a_transaction_is_proved_to_be_in_a_checkpoint_and_that_to_lead_on(filled: Shell) -> None:
    assert filled.done("txn_new").code == exits.OK
    assert filled.json("prove", "txn_new").error == "checkpoint.none_yet"
    filled.json("checkpoint")
    proof: Any = filled.json("prove", "txn_new", "--checkpoint", "kept.txt").data
    assert [one["number"] for one in proof["inclusions"]] == [4]
    assert [len(one.get("path", ())) > 0 for one in proof["checkpoints"]] == [False, True]
    told = filled("prove", "txn_new").out
    assert "receipt 4 is at 11 of 12, by the path" in told
    exported = ("export", "txn_new", "--checkpoint", "kept.txt", "--out", "new.jsonl")
    assert filled.json(*exported).data["checkpoints"] == 2
    kept = ("--keys", "keys.json", "--checkpoint", "kept.txt")
    assert filled.json("verify", "new.jsonl", *kept).code == exits.OK


PROOF_KEPT: Final = ("--keys", "keys.json", "--checkpoint", "kept.txt")


def proved(shell: Shell) -> Path:
    """A proof that leads through the checkpoint that somebody kept."""
    tokens = ("prove", "txn_done", "--checkpoint", "kept.txt", "--out", "proof.json")
    assert shell.json(*tokens).code == exits.OK
    return shell.folder / "proof.json"


@pytest.mark.rule("RC-3")
def test_what_comes_from_a_pipe_is_checked_as_a_file_is(filled: Shell) -> None:
    bundle = filled("export", "txn_done", "txn_more").out.encode()
    filled.pipes(bundle)
    data = filled.json("verify", "-", "--keys", "keys.json").data
    assert (data["chains"], data["keys"], data["faults"]) == (2, "given", [])
    for spoilt, code in (
        (bundle[:-200], "bundle.malformed"),
        (b"".join(bundle.splitlines(keepends=True)[:-1]), "bundle.cut"),
        (b"{}\n{}\n" + bundle, "bundle.malformed"),
        (b"", "bundle.malformed"),
    ):
        filled.pipes(spoilt)
        assert verdict(filled.json("verify", "-", "--keys", "keys.json")) == code
    filled.pipes(proved(filled).read_bytes())
    assert filled.json("verify", "-", *PROOF_KEPT).code == exits.OK


def test_a_bundle_that_nobody_can_read_is_none(
    filled: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert filled.json("verify", "none.jsonl").error == "verify.no_bundle"
    monkeypatch.setattr(sys, "stdin", None)
    assert filled.json("verify", "-").error == "verify.no_bundle"
    filled.folder.joinpath("mine.jsonl").write_bytes(b"")
    monkeypatch.setattr(Path, "open", _not_for_you)
    assert filled.json("verify", "mine.jsonl").error == "verify.no_bundle"


def _not_for_you(*_: object) -> None:
    raise PermissionError(13, "Permission denied")


@pytest.mark.rule("RC-3")
def test_a_proof_is_checked_without_the_store(filled: Shell) -> None:
    proved(filled)
    (filled.folder / "amends.db").rename(filled.folder / "elsewhere.db")
    said = filled.json("verify", "proof.json", *PROOF_KEPT)
    assert (said.code, said.data["keys"], said.data["faults"]) == (exits.OK, "given", [])
    assert [one["number"] for one in said.data["heads"]] == [4]
    head = said.data["heads"][0]
    kept = f"txn_done={head['number']}:{head['hash']}"
    assert filled.json("verify", "proof.json", *PROOF_KEPT, "--head", kept).code == exits.OK
    alone = filled("verify", "proof.json")
    assert (alone.code, kept in alone.out) == (exits.OK, True)
    assert "bring --keys and a --checkpoint that you have kept" in alone.out


def moved(proof: Any) -> None:
    proof["inclusions"][0]["place"] = 0


def of_another_transaction(proof: Any) -> None:
    proof["receipts"][0]["hash"] = "ab" * 32


def of_another_store(proof: Any) -> None:
    proof["store"] = "elsewhere"


def of_another_format(proof: Any) -> None:
    proof["format"] = "amends-proof-9"


def without_checkpoints(proof: Any) -> None:
    proof["checkpoints"] = []


def without_receipts(proof: Any) -> None:
    proof["receipts"] = []


@pytest.mark.rule("RC-3")
@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (moved, "checkpoint.proof_invalid"),
        (of_another_transaction, "checkpoint.proof_invalid"),
        (of_another_store, "checkpoint.foreign"),
        (of_another_format, "proof.unknown_format"),
        (without_checkpoints, "checkpoint.unproven"),
        (without_receipts, "proof.malformed"),
    ],
)
def test_a_proof_that_was_tampered_with_has_its_verdict(
    filled: Shell, change: Callable[[Any], None], fault: str
) -> None:
    file = proved(filled)
    document = json.loads(file.read_bytes())
    change(document)
    file.write_bytes(msgspec.json.encode(document) + b"\n")
    said = filled.json("verify", "proof.json", *PROOF_KEPT)
    codes = [one["code"] for one in said.json["data"]["faults"]]
    assert fault in [said.error, *codes]
    assert said.code == EXIT_OF_FAULT[str(said.error)]
    told = filled("verify", "proof.json", *PROOF_KEPT)
    assert told.code == said.code
    assert "Traceback" not in told.err


@pytest.mark.rule("RC-3")
def test_a_proof_beside_other_heads_and_a_proof_that_was_cut(filled: Shell) -> None:
    file = proved(filled)
    for kept, fault in (
        (f"txn_done=4:{'ab' * 32}", "receipt.fork"),
        (f"txn_done=9:{'ab' * 32}", "proof.head_uncovered"),
        (f"txn_more=4:{'ab' * 32}", "bundle.head_unmatched"),
    ):
        assert verdict(filled.json("verify", "proof.json", "--head", kept)) == fault
    file.write_bytes(file.read_bytes()[:-9])
    assert verdict(filled.json("verify", "proof.json")) == "proof.malformed"


def test_a_checkpoint_of_another_log_leads_nowhere(filled: Shell) -> None:
    note = filled.folder / "kept.txt"
    note.write_text(note.read_text().replace("\n8\n", "\n80\n"))
    said = filled.json("prove", "txn_done", "--checkpoint", "kept.txt")
    assert said.error == "checkpoint.not_of_this_log"


def test_a_part_of_a_store_is_exported_by_time_and_tenant(filled: Shell) -> None:
    now = datetime.now(UTC)
    before, after = format_instant(now - timedelta(hours=1)), format_instant(now)

    def exported(name: str, *tokens: str) -> int:
        count: int = filled.json("export", "--all", *tokens, "--out", name).data["chains"]
        if count:
            assert filled.json("verify", name, "--checkpoint", "kept.txt").code == exits.OK
        return count

    assert exported("1.jsonl", "--since", before, "--until", after) == 2
    assert exported("2.jsonl", "--since", after) == 0
    assert exported("3.jsonl", "--until", before) == 0
    assert exported("4.jsonl", "--tenant", "default") == 2
    assert exported("5.jsonl", "--tenant", "elsewhere") == 0


def test_a_bundle_that_the_disk_does_not_take_is_not_left_behind(
    filled: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens = Path.open

    def full(self: Path, *how: Any, **more: Any) -> object:
        return opens(Path("/dev/full") if ".all.jsonl." in self.name else self, *how, **more)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", full)
        said = filled.json("export", "--all", "--out", "all.jsonl")
    assert said.error == "backup.target_unwritable"
    assert [one.name for one in filled.folder.iterdir() if "all.jsonl" in one.name] == []
