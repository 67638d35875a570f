"""Asking before something is done that cannot be taken back, and saying what is not guaranteed.

Invariants: what is not guaranteed is said every time, on standard error, with `--yes` as without;
without a terminal nobody is asked, and nothing is done unless `--yes` says so (CLI-3).
"""

import sys
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from amends.cli.paper import Paper
from amends.cli.stopping import Stop
from amends.contracts.errors import Misuse, Refused


class Deed(StrEnum):
    """What is asked about."""

    COMMIT = "Commit"
    EXECUTE = "Execute"
    COMPENSATE = "Compensate"
    SETTLE = "Settle"
    CANCEL = "Cancel"
    WITHDRAW = "Withdraw"
    RELEASE = "Release"
    RULE = "Rule"
    RESTORE = "Restore"
    LIFT = "Lift"
    FORGET = "Forget"


_CALLS: Final = (
    "The provider is called once. If its answer is lost, the outcome is unknown, and stopping this "
    "command does not take anything back.",
    "One effect at the provider is as certain as the capability's key or look-up makes it, and no "
    "more.",
)
NOT_GUARANTEED: Final[Mapping[Deed, tuple[str, ...]]] = MappingProxyType(
    {
        Deed.COMMIT: _CALLS,
        Deed.EXECUTE: _CALLS,
        Deed.COMPENSATE: (
            "A compensation is a second effect. It does not erase the first one, and it can fail.",
            *_CALLS,
        ),
        Deed.SETTLE: (
            "The provider is not asked: what you say is believed, under your name.",
            "A wrong verdict cannot be taken back. Later evidence is kept beside it.",
        ),
        Deed.CANCEL: (
            "Once it is claimed this is only a request: the effect may happen all the same.",
        ),
        Deed.WITHDRAW: (
            "The plan cannot be committed any more. What was committed before is not undone.",
        ),
        Deed.RULE: (
            "The record stays as it is, and so does what happened. With --allow-compensation its "
            "effect may be offset again: make sure first that it is there.",
        ),
        Deed.RELEASE: (
            "What the lost store knew and this one does not may be there at the provider already.",
        ),
        Deed.LIFT: (
            "The next retention run may forget it, and what was forgotten cannot be had back.",
        ),
        Deed.FORGET: (
            "What is forgotten cannot be had back. Backups and exported values are not reached: "
            "they are yours to look after.",
        ),
        Deed.RESTORE: (
            "What was done after the backup may be there at the provider, and the restored store "
            "does not know of it.",
            "All that was open in the backup is frozen until an operator releases it, one by one.",
        ),
    }
)


def confirm(deed: Deed, stop: Stop, notes: Paper, *, yes: bool) -> None:
    """Say what is not guaranteed and ask, unless `yes` has answered already.

    Raises `Misuse` (`cli.confirmation_required`) where nobody can be asked, and `Refused`
    (`cli.not_confirmed`) for any answer but a yes.
    """
    for sentence in NOT_GUARANTEED[deed]:
        notes.line(("! ", "yellow"), sentence)
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Misuse(
            "cli.confirmation_required",
            "Nobody can be asked here, and nothing was done.",
            next_step="Give --yes once you mean it.",
        )
    with stop.asking() as wait_for_words:
        sys.stderr.write(f"{deed}? [y/N] ")
        sys.stderr.flush()
        wait_for_words(sys.stdin)
        answer = sys.stdin.readline()
    if answer.strip().lower() not in {"y", "yes"}:
        raise Refused(
            "cli.not_confirmed", "You did not say yes, and nothing was done.", next_step=""
        )
