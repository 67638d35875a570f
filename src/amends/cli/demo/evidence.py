"""Receipts outside the database: written to a file, read back, checked, and tampered with.

The check needs only the file and the public key, as an auditor's would.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from amends.cli.demo.stage import Stage
from amends.contracts.evidence import Receipt, ReceiptType
from amends.contracts.principals import PrincipalRef
from amends.receipts.signing import KeyRing
from amends.receipts.verify import Verification, verify_chain
from amends.wiring.keys import key_path, load_or_make_key


def write_receipts(path: Path, receipts: Sequence[Receipt]) -> None:
    """Write a chain as one JSON array."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(receipts)))


def check_file(path: Path, keys: KeyRing) -> Verification:
    """Check a file that `write_receipts` has written."""
    return verify_chain(msgspec.json.decode(path.read_bytes(), type=tuple[Receipt, ...]), keys)


def public_keys(stage: Stage) -> KeyRing:
    """The key of the demonstration's database, as far as auditors may know it."""
    return KeyRing([load_or_make_key(key_path(stage.database)).public_key])


def with_other_approver(receipts: Sequence[Receipt], approver: PrincipalRef) -> list[Receipt]:
    """The same receipts, except that somebody else is said to have approved."""
    return [
        replace(receipt, step=replace(receipt.step, actor=approver))
        if receipt.step.type is ReceiptType.APPROVAL_GRANTED
        else receipt
        for receipt in receipts
    ]
