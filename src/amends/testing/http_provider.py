"""A payment provider over HTTP on loopback, for capabilities that are declared without code.

`HttpProvider` speaks HTTP over plain sockets, so that it can break off in the middle of anything.
It counts effects in books of its own, and remembers every request it saw and on which connection.

    async with HttpProvider([HttpFault(breaks=Break.AFTER_REQUEST)]) as provider:
        capabilities = load_capabilities("payments.toml", base_url=provider.url)

| request | what it does |
|---|---|
| `POST /v1/charges` | takes `amount` and `currency`; once a key, if it `dedups` |
| `POST /v1/refunds` | gives `amount` of a `charge` back, or all of it |
| `POST /v1/checks` | says whether a charge would be taken |
| `GET /v1/charges/{id}`, `GET /v1/refunds/{id}` | shows one |
| `GET /v1/charges`, `GET /v1/refunds` | lists them, newest first: `limit`, `starting_after` |

Bodies are JSON or forms. The script is played by `POST` requests, `reads` by `GET` requests, one
fault each; after the last all goes well.

Deliberately not here: what a connector makes of it.
"""

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import TracebackType
from typing import Final, Self
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from amends.contracts.json_types import Json, JsonObject

_HEAD_END: Final = b"\r\n\r\n"
_FIRST_BIG_ID: Final = 2**53 + 1
_PAGE: Final = 10
_LIMIT: Final = 1_000_000


class Break(StrEnum):
    """Where the connection breaks off."""

    BEFORE_BODY = "before_body"
    AFTER_REQUEST = "after_request"
    IN_HEADERS = "in_headers"
    IN_BODY = "in_body"


class HttpFault(msgspec.Struct, frozen=True, kw_only=True):
    """How one request goes: whether it has its effect, and what is answered instead.

    `resets` breaks off with a reset, where the default is an orderly end. `status`, `headers` and
    `body` replace what would have been answered.
    """

    effect: bool = True
    breaks: Break | None = None
    resets: bool = False
    delay_s: float = 0.0
    status: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it arrived. Names of headers are in lower case."""

    connection: int
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def key(self) -> str:
        """The idempotency key it carried."""
        return self.headers.get("idempotency-key", "")


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One effect in the provider's books."""

    kind: str
    id: str | int
    key: str
    amount: int
    currency: str
    charge: str | int | None = None
    metadata: Json = None

    def shown(self) -> JsonObject:
        """The object as the API shows it."""
        shown: JsonObject = {
            "id": self.id,
            "object": self.kind,
            "amount": self.amount,
            "currency": self.currency,
            "status": "succeeded",
            "metadata": self.metadata,
        }
        return shown if self.charge is None else {**shown, "charge": self.charge}


class _Refusal(Exception):
    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status = status
        self.code = code


class _BrokenOff(Exception):
    pass


