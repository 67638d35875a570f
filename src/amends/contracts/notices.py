"""What people are told about approvals: the notice, and how far a channel has come."""

from datetime import datetime

import msgspec

from amends.contracts.approvals import ApprovalStatus
from amends.contracts.documents import Document
from amends.contracts.enums import Mode, Risk
from amends.contracts.ids import ActionId, ApprovalId, CapabilityId, TenantId, TransactionId


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """One step of an approval request, for people: ids, times and states, never the input.

    `notice_id` is the hash of the step's receipt. A notice may come more than once, and then bears
    the same one. `status` and `revision` are those of when it was sent; `link` leads to where one
    decides.
    """

    notice_id: str
    event: str
    at: datetime
    tenant: TenantId
    approval_id: ApprovalId
    action_id: ActionId
    transaction_id: TransactionId
    capability_id: CapabilityId
    mode: Mode
    risk: Risk
    requester: str
    status: ApprovalStatus
    revision: int
    expires_at: datetime
    evidence: tuple[str, ...]
    reason: str
    link: str


class NoticeCursor(Document, frozen=True, kw_only=True):
    """How far a channel has come in the feed of receipts.

    While its due time lies ahead, somebody is at it, or it rests after a failure. `failures` counts
    those of the next notice, `given_up` the notices that were never taken.
    """

    cursor_id: str
    channel: str
    position: int
    failures: int = 0
    given_up: int = 0
