"""Moving a stranded intent to another grant: one explicit act of a person (GR-4).

Any change of a grant strands what was recorded under it, and that fails closed. A person who looked
at both grants may say, once for each change, that the intent stands under the new one. Key, input
and tenant stay. The worker's journal has an act of its own for an entry that is there already,
which is then only looked up; where there is none, the first dispatch goes through both verifiers, a
permit and the seal like any other.

Only in version 6: a ledger that holds such an act has format 3.
"""

from typing import Final

from msgspec.structs import replace

from amends.contracts.codes import coded
from amends.contracts.worker_grant import CapabilityGrant, grant_fingerprint
from amends.ledger.document import check_room
from amends.ledger.records import (
    FORMAT_6,
    Ledger,
    Supersession,
    require_operation,
    with_operation,
)
from amends.ledger.table import TERMINAL

TEXT_BYTES: Final = 2000


def supersede_grant(
    ledger: Ledger, operation_key: str, grant: CapabilityGrant, *, who: str, why: str
) -> Ledger:
    """The ledger with the open intent under this grant; persist it under a fresh fence.

    Raises `Refused`: `ledger.operation_unknown`, `ledger.compensation_unknown`,
    `ledger.grant_tool_mismatch`, `ledger.compensation_not_granted`, `ledger.full`, and
    `ledger.supersede_refused` for an intent that has ended, a grant that is the same, or missing
    words.
    """
    operation = require_operation(ledger, operation_key)
    held, new = operation.compensation, grant_fingerprint(grant)
    if held is None:
        raise coded("ledger.compensation_unknown")
    if grant.tool != operation.tool:
        raise coded("ledger.grant_tool_mismatch")
    if grant.max_compensations < 1:
        raise coded("ledger.compensation_not_granted")
    if held.state in TERMINAL or held.grant_fingerprint == new or not _is_said(who, why):
        raise coded("ledger.supersede_refused")
    step = Supersession(who=who, why=why, old=held.grant_fingerprint, new=new)
    moved = replace(held, grant_fingerprint=new, superseded=(*held.superseded, step))
    changed = with_operation(ledger, replace(operation, compensation=moved))
    changed = replace(changed, format_version=FORMAT_6)
    check_room(changed)
    return changed


def _is_said(*texts: str) -> bool:
    return all(text.strip() and len(text.encode()) <= TEXT_BYTES for text in texts)
