"""What must hold at the end, whatever was killed, cut or stopped before.

Nothing that was answered is missing, nothing moved money twice, and every record has ended or is in
the hands of a person who was called. Each question returns one sentence per violation; an empty
list is the proof.

Deliberately not here: what holds at every moment (`invariants`), and what was done to the world.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from amends.contracts.documents import TransactionRecord
from amends.contracts.enums import IN_FLIGHT, Status
from amends.testing.effects import FileLedger
from amends.testing.errands import Answer
from amends.testing.snapshots import Snapshot, take_snapshot
from amends.testing.till import Till, effects_in

_FOR_GOOD: Final = frozenset({"committed", "compensated", "reconciled"})
_ROUNDS: Final = 20
_ROUND_MS: Final = 6 * 3_600_000


async def recover(till: Till) -> None:
    """Sweep until nothing is open, or until it is clear that it will not end."""
    for _ in range(_ROUNDS):
        if not unended(await take_snapshot(till.store)):
            return
        till.clock.step(_ROUND_MS)
        await till.sweeper.sweep()


def lost(heard: Sequence[Answer], snapshot: Snapshot) -> list[str]:
    """What was answered is there, at least as far on; what had ended is as it was told."""
    records: dict[str, TransactionRecord] = {one.transaction_id: one for one in snapshot.records}
    return [
        f"{answer.transaction_id} was answered as {answer.status} {answer.revision}"
        for answer in heard
        if answer.transaction_id is not None
        and answer.revision is not None
        and not _bears_out(answer, records.get(answer.transaction_id))
    ]


def _bears_out(answer: Answer, record: TransactionRecord | None) -> bool:
    if record is None or answer.revision is None or record.revision < answer.revision:
        return False
    return answer.status not in _FOR_GOOD or record.status.value == answer.status


def unended(snapshot: Snapshot) -> list[str]:
    """Records that are neither decided nor in the hands of a person who was called."""
    return [
        f"{one.transaction_id} is left {one.status}"
        for one in snapshot.records
        if one.status in IN_FLIGHT
        or (one.status is Status.OUTCOME_UNKNOWN and one.attention is None)
    ]


def doubled(snapshot: Snapshot, ledger: FileLedger) -> list[str]:
    """Actions that moved money more than once, under whatever keys and transactions."""
    action_of = {one.provider_key: one.action_id for one in snapshot.records}
    times = Counter(action_of.get(one.arrival.key) for one in effects_in(ledger))
    return [f"{action} moved money {n} times" for action, n in times.items() if n > 1]
