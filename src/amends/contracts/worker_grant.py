"""What a worker may do in one session: grants, and the manifest that lists them (GR-1, GR-5).

A grant names one tool. Its fingerprint covers all of it (GR-3), so whoever changes anything about a
grant strands what was recorded under it, and that fails closed.

Deliberately not here: narrowing, budgets and who has which grant.
"""

from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

from amends.contracts.codes import coded
from amends.contracts.worker_identity import Fingerprint, check_token, framed, tagged
from amends.contracts.worker_payload import PayloadFormat
from amends.contracts.worker_wire import encode_record

MAX_RESOURCES: Final = 64
MAX_GRANTS: Final = 128
MAX_LIMIT: Final = 2**32 - 1
"""No limit of a grant may be larger."""


class ResourceKind(StrEnum):
    """What a worker can be given besides its input."""

    FILE_ROOT = "file_root"
    EXECUTABLE = "executable"
    NETWORK_ORIGIN = "network_origin"
    SECRET = "secret"  # noqa: S105 - the name of a kind


class Resource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One resource by the name that the operator gave it; never a path or a secret itself."""

    kind: ResourceKind
    id: str

    def __post_init__(self) -> None:
        check_token(self.id, "resource.id")


class CapabilityGrant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Authority over one tool in one session.

    `max_calls` and `max_compensations` count separately; no compensation is allowed unless it says
    so. Sizes are bytes of a payload's body. Raises `Refused` (`worker.grant_invalid`,
    `worker.token_invalid`) when built wrongly.
    """

    tool: str
    format: PayloadFormat = PayloadFormat.JSON
    max_calls: int = 1
    max_input_bytes: int = 16_384
    max_output_bytes: int = 65_536
    max_compensations: int = 0
    resources: tuple[Resource, ...] = ()

    def __post_init__(self) -> None:
        check_token(self.tool, "tool")
        for field in ("max_calls", "max_input_bytes", "max_output_bytes"):
            _check_limit(getattr(self, field), field, 1)
        _check_limit(self.max_compensations, "max_compensations", 0)
        unique = len(set(self.resources)) == len(self.resources)
        if not unique or len(self.resources) > MAX_RESOURCES:
            raise coded("worker.grant_invalid", {"field": "resources"})

    @classmethod
    def json(cls, tool: str) -> "CapabilityGrant":
        """One call with JSON in and out, the usual sizes, and no compensation."""
        return cls(tool)

    @classmethod
    def text(cls, tool: str) -> "CapabilityGrant":
        """As `json`, for text."""
        return cls(tool, PayloadFormat.TEXT)

    def with_compensation_limit(self, limit: int) -> "CapabilityGrant":
        """The same grant with this many compensations; another grant to its fingerprint."""
        return replace(self, max_compensations=limit)


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything a session may do.

    Raises `Refused` (`worker.manifest_invalid`) when built wrongly.
    """

    protocol_version: int
    session_id: str
    grants: tuple[CapabilityGrant, ...]

    def __post_init__(self) -> None:
        check_token(self.session_id, "session_id")
        tools = {grant.tool for grant in self.grants}
        if len(tools) != len(self.grants) or len(self.grants) > MAX_GRANTS:
            raise coded("worker.manifest_invalid")

    def grant(self, tool: str) -> CapabilityGrant | None:
        """The grant of this tool, if there is one."""
        return next((grant for grant in self.grants if grant.tool == tool), None)


def grant_fingerprint(grant: CapabilityGrant) -> Fingerprint:
    """Covers every field: any other grant has another fingerprint (GR-3)."""
    return tagged("compensation-grant-v1", framed(encode_record(grant)))


def manifest_fingerprint(manifest: Manifest) -> Fingerprint:
    """Of a whole manifest, for the greetings of version 6."""
    return tagged("worker-manifest-v6", framed(encode_record(manifest)))


def _check_limit(value: object, field: str, least: int) -> None:
    if type(value) is not int or not least <= value <= MAX_LIMIT:
        raise coded("worker.grant_invalid", {"field": field})
