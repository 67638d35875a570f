"""What must hold in every world at every moment, as pure functions that list what is broken.

Each takes what a store holds (`take_snapshot`), what the provider counted, or both, and returns one
sentence per violation; an empty list is the proof. Effects are given as the provider's own count:
the key of each effect, once per effect. `check_world` asks all that one moment can answer,
`check_history` all that two moments can.

    assert await check_world(store, keys_of_effects, ring) == []

Deliberately not here: how a world comes about, and anything that only one scenario promises.
"""

import base64
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from amends.contracts.documents import ActionDocument, TransactionRecord
from amends.contracts.enums import IN_FLIGHT, Mode, Status, Verdict
from amends.contracts.evidence import Receipt, ReceiptType
from amends.contracts.ids import ActionId, TenantId
from amends.contracts.outcomes import ProviderOperation
from amends.receipts.chain import chain_of
from amends.receipts.signing import KeyRing
from amends.receipts.verify import FaultCode, verify_chain
from amends.stores.port import Store
from amends.testing.snapshots import Snapshot, take_snapshot
from amends.transactions.replay import TERMINAL, reopenable

_STARTS: Final = frozenset(
    {
        ReceiptType.EXECUTION_STARTED,
        ReceiptType.COMMIT_STARTED,
        ReceiptType.COMPENSATION_STARTED,
    }
)
_ABOUT_ANOTHER: Final = frozenset({ReceiptType.EVIDENCE_KEPT, ReceiptType.CORRECTION})
"""Receipts that may name an operation which is not the record's: that is why they were written."""

_HOLDING: Final = frozenset({Status.COMPENSATING, Status.OUTCOME_UNKNOWN, Status.RECONCILING})


async def check_world(store: Store, provider_effects: Iterable[str], keys: KeyRing) -> list[str]:
    """Everything that must hold of one store and its provider, now.

    `provider_effects` holds the provider key of each effect, once per effect, of every effect that
    Amends had a part in. Give an empty ring to leave signatures unchecked.
    """
    return check_snapshot(await take_snapshot(store), tuple(provider_effects), keys)


def check_snapshot(snapshot: Snapshot, effects: Sequence[str], keys: KeyRing) -> list[str]:
    """As `check_world`, of what was read already."""
    return [
        *one_winner_per_plan(snapshot),
        *effects_are_claimed(snapshot, effects),
        *one_effect_per_intent(effects),
        *references_stay(snapshot),
        *revisions_grow_in_receipts(snapshot),
        *unknown_is_never_repeated(snapshot),
        *receipts_verify(snapshot, keys),
        *chains_reach_their_records(snapshot),
        *compensations_are_bounded(snapshot, effects),
        *verdicts_are_true(snapshot, effects),
    ]


def check_history(before: Snapshot, after: Snapshot) -> list[str]:
    """Everything that must hold between two moments of one store."""
    return [
        *revisions_grow(before, after),
        *references_are_never_replaced(before, after),
        *terminal_records_stand(before, after),
        *receipts_only_grow(before, after),
    ]


# ── one moment ───────────────────────────────────────────────────────────────────────────────────


def one_winner_per_plan(snapshot: Snapshot) -> list[str]:
    """At most one action has ever claimed a plan, and it did so once."""
    claims = Counter(
        (one.tenant, one.context.plan_id)
        for one in snapshot.actions
        if one.mode is Mode.COMMIT and one.context.plan_id is not None and one.attempted
    )
    started = Counter(
        (entry.tenant, entry.receipt.chain)
        for entry in snapshot.feed
        if entry.receipt.step.type is ReceiptType.COMMIT_STARTED
    )
    return [
        *(
            f"plan {plan} of {tenant} was claimed by {n}"
            for (tenant, plan), n in claims.items()
            if n > 1
        ),
        *(
            f"{chain} of {tenant} committed {n} times"
            for (tenant, chain), n in started.items()
            if n > 1
        ),
    ]


def effects_are_claimed(snapshot: Snapshot, effects: Iterable[str]) -> list[str]:
    """No effect without a durable claim: each one's key belongs to a record with an attempt."""
    licensed = {one.provider_key for one in snapshot.records if one.effect_attempts > 0}
    return [f"an effect under {key!r} was never licensed" for key in set(effects) - licensed]


