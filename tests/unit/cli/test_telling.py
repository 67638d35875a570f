"""Words, lines and times: what people read is plain, honest, and safe to print."""

import asyncio
import io
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from msgspec.structs import replace

from amends.cli import asking, leaving, waiting
from amends.cli.commands.watching import has_ended
from amends.cli.hints import hinted
from amends.cli.paper import Forgiving, Paper, clean
from amends.cli.requests import rule_words, state
from amends.cli.results import FLYING, WORDS, Results, Wanted, shortfall, words
from amends.cli.shown import NOT_SHOWN, Values
from amends.cli.steps import next_steps
from amends.cli.stopping import left_at_once
from amends.cli.viewing import Views
from amends.contracts.approval_policy import (
    AllOf,
    AnyOf,
    ByGroup,
    ByPrincipal,
    ByRole,
    ByTenantPolicy,
    Quorum,
)
from amends.contracts.approvals import ApprovalStatus
from amends.contracts.codes import coded
from amends.contracts.documents import Attempt, Correction, Evidence
from amends.contracts.enums import (
    Handler,
    Mode,
    PrincipalKind,
    ResultStatus,
    Verdict,
    WireStatus,
)
from amends.contracts.ids import (
    ActionId,
    CapabilityId,
    Fence,
    PlanId,
    PrincipalId,
    ProviderOperationId,
    TenantId,
    TransactionId,
)
from amends.contracts.json_types import JsonText
from amends.contracts.outcomes import ErrorInfo, ProviderOperation
from amends.contracts.principals import PrincipalRef
from amends.contracts.results import Result
from amends.runtime.reading import View
from amends.runtime.registry import Registry
from amends.testing.builders import approval_request
from amends.transactions.projection import NEXT_STEPS
from tests.unit.cli import shop

NOW: Final = datetime(2030, 5, 6, 12, 0, tzinfo=UTC)
OWNER: Final = PrincipalRef(PrincipalId("alice"), PrincipalKind.USER)
RESULT: Final = Result(
    status=WireStatus.COMMITTED,
    mode=Mode.COMMIT,
    action_id=ActionId("act-1"),
    transaction_id=TransactionId("t1"),
    capability_id=CapabilityId("payments.charge"),
    plan_id=PlanId("plan:t1"),
    verdict=Verdict.COMMITTED,
)
ATTEMPT: Final = Attempt(
    number=1,
    owner="host:1:ab",
    fence=Fence("fen-1"),
    handler=Handler.EXECUTE,
    action_id=ActionId("act-1"),
    started_at=NOW,
    timeout_ms=1_000,
    lease_ms=2_000,
)


def written(tell: Callable[[Paper], None], *, utc: bool = True) -> str:
    """What is told, as a pipe gets it."""
    out = io.StringIO()
    tell(Paper(out, utc=utc))
    return out.getvalue()


def results() -> Results:
    return Results(Values(Registry()), "")


def with_status(status: WireStatus, **changes: object) -> Result:
    return replace(RESULT, status=status, verdict=None, next=NEXT_STEPS[status], **changes)


# ── results ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status", WireStatus)
def test_every_status_has_words_steps_that_can_be_typed_and_a_place_on_paper(
    status: WireStatus,
) -> None:
    result = with_status(status, approval_id="apr-1")
    assert words(result) == WORDS[status]
    for step in next_steps(result, "--as bob"):
        assert step.command.startswith("amends ")
        whose = "…" if step.call in ("approve", "settle", "rule") else "bob"
        assert step.command.endswith(f" --as {whose}")
        assert "{" not in step.command.replace("'{…}'", "")
    told = written(lambda paper: results().tell(paper, result))
    assert told.startswith(f"{status.value}  {WORDS[status]}\n")
    assert results().document(result)["says"] == WORDS[status]


@pytest.mark.parametrize("status", WireStatus)
@pytest.mark.parametrize("verdict", [None, *Verdict])
def test_only_an_effect_that_is_known_to_be_there_is_a_success(
    status: WireStatus, verdict: Verdict | None
) -> None:
    result = replace(RESULT, status=status, verdict=verdict)
    error = shortfall(result, Wanted.EFFECT)
    assert (error is None) == (verdict is Verdict.COMMITTED)
    if status is WireStatus.OUTCOME_UNKNOWN and verdict is None:
        assert error is not None
        assert error.family == "outcome_unknown"


def test_what_still_runs_is_neither_a_success_nor_a_failure() -> None:
    for status in FLYING:
        error = shortfall(with_status(status), Wanted.CERTAINTY)
        assert error is not None
        assert (error.code, error.family) == ("transaction.in_progress", "conflict")


