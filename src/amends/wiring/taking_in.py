"""Spilled settlements, taken into the store that had refused them.

A file is removed only once what it says is stored, or was there already. One that is damaged, that
another key signed, or whose transaction this store does not have stays where it is.
"""

from pathlib import Path

import msgspec

from amends.contracts.errors import AmendsError
from amends.contracts.ids import TransactionId
from amends.receipts.signing import KeyRing
from amends.runtime.engine import Engine
from amends.runtime.spilled import Became, SpilledAnswers
from amends.wiring.keys import StoreSigner
from amends.wiring.places import Place, beside
from amends.wiring.quiet import open_quietly
from amends.wiring.spill import forget, read_spilled, waiting

_STORED = frozenset({Became.TAKEN, Became.KNOWN})


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one file; `error` says why nothing could be done with it."""

    file: str
    transaction_id: TransactionId | None = None
    became: Became | None = None
    error: AmendsError | None = None


async def take_in(database: Place, signer: StoreSigner) -> tuple[Looked, ...]:
    """Take in every spilled settlement that waits beside a store, oldest first.

    Raises what opening the store does.
    """
    files = waiting(beside(database))
    if not files:
        return ()
    keys = KeyRing([key for key in signer.ring.published if key.compromised is None])
    async with open_quietly(database, signer) as engine:
        return tuple([await _taken(engine, path, keys) for path in files])


async def _taken(engine: Engine, path: Path, keys: KeyRing) -> Looked:
    try:
        heard = read_spilled(path, keys)
    except AmendsError as error:
        return Looked(file=path.name, error=error)
    looked = Looked(file=path.name, transaction_id=heard.transaction_id)
    try:
        became = await SpilledAnswers(engine).take(heard)
    except AmendsError as error:  # the others may fare better
        return msgspec.structs.replace(looked, error=error)
    if became in _STORED:
        forget(path)
    return msgspec.structs.replace(looked, became=became)
