"""Ledger and journal under everything that a careless host and a lossy channel can do to them.

Requests are kept and sent again in any order, to a worker that may be killed before or after it
persists. Verifiers say what they like. Whatever happens: one operation has one compensation for
ever, one key acts once, endings stay, and both sides can be read back from their bytes.
"""

from collections import Counter
from contextlib import suppress
from typing import Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from amends.contracts.errors import Conflict, Refused
from amends.contracts.persistence import PersistReceipt, content_digest
from amends.contracts.worker_grant import CapabilityGrant
from amends.contracts.worker_messages import (
    CompensationAnswer,
    CompensationRequest,
    OperationRequest,
)
from amends.contracts.worker_payload import (
    Cancelled,
    Failed,
    Running,
    Status,
    Succeeded,
    ToolPayload,
)
from amends.journal.admission import Dispatch, Existing, admit_compensation, admit_operation
from amends.journal.capacity import JournalLimits
from amends.journal.document import decode_journal, encode_journal
from amends.journal.observation import observe_compensation, observe_operation
from amends.journal.records import Journal, find_record, open_journal
from amends.ledger import compensations, operations
from amends.ledger.document import decode_ledger, encode_ledger
from amends.ledger.operations import Envoy, OperationIntent
from amends.ledger.permits import PermitDesk
from amends.ledger.plans import make_plan, open_ledger
from amends.ledger.records import Ledger, LedgerState
from amends.ledger.table import TERMINAL
from amends.ledger.targets import Stage, Target, question_of
from tests.unit.ledger.stage import LATER, NOW, SCOPE, SESSION, Sealer

PLAN: Final = make_plan([("one", "1"), ("two", "2")])
GRANTS: Final = tuple(
    CapabilityGrant("release.publish", max_compensations=number) for number in range(3)
)
PAYLOADS: Final = tuple(ToolPayload.json([number]) for number in range(2))
LIMITS: Final = JournalLimits()
STATUSES: Final[tuple[Status, ...]] = (
    Running(),
    Succeeded(ToolPayload.json([True])),
    Succeeded(ToolPayload.json([False])),
    Failed("no"),
    Cancelled(),
)


