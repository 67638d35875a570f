"""A bundle that came from elsewhere: what of it is believed, and what is said of the rest."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
import pytest

from amends.contracts.evidence import Tail
from amends.contracts.ids import TransactionId
from amends.receipts.audit import BundleAudit, CheckedLog, Heads
from amends.receipts.bundle import FORMAT, Bundle, ChainLine, Header, SealFault, write_lines
from amends.receipts.checkpoint import LogFault, Note
from amends.receipts.keyset import jwk_of
from amends.receipts.signing import KeyRing, PublishedKey
from amends.testing.refusals import refused_with
from tests.unit.receipts.chains import RING, SIGNER, START
from tests.unit.receipts.logs import CHAINS, LINEAGE, NAMES, kept, line, published

pytestmark = pytest.mark.rule("RC-3")

WHOLE: Final = tuple(line(name, places=True) for name in NAMES)
SOME: Final = (line("txn_1", (3, 9)),)


class Read:
    """What an audit says, in short."""

    def __init__(self, audit: BundleAudit) -> None:
        self.chains = [
            (one.transaction_id, finding.code) for one in audit.chains() for finding in one.findings
        ]
        self.log: CheckedLog = audit.log()
        self.seal = audit.seal()

    @property
    def faults(self) -> list[tuple[LogFault, int]]:
        return [(one.code, one.size) for one in self.log.findings]


def read(
    chains: Sequence[ChainLine],
    *,
    sizes: tuple[int, ...] = (9,),
    whole: bool = False,
    keys: KeyRing = RING,
    heads: Heads | None = None,
    kept: tuple[Note, ...] = (),
) -> Read:
    header = Header(
        format=FORMAT,
        store=LINEAGE,
        keys=tuple(map(jwk_of, keys.published)),
        checkpoints=published(*sizes),
        whole=whole,
    )
    bundle = Bundle(list(write_lines(header, chains, SIGNER)))
    return Read(BundleAudit(bundle, keys, heads or {}, kept))


def test_a_bundle_of_some_chains_holds_with_its_paths() -> None:
    found = read(SOME, sizes=(2, 9), kept=(kept(2),))
    assert (found.chains, found.faults, found.seal) == ([], [], None)
    assert [size for size, _ in found.log.checkpoints] == [2, 9]


def test_a_bundle_of_everything_holds_without_a_path() -> None:
    found = read(WHOLE, sizes=(2, 9), whole=True, kept=(kept(5),))
    assert (found.chains, found.faults, found.seal) == ([], [], None)
    assert [size for size, _ in found.log.checkpoints] == [2, 5, 9]


def cut(one: ChainLine, count: int) -> ChainLine:
    return msgspec.structs.replace(
        one, receipts=one.receipts[:count], places=one.places[:count], proofs=()
    )


def test_a_tail_that_was_cut_off_everything_is_missed_by_a_checkpoint() -> None:
    """The chain itself is whole as far as it goes: its last receipt was signed, too."""
    found = read([*WHOLE[:2], cut(WHOLE[2], 2)], whole=True)
    assert (LogFault.CUT, 9) in found.faults
    assert found.log.checkpoints == ()


def test_a_chain_that_is_missing_altogether_is_missed_without_a_checkpoint_that_knew_it() -> None:
    found = read([WHOLE[0], WHOLE[2]], sizes=(), whole=True)
    assert found.faults == [(LogFault.CUT, 1)]


def test_a_kept_checkpoint_beyond_a_bundle_of_some_is_unproven_and_stays_believed() -> None:
    found = read(SOME, kept=(kept(5),))
    assert found.faults == [(LogFault.UNPROVEN, 5)]
    assert [size for size, _ in found.log.checkpoints] == [5, 9]


def test_a_head_that_was_kept_is_asked_for() -> None:
    heads = {TransactionId("txn_1"): Tail(4, "ab" * 32)}
    assert read(SOME, heads=heads).chains == [("txn_1", "receipt.cut_tail")]


def test_a_receipt_without_a_hash_has_no_place_in_a_log() -> None:
    spoilt = msgspec.structs.replace(CHAINS["txn_1"][2], hash="zz")
    chain = msgspec.structs.replace(WHOLE[0], receipts=(*WHOLE[0].receipts[:2], spoilt))
    found = read([chain, *WHOLE[1:]], whole=True)
    assert found.chains == [("txn_1", "receipt.hash_mismatch")]
    assert (LogFault.CUT, 9) in found.faults


def test_a_bundle_whose_checkpoints_are_none_is_refused() -> None:
    header = Header(format=FORMAT, store=LINEAGE, keys=(), checkpoints=published(9))
    spoilt = msgspec.structs.replace(header.checkpoints[0], note="nothing")
    header = msgspec.structs.replace(header, checkpoints=(spoilt,))
    with refused_with("checkpoint.malformed"):
        BundleAudit(Bundle(list(write_lines(header, ()))), RING, {})


# ── a key in other hands ─────────────────────────────────────────────────────────────────────────


def shared_since(minutes: float) -> KeyRing:
    at = START + timedelta(minutes=minutes)
    return KeyRing([PublishedKey(public_key=SIGNER.public_key, compromised=at)])


@pytest.mark.rule("RC-2")
@pytest.mark.parametrize("whole", [True, False])
def test_only_a_kept_checkpoint_from_before_saves_what_a_shared_key_signed(whole: bool) -> None:
    chains, keys = (WHOLE if whole else SOME), shared_since(9.5)
    assert read(chains, whole=whole, keys=keys).chains[0] == ("txn_1", "receipt.key_compromised")
    saved = read(chains, whole=whole, keys=keys, kept=(kept(9),))
    assert (saved.chains, saved.faults) == ([], [])
    assert saved.seal is SealFault.KEY_COMPROMISED
    late = read(chains, whole=whole, keys=shared_since(8.5), kept=(kept(9),))
    assert ("txn_1", "receipt.key_compromised") in late.chains


@pytest.mark.rule("RC-2")
@pytest.mark.parametrize(
    ("since", "until", "counts"),
    [(None, -60, False), (60, None, False), (0, 0, True), (None, None, True), (-1, 9, True)],
)
def test_a_key_counts_only_while_it_was_in_use_give_or_take_minutes(
    since: int | None, until: int | None, counts: bool
) -> None:
    key = PublishedKey(public_key=SIGNER.public_key, since=minute(since), until=minute(until))
    found = read([line("txn_1")], sizes=(), keys=KeyRing([key]))
    assert found.chains == ([] if counts else [("txn_1", "receipt.key_out_of_span")])


def minute(number: int | None) -> datetime | None:
    return None if number is None else START + timedelta(minutes=number)