def test_what_was_found_out_is_told_by_its_verdict() -> None:
    said = {
        verdict: words(replace(RESULT, status=WireStatus.RECONCILED, verdict=verdict))
        for verdict in Verdict
    }
    assert len(set(said.values())) == len(Verdict)
    partly = replace(RESULT, status=WireStatus.FAILED, verdict=Verdict.PARTIAL)
    assert words(partly) == "It failed, and a part of the effect is there."


def test_everything_a_result_knows_is_on_paper() -> None:
    result = with_status(
        WireStatus.OUTCOME_UNKNOWN,
        plan_expires_at=NOW,
        approval_id="apr-1",
        provider_operation=ProviderOperation("shop", ProviderOperationId("ch-1")),
        raw_output=JsonText('{"token": 1}'),
        error=ErrorInfo(code="sla.timeout_exceeded", message="It took\x1b[31m too long."),
        output_invalid="output.not_storable",
        attention="two_effects",
        reconcile_after=NOW,
        warnings=("plan.expires_before_approval",),
        replayed=True,
    )
    told = written(lambda paper: results().tell(paper, result))
    for expected in (
        "  plan        plan:t1  expires 2030-05-06 12:00:00Z",
        "  approval    apr-1",
        "  provider    shop ch-1",
        f'  output      "{NOT_SHOWN}"',
        "  attention   output.not_storable",
        "  attention   two_effects",
        "  look-up     from 2030-05-06 12:00:00Z",
        "  warning     plan.expires_before_approval",
        "  note        This had been answered before",
    ):
        assert f"{expected}" in told
    assert "\x1b" not in told
    assert "sla.timeout_exceeded  It took" in told


def test_a_cancelled_commit_says_that_its_plan_is_still_there() -> None:
    result = with_status(WireStatus.PLANNED, result_status=ResultStatus.CANCELLED)
    assert shortfall(result, Wanted.CANCELLATION) is None
    assert words(result) == "It is cancelled. The plan itself can still be committed."
    assert shortfall(result, Wanted.PLAN) is None
    assert shortfall(result, Wanted.ANYTHING) is None
    assert shortfall(result, Wanted.PREVIEW) is not None


def test_without_a_request_nobody_is_told_to_approve() -> None:
    steps = next_steps(with_status(WireStatus.REQUIRES_HUMAN), "")
    assert [step.call for step in steps] == ["cancel", "resume"]


# ── views ────────────────────────────────────────────────────────────────────────────────────────


def view(status: WireStatus, **changes: object) -> View:
    return replace(View(result=with_status(status), owner=OWNER), **changes)


def viewed(result: Result) -> View:
    return View(result=result, owner=OWNER)


UNKNOWN: Final = WireStatus.OUTCOME_UNKNOWN


def test_what_was_learnt_beside_the_answer_is_shown() -> None:
    evidence = Evidence(
        kind="late_answer",
        at=NOW,
        code="some.code",
        operation=ProviderOperation("shop", ProviderOperationId("ch-2")),
    )
    correction = Correction(
        tenant=TenantId("acme"),
        revision=1,
        created_at=NOW,
        updated_at=NOW,
        correction_id="cor-1",
        transaction_id=TransactionId("t1"),
        target=ActionId("act-1"),
        evidence=evidence,
    )
    seen = view(
        WireStatus.COMMITTED,
        evidence=(evidence,),
        corrections=(correction, replace(correction, ruling="It was a refund.")),
        frozen="store_restored",
        metadata={"ticket": 42, "note\n": "a\x1bb"},
    )
    told = written(lambda paper: Views(results()).tell(paper, seen))
    assert "  2030-05-06 12:00:00Z  late_answer some.code ch-2\n" in told
    assert 'cor-1 late_answer: open; amends rule cor-1 "…"\n' in told
    assert "cor-1 late_answer: It was a refund.\n" in told
    assert "  frozen      store_restored\n" in told
    assert "  metadata    ticket=42\n" in told
    assert "\x1b" not in told
    metadata = Views(results()).document(seen)["metadata"]
    assert isinstance(metadata, dict)
    assert metadata["ticket"] == 42
    assert all("\x1b" not in str(value) for value in metadata.values())


@pytest.mark.case("STK-01")
def test_an_attempt_whose_lease_is_over_is_not_said_to_be_running() -> None:
    long_ago = replace(ATTEMPT, started_at=datetime(2020, 1, 1, tzinfo=UTC))
    left = view(WireStatus.COMMITTING, attempt=long_ago, attempts=1)
    told = written(lambda paper: Views(results()).tell(paper, left))
    assert "Its process has gone, and nobody knows yet whether it happened.\n" in told
    assert "  amends reconcile t1 " in told
    alive = view(WireStatus.COMMITTING, attempt=replace(ATTEMPT, started_at=datetime.now(UTC)))
    assert "Its process has gone" not in written(lambda paper: Views(results()).tell(paper, alive))


