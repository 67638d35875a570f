"""Which references each place of a declaration may hold, and which header may be set.

| first word | holds | where |
|---|---|---|
| `input` | the action's input | everywhere |
| `attempt` | tenant, principal, transaction_id, action_id, number | everywhere |
| | provider_key, fence | not in previews |
| `identity` | external_account, subject | everywhere |
| `original` | what a compensation offsets | not in previews |
| `operation` | id, request_id: what the provider has accepted | in look-ups |
| `credential` | the provider credential | in headers, beside plain text only |
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from amends.connectors.http.templates import Reference, Template
from amends.contracts.json_types import Json
from amends.contracts.sensitive import is_sensitive_name

CREDENTIAL: Final = "credential"
PROVIDER_KEY: Final = "attempt.provider_key"
OPERATION_ID: Final = "operation.id"

_ATTEMPT: Final = frozenset("tenant principal transaction_id action_id number".split())
_ATTEMPT_WITH_EFFECT: Final = _ATTEMPT | {"provider_key", "fence"}
_FIELDS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "attempt": _ATTEMPT_WITH_EFFECT,
        "identity": frozenset({"external_account", "subject"}),
        "operation": frozenset({"id", "request_id"}),
        "original": frozenset(
            "action_id transaction_id provider_key input output operation".split()
        ),
    }
)
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_OWN_HEADERS: Final = frozenset(
    "accept-encoding connection content-encoding content-length expect host keep-alive "
    "proxy-connection te trailer transfer-encoding upgrade".split()
)


class Fault(NamedTuple):
    """What is wrong with one field of a declaration."""

    field: str
    text: str


class Place(NamedTuple):
    """Where a text stands. `schema` describes the input there."""

    schema: Json = None
    effect: bool = False
    lookup: bool = False
    header: bool = False


def reference_fault(reference: Reference, place: Place) -> str | None:
    """What is wrong with a reference in this place, if anything."""
    root, path = reference.root, reference.path
    if root == CREDENTIAL:
        fits = place.header and not path and not reference.optional
        return None if fits else "may hold {credential} in headers only"
    if root == "input":
        return _input_fault(path, place.schema)
    fields = _FIELDS.get(root)
    if fields is None or (root == "operation" and not place.lookup):
        return f"refers to {root}, which is not known here"
    if root == "original" and not place.effect:
        return "refers to original, which a preview does not have"
    if not path or path[0] not in fields:
        return f"refers to {reference}; {root} has {', '.join(sorted(fields))}"
    if not place.effect and root == "attempt" and path[0] not in _ATTEMPT:
        return f"refers to {reference}, which a preview does not have"
    return None


def _input_fault(path: tuple[str, ...], schema: Json) -> str | None:
    """A field that a closed schema does not name can never be there."""
    for depth, token in enumerate(path, start=1):
        known = schema.get("properties") if isinstance(schema, dict) else None
        if not isinstance(schema, dict) or not isinstance(known, dict):
            return None
        if token not in known:
            closed = schema.get("additionalProperties") is False
            named = ".".join(path[:depth])
            return f"refers to input.{named}, unknown to the schema" if closed else None
        schema = known[token]
    return None


def header_name_fault(name: str) -> str | None:
    """What is wrong with the name of a header, if anything."""
    if not _HEADER_NAME.fullmatch(name):
        return "is no name of a header"
    if name.lower() in _OWN_HEADERS:
        return "belongs to the transport and cannot be set"
    return None


def header_fault(name: str, template: Template) -> str | None:
    """What is wrong with a header, if anything; a credential is never written out."""
    holders = list(template.references)
    literal = "".join(part for part in template.parts if isinstance(part, str))
    if not (literal.isascii() and literal.isprintable()):
        return "must be printable ASCII"
    if any(one.root == CREDENTIAL for one in holders) and len(holders) > 1:
        return "must hold {credential} beside plain text only"
    if is_sensitive_name(name) and not holders:
        return "holds a credential: write {credential}, and give its source when opening"
    return header_name_fault(name)
