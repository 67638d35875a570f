"""The FastAPI example, called as a server calls it, without a server."""

import json
import sys
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from fastapi import FastAPI

EXAMPLE: Final = Path(__file__).parents[3] / "examples" / "fastapi_app.py"
ORDER: Final = {"amount": 4900, "currency": "eur"}
CHARGE: Final = "/orders/17/charge"


class Reply(NamedTuple):
    """What came back."""

    status: int
    body: dict[str, str]


class Client:
    """Sends requests to the application, one at a time."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    async def send(self, method: str, path: str, user: str, body: object = None) -> Reply:
        """One request with its whole reply."""
        asked = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]
        told: list[MutableMapping[str, object]] = []

        async def receive() -> MutableMapping[str, object]:
            return asked.pop(0) if asked else {"type": "http.disconnect"}

        async def tell(message: MutableMapping[str, object]) -> None:
            told.append(message)

        await self._app(_scope(method, path, user), receive, tell)
        status = told[0]["status"]
        assert isinstance(status, int)
        content = b"".join(part for one in told[1:] if isinstance(part := one["body"], bytes))
        return Reply(status, json.loads(content))


def _scope(method: str, path: str, user: str) -> MutableMapping[str, object]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"content-type", b"application/json"), (b"x-user", user.encode())],
    }


@asynccontextmanager
async def _served() -> AsyncIterator[Client]:
    """The example as it is when a server has just imported and started it."""
    spec = spec_from_file_location("fastapi_app", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["fastapi_app"] = module
    try:
        spec.loader.exec_module(module)
        app = module.app
        async with app.router.lifespan_context(app):
            yield Client(app)
    finally:
        del sys.modules["fastapi_app"]


@pytest.fixture
async def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    """The example over a store of its own."""
    monkeypatch.chdir(tmp_path)
    async with _served() as served:
        yield served


async def test_a_charge_waits_for_a_second_person_and_the_same_request_goes_on(
    client: Client,
) -> None:
    waiting = await client.send("PUT", CHARGE, "alice", ORDER)
    approval = waiting.body["approval"]
    own = await client.send("POST", f"/approvals/{approval}", "alice")
    other = await client.send("POST", f"/approvals/{approval}", "bob")
    done = await client.send("PUT", CHARGE, "alice", ORDER)
    seen = await client.send("GET", CHARGE, "alice")
    assert (waiting.status, waiting.body["status"]) == (202, "requires_human")
    assert (own.status, own.body["code"]) == (403, "approval.separation_of_duties")
    assert (other.status, other.body["status"]) == (200, "approved")
    assert (done.status, done.body["status"]) == (200, "committed")
    assert seen == Reply(200, {"status": "committed"})


async def test_the_same_path_with_another_order_is_a_conflict(client: Client) -> None:
    await client.send("PUT", CHARGE, "alice", ORDER)
    other = await client.send("PUT", CHARGE, "alice", ORDER | {"amount": 1})
    assert (other.status, other.body["code"]) == (409, "action.id_conflict")


async def test_a_stranger_does_nothing_and_reads_nothing(client: Client) -> None:
    await client.send("PUT", CHARGE, "alice", ORDER)
    charge = await client.send("PUT", "/orders/18/charge", "mallory", ORDER)
    look = await client.send("GET", CHARGE, "mallory")
    nothing = await client.send("GET", "/orders/18/charge", "alice")
    assert (charge.status, look.status) == (401, 401)
    assert nothing.body["code"] == "transaction.not_found"


async def test_what_waits_survives_a_restart_of_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with _served() as before:
        waiting = await before.send("PUT", CHARGE, "alice", ORDER)
        await before.send("POST", f"/approvals/{waiting.body['approval']}", "bob")
    async with _served() as after:
        done = await after.send("PUT", CHARGE, "alice", ORDER)
    assert (done.status, done.body["status"]) == (200, "committed")
