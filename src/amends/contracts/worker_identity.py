"""Tokens, fingerprints and derived keys that host and worker share (worker.md, Identity).

Every fingerprint is BLAKE3-256 in lower-case hex, over a tag that names its kind and then its
parts, each behind its length where more than one could be cut elsewhere. A derived key is an
identity and no credential: whoever knows the inputs can make it.

The host's fingerprint of an input and the worker's differ on purpose, so neither side's store can
be mistaken for the other's.
"""

import re
from collections.abc import Sequence
from typing import Final, NewType

from blake3 import blake3

from amends.contracts.codes import coded

Fingerprint = NewType("Fingerprint", str)
OperationKey = NewType("OperationKey", str)
CompensationKey = NewType("CompensationKey", str)

PREFIX: Final = "octoscript"
"""Begins every tag; part of the wire form of version 5, which we did not invent."""

OPERATION_PREFIX: Final = "op-"
COMPENSATION_PREFIX: Final = "cmp-"
MAX_NONCE: Final = 128
MAX_STEPS: Final = 1024
MAX_SOURCE: Final = 1024 * 1024

_TOKEN: Final = re.compile(r"[a-z0-9._-]{1,128}")
_FINGERPRINT: Final = re.compile(r"[0-9a-f]{64}")
_COMPENSATION: Final = re.compile(r"cmp-[0-9a-f]{64}")


def check_token(value: object, field: str) -> str:
    """Return a token. Raises `Refused` (`worker.token_invalid`) naming the field only."""
    if not isinstance(value, str) or not _TOKEN.fullmatch(value):
        raise coded("worker.token_invalid", {"field": field})
    return value


def check_fingerprint(value: object, field: str) -> Fingerprint:
    """Return a fingerprint. Raises `Refused` (`worker.fingerprint_invalid`)."""
    if not isinstance(value, str) or not _FINGERPRINT.fullmatch(value):
        raise coded("worker.fingerprint_invalid", {"field": field})
    return Fingerprint(value)


def check_operation_key(value: object) -> OperationKey:
    """Return an operation key: a token that cannot pass for a compensation's (GR-ID-2).

    Raises `Refused` (`worker.operation_key_invalid`).
    """
    if not isinstance(value, str) or not _TOKEN.fullmatch(value):
        raise coded("worker.operation_key_invalid")
    if value.startswith(COMPENSATION_PREFIX):
        raise coded("worker.operation_key_invalid")
    return OperationKey(value)


def check_compensation_key(value: object) -> CompensationKey:
    """Return a compensation key, which always has the derived form (GR-ID-2).

    Raises `Refused` (`worker.compensation_key_invalid`).
    """
    if not isinstance(value, str) or not _COMPENSATION.fullmatch(value):
        raise coded("worker.compensation_key_invalid")
    return CompensationKey(value)


def check_nonce(nonce: bytes) -> bytes:
    """Return a nonce of 1 to 128 bytes. Raises `Refused` (`worker.nonce_invalid`)."""
    if not 1 <= len(nonce) <= MAX_NONCE:
        raise coded("worker.nonce_invalid")
    return nonce


def plan_fingerprint(steps: Sequence[tuple[str, str]]) -> Fingerprint:
    """Of a workflow plan: its steps, each an id and its source, in order.

    Raises `Refused` (`worker.plan_invalid`, `worker.token_invalid`).
    """
    ids = {check_token(step_id, "step_id") for step_id, _ in steps}
    sources = [_source_bytes(source) for _, source in steps]
    if not 1 <= len(steps) <= MAX_STEPS or len(ids) != len(steps):
        raise coded("worker.plan_invalid")
    parts = [
        framed(part)
        for (step_id, _), source in zip(steps, sources, strict=True)
        for part in (step_id.encode(), source)
    ]
    return tagged("workflow-plan-v1", len(steps).to_bytes(8, "big"), *parts)


def _source_bytes(source: str) -> bytes:
    try:
        encoded = source.encode()
    except UnicodeEncodeError:
        raise coded("worker.plan_invalid") from None
    if len(encoded) > MAX_SOURCE:
        raise coded("worker.plan_invalid")
    return encoded


def host_input_fingerprint(canonical: bytes) -> Fingerprint:
    """Of a canonical input, as the host's ledger keeps it."""
    return tagged("workflow-operation-input-v1", framed(canonical))


def worker_input_fingerprint(canonical: bytes) -> Fingerprint:
    """Of the same canonical input, as the worker's journal keeps it."""
    return tagged("worker-operation-input-v1", canonical)


def operation_key(
    *, plan: Fingerprint, step_id: str, tool: str, canonical: bytes, nonce: bytes
) -> OperationKey:
    """The key of a plan step with exactly this input.

    `nonce` is 1 to 128 durable bytes that the host owns: another one makes another operation.
    Raises `Refused` (`worker.nonce_invalid`, `worker.token_invalid`).
    """
    parts = (
        plan.encode(),
        check_token(step_id, "step_id").encode(),
        check_token(tool, "tool").encode(),
        canonical,
        check_nonce(nonce),
    )
    return OperationKey(OPERATION_PREFIX + tagged("workflow-operation-key-v1", *map(framed, parts)))


def compensation_key(
    *,
    plan: Fingerprint,
    operation: OperationKey,
    tool: str,
    tenant_scope: str,
    grant: Fingerprint,
    canonical: bytes,
    nonce: bytes,
) -> CompensationKey:
    """The key of one inverse effect: bound to tenant, grant and the exact inverse input.

    Raises `Refused` (`worker.nonce_invalid`, `worker.token_invalid`).
    """
    parts = (
        plan.encode(),
        operation.encode(),
        check_token(tool, "tool").encode(),
        check_token(tenant_scope, "tenant_scope").encode(),
        grant.encode(),
        canonical,
        check_nonce(nonce),
    )
    digest = tagged("workflow-compensation-key-v1", *map(framed, parts))
    return CompensationKey(COMPENSATION_PREFIX + digest)


def framed(part: bytes) -> bytes:
    """A part behind its length, eight bytes in big-endian order: `LP` in the specification."""
    return len(part).to_bytes(8, "big") + part


def tagged(tag: str, *parts: bytes) -> Fingerprint:
    """BLAKE3 over the tag, without a length, and the parts exactly as given."""
    hasher = blake3(f"{PREFIX}-{tag}".encode())
    for part in parts:
        hasher.update(part)
    return Fingerprint(hasher.hexdigest())
