"""What version 5 stores, byte for byte: journals, their refusals, keys of a ledger, sealed records.

The values come from `worker-v5.json` (computed) and `worker-v5-recorded.json` (recorded from
another implementation). Frames are played elsewhere; here the journal alone is asked, with the
requests that the recorded frames carry.
"""

import json
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from amends.contracts.worker_grant import CapabilityGrant
from amends.contracts.worker_messages import (
    CompensateOperation,
    CompensationRequest,
    DispatchOperation,
    OperationRequest,
)
from amends.contracts.worker_payload import Status, ToolPayload
from amends.contracts.worker_wire import decode_record
from amends.journal.admission import (
    Admission,
    Dispatch,
    Existing,
    admit_compensation,
    admit_operation,
)
from amends.journal.capacity import LIMITS_5
from amends.journal.document import decode_journal, encode_journal
from amends.journal.observation import observe_compensation, observe_operation
from amends.journal.records import FORMAT_5, Journal, open_journal
from amends.ledger.compensations import propose_compensation, record_compensation
from amends.ledger.operations import OperationIntent, record_operation
from amends.ledger.operations import observe_operation as report
from amends.ledger.plans import make_plan, open_ledger
from amends.ledger.records import LedgerState
from amends.ledger.targets import Target
from amends.sealed.envelopes import Place, seal_5, unseal
from amends.sealed.keys import KeyRing
from amends.testing.refusals import refused_with

HERE: Final = Path(__file__).parent
COMPUTED: Final = json.loads((HERE / "worker-v5.json").read_text("utf-8"))
RECORDED: Final = json.loads((HERE / "worker-v5-recorded.json").read_text("utf-8"))
SCOPE: Final = RECORDED["session"]["tenant_scope"]
LIMIT: Final = LIMITS_5.max_bytes
MAX_FRAME: Final = 1024 * 1024


class _Frame(msgspec.Struct):
    message: msgspec.Raw


class _Answer(msgspec.Struct):
    result: msgspec.Raw


class _Result(msgspec.Struct):
    status: msgspec.Raw


class _Stated(msgspec.Struct):
    state: Status


GRANTS: Final = {
    grant["tool"]: decode_record(grant["grant_json"].encode(), CapabilityGrant, max_bytes=MAX_FRAME)
    for grant in RECORDED["session"]["grants"]
}


def request_in(frame: str) -> OperationRequest | CompensationRequest:
    message = msgspec.json.decode(frame, type=_Frame).message
    if b'"type":"dispatch_operation"' in bytes(message):
        return decode_record(bytes(message), DispatchOperation, max_bytes=MAX_FRAME).request
    return decode_record(bytes(message), CompensateOperation, max_bytes=MAX_FRAME).request


def status_in(frame: str) -> Status:
    message = msgspec.json.decode(frame, type=_Frame).message
    result = msgspec.json.decode(message, type=_Answer).result
    status = msgspec.json.decode(result, type=_Result).status
    stated = b'{"state":%b}' % bytes(status)
    return decode_record(stated, _Stated, max_bytes=MAX_FRAME).state


def admit(journal: Journal, request: OperationRequest | CompensationRequest) -> Admission:
    grant = GRANTS[request.tool]
    if isinstance(request, OperationRequest):
        return admit_operation(journal, request, grant, LIMITS_5)
    return admit_compensation(journal, request, grant, LIMITS_5)


def observe(
    journal: Journal, request: OperationRequest | CompensationRequest, status: Status
) -> Journal:
    if isinstance(request, OperationRequest):
        return observe_operation(journal, request.operation_key, status)
    return observe_compensation(journal, request.operation_key, request.compensation_key, status)


def play(journal: Journal, step: dict[str, Any]) -> Journal:
    """One recorded request, with what the recorded adapter answered."""
    request = request_in(step["host_frame"])
    admission = admit(journal, request)
    assert isinstance(admission, Dispatch | Existing)
    if isinstance(admission, Existing):
        return admission.journal
    return observe(admission.journal, request, status_in(step["worker_frame"]))


def test_the_recorded_conversation_leaves_the_recorded_journals() -> None:
    journal, revision = open_journal(SCOPE, format_version=FORMAT_5), 0
    for step in RECORDED["conversation"]:
        if step["kind"] in ("dispatch_operation", "compensate_operation"):
            before = journal
            journal = play(journal, step)
            revision += 2 * (journal != before)
        assert encode_journal(journal).decode() == step["journal_json"]
        assert revision == step["journal_revision"]
        assert decode_journal(step["journal_json"].encode(), max_bytes=LIMIT) == journal


