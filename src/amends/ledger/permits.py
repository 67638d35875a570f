"""Permits: the only way to a sealed `compensate_operation` (PM-3, PM-4, PM-5).

A permit is an object of this process. It is bound to the desk that gave it and to everything that
was looked at when it was given; it is used once, and a use that is refused uses it up as well.
It can be neither copied nor pickled, so nothing durable ever licenses an effect.

    permit = desk.issue(ledger, target, verdicts, receipt, session_id=..., expires_at=...)
    sealed = desk.redeem(permit, ledger, target, verdicts, sealer, request_id=..., now=...)

Sealing is a port: the desk calls it last, after every check, so a refusal costs no sequence number.

Deliberately not here: keys, frames, clocks, and asking the verifiers (`targets.question_of` says
what to ask, with `Stage.PERMIT` and `Stage.SEAL`).
"""

from datetime import datetime
from typing import Final, NoReturn, Protocol

import msgspec

from amends.contracts.codes import coded
from amends.contracts.errors import Misuse
from amends.contracts.persistence import PersistReceipt, content_digest
from amends.contracts.worker_grant import grant_fingerprint
from amends.contracts.worker_identity import (
    CompensationKey,
    Fingerprint,
    OperationKey,
    host_input_fingerprint,
)
from amends.contracts.worker_messages import CompensationRequest
from amends.ledger.document import encode_ledger
from amends.ledger.operations import HEADS_SINCE, head_of
from amends.ledger.records import Ledger, require_operation
from amends.ledger.table import TERMINAL
from amends.ledger.targets import (
    Stage,
    Target,
    Verdicts,
    check_intent,
    check_verdicts,
    question_of,
)


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """Everything but its desk and its expiry that a permit is bound to."""

    plan_fingerprint: Fingerprint
    ledger_revision: int
    ledger_digest: Fingerprint
    operation_key: OperationKey
    compensation_key: CompensationKey
    input_fingerprint: Fingerprint
    tenant_scope: str
    grant_fingerprint: Fingerprint
    session_id: str


class CompensationSealer(Protocol):
    """An open session that can seal a frame."""

    @property
    def protocol_version(self) -> int:
        """The version that the session speaks."""
        ...

    @property
    def session_id(self) -> str:
        """The session whose key seals."""
        ...

    def seal_compensation(self, request: CompensationRequest) -> bytes:
        """The frame; takes the next sequence number."""
        ...


class SealedCompensation(msgspec.Struct, frozen=True):
    """What goes out, and what its answer is held against."""

    request: CompensationRequest
    frame: bytes

    def __repr__(self) -> str:
        return f"SealedCompensation(request_id={self.request.request_id!r})"


class DispatchPermit:
    """One use of one sealed compensation, in this process, until it expires."""

    __slots__ = ("_bound", "_desk", "_receipt", "_uses", "expires_at")

    def __init__(
        self, desk: "PermitDesk", bound: Bound, receipt: PersistReceipt, expires_at: datetime
    ) -> None:
        self._desk = desk
        self._bound = bound
        self._receipt = receipt
        self._uses = [None]
        self.expires_at: Final = expires_at

    @property
    def is_spent(self) -> bool:
        """Whether it was used, with success or without."""
        return not self._uses

    def spend(self, desk: "PermitDesk", now: datetime) -> tuple[Bound, PersistReceipt]:
        """Use it up, for the desk that redeems it.

        Raises `Refused`: `permit.spent`, `permit.elsewhere`, `permit.expired`.
        """
        try:
            self._uses.pop()  # one step, so that two threads cannot both have it
        except IndexError:
            raise coded("permit.spent") from None
        if desk is not self._desk:
            raise coded("permit.elsewhere")
        if now >= self.expires_at:
            raise coded("permit.expired")
        return self._bound, self._receipt

    def void(self) -> None:
        """Give it up unused, as when a verifier did not answer in time."""
        self._uses.clear()

    def __copy__(self) -> NoReturn:
        raise _copied()

    def __deepcopy__(self, memo: object) -> NoReturn:
        raise _copied()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise _copied()

    def __repr__(self) -> str:
        return f"DispatchPermit(spent={self.is_spent})"


class PermitDesk:
    """Gives permits and takes them back; a permit of another desk is worth nothing here."""

    __slots__ = ()

    def issue(
        self,
        ledger: Ledger,
        target: Target,
        verdicts: Verdicts,
        receipt: PersistReceipt,
        *,
        session_id: str,
        expires_at: datetime,
    ) -> DispatchPermit:
        """A permit for a recorded, durable and unfinished intent.

        `receipt` is what the store answered when exactly this ledger was persisted; `verdicts`
        answer `question_of(ledger, target, Stage.PERMIT)`.

        Raises `Refused` as `check_intent` and `check_verdicts`, `permit.terminal`,
        `permit.not_persisted`.
        """
        if check_intent(ledger, target).state in TERMINAL:
            raise coded("permit.terminal")
        head_of(ledger, receipt, HEADS_SINCE)
        check_verdicts(question_of(ledger, target, Stage.PERMIT), verdicts)
        return DispatchPermit(self, _bound_now(ledger, target, session_id), receipt, expires_at)

    def redeem(
        self,
        permit: DispatchPermit,
        ledger: Ledger,
        target: Target,
        verdicts: Verdicts,
        sealer: CompensationSealer,
        *,
        request_id: str,
        now: datetime,
    ) -> SealedCompensation:
        """The sealed frame. The permit is used up, whatever happens.

        `verdicts` answer `question_of(ledger, target, Stage.SEAL)`, asked just now.

        Raises `Refused`: `permit.spent`, `permit.elsewhere`, `permit.expired`, `permit.drifted`
        naming the field, and as `check_intent` and `check_verdicts`; and whatever sealing raises.
        """
        bound, receipt = permit.spend(self, now)
        _check_unchanged(bound, _bound_now(ledger, target, sealer.session_id))
        check_verdicts(question_of(ledger, target, Stage.SEAL), verdicts)
        request = CompensationRequest(
            protocol_version=sealer.protocol_version,
            session_id=bound.session_id,
            request_id=request_id,
            tool=target.grant.tool,
            operation_key=bound.operation_key,
            compensation_key=bound.compensation_key,
            tenant_scope=bound.tenant_scope,
            grant_fingerprint=bound.grant_fingerprint,
            payload=target.payload,
            head=head_of(ledger, receipt, sealer.protocol_version),
        )
        return SealedCompensation(request, sealer.seal_compensation(request))


def _bound_now(ledger: Ledger, target: Target, session_id: str) -> Bound:
    intent = check_intent(ledger, target)
    operation = require_operation(ledger, target.operation_key)
    return Bound(
        plan_fingerprint=target.plan.fingerprint,
        ledger_revision=ledger.revision,
        ledger_digest=content_digest(encode_ledger(ledger)),
        operation_key=operation.operation_key,
        compensation_key=intent.compensation_key,
        input_fingerprint=host_input_fingerprint(target.payload.canonical),
        tenant_scope=target.tenant_scope,
        grant_fingerprint=grant_fingerprint(target.grant),
        session_id=session_id,
    )


def _check_unchanged(bound: Bound, now: Bound) -> None:
    for field in Bound.__struct_fields__:
        if getattr(bound, field) != getattr(now, field):
            raise coded("permit.drifted", {"field": field})


def _copied() -> Misuse:
    return Misuse(
        "misuse.permit_copied",
        "A permit can be neither copied nor stored.",
        next_step="Issue a new one for the same intent.",
    )
