"""Clients that find out: owners and operators look up what is unknown, operators rule on it."""

from amends.contracts.actions import Action, TransactionContext
from amends.contracts.documents import TransactionRecord
from amends.contracts.enums import Mode, Status, Verdict
from amends.contracts.ids import ProviderOperationId
from amends.contracts.outcomes import ProviderOperation
from amends.runtime.operating import Operating
from amends.runtime.requests import Request
from amends.simulation.client import ALICE, OLGA, Client, Habits, Move
from amends.testing.provider import PROVIDER


class Investigator(Client):
    """Looks at what is unknown."""

    def habits(self) -> Habits:
        """What an investigator does, and how often."""
        return {self._may_reconcile: 2, self._may_rule: 0.7}

    def _unknown(self) -> list[TransactionRecord]:
        return [one for one in self.records() if one.status is Status.OUTCOME_UNKNOWN]

    def _may_reconcile(self) -> Move | None:
        unknown = self._unknown()
        return (lambda: self._reconcile(self.lot.choice(unknown))) if unknown else None

    async def _reconcile(self, record: TransactionRecord) -> None:
        """Look up: the owner waits for the time, an operator may insist."""
        caller = self.lot.choice((ALICE, OLGA))
        context = TransactionContext(mode=Mode.RECONCILE, transaction_id=record.transaction_id)
        action = Action(
            capability_id=record.capability_id,
            transaction=context,
            input=self.input_of(record.action_id) if self.town.promise.redacts else None,
        )
        insist = caller is OLGA and self.lot.random() < 0.7
        found = self._operation(record) if insist and self.lot.random() < 0.5 else None
        request = Request(action=action, caller=caller, insist=insist, provider_operation=found)
        await self.send(request)

    def _operation(self, record: TransactionRecord) -> ProviderOperation | None:
        """What an operator reads in the provider's books of this effect."""
        for one in self.town.bank.effects(until=self.town.seconds()):
            if one.arrival.key == record.provider_key:
                return ProviderOperation(PROVIDER, ProviderOperationId(one.operation_id))
        return None

    def _may_rule(self) -> Move | None:
        unknown = self._unknown()
        return (lambda: self._rule(self.lot.choice(unknown))) if unknown else None

    async def _rule(self, record: TransactionRecord) -> None:
        """Settle by hand, as the provider's books stand; what is in flight does not show there.

        Who rules so must have taken the risk, since the word may arrive much later than the look.
        On a refund nobody does: that would free the way for a second one.
        """
        town, key = self.town, record.provider_key
        there = any(one.arrival.key == key for one in town.bank.effects(until=town.seconds()))
        coming = any(one.arrival.key == key for one in town.bank.effects())
        if record.mode is Mode.COMPENSATE and coming and not there:
            return
        accept_risk = coming or self.lot.random() < 0.5
        await town.ask(
            f"olga rules on {record.transaction_id}",
            lambda engine: Operating(engine).settle(
                OLGA,
                record.transaction_id,
                Verdict.COMMITTED if there else Verdict.NOT_COMMITTED,
                reference="books",
                note="looked it up",
                accept_risk=accept_risk,
                seen_revision=record.revision,
            ),
        )
