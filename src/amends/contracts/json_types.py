"""The one name for opaque JSON values.

`Json` is what a JSON text can say and nothing else: no tuples, no dates, no decimals. An object's
keys are strings. Whether a value really is one is decided in `parsing`, at the edge; past that
point the alias is a promise.

To the type checker the alias is recursive. At run time it is `Any`, since msgspec resolves the
annotations of records and knows no recursive aliases; a field of this type is decoded as plain
JSON values.
"""

from typing import TYPE_CHECKING, Any, NewType, TypeAlias

if TYPE_CHECKING:
    Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None
else:
    Json = Any

JsonObject: TypeAlias = dict[str, Json]

JsonText = NewType("JsonText", str)
"""A whole JSON value as text, kept inside documents exactly as it was hashed."""


def json_text(encoded: bytes) -> JsonText:
    """JSON bytes as the text that documents keep."""
    return JsonText(encoded.decode())
