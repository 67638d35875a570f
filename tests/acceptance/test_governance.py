"""One office from its first letter to its last proof, by commands in processes of their own.

Rules in a file, an approver who lent the word away, a limit, a webhook, a hold, retention, a
checkpoint, an export, and everything that somebody without the key can do to it. What the office
does is a line in a file, so that letters are counted outside of Amends.
"""

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Final

import pytest

from amends.cli.operations.faults import EXIT_OF_FAULT
from tests.acceptance.children import SAME_CODE

pytestmark = pytest.mark.rule("PO-2", "AP-1", "AP-4", "RC-3", "RD-3", "RD-4")

OFFICE: Final = """
from amends import DataContract, capability

@capability("letters.send", side_effects=["send_message"], data=DataContract(retention_ms=1))
async def send(letter: dict[str, str]) -> dict[str, str]:
    with open("sent.txt", "a") as sent:
        sent.write(letter["to"] + "\\n")
    return {"sent": letter["to"]}
"""
RULES: Final = """
version: 1
rules:
  - id: people-write
    match: {capability: letters.*, kind: user}
    effect: allow
    limits:
      - {count: 2, within: 1h, per: principal}
  - id: to-the-king
    reason: Letters to the king are looked at.
    match: {capability: letters.send, mode: execute}
    when: input.to == "king"
    effect: require_approval
    approval: {rule: {role: palace}, ttl: 4h}
"""
PEOPLE: Final = "".join(
    f'[[principals]]\nid = "{name}"\nos_users = ["*"]\n{more}\n'
    for name, more in {
        "ann": "",
        "boss": 'roles = ["palace"]\nscopes = ["amends:approve"]',
        "dan": "scopes = []",
        "olga": 'kind = "operator"',
    }.items()
)
SECRET: Final = "0123456789abcdef0123456789abcdef"
WAIT_S: Final = 60


class Office:
    """A folder with an app, rules, people, and a webhook's receiver; commands are run in it."""

    def __init__(self, folder: Path, hook: str) -> None:
        self.folder = folder
        self.hook = hook
        for name, content in (("office.py", OFFICE), ("rules.yaml", RULES), ("p.toml", PEOPLE)):
            (folder / name).write_text(content)
            (folder / name).chmod(0o600)
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((SAME_CODE, str(folder))),
            "AMENDS_APP": "office:send",
            "AMENDS_POLICY": "rules.yaml",
            "AMENDS_PRINCIPALS": "p.toml",
            "AMENDS_WEBHOOK_SECRET": SECRET,
        }

    def __call__(self, *tokens: str, who: str | None = None) -> tuple[int, Any]:
        """Run a command; its exit code, and what it found or the error that it told."""
        acting = () if who is None else ("--as", who)
        done = subprocess.run(
            [sys.executable, "-m", "amends", *tokens, *acting, "--json"],
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            env=self.environment,
            cwd=self.folder,
            check=False,
        )
        said = json.loads(done.stdout)
        assert said["ok"] or said["error"]["next_step"], "every error says what to do next"
        return done.returncode, said["data"] if said["ok"] else said["error"]

    def good(self, *tokens: str, who: str | None = None) -> Any:
        code, data = self(*tokens, who=who)
        assert code == 0, data
        return data

    def refused(self, *tokens: str, who: str | None = None) -> str:
        code, error = self(*tokens, who=who)
        assert code != 0
        named: str = error["code"]
        return named

    def writes(self, to: str, name: str) -> tuple[int, Any]:
        letter = json.dumps({"to": to, "text": f"Dear {to}"})
        ids = ("--transaction-id", name, "--yes")
        return self("execute", "letters.send", "--input", letter, *ids, who="ann")

    @property
    def sent(self) -> list[str]:
        return (self.folder / "sent.txt").read_text().split()


@pytest.fixture
def told() -> list[dict[str, Any]]:
    """What the webhook's receiver was told."""
    return []


@pytest.fixture
def office(tmp_path: Path, told: list[dict[str, Any]]) -> Iterator[Office]:
    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            told.append({"signature": self.headers["webhook-signature"], **json.loads(body)})
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield Office(tmp_path, f"http://127.0.0.1:{server.server_port}/hook")
        finally:
            server.shutdown()
            serving.join()


def test_an_office_from_its_first_letter_to_its_last_proof(
    office: Office, told: list[dict[str, Any]]
) -> None:
    assert office.good("policy", "check")["rules"] == 2
    approved_by_a_lent_word(office, told)
    limited(office)
    held_and_forgotten(office)
    proved_and_tampered_with(office)


