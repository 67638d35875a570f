"""A ledger as bytes, and back: compact JSON in one form, at most 64 KiB (HL-1).

What does not encode to exactly the same bytes again was not written here and is refused: unknown
or repeated members, another order, spaces. A document that decodes is also coherent: keys have
their form and stand once, only a succeeded operation has a compensation.

Deliberately not here: who vouches for the bytes. They come out of a sealed envelope.
"""

import re
from typing import Final

import msgspec

from amends.contracts.codes import coded
from amends.contracts.errors import AmendsError
from amends.ledger.records import (
    FORMAT_5,
    FORMAT_6,
    MAX_BYTES,
    MAX_OPERATIONS,
    Ledger,
    LedgerCompensation,
    LedgerOperation,
    LedgerState,
)

_TOKEN: Final = re.compile(r"[a-z0-9._-]{1,128}")
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_OPERATION_KEY: Final = re.compile(r"op-[0-9a-f]{64}")
_COMPENSATION_KEY: Final = re.compile(r"cmp-[0-9a-f]{64}")
_LONGEST_STATE: Final = max(map(len, LedgerState))
_LONGEST_REVISION: Final = 19
_DECODER: Final = msgspec.json.Decoder(Ledger)


def encode_ledger(ledger: Ledger) -> bytes:
    """The bytes that are persisted, hashed and decoded."""
    return msgspec.json.encode(ledger)


def check_room(ledger: Ledger) -> None:
    """That a ledger fits, however its entries end: what it holds can always be written down.

    Raises `Refused` (`ledger.full`), before it is anybody's.
    """
    entries = [one for held in ledger.operations for one in (held, held.compensation) if one]
    growth = sum(_LONGEST_STATE - len(one.state) for one in entries)
    growth += _LONGEST_REVISION - len(str(ledger.revision))
    if len(encode_ledger(ledger)) + growth > MAX_BYTES:
        raise coded("ledger.full", {"limit": MAX_BYTES})


def decode_ledger(data: bytes) -> Ledger:
    """The ledger that these bytes are. Raises `Corrupt` (`ledger.malformed`)."""
    if len(data) > MAX_BYTES:
        raise _malformed()
    try:
        ledger = _DECODER.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise _malformed() from None
    if encode_ledger(ledger) != data or not _is_coherent(ledger):
        raise _malformed()
    return ledger


def _is_coherent(ledger: Ledger) -> bool:
    operations = ledger.operations
    keys = [one.operation_key for one in operations]
    compensations = [one.compensation for one in operations if one.compensation is not None]
    inverse = [one.compensation_key for one in compensations]
    is_superseded = any(one.superseded for one in compensations)
    return (
        ledger.format_version == (FORMAT_6 if is_superseded else FORMAT_5)
        and ledger.revision >= len(keys) + len(inverse)
        and _HASH.fullmatch(ledger.plan_fingerprint) is not None
        and len(keys) <= MAX_OPERATIONS
        and len(set(keys)) == len(keys)
        and len(set(inverse)) == len(inverse)
        and all(map(_is_operation, operations))
        and all(map(_is_compensation, compensations))
    )


def _is_operation(one: LedgerOperation) -> bool:
    fits = (
        _TOKEN.fullmatch(one.step_id)
        and _TOKEN.fullmatch(one.tool)
        and _OPERATION_KEY.fullmatch(one.operation_key)
        and _HASH.fullmatch(one.input_fingerprint)
    )
    return fits is not None and (one.compensation is None or one.state is LedgerState.SUCCEEDED)


def _is_compensation(one: LedgerCompensation) -> bool:
    fits = (
        _COMPENSATION_KEY.fullmatch(one.compensation_key)
        and _HASH.fullmatch(one.input_fingerprint)
        and _TOKEN.fullmatch(one.tenant_scope)
        and _HASH.fullmatch(one.grant_fingerprint)
    )
    return fits is not None and _leads_here(one)


def _leads_here(one: LedgerCompensation) -> bool:
    """Whether each superseded grant gave way to the next, and the last to the one that holds."""
    news = [step.new for step in one.superseded]
    olds = [step.old for step in one.superseded]
    chained = olds[1:] == news[:-1] and news[-1:] in ([], [one.grant_fingerprint])
    return chained and all(_HASH.fullmatch(hashed) for hashed in (*olds, *news))


def _malformed() -> AmendsError:
    return coded("ledger.malformed")
