"""Providers as capabilities declare them, and the times and people around an unknown outcome."""

from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from amends.contracts.declarations import Capability, ExecutionContract
from amends.contracts.enums import Handler, PrincipalKind, Status
from amends.contracts.ids import Fence
from amends.contracts.json_types import json_text
from amends.contracts.principals import OPERATE_SCOPE
from amends.testing.builders import NOW, attempt, capability, principal, record_in
from amends.transactions.settlement import StoredOutput

SECOND: Final = 1000
LEASE_END: Final = NOW + timedelta(seconds=35)
HORIZON: Final = LEASE_END + timedelta(seconds=60)
"""The last instant at which an effect of `UNKNOWN` could still appear, as `HAS_HORIZON` says."""

LATER: Final = NOW + timedelta(seconds=200)
OPERATOR: Final = principal("olga", kind=PrincipalKind.OPERATOR)
BY_SCOPE: Final = principal("omar", scopes=(OPERATE_SCOPE,))
OUTPUT: Final = StoredOutput(output=json_text(b'{"id":"ch_1"}'), output_hash="hash")

UNKNOWN: Final = record_in(Status.OUTCOME_UNKNOWN)
LOOKING: Final = record_in(Status.RECONCILING)
REDRIVING: Final = replace(
    LOOKING,
    attempt=attempt(number=2, fence=Fence("fen_2"), redrive=True),
    effect_attempts=2,
)


def serving(
    handlers: tuple[Handler, ...] = (Handler.EXECUTE, Handler.RECONCILE), **execution: object
) -> Capability:
    """A capability whose provider behaves as declared here."""
    return capability(handlers=handlers, execution=replace(ExecutionContract(), **execution))


LOOKS_UP: Final = serving(lookup_by_key=True)
NO_WAY: Final = serving((Handler.EXECUTE,))
DEDUPES: Final = serving((Handler.EXECUTE,), provider_dedup_window_ms=60 * SECOND)
HAS_HORIZON: Final = serving(
    lookup_by_key=True, in_flight_horizon_ms=50 * SECOND, consistency_delay_ms=10 * SECOND
)