class HttpProvider:
    """The provider, from entering the context until leaving it.

    `dedups`: a key repeats its first answer. `big_ids`: ids are numbers beyond 2^53. `tls` is the
    context of its own end.
    """

    def __init__(
        self,
        script: Iterable[HttpFault] = (),
        *,
        reads: Iterable[HttpFault] = (),
        dedups: bool = False,
        big_ids: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.requests: list[Seen] = []
        self.books: list[Entry] = []
        self._script = iter(script)
        self._reads = iter(reads)
        self._dedups = dedups
        self._big_ids = big_ids
        self._tls = tls
        self._connections = 0
        self._running: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", 0, ssl=self._tls, limit=1 << 20
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop listening, and break off what is still open."""
        assert self._server is not None
        self._server.close()
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        """Where it is reached."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{port}"

    def effects(self, kind: str | None = None, *, key: str | None = None) -> list[Entry]:
        """What has happened, one entry for each time that money moved."""
        return [one for one in self.books if kind in (None, one.kind) and key in (None, one.key)]

    def enter(self, kind: str, amount: int, *, key: str = "", **more: Json) -> Entry:
        """Let something happen behind everybody's back."""
        entry = Entry(
            kind=kind,
            id=self._next_id(kind),
            key=key,
            amount=amount,
            currency=str(more.get("currency", "eur")),
            metadata=more.get("metadata"),
        )
        self.books.append(entry)
        return entry

    # ── connections ──────────────────────────────────────────────────────────────────────────────

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        self._connections += 1
        connection = self._connections
        try:
            while True:
                await self._answer_one(reader, writer, connection)
        except (_BrokenOff, OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._running.discard(task)
            writer.close()

    async def _answer_one(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int
    ) -> None:
        head = (await reader.readuntil(_HEAD_END)).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ")
        pairs = (line.split(":", 1) for line in head[1:] if line)
        headers = {name.lower(): value.strip() for name, value in pairs}
        fault = next(self._reads if method == "GET" else self._script, HttpFault())
        if fault.breaks is Break.BEFORE_BODY:
            _break_off(writer, fault)
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        seen = Seen(connection=connection, method=method, target=target, headers=headers, body=body)
        self.requests.append(seen)
        status, answer = self._play(seen, fault)
        await asyncio.sleep(fault.delay_s)
        if fault.breaks is Break.AFTER_REQUEST:
            _break_off(writer, fault)
        await _write(writer, status, fault, answer)

    def _play(self, seen: Seen, fault: HttpFault) -> tuple[int, bytes]:
        try:
            answer = self._ask(seen) if fault.effect else {}
            status = 200
        except _Refusal as refusal:
            status, answer = refusal.status, {"error": {"code": refusal.code}}
        body = json.dumps(answer).encode() if fault.body is None else fault.body
        return fault.status or status, body

    # ── the API ──────────────────────────────────────────────────────────────────────────────────

    def _ask(self, seen: Seen) -> Json:
        target = urlsplit(seen.target)
        parts = [unquote(part) for part in target.path.split("/")[2:]]
        match (seen.method, parts):
            case ("POST", ["charges"]):
                return self._effect("charge", seen, _parameters(seen)).shown()
            case ("POST", ["refunds"]):
                return self._effect("refund", seen, self._refund(_parameters(seen))).shown()
            case ("POST", ["checks"]):
                return {"would_charge": _amount(_parameters(seen))}
            case ("GET", ["charges" | "refunds" as kinds, id_]):
                return self._find(kinds.removesuffix("s"), id_).shown()
            case ("GET", ["charges" | "refunds" as kinds]):
                return self._page(kinds.removesuffix("s"), dict(parse_qsl(target.query)))
            case _:
                raise _Refusal(404, "no_such_route")

    def _effect(self, kind: str, seen: Seen, asked: JsonObject) -> Entry:
        amount = _amount(asked)
        earlier = [one for one in self.effects(kind, key=seen.key) if self._dedups and seen.key]
        if earlier:
            return earlier[0]
        charge = asked.get("charge")
        entry = Entry(
            kind=kind,
            id=self._next_id(kind),
            key=seen.key,
            amount=amount,
            currency=str(asked.get("currency", "eur")),
            charge=charge if isinstance(charge, str | int) else None,
            metadata=asked.get("metadata"),
        )
        self.books.append(entry)
        return entry

    def _refund(self, asked: JsonObject) -> JsonObject:
        """A refund says of which charge; by default it is all that is left of it."""
        charge = self._find("charge", str(asked.get("charge")))
        given = sum(one.amount for one in self.effects("refund") if one.charge == charge.id)
        left = charge.amount - given
        amount = _amount({"amount": left, **asked})
        if not 0 < amount <= left:
            raise _Refusal(400, "charge_already_refunded")
        return {**asked, "charge": charge.id, "amount": amount, "currency": charge.currency}

    def _find(self, kind: str, id_: str) -> Entry:
        for one in self.effects(kind):
            if str(one.id) == id_:
                return one
        raise _Refusal(404, "resource_missing")

    def _page(self, kind: str, asked: dict[str, str]) -> Json:
        """Newest first."""
        found = self.effects(kind)[::-1]
        after = asked.get("starting_after")
        ids = [str(one.id) for one in found]
        begin = ids.index(after) + 1 if after in ids else 0
        end = begin + int(asked.get("limit", _PAGE))
        return {
            "object": "list",
            "data": [one.shown() for one in found[begin:end]],
            "has_more": end < len(found),
        }

    def _next_id(self, kind: str) -> str | int:
        number = len(self.books)
        return _FIRST_BIG_ID + 2 * number if self._big_ids else f"{kind[:2]}_{number + 1}"


def _amount(asked: JsonObject) -> int:
    amount = str(asked.get("amount"))
    if not amount.isdecimal():
        raise _Refusal(400, "amount_invalid")
    if int(amount) > _LIMIT:
        raise _Refusal(402, "card_declined")
    return int(amount)


def _parameters(seen: Seen) -> JsonObject:
    if seen.body.startswith(b"{"):
        read: JsonObject = json.loads(seen.body)
        return read
    parameters: JsonObject = {}
    for name, value in parse_qsl(seen.body.decode()):
        outer, bracket, inner = name.rstrip("]").partition("[")
        nested = parameters.get(outer)
        known = nested if isinstance(nested, dict) else {}
        parameters[outer] = {**known, inner: value} if bracket else value
    return parameters


async def _write(writer: asyncio.StreamWriter, status: int, fault: HttpFault, body: bytes) -> None:
    head = [f"HTTP/1.1 {status} Scripted"]
    names = {name.lower() for name, _ in fault.headers}
    if "content-type" not in names:
        head.append("Content-Type: application/json")
    if status != 204:
        head.append(f"Content-Length: {len(body)}")
    head += [f"{name}: {value}" for name, value in fault.headers]
    answer = "\r\n".join(head).encode() + _HEAD_END + (b"" if status == 204 else body)
    cut = {
        Break.IN_HEADERS: len(answer) - len(body) - len(_HEAD_END) - 1,
        Break.IN_BODY: len(answer) - len(body) // 2 - 1,
    }
    writer.write(answer if fault.breaks is None else answer[: cut[fault.breaks]])
    await writer.drain()
    if fault.breaks is not None:
        _break_off(writer, fault)


def _break_off(writer: asyncio.StreamWriter, fault: HttpFault) -> None:
    if fault.resets:
        raw = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raise _BrokenOff
