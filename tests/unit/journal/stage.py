"""A journal and requests to it, for the tests of the journal; no test in here."""

from typing import Final

from amends.contracts.worker_grant import CapabilityGrant, grant_fingerprint
from amends.contracts.worker_identity import (
    CompensationKey,
    Fingerprint,
    OperationKey,
    compensation_key,
    operation_key,
)
from amends.contracts.worker_messages import CompensationRequest, LedgerHead, OperationRequest
from amends.contracts.worker_payload import Succeeded, ToolPayload
from amends.journal.admission import (
    Admission,
    Contradicted,
    Dispatch,
    admit_compensation,
    admit_operation,
)
from amends.journal.capacity import LIMITS_5, JournalLimits
from amends.journal.observation import observe_compensation, observe_operation
from amends.journal.records import FORMAT_5, FORMAT_6, Journal, Ruling, open_journal

SCOPE: Final = "tenant-release"
SESSION: Final = "worker-1"
ZERO: Final = Fingerprint("0" * 64)
LIMITS: Final = JournalLimits()
GRANT: Final = CapabilityGrant.json("release.publish").with_compensation_limit(1)
INPUT: Final = ToolPayload.json({"version": "1.2.3"})
INVERSE: Final = ToolPayload.json({"undo": "release"})
DONE: Final = Succeeded(ToolPayload.json({"done": True}))
RULING: Final = Ruling(who="olga", why="the provider says so", evidence="ticket 7")
FORMATS: Final = (FORMAT_5, FORMAT_6)


def key_of(number: int = 1) -> OperationKey:
    return operation_key(
        plan=ZERO,
        step_id="publish",
        tool=GRANT.tool,
        canonical=INPUT.canonical,
        nonce=b"%d" % number,
    )


def inverse_key_of(number: int = 1) -> CompensationKey:
    return compensation_key(
        plan=ZERO,
        operation=key_of(),
        tool=GRANT.tool,
        tenant_scope=SCOPE,
        grant=grant_fingerprint(GRANT),
        canonical=INVERSE.canonical,
        nonce=b"%d" % number,
    )


def head(fence: int, revision: int, digit: str = "a") -> LedgerHead:
    return LedgerHead(fence, revision, Fingerprint(digit * 64))


def operation(number: int = 1, *, at: LedgerHead | None = None) -> OperationRequest:
    return OperationRequest(
        protocol_version=6,
        session_id=SESSION,
        request_id=f"d-{number}",
        tool=GRANT.tool,
        operation_key=key_of(number),
        payload=INPUT,
        head=at,
    )


def inverse(number: int = 1, *, at: LedgerHead | None = None) -> CompensationRequest:
    return CompensationRequest(
        protocol_version=6,
        session_id=SESSION,
        request_id=f"c-{number}",
        tool=GRANT.tool,
        operation_key=key_of(),
        compensation_key=inverse_key_of(number),
        tenant_scope=SCOPE,
        grant_fingerprint=grant_fingerprint(GRANT),
        payload=INVERSE,
        head=at,
    )


def dispatched(admission: Admission) -> Journal:
    assert isinstance(admission, Dispatch)
    return admission.journal


def frozen_by(admission: Admission) -> Journal:
    assert isinstance(admission, Contradicted)
    return admission.journal


def admit(journal: Journal, request: OperationRequest | None = None) -> Admission:
    limits = LIMITS_5 if journal.format_version == FORMAT_5 else LIMITS
    return admit_operation(journal, request or operation(), GRANT, limits)


def admit_inverse(journal: Journal, request: CompensationRequest | None = None) -> Admission:
    limits = LIMITS_5 if journal.format_version == FORMAT_5 else LIMITS
    return admit_compensation(journal, request or inverse(), GRANT, limits)


def pending(*, format_version: int = FORMAT_6) -> Journal:
    """A journal with one admitted original."""
    return dispatched(admit(open_journal(SCOPE, format_version=format_version)))


def succeeded(*, format_version: int = FORMAT_6) -> Journal:
    return observe_operation(pending(format_version=format_version), key_of(), DONE)


def undoing(*, format_version: int = FORMAT_6) -> Journal:
    """A journal with one admitted inverse."""
    return dispatched(admit_inverse(succeeded(format_version=format_version)))


def undone(*, format_version: int = FORMAT_6) -> Journal:
    journal = undoing(format_version=format_version)
    return observe_compensation(journal, key_of(), inverse_key_of(), DONE)