class Pair(RuleBasedStateMachine):
    """One ledger, one journal, and every request that was ever made."""

    keys = Bundle("keys")
    dispatches = Bundle("dispatches")
    inverses = Bundle("inverses")

    def __init__(self) -> None:
        super().__init__()
        self.ledger: Ledger = open_ledger(PLAN)
        self.journal: Journal = open_journal(SCOPE)
        self.effects: Counter[str] = Counter()
        self.first_intent: dict[str, str] = {}
        self.endings: dict[str, LedgerState] = {}
        self.requests = 0

    def change_ledger(self, changed: Ledger) -> None:
        assert changed.revision == self.ledger.revision + (changed is not self.ledger)
        self.ledger = changed

    @rule(
        target=keys,
        step=st.sampled_from(["one", "two"]),
        payload=st.sampled_from(PAYLOADS),
        nonce=st.sampled_from([b"1", b"2"]),
    )
    def record(self, step: str, payload: ToolPayload, nonce: bytes) -> tuple[str, ToolPayload]:
        intent = OperationIntent(step_id=step, tool="release.publish", payload=payload, nonce=nonce)
        recorded = operations.record_operation(self.ledger, PLAN, intent)
        self.change_ledger(recorded.ledger)
        return recorded.key, payload

    @rule(target=dispatches, entry=keys, fence=st.integers(1, 3))
    def make_request(self, entry: tuple[str, ToolPayload], fence: int) -> OperationRequest | None:
        envoy = Envoy(6, SESSION, self.next_request())
        try:
            return operations.request_operation(self.ledger, *entry, self.receipt(fence), envoy)
        except Refused:
            return None

    @rule(
        request=dispatches,
        status=st.sampled_from(STATUSES),
        survives=st.booleans(),
        heard=st.booleans(),
    )
    def dispatch(
        self, request: OperationRequest | None, status: Status, survives: bool, heard: bool
    ) -> None:
        if request is None:
            return
        try:
            admission = admit_operation(self.journal, request, GRANTS[1], LIMITS)
        except Refused:
            return
        self.journal = admission.journal
        if not isinstance(admission, Dispatch):
            return
        self.effects[request.operation_key] += 1
        if survives:
            self.journal = observe_operation(self.journal, request.operation_key, status)
        if survives and heard:
            self.observe(request.operation_key, status)

    @rule(entry=keys, status=st.sampled_from(STATUSES))
    def look_up(self, entry: tuple[str, ToolPayload], status: Status) -> None:
        """What the journal says, not what anybody likes to hear."""
        record = find_record(self.journal, entry[0])
        if record is not None and isinstance(record.state, Succeeded | Failed | Cancelled):
            self.observe(entry[0], record.state)
        elif record is not None and record.state != status:
            self.journal = observe_operation(self.journal, entry[0], status)

    def observe(self, key: str, status: Status) -> None:
        state = {
            Running: LedgerState.RUNNING,
            Succeeded: LedgerState.SUCCEEDED,
            Failed: LedgerState.FAILED,
            Cancelled: LedgerState.CANCELLED,
        }[type(status)]
        with suppress(Conflict):
            self.change_ledger(operations.observe_operation(self.ledger, key, state))

    def target(self, key: str, payload: ToolPayload, grant: CapabilityGrant) -> Target:
        return Target(
            plan=PLAN, operation_key=key, tenant_scope=SCOPE, grant=grant, payload=payload
        )

    @rule(
        entry=keys,
        payload=st.sampled_from(PAYLOADS),
        grant=st.sampled_from(GRANTS),
        nonce=st.sampled_from([b"1", b"2"]),
        says=st.tuples(st.booleans(), st.booleans()),
    )
    def intend(
        self,
        entry: tuple[str, ToolPayload],
        payload: ToolPayload,
        grant: CapabilityGrant,
        nonce: bytes,
        says: tuple[bool, bool],
    ) -> None:
        target = self.target(entry[0], payload, grant)
        try:
            proposal = compensations.propose_compensation(self.ledger, target, nonce)
            verdicts = proposal.question.answered(grant=says[0], action=says[1])
            recorded = compensations.record_compensation(self.ledger, proposal, verdicts)
        except Refused:
            return
        assert all(says)
        assert self.first_intent.setdefault(entry[0], recorded.key) == recorded.key
        self.change_ledger(recorded.ledger)

    @rule(
        target=inverses,
        entry=keys,
        payload=st.sampled_from(PAYLOADS),
        grant=st.sampled_from(GRANTS),
        fence=st.integers(1, 3),
    )
    def seal(
        self,
        entry: tuple[str, ToolPayload],
        payload: ToolPayload,
        grant: CapabilityGrant,
        fence: int,
    ) -> tuple[CompensationRequest, CapabilityGrant] | None:
        target, desk = self.target(entry[0], payload, grant), PermitDesk()
        try:
            asked = question_of(self.ledger, target, Stage.PERMIT)
            permit = desk.issue(
                self.ledger,
                target,
                asked.answered(grant=True, action=True),
                self.receipt(fence),
                session_id=SESSION,
                expires_at=LATER,
            )
        except Refused:
            return None
        again = question_of(self.ledger, target, Stage.SEAL).answered(grant=True, action=True)
        sealed = desk.redeem(
            permit, self.ledger, target, again, Sealer(), request_id=self.next_request(), now=NOW
        )
        assert sealed.request.compensation_key == self.first_intent[entry[0]]
        return sealed.request, grant

    @rule(
        sent=inverses,
        status=st.sampled_from(STATUSES),
        survives=st.booleans(),
        heard=st.booleans(),
    )
    def compensate(
        self,
        sent: tuple[CompensationRequest, CapabilityGrant] | None,
        status: Status,
        survives: bool,
        heard: bool,
    ) -> None:
        if sent is None:
            return
        request, grant = sent
        try:
            admission = admit_compensation(self.journal, request, grant, LIMITS)
        except Refused:
            return
        self.journal = admission.journal
        keys = request.operation_key, request.compensation_key
        if isinstance(admission, Dispatch):
            self.effects[request.compensation_key] += 1
            if not survives:
                return
            self.journal = observe_compensation(self.journal, *keys, status)
            if heard:
                self.apply(request, grant, status)
        elif isinstance(admission, Existing) and heard and admission.state in STATUSES:
            self.apply(request, grant, admission.state)

    def apply(self, sent: CompensationRequest, grant: CapabilityGrant, status: Status) -> None:
        answer = CompensationAnswer(
            protocol_version=sent.protocol_version,
            session_id=sent.session_id,
            request_id=sent.request_id,
            tool=sent.tool,
            operation_key=sent.operation_key,
            compensation_key=sent.compensation_key,
            tenant_scope=sent.tenant_scope,
            grant_fingerprint=sent.grant_fingerprint,
            status=status,
        )
        self.change_ledger(compensations.apply_compensation(self.ledger, sent, answer, grant))

    def next_request(self) -> str:
        self.requests += 1
        return f"r-{self.requests}"

    def receipt(self, fence: int) -> PersistReceipt:
        return PersistReceipt(
            namespace="workflow-ledger",
            name="one",
            revision=self.ledger.revision + 1,
            digest=content_digest(encode_ledger(self.ledger)),
            fence=fence,
        )

    @invariant()
    def each_key_acts_once(self) -> None:
        assert all(times == 1 for times in self.effects.values())

    @invariant()
    def an_operation_keeps_its_one_compensation(self) -> None:
        held = {
            one.operation_key: one.compensation.compensation_key
            for one in self.ledger.operations
            if one.compensation is not None
        }
        assert held == self.first_intent

    @invariant()
    def endings_stay(self) -> None:
        for one in self.ledger.operations:
            for entry, state in (
                (one.operation_key, one.state),
                *(((one.compensation.compensation_key, one.compensation.state),)
                  if one.compensation else ()),
            ):  # fmt: skip
                if state in TERMINAL:
                    assert self.endings.setdefault(entry, state) is state
                else:
                    assert entry not in self.endings

    @invariant()
    def both_are_read_back_from_their_bytes(self) -> None:
        assert decode_ledger(encode_ledger(self.ledger)) == self.ledger
        data = encode_journal(self.journal)
        assert decode_journal(data, max_bytes=LIMITS.max_bytes) == self.journal


TestPair = Pair.TestCase
TestPair.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
