"""An output as it is stored: admitted, hashed over the stored bytes, redacted where required.

A provider may echo the credential that it was sent; it is taken out before anything else is done.

Whatever is wrong with an output, the effect is there (TX-SETTLE-5): nothing here raises.
"""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from amends.contracts import limits
from amends.contracts.canonical import canonical_bytes, digest_bytes
from amends.contracts.errors import Refused
from amends.contracts.json_types import Json, json_text
from amends.contracts.parsing import admit_value
from amends.contracts.redaction import without_secret
from amends.contracts.secrets import Credential
from amends.transactions.settlement import NO_OUTPUT, StoredOutput

SCHEMA_MISMATCH: Final = "output.schema_mismatch"
NOT_STORABLE: Final = "output.not_storable"


def store_output(
    value: object,
    *,
    redact: Callable[[Json], Json] | None,
    fits: Callable[[Json], bool],
    credential: Credential | None = None,
) -> StoredOutput:
    """Turn a handler's output into what is kept of it.

    `redact` makes the redacted form where the capability requires one; `fits` is its output schema;
    `credential` is the one of the attempt.
    """
    try:
        admitted = admit_value(value)
        if credential is not None:
            admitted = without_secret(admitted, credential.secret)
        content = canonical_bytes(admitted)
    except Refused:
        return replace(NO_OUTPUT, invalid=NOT_STORABLE)
    digest = digest_bytes(content)
    if len(content) > limits.OUTPUT_BYTES:
        return StoredOutput(output_hash=digest, invalid=NOT_STORABLE)
    try:
        invalid = None if fits(admitted) else SCHEMA_MISMATCH
        shown = content if redact is None else canonical_bytes(redact(admitted))
    except Exception:  # a schema or a redactor that fails must not cost the settlement
        return StoredOutput(output_hash=digest, invalid=NOT_STORABLE)
    return StoredOutput(
        output=json_text(shown),
        output_hash=digest,
        redacted=redact is not None,
        invalid=invalid,
    )