def one_effect_per_intent(effects: Iterable[str]) -> list[str]:
    """At most one effect per provider key."""
    return [f"{key!r} had {n} effects" for key, n in Counter(effects).items() if n > 1]


def references_stay(snapshot: Snapshot) -> list[str]:
    """The receipts of one transaction name one provider operation, which is the record's."""
    chains = snapshot.chains
    return [
        f"{record.transaction_id} holds {record.provider_operation}, its receipts {named}"
        for record in snapshot.records
        if (named := _named(chains.get((record.tenant, chain_of(record.transaction_id)), ())))
        and named != _pair(record.provider_operation)
    ]


def _named(chain: Iterable[Receipt]) -> set[tuple[str, str]]:
    steps = (one.step for one in chain if one.step.type not in _ABOUT_ANOTHER)
    return {pair for step in steps for pair in _pair(step.operation)}


def _pair(operation: ProviderOperation | None) -> set[tuple[str, str]]:
    return set() if operation is None else {(operation.provider, operation.operation_id)}


def revisions_grow_in_receipts(snapshot: Snapshot) -> list[str]:
    """Along its chain a record's revision never falls."""
    broken = []
    for (tenant, name), chain in snapshot.chains.items():
        revisions = [
            one.step.revision
            for one in chain
            if one.step.status is not None and one.step.revision is not None
        ]
        if revisions != sorted(revisions):
            broken.append(f"the revisions in {name} of {tenant} fall: {revisions}")
    return broken


def unknown_is_never_repeated(snapshot: Snapshot) -> list[str]:
    """After an unknown outcome nothing begins again but a reconciliation."""
    broken = []
    for (tenant, name), chain in snapshot.chains.items():
        types = [one.step.type for one in chain]
        if ReceiptType.OUTCOME_UNKNOWN in types:
            later = types[types.index(ReceiptType.OUTCOME_UNKNOWN) :]
            broken += [
                f"{one} after unknown in {name} of {tenant}" for one in later if one in _STARTS
            ]
    return broken


def receipts_verify(snapshot: Snapshot, keys: KeyRing) -> list[str]:
    """Every chain is linear from its first receipt on, and the heads of settlements are signed.

    A claim and a checkpoint are signed by the settlement that follows; a chain whose transaction is
    still open may therefore end without a signature.
    """
    open_chains = {
        (one.tenant, chain_of(one.transaction_id))
        for one in snapshot.records
        if one.status in IN_FLIGHT or one.status is Status.OUTCOME_UNKNOWN
    }
    return [
        f"{name[1]} of {name[0]}: {fault.code.value} at {fault.position}"
        for name, chain in snapshot.chains.items()
        for fault in verify_chain(chain, keys, chain=name[1]).findings
        if not (fault.code is FaultCode.SIGNATURE_MISSING and name in open_chains)
    ]


def chains_reach_their_records(snapshot: Snapshot) -> list[str]:
    """The last receipt of a record's change speaks of the record as it stands: nothing is cut."""
    chains = snapshot.chains
    broken = []
    for record in snapshot.records:
        chain = chains.get((record.tenant, chain_of(record.transaction_id)), ())
        told = [one.step for one in chain if one.step.status is not None]
        last = (told[-1].revision, told[-1].status) if told else None
        if last != (record.revision, record.status):
            broken.append(f"{record.transaction_id} is {record.revision}, its receipts {last}")
    return broken


def compensations_are_bounded(snapshot: Snapshot, effects: Iterable[str]) -> list[str]:
    """A target has no more compensations than declared, at the provider as in the slots."""
    limits: dict[tuple[str, str], int] = {
        (one.tenant, one.transaction_id): one.limit for one in snapshot.slots
    }
    held = {
        (one.tenant, one.transaction_id, holder.transaction_id)
        for one in snapshot.slots
        for holder in one.holders
    }
    counted = Counter(effects)
    made: Counter[tuple[str, str]] = Counter()
    broken = []
    for record, target in _compensations(snapshot):
        made[record.tenant, target] += counted[record.provider_key]
        if _holds(record) and (record.tenant, target, record.transaction_id) not in held:
            broken.append(f"{record.transaction_id} compensates without a slot")
    for (tenant, target), times in made.items():
        limit = limits.get((tenant, target), 0)
        if times > limit:
            broken.append(f"{target} of {tenant} was compensated {times} times, not {limit}")
    full = (one for one in snapshot.slots if one.limit and len(one.holders) > one.limit)
    return [*broken, *(f"{one.transaction_id} has {len(one.holders)} holders" for one in full)]


