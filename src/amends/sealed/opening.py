"""A record against its floor: the table of what may be served (ST-2).

Writing is ordered: the snapshot becomes durable, then the anchor moves, then somebody acts. So a
plain crash leaves the record level with its floor, or exactly one chained revision above it; what
was written then was never acted upon by its writer, and is *Existing* from now on. Everything else
is a copy from another time, or from elsewhere, and nothing of it is served. That goes for a floor,
too: its fence was just taken, so one that is not above the record's own forgot that it gave it.
"""

from enum import Enum

from amends.contracts.codes import coded
from amends.sealed.anchors import Floor
from amends.sealed.envelopes import Snapshot


class Standing(Enum):
    """How a record stands that may be served."""

    LEVEL = "level"
    """Go on."""

    ONE_AHEAD = "one_ahead"
    """A crash came between snapshot and anchor: move the anchor first."""


def require_both(local: Snapshot | None, floor: Floor | None) -> tuple[Snapshot, Floor]:
    """Both, for `judge`.

    Raises `Refused` (`sealed.not_initialised`, `sealed.unanchored`) and `Corrupt`
    (`sealed.local_lost`).
    """
    if local is None:
        is_new = floor is None or floor.revision == 0
        raise coded("sealed.not_initialised" if is_new else "sealed.local_lost")
    if floor is None:
        raise coded("sealed.unanchored")
    return local, floor


def judge(local: Snapshot, floor: Floor) -> Standing:
    """Whether this record may be served under this floor, whose fence was reserved for that.

    Raises `Corrupt`, which is an alarm: `sealed.rolled_back`, `sealed.forked`, `sealed.ahead`.
    """
    if local.revision < floor.revision:
        raise coded("sealed.rolled_back")
    if local.revision == floor.revision:
        if local.commitment != floor.commitment:
            raise coded("sealed.forked")
        return Standing.LEVEL
    follows = local.revision == floor.revision + 1 and local.previous == floor.commitment
    if not follows or local.fence >= floor.fence:
        raise coded("sealed.ahead")
    return Standing.ONE_AHEAD
