"""The provider's own word: events that arrive late, twice, out of order, or not at all.

They are true of the moment that they speak of, which may be long past: a refusal is told of a key
that has had its effect since.
"""

from functools import partial
from typing import Final

from amends.contracts.events import ProviderEvent, Said
from amends.runtime.engine import Engine
from amends.runtime.evidence import EvidenceDesk, Taken
from amends.simulation.client import OLGA, Client, Habits, Move
from amends.testing.effects import Ruling
from amends.testing.provider import PROVIDER

_FINAL: Final = frozenset({"card_declined", "amount_refused", "already_refunded"})
"""Refusals of a request that the provider will not take up again by itself."""


class Messenger(Client):
    """Brings what the provider says of its own accord."""

    def habits(self) -> Habits:
        """What a messenger does, and how often."""
        return {self._may_bring: 2}

    def _may_bring(self) -> Move | None:
        told = [
            one
            for one in self.town.bank.rulings(until=self.town.seconds()).items()
            if one[1].is_effect or one[1].refusal in _FINAL
        ]
        return (lambda: self._bring(*self.lot.choice(told))) if told else None

    async def _bring(self, position: int, ruling: Ruling) -> None:
        """Bring one event; now and then without the key or without the operation's id."""
        names = self.lot.choice(((True, True), (True, False), (False, True)))
        event = ProviderEvent(
            provider=PROVIDER,
            event_id=f"event-{position}",
            said=Said.APPLIED if ruling.is_effect else Said.NOT_APPLIED,
            provider_key=ruling.arrival.key if names[0] else None,
            operation_id=(ruling.operation_id or None) if names[1] else None,
        )
        taken = await self.town.ask(f"event {position}", partial(_take, event))
        if taken is not None:
            self.town.count(f"event {event.said} {taken}")


async def _take(event: ProviderEvent, engine: Engine) -> Taken:
    return await EvidenceDesk(engine).take(OLGA, event)
