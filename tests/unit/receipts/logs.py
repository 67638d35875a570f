"""A small log of three chains, its checkpoints, and bundles of it; no test in here."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from amends.contracts.evidence import Receipt
from amends.contracts.ids import TenantId, TransactionId
from amends.receipts.bundle import ChainLine, Inclusion, Published
from amends.receipts.chain import chain_of, seal
from amends.receipts.checkpoint import Note, TreeHead, leaf_of, read_note, write_note
from amends.receipts.merkle import Tree
from amends.receipts.signing import Ed25519Signer
from tests.unit.receipts.chains import SIGNER, START, step

TENANT: Final = TenantId("acme")
LINEAGE: Final = "0198aa"
NAMES: Final = ("txn_1", "txn_2", "txn_3")


def _chains() -> dict[str, list[Receipt]]:
    """Three receipts for each of three transactions."""
    found: dict[str, list[Receipt]] = {}
    for name in NAMES:
        steps = [
            msgspec.structs.replace(step(number), transaction_id=TransactionId(name))
            for number in range(1, 4)
        ]
        found[name] = list(seal(None, steps, SIGNER))
    return found


CHAINS: Final = _chains()
LOG: Final = [CHAINS[name][number] for number in range(3) for name in NAMES]
"""In turns: the first receipts of all, then the second, then the third."""

TREE: Final = Tree([leaf_of(one.hash) for one in LOG])


def place(name: str, number: int) -> int:
    return (number - 1) * len(NAMES) + NAMES.index(name)


def note(
    size: int,
    *,
    at: datetime | None = None,
    tree: Tree = TREE,
    signer: Ed25519Signer = SIGNER,
    lineage: str = LINEAGE,
) -> str:
    """The checkpoint of a size; each a minute after one that is one smaller."""
    when = START + timedelta(minutes=size) if at is None else at
    head = TreeHead(lineage=lineage, size=size, root=tree.root(size), at=when)
    return write_note(head, signer)


def kept(size: int) -> Note:
    return read_note(note(size))


def published(*sizes: int) -> tuple[Published, ...]:
    """Checkpoints that lead to one another."""
    found: list[Published] = []
    for before, size in zip((0, *sizes), sizes, strict=False):
        path = TREE.consistency(before, size) if before else ()
        found.append(Published(note(size), tuple(one.hex() for one in path)))
    return tuple(found)


def line(name: str, *proofs: tuple[int, int], places: bool = False) -> ChainLine:
    """A chain with paths, each from a receipt by its number to the checkpoint of a size."""
    return ChainLine(
        tenant=TENANT,
        chain=chain_of(TransactionId(name)),
        receipts=tuple(CHAINS[name]),
        places=tuple(place(name, number) for number in (1, 2, 3)) if places else (),
        proofs=tuple(inclusion(name, number, size) for number, size in proofs),
    )


def inclusion(name: str, number: int, size: int) -> Inclusion:
    at = place(name, number)
    path = tuple(one.hex() for one in TREE.inclusion(at, size))
    return Inclusion(size=size, number=number, place=at, path=path)


def leaves(receipts: Sequence[Receipt] = LOG) -> list[bytes]:
    return [leaf_of(one.hash) for one in receipts]
