"""A host and a worker that share nothing but messages, and can be killed between any two steps.

Each side keeps bytes that survive, and a memory that does not. Time is a count of points: before
and after each persist, each effect, and each message. A schedule says who dies at which point.
After a death the documented recovery goes on, and nothing else; the world ends when the host has
nothing more to do.

No test in here. The world asks the product's rooms for every decision; only killing, sending and
counting effects are its own.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from enum import Flag, auto
from typing import Final

from amends.contracts.persistence import PersistReceipt, content_digest
from amends.contracts.worker_grant import CapabilityGrant
from amends.contracts.worker_messages import (
    AnsweredStatus,
    CompensationAnswer,
    CompensationRequest,
    OperationAnswer,
    OperationRequest,
    TerminalRecord,
)
from amends.contracts.worker_payload import (
    Failed,
    Running,
    Status,
    StoredState,
    Succeeded,
    ToolPayload,
)
from amends.journal.admission import Dispatch, Existing, admit_compensation, admit_operation
from amends.journal.capacity import JournalLimits
from amends.journal.document import decode_journal, encode_journal
from amends.journal.observation import (
    learn_compensation,
    learn_operation,
    observe_compensation,
    observe_operation,
)
from amends.journal.records import Journal, is_open, open_journal
from amends.journal.reports import report_of
from amends.ledger.compensations import (
    apply_compensation,
    propose_compensation,
    record_compensation,
)
from amends.ledger.document import decode_ledger, encode_ledger
from amends.ledger.operations import (
    Envoy,
    OperationIntent,
    apply_operation,
    record_operation,
    request_operation,
)
from amends.ledger.permits import PermitDesk
from amends.ledger.plans import make_plan, open_ledger
from amends.ledger.records import Ledger, LedgerState
from amends.ledger.recovery import Recovery, recovery_of
from amends.ledger.targets import Stage, Target, question_of
from tests.unit.ledger.stage import LATER, NOW

SCOPE: Final = "tenant-release"
GRANT: Final = CapabilityGrant.json("release.publish").with_compensation_limit(1)
INPUT: Final = ToolPayload.json({"version": "1.2.3"})
INVERSE: Final = ToolPayload.json({"undo": "release"})
PLAN: Final = make_plan([("publish", "let release = true")])
INTENT: Final = OperationIntent(
    step_id="publish", tool=GRANT.tool, payload=INPUT, nonce=b"release-42:publish:1"
)
NONCE: Final = b"release-42:publish:undo:1"
DONE: Final = Succeeded(ToolPayload.json({"done": True}))
LIMITS: Final = JournalLimits()


class Dies(Flag):
    """Who dies at a point."""

    HOST = auto()
    WORKER = auto()


class HostDied(Exception):
    """The host's memory is gone."""


class WorkerDied(Exception):
    """The worker's memory is gone, and with it the answer."""


