"""Where the host's ledger stands, as each request says: never back, never two stories (FR-5).

A head is the attempt's fence with revision and hash of the ledger that licensed the request. A
lower fence comes from a host that was replaced, a lower revision under the same fence from a frame
that was late: both are refused. A newer host with an older ledger, or one revision with two hashes,
means that the ledger was rolled back, or that there are two: that freezes all admission (fault 37).
"""

from enum import Enum

from amends.contracts.codes import coded
from amends.contracts.worker_messages import LedgerHead
from amends.journal.records import FORMAT_5, Journal


class Standing(Enum):
    """How a new head stands to the one that is kept."""

    SAME = "same"
    LATER = "later"
    CONTRADICTS = "contradicts"


def kept_head(journal: Journal, head: LedgerHead | None) -> LedgerHead | None:
    """Format 2 has no place for heads, so version 5 cannot find contradictions."""
    return None if journal.format_version == FORMAT_5 else head


def compare_heads(kept: LedgerHead | None, head: LedgerHead | None) -> Standing:
    """How a request's head stands to the one that its operation was last asked with.

    Raises `Refused` (`journal.head_stale`) for one that comes from before, or is missing now.
    """
    if kept == head:
        return Standing.SAME
    if kept is None:
        return Standing.LATER
    if head is None or head.attempt_fence < kept.attempt_fence:
        raise coded("journal.head_stale")
    if head.ledger_revision < kept.ledger_revision:
        if head.attempt_fence > kept.attempt_fence:
            return Standing.CONTRADICTS
        raise coded("journal.head_stale")
    if head.ledger_revision == kept.ledger_revision and head.ledger_hash != kept.ledger_hash:
        return Standing.CONTRADICTS
    return Standing.LATER
