"""What a capability's author says of the tool behind it, and whom to ask about an inverse (INT-4).

Nothing is allowed by default: a verifier that nobody registered says no. Functions of the
application are asked in threads of their own, so one that hangs holds nothing up but itself.

Deliberately not here: when they are asked (`workflow`), and time limits (`verifiers`).
"""

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

import msgspec

from amends.connectors.blocking import HandlerThreads
from amends.connectors.port import Call, OriginalEffect
from amends.contracts.canonical import canonical_bytes
from amends.contracts.codes import coded
from amends.contracts.ids import TenantId
from amends.contracts.json_types import Json
from amends.contracts.worker_grant import CapabilityGrant
from amends.contracts.worker_payload import PayloadFormat, ToolPayload
from amends.host.identities import tenant_scope
from amends.host.verifiers import Verifiers
from amends.ledger.targets import Question

InverseVerifier: TypeAlias = Callable[[Question, OriginalEffect], bool | Awaitable[bool]]
"""Says `True` if exactly this inverse is right for exactly this effect, as things are now."""

GrantCheck: TypeAlias = Callable[[TenantId, CapabilityGrant], bool | Awaitable[bool]]
"""Says `True` while a tenant has this grant and nobody revoked it."""


class WorkerTool(msgspec.Struct, frozen=True, kw_only=True):
    """What a capability's author says of the tool behind it.

    `cancelled_is_absent`: an adapter that reports *cancelled* has done nothing. Without a verifier
    nothing is ever compensated.
    """

    grant: CapabilityGrant
    verify: InverseVerifier | None = None
    granted: GrantCheck | None = None
    cancelled_is_absent: bool = False
    verifier_limit_s: float = 5.0

    def payload(self, value: Json) -> ToolPayload:
        """An input as it is sent and hashed: from its canonical bytes, within the grant.

        Raises `Refused` (`worker.payload_invalid`, `ledger.input_refused`).
        """
        grant = self.grant
        if grant.format is PayloadFormat.TEXT:
            if not isinstance(value, str):
                raise coded("worker.payload_invalid")
            payload = ToolPayload.text(value)
        else:
            payload = ToolPayload.json(msgspec.json.decode(canonical_bytes(value)))
        if payload.size > grant.max_input_bytes:
            raise coded("ledger.input_refused", {"limit": grant.max_input_bytes})
        return payload


class Judges:
    """Who is asked about the effects of one tool, and about their inverses."""

    def __init__(self, tool: WorkerTool) -> None:
        self._tool = tool
        self._threads = HandlerThreads()

    def close(self) -> None:
        """Let go of the threads; what hangs in one is left to itself. May be used again."""
        self._threads.close()
        self._threads = HandlerThreads()

    def verifiers(self, call: Call) -> Verifiers:
        """Both of them, as they answer for this attempt. What nobody registered says no."""

        async def grant(question: Question) -> bool:
            same = question.grant == self._tool.grant
            scope = question.tenant_scope == tenant_scope(call.tenant)
            return same and scope and await self.is_granted(call.tenant)

        async def action(question: Question) -> bool:
            verify, original = self._tool.verify, call.original
            if verify is None or original is None:
                return False
            return await self._said(verify, question, original)

        return Verifiers(grant=grant, action=action, limit_s=self._tool.verifier_limit_s)

    async def is_granted(self, tenant: TenantId) -> bool:
        """Whether the application says that a tenant still has the grant."""
        granted = self._tool.granted
        return granted is None or await self._said(granted, tenant, self._tool.grant)

    async def _said(self, ask: Callable[..., object], *about: object) -> bool:
        """What a function of the application says; a plain one runs in a thread.

        One that raises says no. What it raised is not kept, since it may repeat its input.
        """
        try:
            if inspect.iscoroutinefunction(ask):
                return await ask(*about) is True
            said = await self._threads(partial(ask, *about))
            return (await said if isinstance(said, Awaitable) else said) is True
        except Exception:
            return False
