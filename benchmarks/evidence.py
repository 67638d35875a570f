"""Verification of a bundle beside nothing but the Ed25519 checks of the very same signatures.

The bundle is what `amends export --all` writes of actions that were executed, with a checkpoint. To
verify it is what `amends verify` does: every line read, every hash made anew, every link, every
signature, the log against its checkpoint, the seal. Both count signatures a second.
"""

import asyncio
import time
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from amends.receipts.audit import BundleAudit
from amends.receipts.bundle import Bundle
from amends.receipts.signing import signed_bytes
from amends.wiring.bundling import Chosen, bundle_of
from amends.wiring.checkpointing import make_checkpoint
from benchmarks.product import run

COUNT: Final = 2_000


def verified(folder: Path) -> float:
    """Signatures a second of a whole verification."""
    lines = _bundle(folder)
    count = len(_signatures(lines))
    started = time.perf_counter()
    bundle = Bundle(lines)
    audit = BundleAudit(bundle, bundle.keys, {})
    assert not any(chain.findings for chain in audit.chains())
    assert (audit.log().findings, audit.seal()) == ((), None)
    return count / (time.perf_counter() - started)


def bare_ed25519(folder: Path) -> float:
    """Signatures a second of the bare checks."""
    lines = _bundle(folder)
    (raw,) = Bundle(lines).keys
    key, signatures = Ed25519PublicKey.from_public_bytes(raw), _signatures(lines)
    started = time.perf_counter()
    for data, signature in signatures:
        key.verify(signature, data)
    return len(signatures) / (time.perf_counter() - started)


def _bundle(folder: Path) -> list[bytes]:
    database = folder / "bench.db"
    asyncio.run(run(f"sqlite:///{database}", count=COUNT, tasks=64))
    make_checkpoint(database)
    return list(bundle_of(database, Chosen()))


def _signatures(lines: list[bytes]) -> list[tuple[bytes, bytes]]:
    """What was signed by receipts, and the signatures."""
    return [
        (signed_bytes(receipt.hash), bytes.fromhex(receipt.signature))
        for chain in Bundle(lines).chains()
        for receipt in chain.receipts
        if receipt.signature is not None
    ]