@pytest.mark.parametrize(
    ("seen", "ended"),
    [
        (view(WireStatus.COMMITTED), True),
        (view(WireStatus.CANCELLED), True),
        (view(WireStatus.REQUIRES_HUMAN), False),
        (view(WireStatus.REQUIRES_HUMAN, frozen="store_restored"), True),
        (view(WireStatus.COMMITTING, attempt=ATTEMPT), False),
        (view(WireStatus.PLANNED), False),
        (viewed(with_status(WireStatus.PLANNED, plan_expires_at=NOW)), True),
        (viewed(with_status(UNKNOWN, attention="by_hand")), True),
        (viewed(with_status(UNKNOWN, reconcile_after=NOW)), False),
    ],
)
def test_watching_ends_when_nothing_more_happens_by_itself(seen: View, ended: bool) -> None:
    assert has_ended(seen, NOW, recover=False) is ended


def test_watching_ends_where_nobody_recovers_what_has_been_due_for_a_while() -> None:
    later = NOW + timedelta(seconds=60)
    for seen in (
        view(WireStatus.COMMITTING, attempt=ATTEMPT),
        viewed(with_status(UNKNOWN, reconcile_after=NOW)),
    ):
        assert has_ended(seen, later, recover=False)
        assert not has_ended(seen, later, recover=True)


# ── approval requests ────────────────────────────────────────────────────────────────────────────


def test_a_rule_is_told_in_words() -> None:
    rule = AllOf(
        (
            Quorum(2, ByGroup("finance")),
            AnyOf((ByRole("boss"), ByPrincipal((PrincipalId("a"), PrincipalId("b"))))),
            ByTenantPolicy(),
        )
    )
    assert rule_words(rule) == (
        "(2 of group finance and (role boss or a or b) and an approver of the tenant)"
    )


def test_a_request_whose_time_is_over_has_expired_whoever_writes_it_down() -> None:
    request = approval_request()
    assert state(request, request.expires_at) == "expired"
    assert state(request, request.expires_at - timedelta(seconds=1)) == "pending"
    used = replace(request, status=ApprovalStatus.CONSUMED)
    assert state(used, request.expires_at) == "consumed"


# ── hints ────────────────────────────────────────────────────────────────────────────────────────


def test_an_error_says_what_can_be_typed() -> None:
    early = coded(
        "transaction.reconcile_not_due", {"transaction_id": "t 1", "reconcile_after": "12:00"}
    )
    assert hinted(early, "--as olga").next_step.endswith(
        "That is 12:00; --wait SECONDS waits for it. Type: amends tx show 't 1' --as olga"
    )
    busy = coded("transaction.in_progress", {"action_id": "act-1", "until": "12:00"})
    assert "Its lease ends at 12:00" in hinted(busy).next_step
    assert hinted(busy).next_step.endswith("Type: amends tx show act-1")
    plain = coded("approval.not_found")
    assert hinted(plain) is plain


def test_leaving_at_once_names_what_is_under_way_and_never_calls_it_nothing() -> None:
    assert left_at_once(None).code == "cli.interrupted"
    left = left_at_once({"action_id": "act-1", "transaction_id": "t1"})
    assert (left.code, left.family) == ("cli.left_at_once", "outcome_unknown")
    assert "amends reconcile t1" in left.next_step
    assert "amends tx show act-1" in left_at_once({"action_id": "act-1"}).next_step
    assert "amends tx show ID" in left_at_once({}).next_step


# ── paper ────────────────────────────────────────────────────────────────────────────────────────


def test_foreign_text_cannot_write_to_the_terminal_nor_be_read_as_markup() -> None:
    assert "\x1b" not in clean("a\x1b[2Jb")
    assert clean("sk_live_abcdef") == "[redacted]"
    told = written(lambda paper: paper.line("[bold]x[/bold]", ("  y", "red")))
    assert told == "[bold]x[/bold]  y\n"


def test_columns_are_as_wide_as_they_have_to_be_and_nothing_trails() -> None:
    told = written(lambda paper: paper.rows([("aaa", "b", "c"), ("a", "bb", "")], ("X", "Y", "Z")))
    assert told == "X    Y   Z\naaa  b   c\na    bb\n"
    assert written(lambda paper: paper.rows([])) == ""


def test_times_are_local_unless_asked_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        assert written(lambda p: p.line(p.time(NOW)), utc=False) == "2030-05-06 17:30:00+05:30\n"
        assert written(lambda p: p.line(p.time(NOW))) == "2030-05-06 12:00:00Z\n"
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("✓ allow", b"+ allow\n"),
        ("✗ deny", b"x deny\n"),
        ("amends approve …", b"amends approve ...\n"),
        ("für 日本", b"f\\xfcr \\u65e5\\u672c\n"),
    ],
)
def test_a_stream_that_lacks_our_letters_still_tells_one_from_the_other(
    text: str, written: bytes
) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", write_through=True)
    Paper(stream).line(text)
    assert raw.getvalue() == written


