"""What tools are given and give back, and the states that both sides write down.

A payload is text or one JSON value, never both and never nothing. It is held as the exact text that
is hashed, stored and sent, so that nobody can change it between two looks, and it shows its size
only: payloads may be secrets.

`Pending` is in stores only, never in a version 5 answer. `SucceededOversize` keeps a success whose
output was larger than the grant allows; version 5 cannot say it.
"""

from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from amends.contracts.codes import coded
from amends.contracts.errors import Refused
from amends.contracts.json_types import Json
from amends.contracts.worker_identity import Fingerprint, check_fingerprint, framed
from amends.contracts.worker_json import MAX_BYTES, read_json, write_json

MAX_FAILURE_BYTES: Final = 4096
_TAG_LENGTH: Final = 4
_HEAD_LENGTH: Final = _TAG_LENGTH + 8


class PayloadFormat(StrEnum):
    """The form that a grant asks for. The names begin canonical inputs, so they have one length."""

    TEXT = "text"
    JSON = "json"


class ToolPayload:
    """One immutable payload. Equal payloads have equal bytes; its repr shows none of them.

    Made by `text`, `json`, `from_canonical` and the codec, all of which raise `Refused` with
    `worker.payload_invalid` or a code of `input.`.
    """

    __slots__ = ("body", "format")

    format: PayloadFormat
    body: str

    def __init__(self, form: PayloadFormat, body: str) -> None:
        object.__setattr__(self, "format", form)
        object.__setattr__(self, "body", body)

    @classmethod
    def text(cls, text: str) -> "ToolPayload":
        """Exactly this text, at most 256 KiB of UTF-8."""
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            raise coded("worker.payload_invalid", {"reason": "input.lone_surrogate"}) from None
        if size > MAX_BYTES:
            raise coded("worker.payload_invalid", {"reason": "input.too_large"})
        return cls(PayloadFormat.TEXT, text)

    @classmethod
    def json(cls, value: object) -> "ToolPayload":
        """An object or array, in its canonical form from now on."""
        return cls(PayloadFormat.JSON, write_json(value).decode())

    @classmethod
    def from_canonical(cls, canonical: bytes) -> "ToolPayload":
        """Back from `canonical_input`; what is not exactly its result is refused."""
        try:
            form = PayloadFormat(canonical[:_TAG_LENGTH].decode("ascii", "replace"))
            body = canonical[_HEAD_LENGTH:]
            text = form is PayloadFormat.TEXT
            payload = cls.text(body.decode()) if text else cls.json(read_json(body))
        except (ValueError, Refused):
            raise coded("worker.payload_invalid", {"reason": "not_canonical"}) from None
        if payload.canonical != canonical:
            raise coded("worker.payload_invalid", {"reason": "not_canonical"})
        return payload

    @property
    def canonical(self) -> bytes:
        """The bytes that fingerprints and keys are made of."""
        return self.format.encode() + framed(self.body.encode())

    @property
    def size(self) -> int:
        """Bytes of the body, which is what grants limit."""
        return len(self.body.encode())

    @property
    def value(self) -> Json:
        """The text, or a fresh copy of the JSON value."""
        return self.body if self.format is PayloadFormat.TEXT else read_json(self.body.encode())

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a payload does not change")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a payload does not change")

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ToolPayload)
            and self.format is other.format
            and self.body == other.body
        )

    def __hash__(self) -> int:
        return hash((self.format, self.body))

    def __repr__(self) -> str:
        return f"ToolPayload({self.format.value}, {self.size} bytes)"

    def __reduce__(self) -> tuple[type["ToolPayload"], tuple[PayloadFormat, str]]:
        return ToolPayload, (self.format, self.body)


def canonical_input(payload: ToolPayload) -> bytes:
    """Four bytes that name the format, then the body behind its length."""
    return payload.canonical


class _State(msgspec.Struct, frozen=True, tag_field="state", forbid_unknown_fields=True):
    """What the states share: how they are told apart on the wire and in stores."""


class Pending(_State, frozen=True, tag="pending"):
    """Admitted and persisted; the adapter may have been entered."""


class Running(_State, frozen=True, tag="running"):
    """The adapter reported that the effect goes on: a definite observation."""


class Succeeded(_State, frozen=True, tag="succeeded"):
    """The effect happened, and this came of it."""

    payload: ToolPayload


class SucceededOversize(_State, frozen=True, tag="succeeded_oversize"):
    """The effect happened; of its output only the worker's fingerprint and the size are kept."""

    digest: Fingerprint
    size: int

    def __post_init__(self) -> None:
        check_fingerprint(self.digest, "digest")
        if type(self.size) is not int or self.size < 1:
            raise coded("worker.payload_invalid", {"field": "size"})


class Failed(_State, frozen=True, tag="failed"):
    """The effect is known not to have happened. The message has 1 to 4096 bytes."""

    message: str

    def __post_init__(self) -> None:
        try:
            size = len(self.message.encode())
        except UnicodeEncodeError:
            size = 0
        if not 1 <= size <= MAX_FAILURE_BYTES:
            raise coded("worker.payload_invalid", {"field": "message"})

    def __repr__(self) -> str:
        return f"Failed({len(self.message.encode())} bytes)"


class Cancelled(_State, frozen=True, tag="cancelled"):
    """The adapter reported that it stopped. Whether nothing happened, its contract says."""


Status: TypeAlias = Running | Succeeded | SucceededOversize | Failed | Cancelled
"""What an adapter may report and an answer may carry."""

Terminal: TypeAlias = Succeeded | SucceededOversize | Failed | Cancelled
"""A status that never changes again."""

StoredState: TypeAlias = Pending | Status
"""What a journal may hold."""
