"""Every example runs as a newcomer runs it, and says what it promises."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

EXAMPLES: Final = Path(__file__).parents[3] / "examples"
FIRST_LINES: Final = 30
WAIT_S: Final = 60
SERVED: Final = {"fastapi_app"}
"""Those that wait for requests; `test_fastapi_example` sends them."""

SAID: Final = {
    "first_capability": "planned committed compensated\n",
    "approvals": (
        "committed: requires_human\n"
        "alice: approval.separation_of_duties\n"
        "bob: pending\n"
        "carol: approved\n"
        "went on: committed {'sent_to': 'Shipping Ltd'}\n"
    ),
    "unknown_outcome": (
        "after the time limit: outcome_unknown\n"
        "  reconcile: Ask the provider what happened. Do not repeat it.\n"
        "  settle: An operator settles it by hand, with evidence.\n"
        "sent again: transaction.reconciliation_required\n"
        "asked the provider: reconciled committed\n"
        "messages at the provider: 1\n"
    ),
    "pydantic_input": (
        "committed {'for': '7 days', 'invited': 'Dora'}\n"
        "committed {'for': '3 days', 'invited': 'Emil'}\n"
        "input.schema_mismatch {'findings': [{'path': '/days', 'keyword': 'maximum', "
        "'expected': 'a number of at most 30'}]}\n"
    ),
    "blocking": "committed, too late, too late, too late\ncommitted rollout-1.4.0\n",
    "contained_release": (
        "published: Succeeded(payload=ToolPayload(json, 83 bytes))\n"
        "withdrawn: Succeeded(payload=ToolPayload(json, 83 bytes))\n"
        "now: report\n"
    ),
    "release_adapter": "",
    "worker_release": (
        "published: committed\n"
        "withdrawn: compensated\n"
        "again: transaction.compensation_exists\n"
        "on the shelf: 2\n"
    ),
    "plain_json_schema": (
        "committed {'moved': 500}\n"
        "input.schema_mismatch {'findings': [{'path': '/minor_units', 'keyword': 'minimum', "
        "'expected': 'a number of at least 1'}]}\n"
        "input.schema_mismatch {'findings': [{'path': '', 'keyword': 'additionalProperties', "
        "'expected': 'no properties beyond those declared'}]}\n"
    ),
}


def run(name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


def test_every_example_is_run() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == SAID.keys() | SERVED


@pytest.mark.parametrize("name", SAID)
def test_the_example_says_what_it_promises(name: str, tmp_path: Path) -> None:
    done = run(name, tmp_path)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", SAID[name])


def test_the_first_example_runs_again_on_the_database_that_it_made(tmp_path: Path) -> None:
    assert [run("first_capability", tmp_path).stdout for _ in range(2)] == [
        SAID["first_capability"]
    ] * 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["amends.db", "amends.db.key"]


def test_a_first_capability_with_its_compensation_takes_at_most_thirty_lines() -> None:
    text = (EXAMPLES / "first_capability.py").read_text("utf-8")
    assert len(text.splitlines()) <= FIRST_LINES
    assert "@charge.compensate" in text