OURS: Final = {
    "CompensationGrantMismatch": "journal.grant_mismatch",
    "CompensationIdentityMismatch": "journal.compensation_differs",
    "OperationJournalScopeMismatch": "journal.scope_mismatch",
    "CompensationRequiresSucceededOperation": "journal.requires_succeeded",
    "OperationIdentityMismatch": "journal.operation_differs",
}
"""The recorded refusals that are the journal's to make. The others are the channel's."""

REFUSED: Final = [one for one in RECORDED["negative"] if one["error_variant"] in OURS]


@pytest.mark.rule("WJ-2")
@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case["name"])
def test_what_the_recorded_journal_refused_is_refused_and_changes_nothing(
    case: dict[str, Any],
) -> None:
    journal = open_journal(SCOPE, format_version=FORMAT_5)
    for step in case["prefix"][1:]:
        journal = play(journal, step)
    request = request_in(case["frame"])
    with refused_with(OURS[case["error_variant"]]):
        admit(journal, request)
    assert encode_journal(journal).decode() == case["journal_json_after"]


def test_all_five_kinds_of_recorded_refusals_were_met() -> None:
    assert {case["error_variant"] for case in REFUSED} == OURS.keys()


# ── the ledger ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("case", COMPUTED["cases"], ids=lambda case: case["name"])
def test_a_ledger_derives_the_published_keys_and_fingerprints(case: dict[str, Any]) -> None:
    grant = decode_record(case["grant_json"].encode(), CapabilityGrant, max_bytes=MAX_FRAME)
    plan = make_plan([tuple(step) for step in case["plan_steps"]])
    assert plan.fingerprint == case["plan_fingerprint"]
    asked, inverse = case["operation"], case["compensation"]
    intent = OperationIntent(
        step_id=asked["step_id"],
        tool=asked["tool"],
        payload=ToolPayload.from_canonical(bytes.fromhex(asked["canonical_input_hex"])),
        nonce=asked["nonce"].encode(),
    )
    ledger, key = record_operation(open_ledger(plan), plan, intent)
    assert key == asked["operation_key"]
    assert ledger.operations[0].input_fingerprint == asked["host_input_fingerprint"]
    ledger = report(ledger, key, LedgerState.SUCCEEDED)
    target = Target(
        plan=plan,
        operation_key=key,
        tenant_scope=inverse["tenant_scope"],
        grant=grant,
        payload=ToolPayload.from_canonical(bytes.fromhex(inverse["canonical_input_hex"])),
    )
    proposal = propose_compensation(ledger, target, inverse["nonce"].encode())
    yes = proposal.question.answered(grant=True, action=True)
    recorded = record_compensation(ledger, proposal, yes)
    assert recorded.key == inverse["compensation_key"]
    held = recorded.ledger.operations[0].compensation
    assert held is not None
    assert held.input_fingerprint == inverse["host_input_fingerprint"]
    assert held.grant_fingerprint == case["grant_fingerprint"]


# ── sealed records ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("ST-1")
@pytest.mark.parametrize("record", RECORDED["storage_records"], ids=lambda one: one["key_id"])
def test_recorded_envelopes_are_sealed_and_opened_byte_for_byte(record: dict[str, Any]) -> None:
    keys = KeyRing(record["key_id"], {record["key_id"]: bytes.fromhex(record["storage_key_hex"])})
    place = Place(record["namespace"], record["name"])
    payload = bytes.fromhex(record["payload_hex"])
    data = seal_5(place, keys, payload, revision=record["revision"])
    assert data.decode() == record["envelope_json"]
    snapshot = unseal(place, keys, record["envelope_json"].encode())
    assert (snapshot.payload, snapshot.revision) == (payload, record["revision"])


@pytest.mark.rule("ST-1")
@pytest.mark.parametrize("record", COMPUTED["storage"], ids=lambda one: one["name"])
def test_the_published_tag_of_a_stored_record_is_ours(record: dict[str, Any]) -> None:
    keys = KeyRing(record["key_id"], {record["key_id"]: bytes.fromhex(record["key_hex"])})
    place = Place(record["namespace"], record["name"])
    payload = record["payload_utf8"].encode()
    data = seal_5(place, keys, payload, revision=record["revision"])
    assert json.loads(data)["auth_tag"] == record["auth_tag"]


def test_the_recorded_journal_inside_an_envelope_is_ours() -> None:
    [journal] = [
        bytes.fromhex(one["payload_hex"])
        for one in RECORDED["storage_records"]
        if one["namespace"] == "worker-journal"
    ]
    decoded = decode_journal(journal, max_bytes=LIMIT)
    assert encode_journal(decoded) == journal
    assert sum(record.compensation is not None for record in decoded.records) == 3
