"""What came of restoring a store, whatever it is kept in."""

from collections.abc import Callable
from typing import Final

import msgspec

from amends.recovery.freezing import Frozen
from amends.stores.sqlite.backup import Told
from amends.stores.sqlite.survey import BeyondIt

RESTORED: Final = "restored"
"""Why everything is frozen."""

Phase = Callable[[str], Told]
"""Called when a phase of long work begins; returns what its progress is told to."""


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """A store that was restored.

    `kept` is the file that holds what stood there before, and `went_on` are the transactions that
    it knows more of. `key_made` says that the backup came without a key and a new one was made.
    """

    lineage: str
    from_lineage: str
    replaced_lineage: str | None
    kept: str | None
    went_on: tuple[BeyondIt, ...] = ()
    key_made: bool
    frozen: Frozen
