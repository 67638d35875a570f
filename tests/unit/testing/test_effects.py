"""The provider's books: what arrived decides what happened, in any number of processes."""

import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from amends.testing.effects import Arrival, FileLedger, Ledger, MemoryLedger, Ruling, rulings


def _charge(key: str = "k", at: float = 0.0, amount: int = 5, declined: str = "") -> Arrival:
    return Arrival(kind="charge", key=key, at=at, amount=amount, declined=declined)


def _refund(target: str, amount: int, key: str = "r", at: float = 1.0) -> Arrival:
    return Arrival(kind="refund", key=key, at=at, amount=amount, target=target)


def _void(key: str = "k", at: float = 0.0) -> Arrival:
    return Arrival(kind="void", key=key, at=at)


def _told(*arrivals: Arrival, now: float = 100.0, window: float | None = None) -> list[str]:
    made = rulings(arrivals, now, window)
    return [_words(made[position]) for position in sorted(made)]


def _words(ruling: Ruling) -> str:
    said = ruling.operation_id or ruling.refusal or "nothing"
    return f"again {said}" if ruling.repeats else said


def test_without_deduplication_every_arrival_is_an_effect() -> None:
    assert _told(_charge(), _charge()) == ["charge_1", "charge_2"]


def test_a_key_repeats_its_first_answer_until_the_window_has_passed() -> None:
    told = _told(_charge(at=0), _charge(at=10), _charge(at=10.5), window=10)
    assert told == ["charge_1", "again charge_1", "charge_3"]


def test_a_declined_key_stays_declined_within_the_window() -> None:
    assert _told(_charge(declined="no"), _charge(at=1), window=10) == ["no", "again no"]
    assert _told(_charge(declined="no"), _charge(at=1)) == ["no", "charge_2"]


def test_a_key_used_again_for_another_request_is_refused() -> None:
    assert _told(_charge(), _charge(amount=6), window=10) == ["charge_1", "key_reused"]


def test_arrivals_without_a_key_are_never_taken_for_one_another() -> None:
    assert _told(_charge(key=""), _charge(key=""), window=10) == ["charge_1", "charge_2"]


def test_a_request_in_flight_has_no_effect_before_it_arrives() -> None:
    assert _told(_charge(at=10), now=9) == []
    assert _told(_charge(at=10), now=10) == ["charge_1"]


def test_of_two_requests_with_one_key_the_first_to_arrive_has_the_effect() -> None:
    assert _told(_charge(at=10), _charge(at=5), window=60) == ["again charge_2", "charge_2"]


def test_a_voided_key_keeps_a_request_in_flight_from_taking_effect() -> None:
    assert _told(_charge(at=10), _void(at=5)) == ["key_voided", "nothing"]


def test_a_key_that_has_had_its_effect_is_not_voided() -> None:
    told = _told(_charge(at=0), _void(at=5), _charge(at=6), window=60)
    assert told == ["charge_1", "already_done", "again charge_1"]


def test_a_charge_is_refunded_in_parts_but_never_beyond_what_was_taken() -> None:
    told = _told(
        _charge(amount=100),
        _refund("charge_1", 40, "r1"),
        _refund("charge_1", 60, "r2"),
        _refund("charge_1", 1, "r3"),
    )
    assert told == ["charge_1", "refund_2", "refund_3", "already_refunded"]


def test_what_was_never_taken_is_not_refunded() -> None:
    assert _told(_charge(declined="no"), _refund("charge_1", 1)) == ["no", "no_such_charge"]


def test_a_repeated_refund_moves_money_once() -> None:
    told = _told(_charge(amount=5), _refund("charge_1", 5), _refund("charge_1", 5), window=60)
    assert told == ["charge_1", "refund_2", "again refund_2"]


@pytest.fixture(params=["memory", "file"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    return MemoryLedger() if request.param == "memory" else FileLedger(tmp_path / "effects")


def test_a_ledger_keeps_arrivals_in_order_and_numbers_them(ledger: Ledger) -> None:
    assert ledger.arrivals() == ()
    assert ledger.append(_charge) == (0, _charge())
    assert ledger.append(_void) == (1, _void())
    assert ledger.arrivals() == (_charge(), _void())


def _append_many(path: Path, key: str, count: int) -> None:
    ledger = FileLedger(path)
    for _ in range(count):
        ledger.append(lambda: _charge(key, time.monotonic()))


def test_processes_that_share_a_file_lose_no_arrival_and_agree_on_their_order(
    tmp_path: Path,
) -> None:
    path = tmp_path / "effects"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_append_many, args=(path, key, 50)) for key in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    kept = FileLedger(path).arrivals()
    assert sorted(one.key for one in kept) == ["a"] * 50 + ["b"] * 50 + ["c"] * 50
    assert [one.at for one in kept] == sorted(one.at for one in kept)


def _append_and_die(path: Path) -> None:
    FileLedger(path).append(_charge)
    os.kill(os.getpid(), signal.SIGKILL)


def test_what_a_killed_process_had_sent_still_counts_and_blocks_nobody(tmp_path: Path) -> None:
    path = tmp_path / "effects"
    victim = multiprocessing.get_context("spawn").Process(target=_append_and_die, args=(path,))
    victim.start()
    victim.join()
    assert victim.exitcode == -signal.SIGKILL
    ledger = FileLedger(path)
    assert ledger.arrivals() == (_charge(),)
    assert ledger.append(_charge)[0] == 1
