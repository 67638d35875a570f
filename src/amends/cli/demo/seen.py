"""What the demonstration saw, and what it had to see to have shown what it says."""

from typing import Final

import msgspec

from amends.contracts.json_types import JsonObject

EXPECTED_TIMELINE: Final = (
    "dry_run_completed",
    "planned",
    "requires_human",
    "committing",
    "outcome_unknown",
    "reconciled",
    "requires_human",
    "compensated",
)
EXPECTED_REFUSALS: Final = (
    "approval.separation_of_duties",
    "transaction.in_progress",
    "transaction.reconciliation_required",
    "transaction.compensation_exists",
)


RELEASE_TIMELINE: Final = ("committed", "outcome_unknown", "reconciled")
RELEASE_REFUSALS: Final = ("transaction.compensation_exists",) * 2


class ReleaseSeen(msgspec.Struct, kw_only=True):
    """What the second act saw. Both counts are the register's own; `contained` says whether this
    machine held the worker, and is no condition.
    """

    contained: bool = False
    published: int = 0
    withdrawn: int = 0
    killed: bool = False
    timeline: list[str] = []
    refused: list[str] = []

    @property
    def ok(self) -> bool:
        """Whether one release was withdrawn once, through the death of its worker."""
        return (
            (self.published, self.withdrawn) == (1, 1)
            and self.killed
            and tuple(self.timeline) == RELEASE_TIMELINE
            and tuple(self.refused) == RELEASE_REFUSALS
        )


class Seen(msgspec.Struct, kw_only=True):
    """Filled in while the story goes on. `charges` and `refunds` are the provider's own count."""

    charges: int = 0
    refunds: int = 0
    killed: bool = False
    timeline: list[str] = []
    refused: list[str] = []
    receipts_verified: bool = False
    tamper_detected: bool = False
    release: ReleaseSeen = msgspec.field(default_factory=ReleaseSeen)

    @property
    def ok(self) -> bool:
        """Whether everything was as it had to be: one charge, one refund, every refusal."""
        return (
            (self.charges, self.refunds) == (1, 1)
            and self.killed
            and tuple(self.timeline) == EXPECTED_TIMELINE
            and tuple(self.refused) == EXPECTED_REFUSALS
            and self.receipts_verified
            and self.tamper_detected
            and self.release.ok
        )

    def as_json(self) -> JsonObject:
        """The whole answer of ``amends demo --json``."""
        seen: JsonObject = msgspec.to_builtins(self)
        return {"ok": self.ok, **seen}
