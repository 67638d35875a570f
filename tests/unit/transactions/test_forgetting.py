"""What is left of documents that were forgotten: everything that happened, and nothing written."""

from typing import Final

import msgspec
import pytest
from msgspec.structs import replace

from amends.contracts.actions import ActionResult
from amends.contracts.approvals import Answer, Decision
from amends.contracts.documents import (
    Cancellation,
    Correction,
    Document,
    Evidence,
    GateVerdict,
    LegalHold,
    OperatorRuling,
    Refusal,
    RequestInfo,
)
from amends.contracts.enums import Mode, PrincipalKind, ResultStatus, Status, Verdict
from amends.contracts.ids import (
    CapabilityId,
    DecisionId,
    PrincipalId,
    TenantId,
    TransactionId,
)
from amends.contracts.json_types import json_text
from amends.contracts.outcomes import ErrorInfo
from amends.contracts.principals import PrincipalRef
from amends.contracts.redaction import hidden_text
from amends.testing.builders import (
    ACTION,
    CAPABILITY,
    NOW,
    TENANT,
    TRANSACTION,
    action,
    approval_request,
    plan,
    principal,
    record,
    record_in,
    result,
)
from amends.testing.invariants import canary_absent
from amends.transactions.coherence import contradictions
from amends.transactions.forgetting import (
    forget_action,
    forget_correction,
    forget_hold,
    forget_record,
    forget_refusal,
    forget_request,
)
from amends.transactions.hashing import plan_digest
from amends.transactions.projection import wire_status
from amends.transactions.replay import TERMINAL, reopenable

pytestmark = pytest.mark.rule("RD-3")
CANARY: Final = "kanarienvogel-7319"
LATER: Final = NOW.replace(year=2027)
TEXT: Final = json_text(f'"{CANARY}"'.encode())
ERROR: Final = ErrorInfo(code="no", message=CANARY, retryable=True, details={"why": CANARY})
SAID: Final = ActionResult(
    status=ResultStatus.FAILED, output=TEXT, output_hash="hash", error=ERROR, completed_at=NOW
)
RULING: Final = OperatorRuling(
    verdict=Verdict.COMMITTED, reference=CANARY, note=CANARY, by=principal().ref, at=NOW
)
VERDICT: Final = GateVerdict(gate="policy", answer="deny", code="policy.denied", reason=CANARY)
WORD: Final = Decision(
    decision_id=DecisionId("dec_1"),
    answer=Answer.APPROVED,
    approver=principal().ref,
    reason=CANARY,
    evidence={"ticket": CANARY},
    seen_revision=1,
    at=NOW,
)


def absent(document: Document) -> bool:
    return canary_absent(CANARY, msgspec.json.encode(document)) == []


def stamped(document: Document, before: Document) -> bool:
    return (document.revision, document.updated_at, document.forgotten_at) == (
        before.revision + 1,
        LATER,
        LATER,
    )


def test_a_record_keeps_what_happened_and_loses_what_was_written() -> None:
    planned = plan()
    planned = replace(
        planned,
        snapshot=replace(planned.snapshot, input=TEXT),
        validation=result(output=TEXT),
    )
    planned = replace(planned, digest=plan_digest(planned))
    before = record(plan=planned, result=SAID, error=ERROR, cursor=CANARY, ruling=RULING)
    after = forget_record(before, LATER)
    assert not absent(before)
    assert absent(after)
    assert stamped(after, before)
    assert after.plan is not None
    assert plan_digest(after.plan) == planned.digest
    assert after.plan.snapshot.input_hash == planned.snapshot.input_hash
    assert after.result is not None
    assert (after.result.output, after.result.output_hash) == (None, "hash")
    assert after.result.output_redacted
    assert after.error is not None
    assert (after.error.code, after.error.retryable) == ("no", True)
    assert after.ruling is not None
    assert (after.ruling.verdict, after.ruling.by) == (RULING.verdict, RULING.by)
    kept = ("status", "verdict", "provider_operation", "input_hash", "settled_at", "attempts")
    assert [getattr(after, one) for one in kept] == [getattr(before, one) for one in kept]