def _compensations(snapshot: Snapshot) -> Iterator[tuple[TransactionRecord, str]]:
    """Each compensation's record with the transaction of its target."""
    of_action: dict[tuple[TenantId, ActionId], ActionDocument] = {
        (one.tenant, one.action_id): one for one in snapshot.actions
    }
    for record in snapshot.records:
        if record.context.compensation_for is not None:
            target = of_action[record.tenant, record.context.compensation_for]
            yield record, target.transaction_id


def _holds(record: TransactionRecord) -> bool:
    return record.status in _HOLDING or record.verdict in (Verdict.COMMITTED, Verdict.PARTIAL)


def verdicts_are_true(snapshot: Snapshot, effects: Iterable[str]) -> list[str]:
    """What is said of an effect is what the provider counted; an operator's word aside.

    Every capability of the store has to act through the provider that counted.
    """
    counted = Counter(effects)
    broken = []
    for record in snapshot.records:
        times = counted[record.provider_key]
        if record.ruling is not None or record.verdict in (None, Verdict.PARTIAL):
            continue
        if (times > 0) != (record.verdict is Verdict.COMMITTED):
            broken.append(f"{record.transaction_id} is {record.verdict}, with {times} effects")
    return broken


# ── two moments ──────────────────────────────────────────────────────────────────────────────────


def revisions_grow(before: Snapshot, after: Snapshot) -> list[str]:
    """No document vanishes or goes back; one that kept its revision kept its content."""
    now = after.documents
    broken = []
    for name, old in before.documents.items():
        new = now.get(name)
        if new is None:
            broken.append(f"{name} has vanished")
        elif new.revision < old.revision:
            broken.append(f"{name} went back from {old.revision} to {new.revision}")
        elif new.revision == old.revision and new != old:
            broken.append(f"{name} changed within revision {old.revision}")
    return broken


def references_are_never_replaced(before: Snapshot, after: Snapshot) -> list[str]:
    """A provider operation that was recorded once stays the recorded one."""
    now = {(one.tenant, one.transaction_id): one for one in after.records}
    return [
        f"{old.transaction_id} names {new.provider_operation}, not {old.provider_operation}"
        for old in before.records
        if (new := now.get((old.tenant, old.transaction_id))) is not None
        and old.provider_operation is not None
        and _pair(new.provider_operation) != _pair(old.provider_operation)
    ]


def terminal_records_stand(before: Snapshot, after: Snapshot) -> list[str]:
    """A record that had ended for good is the same record still."""
    now = {(one.tenant, one.transaction_id): one for one in after.records}
    ended = (one for one in before.records if one.status in TERMINAL and not reopenable(one))
    return [
        f"{old.transaction_id} had ended as {old.status}, and moved"
        for old in ended
        if now.get((old.tenant, old.transaction_id)) != old
    ]


def receipts_only_grow(before: Snapshot, after: Snapshot) -> list[str]:
    """Every receipt stays where it was in the store's order."""
    kept = after.feed[: len(before.feed)]
    return [] if kept == before.feed else ["receipts of the past have changed"]


# ── bytes ────────────────────────────────────────────────────────────────────────────────────────


def canary_absent(canary: str, *places: bytes | str) -> list[str]:
    """The canary appears in none of these: neither plainly nor in base64, hex or escapes."""
    spellings = set(_spellings(canary))
    return [
        f"the canary appears in place {number}, as {spelling.decode('ascii', 'replace')!r}"
        for number, place in enumerate(places)
        for spelling in sorted(spellings)
        if spelling in (place.encode("utf-8", "surrogatepass") if isinstance(place, str) else place)
    ]


def _spellings(canary: str) -> Iterator[bytes]:
    raw = canary.encode()
    yield raw
    yield raw.hex().encode()
    yield raw.hex().upper().encode()
    yield canary.encode("unicode_escape")
    yield canary.encode("utf-16-le")
    for shift in range(3):
        # Only the whole groups of three bytes look alike wherever the text begins.
        whole = base64.b64encode(b"\0" * shift + raw)[(4 if shift else 0) :]
        yield whole[: (len(shift * b"\0" + raw) // 3) * 4 - (4 if shift else 0)]
