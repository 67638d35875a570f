"""One exit code for each kind of fault that a chain, a bundle or a store can have (RC-3).

They lie beyond the codes of error families, so that a script knows what was found without reading.
Where several kinds were found, the first in the order of the chains counts.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

EXIT_OF_FAULT: Final[Mapping[str, int]] = MappingProxyType(
    {
        "receipt.empty": 20,
        "receipt.hash_mismatch": 21,
        "receipt.foreign": 22,
        "receipt.gap": 23,
        "receipt.reordered": 24,
        "receipt.duplicate": 25,
        "receipt.fork": 26,
        "receipt.broken_link": 27,
        "receipt.key_unknown": 28,
        "receipt.signature_invalid": 29,
        "receipt.signature_missing": 30,
        "receipt.cut_tail": 31,
        "receipt.key_compromised": 32,
        "receipt.key_out_of_span": 33,
        "store.receipt_corrupt": 40,
        "store.record_corrupt": 41,
        "store.record_behind": 42,
        "bundle.malformed": 50,
        "bundle.unknown_format": 51,
        "bundle.cut": 52,
        "bundle.head_unmatched": 53,
        "bundle.altered": 54,
        "bundle.unsealed": 55,
        "bundle.key_unknown": 56,
        "bundle.key_compromised": 57,
        "checkpoint.malformed": 60,
        "checkpoint.foreign": 61,
        "checkpoint.key_unknown": 62,
        "checkpoint.signature_invalid": 63,
        "checkpoint.key_compromised": 64,
        "checkpoint.key_out_of_span": 65,
        "checkpoint.proof_invalid": 66,
        "checkpoint.inconsistent": 67,
        "checkpoint.differs": 68,
        "checkpoint.cut": 69,
        "checkpoint.unproven": 70,
        "proof.malformed": 71,
        "proof.unknown_format": 72,
        "proof.head_uncovered": 73,
    }
)

MEANING: Final[Mapping[str, str]] = MappingProxyType(
    {
        "receipt.empty": "there is no receipt at all",
        "receipt.hash_mismatch": "the receipt does not have its own hash: it was altered",
        "receipt.foreign": "the receipt belongs to another chain",
        "receipt.gap": "receipts are missing before this one",
        "receipt.reordered": "the receipt stands too late",
        "receipt.duplicate": "the receipt is there twice",
        "receipt.fork": "two receipts claim this place, or another head was kept",
        "receipt.broken_link": "the receipt does not follow the one before it",
        "receipt.key_unknown": "the receipt is signed with a key that was not given",
        "receipt.signature_invalid": "the signature is not over this receipt",
        "receipt.signature_missing": "the head is not signed",
        "receipt.cut_tail": "the end of the chain is missing",
        "receipt.key_compromised": "others may have signed this, and nothing shows it was before",
        "receipt.key_out_of_span": "the key that signed it was not in use then",
        "store.receipt_corrupt": "the receipt cannot be read",
        "store.record_corrupt": "the transaction's record cannot be read",
        "store.record_behind": "the record is older than its receipts: it was put back",
        "bundle.malformed": "the bundle is not as export writes it",
        "bundle.unknown_format": "the bundle has a format that is not known here",
        "bundle.cut": "the end of the bundle is missing, or something was added",
        "bundle.head_unmatched": "a head was given for a transaction that is not there",
        "bundle.altered": "the bundle is not the one that was sealed",
        "bundle.unsealed": "the bundle was not sealed",
        "bundle.key_unknown": "the bundle was sealed with a key that was not given",
        "bundle.key_compromised": "others may have sealed this bundle",
        "checkpoint.malformed": "a checkpoint is not as it was handed out",
        "checkpoint.foreign": "the checkpoint is of another store",
        "checkpoint.key_unknown": "the checkpoint is signed with a key that was not given",
        "checkpoint.signature_invalid": "the signature is not over this checkpoint",
        "checkpoint.key_compromised": "others may have signed this checkpoint",
        "checkpoint.key_out_of_span": "the key that signed the checkpoint was not in use then",
        "checkpoint.proof_invalid": "a path does not lead from its receipt to the checkpoint",
        "checkpoint.inconsistent": "two checkpoints tell of two histories",
        "checkpoint.differs": "the receipts before the checkpoint are not those that it was of",
        "checkpoint.cut": "receipts that were there before are missing",
        "checkpoint.unproven": "there is no path from the checkpoint that was given",
        "proof.malformed": "the proof is not as prove writes it",
        "proof.unknown_format": "the proof has a format that is not known here",
        "proof.head_uncovered": "the proof says nothing of the receipt whose hash was given",
    }
)
