"""Worker records to bytes and back: compact JSON in the order of the fields, read strictly.

Frames, journals and grants share this one codec, so that a payload has the same text wherever it
stands. Unknown fields, wrong types and repeated keys are refused with a code and without an echo.
"""

from typing import Any, Final, TypeVar

import msgspec

from amends.contracts.codes import coded
from amends.contracts.worker_json import read_json
from amends.contracts.worker_payload import PayloadFormat, ToolPayload

ENVELOPE_DEPTH: Final = 40
"""Containers around and inside a payload; `worker_json` counts those inside once more."""

_Record = TypeVar("_Record")


class _PayloadOnTheWire(msgspec.Struct, frozen=True):
    format: str
    value: msgspec.Raw


def encode_record(record: object) -> bytes:
    """The compact text of a worker record; payload bodies stand in it exactly as they are held."""
    return _ENCODER.encode(record)


def decode_record(
    data: bytes, kind: type[_Record], *, max_bytes: int, max_depth: int = ENVELOPE_DEPTH
) -> _Record:
    """Read one record of `kind`.

    Raises `Refused` with a code of `input.` or `worker.`.
    """
    record: _Record = decode_any(data, kind, max_bytes=max_bytes, max_depth=max_depth)
    return record


def decode_any(
    data: bytes, forms: object, *, max_bytes: int, max_depth: int = ENVELOPE_DEPTH
) -> Any:
    """As `decode_record`, for a union of tagged records, which is no type to the type checker."""
    tree = read_json(data, max_bytes=max_bytes, max_depth=max_depth)
    try:
        return msgspec.convert(tree, forms, dec_hook=_from_wire)
    except msgspec.ValidationError:
        raise coded("worker.message_invalid") from None


def _to_wire(value: Any) -> _PayloadOnTheWire:
    assert isinstance(value, ToolPayload)  # nothing else in our records needs a hook
    body = value.body.encode()
    raw = msgspec.json.encode(value.body) if value.format is PayloadFormat.TEXT else body
    return _PayloadOnTheWire(value.format, msgspec.Raw(raw))


def _from_wire(kind: type, value: Any) -> Any:
    assert kind is ToolPayload
    if not isinstance(value, dict) or value.keys() != {"format", "value"}:
        raise coded("worker.payload_invalid")
    match value:
        case {"format": "text", "value": str(text)}:
            return ToolPayload.text(text)
        case {"format": "json", "value": inner}:
            return ToolPayload.json(inner)
    raise coded("worker.payload_invalid")


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_to_wire)