class World:
    """One host and one worker with what survives them, the effects they had, and a schedule."""

    def __init__(self, deaths: Mapping[int, Dies], *, acts_before_persisting: bool = False) -> None:
        self.deaths = deaths
        self.points: list[str] = []
        self.effects: Counter[str] = Counter()
        self.ledger_file = encode_ledger(open_ledger(PLAN))
        self.journal_file = encode_journal(open_journal(SCOPE))
        self.fence = 1
        self.ledger: Ledger = open_ledger(PLAN)
        self.receipt = self._receipt()
        self.journal: Journal = open_journal(SCOPE)
        self.session = 1
        self.requests = 0
        self.desk = PermitDesk()
        self.host_is_dying = False
        self.acts_before_persisting = acts_before_persisting

    # ── points and deaths ────────────────────────────────────────────────────────────────────────

    def point(self, name: str, *, in_worker: bool) -> None:
        """One moment at which either side may die."""
        dies = self.deaths.get(len(self.points), Dies(0))
        self.points.append(name)
        if Dies.HOST in dies:
            self.host_is_dying = True
        if Dies.WORKER in dies:
            self._worker_comes_back()
            if in_worker:
                raise WorkerDied
        if self.host_is_dying and not in_worker:
            raise HostDied

    def _worker_comes_back(self) -> None:
        self.journal = decode_journal(self.journal_file, max_bytes=LIMITS.max_bytes)
        self.session += 1

    def host_comes_back(self) -> None:
        self.host_is_dying = False
        self.ledger = decode_ledger(self.ledger_file)
        self.fence += 1
        self.receipt = self._receipt()
        self.desk = PermitDesk()
        self.session += 1

    def _receipt(self) -> PersistReceipt:
        return PersistReceipt(
            namespace="workflow-ledger",
            name="release-42",
            revision=self.ledger.revision + 1,
            digest=content_digest(self.ledger_file),
            fence=self.fence,
        )

    def persist_ledger(self, ledger: Ledger, why: str) -> None:
        if ledger is self.ledger:
            return
        self.point(f"before the ledger holds {why}", in_worker=False)
        self.ledger, self.ledger_file = ledger, encode_ledger(ledger)
        self.receipt = self._receipt()
        self.point(f"after the ledger holds {why}", in_worker=False)

    def persist_journal(self, journal: Journal, why: str) -> None:
        if journal == self.journal:
            return
        self.point(f"before the journal holds {why}", in_worker=True)
        self.journal, self.journal_file = journal, encode_journal(journal)
        self.point(f"after the journal holds {why}", in_worker=True)

    # ── the worker ───────────────────────────────────────────────────────────────────────────────

    def carry_out(self, key: str, what: str) -> None:
        self.point(f"before {what}", in_worker=True)
        self.effects[key] += 1
        self.point(f"after {what}", in_worker=True)

    def dispatch(self, request: OperationRequest) -> AnsweredStatus:
        key = request.operation_key
        admission = admit_operation(self.journal, request, GRANT, LIMITS)
        assert isinstance(admission, Dispatch | Existing)
        if isinstance(admission, Existing):
            self.persist_journal(admission.journal, "the host's head")
            if is_open(admission.state):
                found = self.look_up(key)
                learnt = learn_operation(self.journal, key, found, old_run_gone=True)
                self.persist_journal(learnt, "what was found of the original")
                return found
            return _as_answer(admission.state)
        self._run(admission.journal, key, "the original")
        observed = observe_operation(self.journal, key, DONE)
        self.persist_journal(observed, "the original's end")
        return DONE

    def compensate(self, request: CompensationRequest) -> AnsweredStatus:
        keys = request.operation_key, request.compensation_key
        admission = admit_compensation(self.journal, request, GRANT, LIMITS)
        assert isinstance(admission, Dispatch | Existing)
        if isinstance(admission, Existing):
            self.persist_journal(admission.journal, "the host's head")
            if is_open(admission.state):
                found = self.look_up(keys[1])
                learnt = learn_compensation(self.journal, *keys, found, old_run_gone=True)
                self.persist_journal(learnt, "what was found of the inverse")
                return found
            return _as_answer(admission.state)
        self._run(admission.journal, keys[1], "the inverse")
        running = observe_compensation(self.journal, *keys, Running())
        self.persist_journal(running, "that the inverse runs")
        ended = observe_compensation(self.journal, *keys, DONE)
        self.persist_journal(ended, "the inverse's end")
        return DONE

    def _run(self, admitted: Journal, key: str, what: str) -> None:
        if self.acts_before_persisting:
            self.carry_out(key, what)
            self.persist_journal(admitted, f"{what}'s admission")
            return
        self.persist_journal(admitted, f"{what}'s admission")
        self.carry_out(key, what)

    def look_up(self, key: str) -> Status:
        """The provider knows; the worker that began it is gone."""
        return DONE if self.effects[key] else Failed("it is not there")

    # ── the host ─────────────────────────────────────────────────────────────────────────────────

    def go_on(self) -> bool:
        """One step of the documented recovery, which is also the way without a crash."""
        if not self.ledger.operations:
            recorded = record_operation(self.ledger, PLAN, INTENT)
            self.persist_ledger(recorded.ledger, "the operation")
            return True
        [operation] = self.ledger.operations
        match recovery_of(operation):
            case Recovery.LOOK_UP_ORIGINAL:
                return self._offer_original(operation.operation_key, operation.state)
            case Recovery.MAY_RECORD:
                proposal = propose_compensation(self.ledger, self.target(), NONCE)
                yes = proposal.question.answered(grant=True, action=True)
                recorded = record_compensation(self.ledger, proposal, yes)
                self.persist_ledger(recorded.ledger, "the intent")
                return True
            case Recovery.OFFER_AGAIN:
                self._offer_inverse()
                return True
            case Recovery.REPORT | Recovery.EXPLICIT_POLICY:
                return False

    def target(self) -> Target:
        [operation] = self.ledger.operations
        return Target(
            plan=PLAN,
            operation_key=operation.operation_key,
            tenant_scope=SCOPE,
            grant=GRANT,
            payload=INVERSE,
        )

    def _offer_original(self, key: str, state: LedgerState) -> bool:
        if state not in (LedgerState.PENDING, LedgerState.RUNNING):
            return False
        self.requests += 1
        envoy = Envoy(6, self.session_id, f"r-{self.requests}")
        sent = request_operation(self.ledger, key, INPUT, self.receipt, envoy)
        status = self._ask(lambda: self.dispatch(sent))
        if status is not None:
            answer = OperationAnswer(
                protocol_version=6,
                session_id=sent.session_id,
                request_id=sent.request_id,
                tool=sent.tool,
                operation_key=sent.operation_key,
                status=status,
            )
            after = apply_operation(self.ledger, sent, answer, GRANT)
            self.persist_ledger(after, "the original's end")
        return True

    def _offer_inverse(self) -> None:
        target = self.target()
        self.requests += 1
        permit = self.desk.issue(
            self.ledger,
            target,
            question_of(self.ledger, target, Stage.PERMIT).answered(grant=True, action=True),
            self.receipt,
            session_id=self.session_id,
            expires_at=LATER,
        )
        sent = self.desk.redeem(
            permit,
            self.ledger,
            target,
            question_of(self.ledger, target, Stage.SEAL).answered(grant=True, action=True),
            self,
            request_id=f"r-{self.requests}",
            now=NOW,
        ).request
        status = self._ask(lambda: self.compensate(sent))
        if status is not None:
            answer = CompensationAnswer(
                protocol_version=6,
                session_id=sent.session_id,
                request_id=sent.request_id,
                tool=sent.tool,
                operation_key=sent.operation_key,
                compensation_key=sent.compensation_key,
                tenant_scope=sent.tenant_scope,
                grant_fingerprint=sent.grant_fingerprint,
                status=status,
            )
            after = apply_compensation(self.ledger, sent, answer, GRANT)
            self.persist_ledger(after, "the inverse's end")

    def _ask(self, ask: Callable[[], AnsweredStatus]) -> AnsweredStatus | None:
        """Send, and wait. None is silence, which proves nothing."""
        self.point("before sending", in_worker=False)
        try:
            status = ask()
        except WorkerDied:
            status = None
        self.point("after the answer", in_worker=False)
        return status

    # ── a session that seals ─────────────────────────────────────────────────────────────────────

    protocol_version = 6

    @property
    def session_id(self) -> str:
        return f"worker-{self.session}"

    def seal_compensation(self, request: CompensationRequest) -> bytes:
        return b"sealed"


def _as_answer(state: StoredState) -> AnsweredStatus:
    report = report_of(state, in_this_session=False)
    assert isinstance(report, TerminalRecord)
    return report.status


def play(deaths: Mapping[int, Dies], *, acts_before_persisting: bool = False) -> World:
    """A whole world under this schedule, to where the host has nothing more to do."""
    world = World(deaths, acts_before_persisting=acts_before_persisting)
    for _ in range(40):
        try:
            if not world.go_on():
                return world
        except HostDied:
            world.host_comes_back()
    raise AssertionError("the world does not come to an end")
