"""What people write for other people to read: reasons, notes, evidence, metadata.

It is stored beside what was decided, so it is held to what can be stored: text is text, whole
characters only, and of bounded length. Where inputs are not kept, it is not kept either but for
its hash (RD-1).
"""

from collections.abc import Collection, Mapping

import msgspec

from amends.contracts import limits
from amends.contracts.codes import coded
from amends.contracts.documents import ActionDocument, TransactionRecord
from amends.contracts.errors import Refused
from amends.contracts.ids import check_opaque
from amends.contracts.json_types import Json
from amends.contracts.parsing import JsonLimits, admit_value
from amends.contracts.redaction import kept_text
from amends.stores.port import Store


def check_text(text: str, field: str, *, length: int = limits.REASON_LENGTH) -> str:
    """The text as it may be stored.

    Raises `Refused` (`input.unsupported_type`, `input.lone_surrogate`, `input.too_large`), naming
    the field.
    """
    room = JsonLimits(max_bytes=length + len(field) + 1)
    admitted = admit_value({field: text}, limits=room)
    assert isinstance(admitted, dict)
    if not isinstance(admitted[field], str):
        raise Refused(
            "input.unsupported_type",
            f"{field} has to be text.",
            details={"path": f"/{field}"},
            next_step="Send it as a string.",
        )
    return text


def check_evidence(evidence: Mapping[str, str]) -> dict[str, str]:
    """Evidence by name, as it may be stored.

    Raises as `check_text` and `check_metadata`, and `Refused` (`input.invalid_id`) for a name that
    is blank, too long, or holds control characters.
    """
    check_metadata(evidence)
    for name in evidence:
        check_opaque(name, "evidence", length=limits.ID_LENGTH)
    return {name: check_text(text, "evidence") for name, text in evidence.items()}


def kept_evidence(
    evidence: Mapping[str, str], asked: Collection[str], *, hidden: bool
) -> dict[str, str]:
    """Evidence as it is stored. A name that nobody asked for is kept like a text."""
    return {
        name if name in asked else kept_text(name, hidden=hidden): kept_text(text, hidden=hidden)
        for name, text in evidence.items()
    }


def check_metadata(metadata: Mapping[str, Json]) -> dict[str, Json]:
    """A snapshot of metadata: later changes to what was given do not reach it.

    Raises `Refused` as `admit_value` does, and `action.metadata_too_large`.
    """
    if not metadata:
        return {}
    admitted = admit_value(dict(metadata))
    assert isinstance(admitted, dict)
    if len(msgspec.json.encode(admitted)) > limits.METADATA_BYTES:
        raise coded("action.metadata_too_large", {"max_bytes": limits.METADATA_BYTES})
    return admitted


async def hides_texts(store: Store, record: TransactionRecord) -> bool:
    """Whether what people write about a record is kept as its hash only.

    Its own action tells, whether or not the capability is registered here: an input that was not
    kept belongs to a capability that requires redaction.
    """
    action = await store.get(ActionDocument, record.tenant, record.action_id)
    return action is None or action.document.input is None
