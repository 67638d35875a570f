"""A person's ruling on a worker's effect, in the accounts of both sides (INT-3).

    ledger looked at → journal ruled → *durable* → ledger → *durable* → (the runtime) transaction

Whoever goes on after a crash makes the same ruling again: what is durable already stays, and the
rest follows. What the journal says stands. One that has ended otherwise contradicts the ruling and
nothing is changed; one that was cancelled has ended, and stays so in both accounts.

Behind this the intent is never sent: the ledger licenses nothing that has ended, and the journal
has the key, also that of an entry which never came to it. So a frame that is still under way, of a
host that had been given up, finds it closed.

Deliberately not here: who may rule and when (`transactions.reconciliation`), and where a journal is
(`WorkerLink`).
"""

from typing import Final, NamedTuple

from amends.connectors.port import HandRuling, OriginalEffect
from amends.contracts.codes import coded
from amends.contracts.enums import Verdict
from amends.contracts.outcomes import ProviderOperation
from amends.contracts.worker_payload import Failed, PayloadFormat, Succeeded, Terminal, ToolPayload
from amends.host.endings import operation_of
from amends.host.identities import ledger_name, plan_of
from amends.host.keeping import LedgerKeeper
from amends.host.link import EntryRuling, WorkerLink
from amends.ledger.compensations import observe_compensation
from amends.ledger.operations import observe_operation
from amends.ledger.records import Ledger, LedgerCompensation, LedgerOperation, LedgerState
from amends.ledger.table import TERMINAL, state_of

NO_OPERATION: Final = "ledger.operation_unknown"


class _Entry(NamedTuple):
    """What is ruled on: an operation of the ledger, or the intent under it."""

    operation: LedgerOperation
    intent: LedgerCompensation | None

    @property
    def key(self) -> str:
        return self.intent.compensation_key if self.intent else self.operation.operation_key

    @property
    def state(self) -> LedgerState:
        return self.intent.state if self.intent else self.operation.state

    def ended(self, ledger: Ledger, ending: Terminal) -> Ledger:
        """The ledger with it ended; what has ended stays. Raises as `observe_operation`."""
        observe = observe_compensation if self.intent else observe_operation
        return observe(ledger, self.operation.operation_key, state_of(ending))


async def rule_by_hand(
    link: WorkerLink, ruling: HandRuling, form: PayloadFormat
) -> ProviderOperation | None:
    """Resolve the journal, then the ledger; the reference of what was resolved.

    None where no intent was recorded, so that there is nothing to resolve. Durable when it returns.
    Raises `Conflict` (`ledger.transition_refused`, `journal.contradicted`), as `WorkerLink.rule`
    and as opening and persisting the ledger; before the last of these nothing was changed.
    """
    keeper = await _opened(link, ruling)
    entry = None if keeper is None else _entry(keeper.ledger, ruling)
    if keeper is None or entry is None:
        if ruling.operation is not None:
            raise coded(NO_OPERATION)
        return None
    asked = _ending(ruling, form)
    if entry.state is not LedgerState.CANCELLED:
        entry.ended(keeper.ledger, asked)
    standing = await link.rule(ruling.tenant, _for_the_journal(entry, ruling, asked))
    if entry.state not in TERMINAL:
        await keeper.persist(entry.ended(keeper.ledger, standing))
    return operation_of(entry.key)


async def _opened(link: WorkerLink, ruling: HandRuling) -> LedgerKeeper | None:
    """The ledger under a fresh fence. An inverse stands in its target's."""
    whose = _target(ruling) or ruling
    plan = plan_of(whose.intent_digest)
    name = ledger_name(ruling.tenant, whose.transaction_id)
    record = await link.ledger(name, plan, create=False)
    return None if record is None else await LedgerKeeper.open(record, plan)


def _entry(ledger: Ledger, ruling: HandRuling) -> _Entry | None:
    """The intent of the very record that is ruled on.

    A target has one slot, and whoever recorded an intent keeps it: one that the record does not
    name yet, since its host died right behind recording it, is nobody else's.
    """
    if not ledger.operations:
        return None
    operation = ledger.operations[0]
    intent = None if _target(ruling) is None else operation.compensation
    if _target(ruling) is not None and intent is None:
        return None
    entry = _Entry(operation, intent)
    if ruling.operation is not None and str(ruling.operation.operation_id) != entry.key:
        raise coded("ledger.compensation_exists" if intent else NO_OPERATION)
    return entry


def _target(ruling: HandRuling) -> OriginalEffect | None:
    """What an inverse of this tool offsets; offsetting another's effect is an original here."""
    original = ruling.original
    return original if original and original.capability_id == ruling.capability_id else None


def _ending(ruling: HandRuling, form: PayloadFormat) -> Terminal:
    """What the accounts say then. A part that happened did happen, and may be offset."""
    if ruling.verdict is Verdict.NOT_COMMITTED:
        return Failed(ruling.note)
    text = form is PayloadFormat.TEXT
    return Succeeded(ToolPayload.text("") if text else ToolPayload.json({}))


def _for_the_journal(entry: _Entry, ruling: HandRuling, ending: Terminal) -> EntryRuling:
    intent = entry.intent
    return EntryRuling(
        tool=entry.operation.tool,
        operation_key=entry.operation.operation_key,
        compensation_key=intent.compensation_key if intent else None,
        grant=intent.grant_fingerprint if intent else None,
        ending=ending,
        who=ruling.by,
        why=ruling.note,
        evidence=ruling.reference,
    )