class Gone(io.StringIO):
    """A stream whose reader has left."""

    def write(self, text: str) -> int:
        raise BrokenPipeError

    def flush(self) -> None:
        raise BrokenPipeError


def test_a_note_to_a_terminal_that_is_gone_ends_nothing() -> None:
    gone = Forgiving(Gone())
    assert gone.write("x") == 1
    gone.flush()
    assert gone.isatty() is False


def test_an_answer_to_a_reader_who_has_left_is_a_broken_pipe() -> None:
    with pytest.raises(BrokenPipeError):
        Paper(Gone()).line("x")


# ── waiting ──────────────────────────────────────────────────────────────────────────────────────


def test_a_wait_shows_how_long_it_has_taken_and_how_long_it_may() -> None:
    assert waiting.line("Waiting", 3.2, None) == "Waiting 3 s"
    assert waiting.line("Waiting", 2, 4) == f"Waiting [{'#' * 12}{'.' * 12}] 2 s of at most 4 s"
    assert waiting.line("Waiting", 9, 4).count("#") == 24


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


async def test_a_wait_is_drawn_on_a_terminal_only_and_taken_away_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting, "_BEFORE_S", 0.01)
    monkeypatch.setattr(waiting, "_EVERY_S", 0.01)
    for stream, draws in ((io.StringIO(), False), (Screen(), True)):
        monkeypatch.setattr(sys, "stderr", stream)
        async with waiting.shown_wait("Waiting", 5):
            await asyncio.sleep(0.1)
        assert ("Waiting [" in stream.getvalue()) is draws
        assert stream.getvalue().endswith("\x1b[2K") is draws


# ── leaving ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("served", "status", "calls"),
    [
        (shop.charge, WireStatus.OUTCOME_UNKNOWN, ["reconcile", "settle"]),
        (shop.label, WireStatus.OUTCOME_UNKNOWN, ["settle"]),
        (shop.charge, WireStatus.COMMITTED, ["compensate"]),
        (shop.label, WireStatus.COMMITTED, []),
        (shop.label, WireStatus.COMMITTING, ["watch"]),
        (None, WireStatus.OUTCOME_UNKNOWN, ["reconcile", "settle"]),
    ],
)
def test_nobody_is_told_to_type_what_the_capability_does_not_admit(
    served: Any, status: WireStatus, calls: list[str]
) -> None:
    registry = Registry()
    for one in (shop.charge, shop.label):
        if served is not None:
            registry.register(*one.build())
    named = CapabilityId("unknown.here") if served is None else served.build()[0].id
    result = replace(RESULT, status=status, capability_id=named, next=NEXT_STEPS.get(status, ()))
    assert [one.call for one in Results(Values(registry), "").steps(result)] == calls


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ErrorInfo(code="sla.timeout_exceeded"), "sla.timeout_exceeded  The provider did not"),
        (ErrorInfo(code="card_declined"), "card_declined"),
        (
            ErrorInfo(
                code="provider.failed",
                message="The provider refused.",
                details={"status": 402, "provider_code": "card\x1b[31m_declined", "again": False},
            ),
            "provider.failed  The provider refused.\n"
            "              status=402  provider_code=card\\x1b[31m_declined  again=false",
        ),
    ],
)
def test_a_failure_is_shown_with_its_words_and_with_what_the_provider_said(
    error: ErrorInfo, line: str
) -> None:
    stream = io.StringIO()
    failed = replace(RESULT, status=WireStatus.FAILED, error=error)
    Results(Values(Registry()), "").tell(Paper(stream), failed)
    assert f"  error       {line}" in stream.getvalue()


def test_a_process_leaves_at_once_only_where_a_handler_holds_it_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import threading

    left: list[int] = []
    monkeypatch.setattr("os._exit", left.append)
    monkeypatch.setattr(leaving, "_PATIENCE_S", 0.02)
    leaving.leave(0)
    assert left == []
    enough = threading.Event()
    handler = threading.Thread(target=enough.wait, name=f"{leaving.HANDLERS}_0")
    handler.start()
    leaving.leave(5)
    enough.set()
    handler.join()
    assert left == [5]


@pytest.mark.rule("CLI-3")
def test_every_deed_that_is_asked_about_says_what_it_does_not_guarantee() -> None:
    assert asking.NOT_GUARANTEED.keys() == set(asking.Deed)
    assert all(asking.NOT_GUARANTEED.values())
