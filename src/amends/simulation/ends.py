"""What holds of a small world in the end, when all has healed and nothing is due any more.

Beside the invariants that hold of every world (`amends.testing.invariants`): every record ended
honestly, every answer that was final stayed so, and neither a key nor a closed approval nor a
cancelled action had an effect it must not have.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from amends.contracts.approvals import ApprovalRequest, ApprovalStatus
from amends.contracts.documents import ActionDocument, TransactionRecord
from amends.contracts.enums import MUTATING_MODES, Handler, Status, Verdict, WireStatus
from amends.contracts.results import Result
from amends.receipts.signing import KeyRing
from amends.simulation.laws import contradictions, risk_was_accepted
from amends.simulation.town import Town
from amends.stores.memory import MemoryStore
from amends.testing.invariants import check_world
from amends.transactions.contradictions import TWO_EFFECTS
from amends.transactions.reconciliation import absence_horizon_passed
from amends.transactions.replay import TERMINAL

_CLOSED: Final = frozenset(
    {
        ApprovalStatus.DENIED,
        ApprovalStatus.EXPIRED,
        ApprovalStatus.REVOKED,
        ApprovalStatus.WITHDRAWN,
    }
)


async def find_broken_ends(town: Town, keys: KeyRing) -> list[str]:
    """Everything that is wrong with a town that has come to rest."""
    effects = [one.arrival.key for one in town.bank.effects()]
    store = MemoryStore(memory=town.chronicle)
    return [
        *await check_world(store, effects, keys),
        *(text for one in _records(town) for text in _ended_honestly(town, one)),
        *(text for one in _records(town) for text in _found_out(town, one)),
        *_answers_stay(town),
        *_closed_approvals_had_no_use(town),
        *_keys_had_one_effect(town),
    ]


def _records(town: Town) -> list[TransactionRecord]:
    return list(town.chronicle.documents(TransactionRecord))


def _ended_honestly(town: Town, record: TransactionRecord) -> Iterator[str]:
    """Terminal, or unknown and a person was called; and true to the books for ever."""
    name, status = record.transaction_id, record.status
    if status is Status.OUTCOME_UNKNOWN:
        if record.attention is None:
            yield f"{name} is unknown, and nobody is called"
    elif status not in TERMINAL:
        yield f"{name} is {status} for ever"
    yield from contradictions(record, town.bank, town.seconds())
    action = town.chronicle.document(ActionDocument, record.action_id)
    settled = record.mode in MUTATING_MODES and record.settled_at is not None
    if settled and (action is None or action.result != record.result):
        yield f"{name} and its action {record.action_id} tell different results"


def _found_out(town: Town, record: TransactionRecord) -> Iterator[str]:
    """TX-RECON-2, TX-RECON-3: in good times whoever looks finds out, if that can be found out."""
    name, key, attempt = record.transaction_id, record.provider_key, record.attempt
    tried = record.reconcile_attempts - town.tried_before.get(name, 0)
    if record.status is not Status.OUTCOME_UNKNOWN or not tried or attempt is None:
        return
    if record.attention == TWO_EFFECTS:
        return
    if key not in town.bank.answered and key not in town.bank.charged:
        yield f"{name} was looked up {tried} times, and nobody was asked"
    reply = town.bank.answered.get(key)
    if reply is not None and reply.is_ready and not reply.refusal:
        yield f"{name} is unknown although its effect was found"
    missing = attempt.handler is Handler.RECONCILE and key in town.bank.answered and reply is None
    if missing and absence_horizon_passed(record, town.capability(record), attempt.started_at):
        yield f"{name} is unknown although its effect was missing for long enough"


def _answers_stay(town: Town) -> Iterator[str]:
    """What was told as final is still so."""
    for told in town.told:
        record = town.chronicle.document(TransactionRecord, told.transaction_id)
        if record is not None and not _agrees(told, record):
            yield f"{told.action_id} was told {told.status}, and its record is {record.status}"


def _agrees(told: Result, record: TransactionRecord) -> bool:
    if told.status is WireStatus.CANCELLED:
        return record.verdict is not Verdict.COMMITTED or record.action_id != told.action_id
    return told.status.value == record.status.value and told.verdict is record.verdict


def _closed_approvals_had_no_use(town: Town) -> Iterator[str]:
    """Denied, revoked, withdrawn, expired: then nothing was done."""
    for request in town.chronicle.documents(ApprovalRequest):
        action = town.chronicle.document(ActionDocument, request.action_id)
        if request.status in _CLOSED and action is not None and action.attempted:
            yield f"{action.action_id} was tried although its approval is {request.status}"


def _keys_had_one_effect(town: Town) -> Iterator[str]:
    """An idempotency key stands for one intent (ID-2) while it lives; a risk that a person took
    aside.
    """
    if town.promise.key_ttl_ms is not None:
        return
    done = {one.arrival.key for one in town.bank.effects()}
    used = Counter(
        record.idempotency_key
        for record in _records(town)
        if record.provider_key in done and not risk_was_accepted(record)
    )
    for key, times in used.items():
        if key is not None and times > 1:
            yield f"idempotency key {key} had {times} effects"
