"""`amends demo` as a newcomer runs it: real processes, a real kill, counted at the provider."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Final

import pytest

from amends import Amends, Principal
from amends.stores.port import Stored

WAIT_S: Final = 180
MARK: Final = "AMENDS_DEMO_TEST"
TAKES_SIGNALS: Final = """
import signal, sys
from amends.cli.main import main
signal.signal(signal.SIGINT, signal.default_int_handler)
for ending in (signal.SIGHUP, signal.SIGTERM):
    signal.signal(ending, signal.SIG_DFL)
sys.argv[1:] = ["demo"]
main()
"""
IN_ORDER: Final = (
    "1  Dry run",
    "dry_run_completed",
    "2  Plan",
    "planned",
    "3  Approval",
    "requires_human",
    "refused: approval.separation_of_duties",
    "Bob approves it.",
    "At the provider: no charges, no refunds.",
    "4  Race",
    "refused: transaction.in_progress",
    "5  Crash",
    "kill -9",
    "killed",
    "At the provider: 1 charge, no refunds.",
    "6  Restart",
    "committing",
    "outcome_unknown",
    "refused: transaction.reconciliation_required",
    "7  Reconciliation",
    "reconciled",
    "8  Refund",
    "compensated",
    "refused: transaction.compensation_exists",
    "At the provider: 1 charge, 1 refund.",
    "9  Receipts",
    "verified",
    "The tampered copy does not verify.",
    "receipt.hash_mismatch",
    "10  Worker",
    "committed",
    "ontained",
    "11  Withdrawal",
    "kill -9",
    "outcome_unknown",
    "refused: transaction.compensation_exists",
    "12  Existing",
    "reconciled",
    "In the register: 1 published, 1 withdrawn.",
    "1 charge, 1 refund, as the provider counts.",
    "One release was withdrawn once",
)


def environment(temporary: Path, mark: str) -> dict[str, str]:
    """A place for temporary files of its own, and a mark by which its processes are found."""
    temporary.mkdir()
    return {**os.environ, "TMPDIR": str(temporary), "COLUMNS": "80", MARK: mark}


def assert_nothing_is_left(temporary: Path, mark: str) -> None:
    assert list(temporary.iterdir()) == []
    deadline = time.monotonic() + 5
    while (left := processes_with(f"{MARK}={mark}")) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []


def run_demo(temporary: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end, and see that nothing of it is left."""
    mark = uuid.uuid4().hex
    done = subprocess.run(
        [sys.executable, "-m", "amends", "demo", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=WAIT_S,
        check=False,
        env=environment(temporary, mark),
    )
    assert_nothing_is_left(temporary, mark)
    return done


def processes_with(variable: str) -> list[str]:
    """The processes whose environment holds this variable, where /proc can tell."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if variable.encode() in environ.read_bytes().split(b"\0"):
                found.append(environ.parent.name)
        except OSError:
            continue
    return found


def test_the_json_form_prints_one_object_that_says_what_was_seen(tmp_path: Path) -> None:
    done = run_demo(tmp_path / "tmp", "--json")
    seen = json.loads(done.stdout)
    assert seen == {
        "ok": True,
        "charges": 1,
        "refunds": 1,
        "killed": True,
        "timeline": [
            "dry_run_completed",
            "planned",
            "requires_human",
            "committing",
            "outcome_unknown",
            "reconciled",
            "requires_human",
            "compensated",
        ],
        "refused": [
            "approval.separation_of_duties",
            "transaction.in_progress",
            "transaction.reconciliation_required",
            "transaction.compensation_exists",
        ],
        "receipts_verified": True,
        "tamper_detected": True,
        "release": {
            "contained": seen["release"]["contained"],
            "published": 1,
            "withdrawn": 1,
            "killed": True,
            "timeline": ["committed", "outcome_unknown", "reconciled"],
            "refused": ["transaction.compensation_exists"] * 2,
        },
    }
    assert (done.returncode, done.stderr) == (0, "")


async def test_the_human_form_tells_it_in_order_and_what_it_keeps_bears_it_out(
    tmp_path: Path,
) -> None:
    kept = tmp_path / "kept"
    done = run_demo(tmp_path / "tmp", "--keep", str(kept))
    assert (done.returncode, done.stderr) == (0, "")
    rest = done.stdout
    for words in IN_ORDER:
        before, found, rest = rest.partition(words)
        assert found, f"{words!r} is missing after: {before[:200]}"
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line for line in lines if line != line.rstrip()] == []
    assert {"receipts.json", "receipts-tampered.json"} <= {path.name for path in kept.iterdir()}

    olga = Principal.named("olga", kind="operator")
    async with Amends.open(f"sqlite:///{kept}/amends.db", principal=olga, recover=False) as amends:
        page = await amends.list()
        records = [stored.document for stored in page.items if isinstance(stored, Stored)]
        told = {record.status.value: record.transaction_id for record in records}
        assert told.keys() == {"dry_run_completed", "reconciled", "compensated"}
        steps: list[str] = [
            receipt.step.type for receipt in await amends.receipts(told["reconciled"])
        ]
        assert steps.count("commit_started") == 1
        assert [(await amends.verify(id_)).ok for id_ in told.values()] == [True] * 3


@pytest.mark.parametrize(
    ("words", "ending"),
    [
        ("1  Dry run", signal.SIGINT),
        ("4  Race", signal.SIGINT),
        ("4  Race", signal.SIGTERM),
        ("6  Restart", signal.SIGHUP),
    ],
)
def test_ended_in_the_middle_it_leaves_nothing_behind(
    words: str, ending: signal.Signals, tmp_path: Path
) -> None:
    temporary, mark = tmp_path / "tmp", uuid.uuid4().hex
    with subprocess.Popen(
        [sys.executable, "-u", "-c", TAKES_SIGNALS],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
        env=environment(temporary, mark),
    ) as demo:
        assert demo.stdout is not None
        while words not in (line := demo.stdout.readline()):
            assert line, "it ended by itself"
        demo.send_signal(ending)
        demo.stdout.read()
        assert demo.wait(WAIT_S) == 128 + ending
    assert_nothing_is_left(temporary, mark)


def test_the_search_for_what_is_left_finds_a_process_that_is() -> None:
    assert processes_with(f"PATH={os.environ['PATH']}") or not Path("/proc/self/environ").exists()
