"""Inputs and outputs as they may be shown: through the redactor of the capability that they are of.

Invariants: what a capability declares as secret is hidden wherever its values are shown (RD-2);
where neither the capability nor its plan is at hand, nobody knows what is secret in a value, so it
is not shown at all.
"""

from typing import Final

import msgspec

from amends.contracts.documents import TransactionPlan
from amends.contracts.enums import Mode
from amends.contracts.errors import Refused
from amends.contracts.ids import CapabilityId
from amends.contracts.json_types import Json, JsonText
from amends.contracts.redaction import Redactor
from amends.runtime.registry import Registry
from amends.transactions.registration import supported_modes

NOT_SHOWN: Final = "[not shown: name the app that declares it with --app]"


class Values:
    """Shows values of the capabilities that are registered."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def admits(self, capability_id: CapabilityId, mode: Mode) -> bool:
        """Whether a capability can be asked for this at all; yes, where it is not at hand."""
        registered = self._registry.find(capability_id)
        return registered is None or mode in supported_modes(registered.capability)

    def show(
        self,
        capability_id: CapabilityId,
        stored: JsonText | None,
        plan: TransactionPlan | None = None,
    ) -> Json:
        """A stored value without what is declared secret; null where none is stored."""
        if stored is None:
            return None
        pointers = self._pointers(capability_id, plan)
        if pointers is None:
            return NOT_SHOWN
        value: Json = msgspec.json.decode(stored)
        return Redactor(pointers).json(value)

    def _pointers(
        self, capability_id: CapabilityId, plan: TransactionPlan | None
    ) -> tuple[str, ...] | None:
        """What is secret in its own values and in those of what compensates it."""
        planned = plan.data.redact if plan is not None else None
        registered = self._registry.find(capability_id)
        if registered is None:
            return planned
        try:
            serving = self._registry.serving(registered)
        except Refused:
            serving = registered
        own, other = registered.capability.data.redact, serving.capability.data.redact
        return (*own, *other, *(planned or ()))
