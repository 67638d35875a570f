"""Telling people about approvals, after the fact and by the receipts (AP-3, decision 15).

The feed of receipts is the outbox: nothing is sent before its step is durable, and what is durable
is sent, by whichever process comes first, again after a crash if need be. A notice may come twice;
its id says so. A channel that fails is tried again later and later, a bounded number of times, and
stands in the way of nothing else.

Deliberately not here: the channels themselves, and anything that a pipeline would wait for.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Final, Protocol
from urllib.parse import quote

from msgspec.structs import replace

from amends.contracts.approvals import ApprovalRequest, ApprovalStatus
from amends.contracts.errors import Corrupt, Unavailable
from amends.contracts.evidence import ReceiptType
from amends.contracts.ids import TenantId
from amends.contracts.notices import Notice, NoticeCursor
from amends.stores.port import ChangeSet, Due, FeedEntry, Insert, Lost, Replace, Store, Stored

TOLD: Final = frozenset(
    {
        ReceiptType.APPROVAL_REQUESTED,
        ReceiptType.APPROVAL_GRANTED,
        ReceiptType.APPROVAL_DENIED,
        ReceiptType.APPROVAL_REVOKED,
        ReceiptType.APPROVAL_EXPIRED,
    }
)
CURSORS: Final = TenantId("amends")
"""The tenant under which the cursors are kept; they belong to nobody."""

TRIES: Final = 8
OLDEST: Final = timedelta(days=1)
"""What was decided longer ago is not told any more; what still waits is."""

_AT_ONCE: Final = 5
_TIMEOUT_S: Final = 10.0
_HELD_MS: Final = 60_000
_FIRST_REST_MS: Final = 1_000
_LONGEST_REST_MS: Final = 300_000
_KEPT_EVERY: Final = 1_000
_LOG: Final = logging.getLogger("amends.notices")


class Channel(Protocol):
    """Carries notices to people."""

    @property
    def name(self) -> str:
        """Names the channel for good: how far it has come is kept under it."""
        ...

    async def tell(self, notice: Notice) -> None:
        """Pass one on. Whatever it raises means that it was not taken, and is tried again."""
        ...


class Notifier:
    """Passes notices on to one channel. Any number of them may follow one store."""

    def __init__(
        self, store: Store, channel: Channel, *, link: str = "", poll_s: float = 1.0
    ) -> None:
        self._store = store
        self._channel = channel
        self._link = link
        self._poll_s = poll_s
        self._looked = 0

    async def run(self) -> None:
        """Follow the feed until cancelled. A store that cannot be reached is tried again later."""
        while True:
            more = False
            with contextlib.suppress(Unavailable, Corrupt):
                more = await self.round()
            if not more:
                await self._wait()

    async def _wait(self) -> None:
        """For news of the store, which may be lost, so at most until the next poll."""
        try:
            await self._store.news(self._poll_s)
        except Unavailable:
            await asyncio.sleep(self._poll_s)

    async def round(self) -> bool:
        """Pass on a few notices; whether there is more to look at now."""
        stored = await self._store.get(NoticeCursor, CURSORS, self._id)
        if stored is not None and stored.due_at is not None and not stored.lapsed:
            return False
        position = max(stored.document.position if stored else 0, self._looked)
        entries = await self._store.feed(after=position)
        if not entries:
            return False
        told = [one for one in entries if one.receipt.step.type in TOLD]
        if told:
            return await self._pass_on(stored, told[:_AT_ONCE])
        self._looked = entries[-1].position
        if stored is None or self._looked - stored.document.position >= _KEPT_EVERY:
            await self._keep(await self._next(stored, self._looked), None)
        return True

    @property
    def _id(self) -> str:
        return f"notices:{self._channel.name}"

    async def _pass_on(
        self, stored: Stored[NoticeCursor] | None, entries: Sequence[FeedEntry]
    ) -> bool:
        before = stored.document.position if stored else 0
        cursor = await self._next(stored, before)
        if not await self._keep(cursor, Due(after_ms=_HELD_MS)):
            return False  # somebody else is at it
        for entry in entries:
            taken = await self._tell(entry)
            if taken:
                cursor = replace(cursor, position=entry.position, failures=0)
                continue
            cursor = replace(cursor, failures=cursor.failures + 1)
            if cursor.failures < TRIES:
                break
            _LOG.error("given up: %s on channel %s", entry.receipt.hash, self._channel.name)
            cursor = replace(
                cursor, position=entry.position, failures=0, given_up=cursor.given_up + 1
            )
        rest = Due(after_ms=_rest_ms(cursor.failures)) if cursor.failures else None
        kept = await self._keep(replace(cursor, revision=cursor.revision + 1), rest)
        return kept and not cursor.failures

    async def _next(self, stored: Stored[NoticeCursor] | None, position: int) -> NoticeCursor:
        now = stored.read_at if stored else await self._store.now()
        if stored is None:
            return NoticeCursor(
                tenant=CURSORS,
                revision=1,
                created_at=now,
                updated_at=now,
                cursor_id=self._id,
                channel=self._channel.name,
                position=position,
            )
        cursor = stored.document
        return replace(
            cursor,
            revision=cursor.revision + 1,
            updated_at=max(now, cursor.updated_at),
            position=max(position, cursor.position),
        )

    async def _keep(self, cursor: NoticeCursor, due: Due | None) -> bool:
        change = Insert(cursor, due) if cursor.revision == 1 else Replace(cursor, due)
        return not isinstance(await self._store.commit(ChangeSet(changes=(change,))), Lost)

    async def _tell(self, entry: FeedEntry) -> bool:
        """Whether the channel has taken it, or nobody needs to be told any more."""
        notice = await self._notice(entry)
        if notice is None:
            return True
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                await self._channel.tell(notice)
        except Exception as error:  # what a channel raises may hold its secret: only its type
            _LOG.warning("channel %s: %s", self._channel.name, type(error).__name__)
            return False
        return True

    async def _notice(self, entry: FeedEntry) -> Notice | None:
        step = entry.receipt.step
        assert step.approval_id is not None
        stored = await self._store.get(ApprovalRequest, entry.tenant, step.approval_id)
        if stored is None:
            return None
        request, now = stored.document, stored.read_at
        if step.type is ReceiptType.APPROVAL_REQUESTED:
            if request.status is not ApprovalStatus.PENDING or now >= request.expires_at:
                return None
        elif now - step.at > OLDEST:
            return None
        return Notice(
            notice_id=entry.receipt.hash,
            event=step.type.value,
            at=step.at,
            tenant=request.tenant,
            approval_id=request.approval_id,
            action_id=request.action_id,
            transaction_id=request.transaction_id,
            capability_id=request.capability_id,
            mode=request.mode,
            risk=request.risk,
            requester=request.requester.id,
            status=request.status,
            revision=request.revision,
            expires_at=request.expires_at,
            evidence=request.policy.evidence,
            reason=request.policy.reason,
            link=link_to(self._link, request),
        )


def link_to(template: str, request: ApprovalRequest) -> str:
    """Where one decides: `{approval_id}`, `{action_id}`, `{transaction_id}` and `{tenant}` are
    filled in, as one segment of a URL each.
    """
    for name in ("approval_id", "action_id", "transaction_id", "tenant"):
        template = template.replace(f"{{{name}}}", quote(getattr(request, name), safe=""))
    return template


def _rest_ms(failures: int) -> int:
    return min(_FIRST_REST_MS << (failures - 1), _LONGEST_REST_MS)
