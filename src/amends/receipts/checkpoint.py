"""Checkpoints of a store's log: what one signed line of bytes says of everything before it (RC-3).

The log of a store is all of its receipts, of all tenants, in the store's own order, which only
grows. A leaf is a receipt's hash behind a tag; the hash says tenant, chain and number already. A
checkpoint is the root over the first receipts, so that every head of that moment is in it, and two
checkpoints of one store can be shown to tell of one history.

It is written as a signed note in the form of C2SP (`tlog-checkpoint`), with the time as an
extension line, so that witnesses can sign it too and tools of others can read it. A note begins
with the name of its log, no receipt's signature does: one can never pass for the other.

Pure: no clock, no IO. Deliberately not here: the tree (`merkle`), and when one is made.
"""

import base64
import hashlib
import re
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from amends.contracts.errors import Corrupt, Misuse, Refused
from amends.contracts.times import format_instant, parse_instant
from amends.receipts.merkle import LEAF_PREFIX, Hash
from amends.receipts.signing import KEY_LENGTH, KeyRing, Signer

LEAF_TAG: Final = b"amends-log-leaf-v1\n"
ORIGIN: Final = "amends/"
LARGEST: Final = 64 * 1024
"""Bytes of a note at most, with whatever witnesses added."""

_LEAF_BEGINS: Final = LEAF_PREFIX + LEAF_TAG
_ED25519: Final = b"\x01"
_LINEAGE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_SIZE: Final = re.compile(r"0|[1-9][0-9]{0,17}")
_HASH_LENGTH: Final = 32
_SIGNATURE_LENGTH: Final = 64
_KEY_HASH_LENGTH: Final = 4


class LogFault(StrEnum):
    """The kinds of fault that a checkpoint, or a log beside one, can have."""

    FOREIGN = "checkpoint.foreign"
    KEY_UNKNOWN = "checkpoint.key_unknown"
    SIGNATURE_INVALID = "checkpoint.signature_invalid"
    KEY_COMPROMISED = "checkpoint.key_compromised"
    KEY_OUT_OF_SPAN = "checkpoint.key_out_of_span"
    PROOF_INVALID = "checkpoint.proof_invalid"
    INCONSISTENT = "checkpoint.inconsistent"
    DIFFERS = "checkpoint.differs"
    CUT = "checkpoint.cut"
    UNPROVEN = "checkpoint.unproven"


class TreeHead(msgspec.Struct, frozen=True, kw_only=True):
    """What a checkpoint says: the store, how many receipts, the root over them, and when."""

    lineage: str
    size: int
    root: Hash
    at: datetime

    @property
    def text(self) -> bytes:
        """The bytes that are signed."""
        root = base64.b64encode(self.root).decode()
        at = format_instant(self.at)
        return f"{ORIGIN}{self.lineage}\n{self.size}\n{root}\ntime {at}\n".encode()


class Note(msgspec.Struct, frozen=True):
    """A checkpoint as it was read, and its whole text. `signatures` are those in the log's own
    name: which key, as a note names it, and the signature in hex.
    """

    text: str
    head: TreeHead
    signatures: tuple[tuple[bytes, str], ...]


def leaf_of(receipt_hash: str) -> Hash:
    """The leaf that stands for a receipt."""
    return hashlib.sha256(_LEAF_BEGINS + bytes.fromhex(receipt_hash)).digest()


def write_note(head: TreeHead, signer: Signer) -> str:
    """A checkpoint as it is handed out.

    Raises `Misuse` (`misuse.checkpoint_lineage`) for a lineage that a note cannot name.
    """
    if not _LINEAGE.fullmatch(head.lineage):
        raise Misuse(
            "misuse.checkpoint_lineage",
            "A checkpoint cannot name this store's lineage.",
            next_step="Let the store make its lineage: letters, digits, '.', '_', ':' and '-'.",
        )
    name, held = ORIGIN + head.lineage, signer.held()
    signature = _key_hash(name, held.public_key) + held.sign(head.text)
    signed = base64.b64encode(signature).decode()
    return f"{head.text.decode()}\n— {name} {signed}\n"


def read_note(text: str) -> Note:
    """A checkpoint that somebody handed over; lines that witnesses added are passed over.

    Raises `Corrupt` (`checkpoint.malformed`) for anything else. Says nothing of its signature.
    """
    try:
        body, _, signed = text.partition("\n\n")
        origin, size, root, time = body.split("\n")
        head = TreeHead(
            lineage=origin.removeprefix(ORIGIN),
            size=int(_matched(_SIZE, size)),
            root=_bytes_of(root, _HASH_LENGTH),
            at=parse_instant(time.removeprefix("time "), "time"),
        )
        _matched(_LINEAGE, head.lineage)
        if head.text.decode() != body + "\n" or len(text) > LARGEST or not text.endswith("\n"):
            raise _malformed()
        signatures = tuple(_signatures(signed, origin))
    except (ValueError, Refused):
        raise _malformed() from None
    return Note(text, head, signatures)


def check_note(note: Note, keys: KeyRing) -> tuple[str | None, LogFault | None]:
    """Which of these keys signed a checkpoint, or what is wrong with its signature."""
    names = {
        _key_hash(ORIGIN + note.head.lineage, key.public_key): key.key_id for key in keys.published
    }
    fault = LogFault.KEY_UNKNOWN
    for key_hash, signature in note.signatures:
        key_id = names.get(key_hash)
        if key_id is not None:
            if keys.confirms(key_id, note.head.text, signature):
                return key_id, None
            fault = LogFault.SIGNATURE_INVALID
    return None, fault


def _signatures(signed: str, origin: str) -> list[tuple[bytes, str]]:
    """The signatures in a log's own name."""
    found: list[tuple[bytes, str]] = []
    for line in signed.removesuffix("\n").split("\n"):
        dash, name, encoded = line.split(" ")
        raw = base64.b64decode(encoded, validate=True)
        if dash != "—" or not name or len(raw) <= _KEY_HASH_LENGTH:
            raise _malformed()
        if name == origin and len(raw) == _KEY_HASH_LENGTH + _SIGNATURE_LENGTH:
            found.append((raw[:_KEY_HASH_LENGTH], raw[_KEY_HASH_LENGTH:].hex()))
    return found


def _key_hash(name: str, public_key: bytes) -> bytes:
    """How a signed note names an Ed25519 key."""
    assert len(public_key) == KEY_LENGTH
    named = name.encode() + b"\n" + _ED25519 + public_key
    return hashlib.sha256(named).digest()[:_KEY_HASH_LENGTH]


def _matched(pattern: re.Pattern[str], text: str) -> str:
    if not pattern.fullmatch(text):
        raise _malformed()
    return text


def _bytes_of(text: str, length: int) -> bytes:
    raw = base64.b64decode(text, validate=True)
    if len(raw) != length:
        raise _malformed()
    return raw


def _malformed() -> Corrupt:
    return Corrupt(
        "checkpoint.malformed",
        "This is no checkpoint of a store's log.",
        next_step="Take the text as amends checkpoint prints it, from its first line to its last.",
    )
