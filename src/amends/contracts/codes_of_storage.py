"""What sealed storage answers with: envelopes, anchors, fences and files."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from amends.contracts.code import Code
from amends.contracts.errors import Conflict, Corrupt, Misuse, Refused, Unavailable

_ALARM: Final = (
    "Serve nothing from it. An operator has to compare both sides and re-seat it; of a worker's "
    "journal with `amends worker reseat`."
)
_REOPEN: Final = "Nothing may be admitted. Open it again, with a fresh fence, before anything else."

STORAGE_CODES: Final[Mapping[str, Code]] = MappingProxyType(
    {
        # envelopes
        "sealed.malformed": Code(Corrupt, "The bytes are not a sealed record.", _ALARM),
        "sealed.format_unknown": Code(
            Corrupt,
            "The sealed record has a format that this version does not know.",
            "Open it with the version that wrote it, or a later one.",
        ),
        "sealed.key_unknown": Code(
            Unavailable,
            "The key ring has no key of the id that sealed this record.",
            "Put the key back on the ring, readable.",
        ),
        "sealed.tampered": Code(Corrupt, "The sealed record is not what was sealed.", _ALARM),
        "sealed.transplanted": Code(Corrupt, "The sealed record belongs to another place.", _ALARM),
        "sealed.too_large": Code(
            Refused, "The record is larger than this place takes.", "Archive what has ended."
        ),
        "sealed.key_malformed": Code(
            Misuse,
            "A key ring needs tokens as ids and keys of 32 bytes that are not all zero.",
            "Make a key with 32 random bytes.",
        ),
        "sealed.key_in_use": Code(
            Misuse, "The active key cannot be taken off its ring.", "Rotate to another key first."
        ),
        "sealed.keys_unavailable": Code(
            Unavailable,
            "The keys that seal records cannot be read.",
            "Put the file back from a copy, readable for this user only.",
        ),
        "sealed.keys_malformed": Code(
            Corrupt, "The key file holds no key ring.", "Put the file back from a copy."
        ),
        # opening: the record against its anchor
        "sealed.not_initialised": Code(
            Refused, "There is neither a record nor an anchor of it.", "Initialise it explicitly."
        ),
        "sealed.initialised": Code(
            Conflict, "It is initialised already.", "Open it; nothing was changed."
        ),
        "sealed.local_lost": Code(
            Corrupt, "There is an anchor, and the record is gone: a rollback to nothing.", _ALARM
        ),
        "sealed.unanchored": Code(
            Refused,
            "There is a record, and nothing anchors it.",
            "Put the anchor back, or re-seat the record explicitly.",
        ),
        "sealed.rolled_back": Code(Corrupt, "The record is older than its anchor.", _ALARM),
        "sealed.forked": Code(
            Corrupt, "The record differs from the one of its revision that was anchored.", _ALARM
        ),
        "sealed.ahead": Code(
            Corrupt, "The record does not follow the one that was anchored.", _ALARM
        ),
        "sealed.reason_required": Code(
            Refused, "Re-seating needs who and why.", "Say both; the anchor keeps them."
        ),
        # anchors and fences
        "sealed.anchor_unreachable": Code(
            Unavailable,
            "The anchor cannot be reached or trusted.",
            "Admit nothing, and do not answer that there is no record, until it is back.",
        ),
        "sealed.anchor_restored": Code(
            Unavailable,
            "The anchor's server was restored or failed over, and may have lost what it kept.",
            "Compare records and anchor; then `amends worker accept-anchor` says to go on with it.",
        ),
        "sealed.anchor_url": Code(
            Misuse,
            "This is no address of an anchor.",
            "Write postgresql://role@host/database?schema=name, and keep the password elsewhere.",
        ),
        "sealed.anchor_moved": Code(
            Conflict, "The anchor is no longer where this writer left it.", _REOPEN
        ),
        "sealed.fenced": Code(Conflict, "A later opening has fenced this writer out.", _REOPEN),
        # files
        "sealed.file_unsafe": Code(
            Unavailable,
            "The file or its folder is not private, or not plain.",
            "Give both to this user alone, modes 0600 and 0700, and no links.",
        ),
        "sealed.read_failed": Code(
            Unavailable, "The record cannot be read.", "Look at the disk, then open it again."
        ),
        "sealed.write_failed": Code(Unavailable, "The record could not be made durable.", _REOPEN),
        "sealed.locked": Code(
            Unavailable,
            "Another process holds the record's lock.",
            "Find out which; a stopped process keeps its lock.",
            True,
        ),
        "sealed.poisoned": Code(Unavailable, "An earlier write of this opening failed.", _REOPEN),
    }
)
