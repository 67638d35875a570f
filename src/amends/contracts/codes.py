"""Every code that gates, rules and the runtime answer with: family, what happened, what to do.

One list, printed into the reference. Codes of stores, schemas and parsing carry their texts where
they are raised, since these speak of positions and files.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from amends.contracts.code import Code
from amends.contracts.codes_of_actions import ACTION_CODES
from amends.contracts.codes_of_containment import CONTAINMENT_CODES
from amends.contracts.codes_of_ledgers import LEDGER_CODES
from amends.contracts.codes_of_storage import STORAGE_CODES
from amends.contracts.codes_of_transactions import TRANSACTION_CODES
from amends.contracts.codes_of_workers import WORKER_CODES
from amends.contracts.errors import AmendsError
from amends.contracts.json_types import Json

CODES: Final[Mapping[str, Code]] = MappingProxyType(
    {
        **ACTION_CODES,
        **TRANSACTION_CODES,
        **WORKER_CODES,
        **LEDGER_CODES,
        **STORAGE_CODES,
        **CONTAINMENT_CODES,
    }
)


def coded(
    code: str, details: Mapping[str, Json] | None = None, *, message: str | None = None
) -> AmendsError:
    """The error of a listed code, of its family, with its texts."""
    entry = CODES[code]
    return entry.family(code, message or entry.message, details=details, next_step=entry.next_step)
