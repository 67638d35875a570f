"""What was said of an effect outside its own settlement, as one value that can be kept and passed.

It comes from an attempt that answered late, from a provider's own event, or from a settlement that
the store had refused. Everything in it is as it may be stored: redacted, hashed, bounded.
"""

import msgspec

from amends.contracts.ids import Fence, TenantId, TransactionId
from amends.contracts.principals import PrincipalRef
from amends.transactions.settlement import Reading, StoredOutput


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """Something said of an effect outside its own settlement: by whom, of which attempt.

    `event` names what was said, so that hearing it again changes nothing.
    """

    tenant: TenantId
    transaction_id: TransactionId
    reading: Reading
    output: StoredOutput
    actor: PrincipalRef
    fence: Fence | None = None
    event: str | None = None