def approved_by_a_lent_word(office: Office, told: list[dict[str, Any]]) -> None:
    code, error = office.writes("king", "to-king")
    assert (code, error["code"]) == (3, "approval.required")
    office.good("notify", "--webhook", office.hook, "--link", "https://desk/{approval_id}")
    [notice] = told
    assert notice["signature"].startswith("v1,")
    assert "Dear" not in json.dumps(notice)
    [waits] = office.good("approvals", who="boss")["items"]
    approval, action = waits["approval_id"], waits["action_id"]
    assert office.refused("approve", approval, who="ann") == "approval.separation_of_duties"
    assert office.refused("approve", approval, who="dan") == "approval.not_allowed"
    lent = office.good("delegate", "dan", "--hours", "2", "--reason", "Away", who="boss")
    under = ("--under", lent["delegation_id"], "--reason", "Read it.")
    assert office.good("approve", approval, *under, who="dan")["state"] == "approved"
    assert not (office.folder / "sent.txt").exists()
    assert office.good("resume", action, "--yes", who="ann")["status"] == "committed"
    assert office.sent == ["king"]


def limited(office: Office) -> None:
    assert office.writes("bob", "to-bob")[0] == 0
    code, error = office.writes("bob", "too-many")
    assert (code, error["code"]) == (3, "policy.limit_exceeded")
    assert "Rule people-write has room again in" in error["next_step"]
    assert office.sent == ["king", "bob"]


def held_and_forgotten(office: Office) -> None:
    office.good("checkpoint", "--out", "monday.txt")
    office.good("keys", "export", "--out", "keys.json")
    assert office.refused("hold", "place", "to-king", "--reason", "x", who="ann") == (
        "hold.not_allowed"
    )
    office.good("hold", "place", "to-king", "--reason", "Case 7", who="olga")
    done = office.good("retention", "run", "--yes", who="olga")
    assert "to-bob" in done["forgotten"]
    assert [one["reason"] for one in done["kept"]] == ["held"]
    shown = office.good("tx", "show", "to-bob", who="ann")
    assert shown["result"]["status"] == "committed"
    assert shown["forgotten_at"] is not None
    office.good("hold", "lift", "to-king", "--reason", "Over", "--yes", who="olga")
    office.good("checkpoint", "--out", "tuesday.txt")


def proved_and_tampered_with(office: Office) -> None:
    pinned = ("--keys", "keys.json", "--checkpoint", "monday.txt")
    office.good("verify", "--store", "sqlite:///amends.db", "--checkpoint", "monday.txt")
    office.good("export", "--all", "--out", "all.jsonl")
    office.good("verify", "all.jsonl", *pinned, "--checkpoint", "tuesday.txt")
    office.good("prove", "to-king", "--checkpoint", "monday.txt", "--out", "king.proof")
    office.good("verify", "king.proof", *pinned)
    lines = (office.folder / "all.jsonl").read_bytes().splitlines(keepends=True)
    altered = b"".join(lines).replace(b'"verdict":"committed"', b'"verdict":"partial"', 1)
    proof = (office.folder / "king.proof").read_bytes()
    receipt = json.loads(proof)["receipts"][0]["hash"].encode()
    spoilt = {
        "receipt.hash_mismatch": altered,
        "bundle.cut": b"".join(lines[:-1]),
        "bundle.malformed": b"".join(lines).replace(b'"chains":', b'"chains": '),
        "checkpoint.proof_invalid": proof.replace(receipt, b"ab" * 32),
        "proof.malformed": proof[:-9],
    }
    for fault, content in spoilt.items():
        (office.folder / "spoilt").write_bytes(content)
        code, error = office("verify", "spoilt", *pinned)
        assert (error["code"], code) == (fault, EXIT_OF_FAULT[fault])


WRITER: Final = """
import asyncio, sys
from amends import Amends, Principal
from amends.contracts.errors import AmendsError
from office import send

async def one(amends):
    try:
        done = await amends.execute(send, {"to": "bob"})
    except AmendsError as error:
        return error.code
    return done.status.value

async def main():
    ann = Principal.named("ann")
    opening = Amends.open("sqlite:///amends.db", [send], principal=ann, policy="rules.yaml")
    async with opening as amends:
        print("ready", flush=True)
        sys.stdin.readline()
        print(*await asyncio.gather(*[one(amends) for _ in range(16)]))

asyncio.run(main())
"""


@pytest.mark.parametrize(("limit", "passed"), [(1000, 64), (40, 40)])
def test_four_programs_share_a_limit_and_nobody_is_turned_away_who_has_room(
    office: Office, limit: int, passed: int
) -> None:
    rules = office.folder / "rules.yaml"
    rules.write_text(RULES.replace("count: 2", f"count: {limit}"))
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=office.environment,
            cwd=office.folder,
        )
        for _ in range(4)
    ]
    ends: Counter[str] = Counter()
    for program in programs:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
    for program in programs:
        assert program.stdin is not None
        program.stdin.write("go\n")
        program.stdin.flush()
    for program in programs:
        said, _ = program.communicate(timeout=WAIT_S)
        ends.update(said.split())
    refused = {"policy.limit_exceeded": 64 - passed} if passed < 64 else {}
    assert dict(ends) == {"committed": passed, **refused}
    assert len(office.sent) == passed