@pytest.mark.parametrize("status", sorted(TERMINAL))
@pytest.mark.parametrize("cursor", [None, "page 2"])
def test_no_rule_reads_a_forgotten_record_differently(status: Status, cursor: str | None) -> None:
    before = record_in(status, cursor=cursor, error=record_in(status).error and ERROR)
    after = forget_record(before, LATER)
    assert reopenable(after) == reopenable(before)
    assert contradictions(after) == contradictions(before)
    told = [wire_status(one, None, waiting=False) for one in (before, after)]
    assert told[0] == told[1]


def test_an_action_keeps_its_hashes_and_its_gates_codes() -> None:
    before = action(
        input=TEXT,
        result=SAID,
        reconcile_result=SAID,
        verdicts=(VERDICT,),
        cancellation=Cancellation(by=principal().ref, at=NOW, reason=CANARY),
        requested=RequestInfo(reason=CANARY, metadata={"note": CANARY}),
        metadata={"note": CANARY},
    )
    after = forget_action(before, LATER)
    assert absent(after)
    assert stamped(after, before)
    assert (after.input_hash, after.idempotency_key) == (before.input_hash, before.idempotency_key)
    assert after.verdicts[0].code == "policy.denied"
    assert after.cancellation is not None
    assert after.cancellation.reason.startswith("[redacted] sha256:")
    assert after.requested is not None
    assert after.requested.metadata == {}


def test_what_was_never_there_is_not_made_up() -> None:
    after = forget_action(action(requested=RequestInfo(), input=None), LATER)
    assert (after.result, after.cancellation) == (None, None)
    assert after.requested == RequestInfo()
    assert forget_action(action(), LATER).requested is None
    bare = forget_record(record(), LATER)
    assert (bare.plan, bare.result, bare.error, bare.ruling) == (None, None, None, None)
    planned = forget_record(record(plan=plan(), result=result(output=None)), LATER)
    assert planned.plan is not None
    assert planned.plan.validation is None
    assert planned.result is not None
    assert not planned.result.output_redacted


def test_a_request_keeps_who_decided_what_and_when() -> None:
    before = approval_request(input=TEXT, decisions=(WORD,))
    after = forget_request(before, LATER)
    assert absent(after)
    assert stamped(after, before)
    (word,) = after.decisions
    assert (word.answer, word.approver, word.at) == (WORD.answer, WORD.approver, WORD.at)
    assert list(word.evidence) == ["ticket"]
    assert after.action_hash == before.action_hash


def test_corrections_and_refusals_keep_their_codes() -> None:
    correction = Correction(
        tenant=TENANT,
        revision=1,
        created_at=NOW,
        updated_at=NOW,
        correction_id="cor_1",
        transaction_id=TRANSACTION,
        target=ACTION,
        evidence=Evidence(kind="late_applied", at=NOW),
        ruled_by=principal().ref,
        ruling=CANARY,
    )
    after = forget_correction(correction, LATER)
    assert absent(after)
    assert stamped(after, correction)
    assert after.evidence == correction.evidence
    assert forget_correction(replace(correction, ruling=None), LATER).ruling is None
    refusal = Refusal(
        tenant=TENANT,
        revision=1,
        created_at=NOW,
        updated_at=NOW,
        refusal_id="ref_1",
        action_id=None,
        capability_id=CAPABILITY,
        mode=Mode.EXECUTE,
        principal=principal().ref,
        code="policy.denied",
        verdicts=(VERDICT,),
    )
    left = forget_refusal(refusal, LATER)
    assert absent(left)
    assert stamped(left, refusal)
    assert left.code == "policy.denied"


def test_forgetting_twice_changes_nothing_more_than_the_stamp() -> None:
    once = forget_action(action(metadata={"a": 1}, verdicts=(VERDICT,)), LATER)
    twice = forget_action(once, LATER)
    assert replace(twice, revision=once.revision) == once


def test_a_hold_that_was_lifted_keeps_who_and_when_and_not_the_words() -> None:
    hold = LegalHold(
        tenant=TenantId("acme"),
        revision=2,
        created_at=LATER,
        updated_at=LATER,
        transaction_id=TransactionId("txn_1"),
        capability_id=CapabilityId("letters.send"),
        placed=False,
        reason="About Ann",
        by=PrincipalRef(PrincipalId("olga"), PrincipalKind.OPERATOR),
        at=LATER,
    )
    after = forget_hold(hold, LATER)
    assert after.reason == hidden_text("About Ann")
    assert replace(after, reason=hold.reason, revision=2) == hold
