"""Where each type of document lives: its table, its id, the columns beside the body, its codec.

The body is the whole document in JSON and the only source of truth. The columns repeat some of its
fields so that a person can read a table and a listing can filter; a row whose columns and body
disagree is corrupt. Both drivers are built from this table, and their SQL must match it.

Deliberately not here: SQL, and any rule about what a column may say.
"""

from collections.abc import Callable, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast

import msgspec

from amends.contracts.approvals import ApprovalRequest
from amends.contracts.delegations import Delegation
from amends.contracts.documents import (
    ActionDocument,
    CompensationSlots,
    Correction,
    Document,
    LegalHold,
    LimitUsage,
    LogCheckpoint,
    Refusal,
    Reservation,
    TransactionRecord,
    UnclaimedEffect,
)
from amends.contracts.errors import Misuse
from amends.contracts.evidence import Receipt
from amends.contracts.notices import NoticeCursor

D = TypeVar("D", bound=Document)

Columns: TypeAlias = tuple[str | None, ...]

ENCODER: Final = msgspec.json.Encoder()
RECEIPTS: Final = msgspec.json.Decoder(Receipt)


class Shape(msgspec.Struct, Generic[D], frozen=True):
    """How documents of one type are kept. `values` reads the `columns` off a document, in order.

    Each column in `unique` is unique within a tenant wherever it is set, and can be looked up.
    """

    type: type[D]
    table: str
    id: str
    columns: tuple[str, ...]
    values: Callable[[D], Columns]
    decoder: msgspec.json.Decoder[D]
    id_of: Callable[[D], str]
    unique: tuple[str, ...] = ()

    def require_columns(self, names: Mapping[str, str]) -> None:
        """Raises `Misuse` (`store.unknown_column`) for a filter on anything but a column."""
        unknown = [name for name in names if name not in self.columns]
        if unknown:
            raise Misuse(
                "store.unknown_column",
                f"{self.table} cannot be filtered by that.",
                details={"field": "where"},
                next_step=f"Filter by one of: {', '.join(self.columns)}.",
            )

    def unique_index(self, key: str) -> int:
        """The place of a unique column. Raises `Misuse` (`store.unknown_key`)."""
        if key not in self.unique:
            raise Misuse(
                "store.unknown_key",
                f"{self.table} has no unique key {key}.",
                next_step="Use list with a filter, or get with the id.",
            )
        return self.columns.index(key)


def shape_of(type_: type[D]) -> Shape[D]:
    """The shape of a type of document. Raises `Misuse` (`store.unknown_type`)."""
    shape = SHAPES.get(type_)
    if shape is None:
        raise Misuse(
            "store.unknown_type",
            f"{type_.__name__} is not a type of document that stores keep.",
            next_step="Give the exact type, not a parent or a subclass of it.",
        )
    return cast("Shape[D]", shape)


def _transaction(record: TransactionRecord) -> Columns:
    return (
        record.status,
        record.action_id,
        record.capability_id,
        None if record.plan is None else record.plan.plan_id,
        record.verdict,
        record.attention,
        None if record.provider_operation is None else record.provider_operation.operation_id,
    )


def _action(action: ActionDocument) -> Columns:
    return (
        action.transaction_id,
        action.mode,
        action.capability_id,
        None if action.result is None else action.result.status,
    )


def _approval(request: ApprovalRequest) -> Columns:
    return (request.status, request.action_id, request.transaction_id)


def _reservation(reservation: Reservation) -> Columns:
    return (reservation.action_id,)


def _slots(slots: CompensationSlots) -> Columns:
    return (slots.target, slots.frozen)


def _refusal(refusal: Refusal) -> Columns:
    return (refusal.action_id, refusal.capability_id, refusal.code)


def _unclaimed(effect: UnclaimedEffect) -> Columns:
    return (effect.provider, effect.provider_key)


def _checkpoint(checkpoint: LogCheckpoint) -> Columns:
    return (checkpoint.lineage,)


def _correction(correction: Correction) -> Columns:
    return (correction.transaction_id, correction.target)


def _delegation(delegation: Delegation) -> Columns:
    return (delegation.delegator.id, delegation.delegate.id)


def _cursor(cursor: NoticeCursor) -> Columns:
    return (cursor.channel,)


def _usage(usage: LimitUsage) -> Columns:
    return (usage.rule, usage.subject)


def _hold(hold: LegalHold) -> Columns:
    return (hold.capability_id, "placed" if hold.placed else "lifted")


def _shape(
    type_: type[D],
    table: str,
    id_: str,
    columns: str,
    values: Callable[[D], Columns],
    unique: tuple[str, ...] = (),
) -> Shape[D]:
    names = tuple(columns.split())
    decoder = msgspec.json.Decoder(type_)
    return Shape(type_, table, id_, names, values, decoder, attrgetter(id_), unique)


_ALL: Final[tuple[Shape[Any], ...]] = (
    _shape(
        TransactionRecord,
        "transactions",
        "transaction_id",
        "status action_id capability_id plan_id verdict attention operation_id",
        _transaction,
        unique=("plan_id",),
    ),
    _shape(
        ActionDocument,
        "actions",
        "action_id",
        "transaction_id mode capability_id status",
        _action,
    ),
    _shape(
        ApprovalRequest,
        "approvals",
        "approval_id",
        "status action_id transaction_id",
        _approval,
    ),
    _shape(Reservation, "reservations", "reservation_id", "action_id", _reservation),
    _shape(
        CompensationSlots,
        "compensation_slots",
        "transaction_id",
        "target frozen",
        _slots,
    ),
    _shape(Refusal, "refusals", "refusal_id", "action_id capability_id code", _refusal),
    _shape(
        UnclaimedEffect,
        "unclaimed_effects",
        "effect_id",
        "provider provider_key",
        _unclaimed,
    ),
    _shape(Correction, "corrections", "correction_id", "transaction_id target", _correction),
    _shape(LogCheckpoint, "log_checkpoints", "checkpoint_id", "lineage", _checkpoint),
    _shape(Delegation, "delegations", "delegation_id", "delegator delegate", _delegation),
    _shape(NoticeCursor, "notice_cursors", "cursor_id", "channel", _cursor),
    _shape(LimitUsage, "limit_usages", "usage_id", "rule subject", _usage),
    _shape(LegalHold, "legal_holds", "transaction_id", "capability_id state", _hold),
)

SHAPES: Final[Mapping[type[Document], Shape[Any]]] = MappingProxyType(
    {shape.type: shape for shape in _ALL}
)
