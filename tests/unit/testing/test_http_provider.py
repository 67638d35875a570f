"""The HTTP provider keeps books that can be believed."""

import asyncio
import json

from amends.connectors.http.messages import Answer, Outgoing, Reply
from amends.connectors.http.transport import Transport
from amends.contracts.json_types import Json
from amends.testing.http_provider import Break, HttpFault, HttpProvider


class Caller:
    """Sends requests and reads what is answered."""

    def __init__(self, provider: HttpProvider) -> None:
        self._provider = provider
        self._transport = Transport(connect_timeout_ms=1000, max_answer_bytes=100_000)

    async def __aenter__(self) -> "Caller":
        return self

    async def __aexit__(self, *_ending: object) -> None:
        await self._transport.aclose()

    async def reply(self, method: str, path: str, body: str = "", **headers: str) -> Reply:
        request = Outgoing(
            method=method,
            url=f"{self._provider.url}/v1/{path}",
            headers={name.replace("_", "-"): value for name, value in headers.items()},
            body=body.encode() or None,
        )
        return await self._transport.send(request, within_s=5, sent_within_s=2)

    async def ask(self, method: str, path: str, body: str = "", **headers: str) -> tuple[int, Json]:
        reply = await self.reply(method, path, body, **headers)
        assert isinstance(reply, Answer)
        return reply.status, json.loads(reply.body or b"null")


async def test_charges_and_refunds_are_kept_and_shown() -> None:
    async with HttpProvider() as provider, Caller(provider) as caller:
        status, charge = await caller.ask(
            "POST", "charges", "amount=500&currency=usd&metadata%5Ba%5D=1&metadata%5Bb%5D=2"
        )
        assert (status, charge) == (
            200,
            {
                "id": "ch_1",
                "object": "charge",
                "amount": 500,
                "currency": "usd",
                "status": "succeeded",
                "metadata": {"a": "1", "b": "2"},
            },
        )
        assert (await caller.ask("GET", "charges/ch_1")) == (200, charge)
        assert (await caller.ask("POST", "refunds", "charge=ch_1&amount=200"))[0] == 200
        _, rest = await caller.ask("POST", "refunds", "charge=ch_1")
        assert isinstance(rest, dict)
        assert (rest["amount"], rest["charge"], rest["currency"]) == (300, "ch_1", "usd")
    assert [(one.kind, one.amount) for one in provider.effects()] == [
        ("charge", 500),
        ("refund", 200),
        ("refund", 300),
    ]


async def test_what_is_not_right_is_refused_and_has_no_effect() -> None:
    refusals = [
        ("POST", "charges", "amount=2000000", 402, "card_declined"),
        ("POST", "charges", "amount=-1", 400, "amount_invalid"),
        ("POST", "charges", "", 400, "amount_invalid"),
        ("POST", "checks", "amount=2000000", 402, "card_declined"),
        ("POST", "refunds", "charge=ch_9", 404, "resource_missing"),
        ("GET", "charges/ch_9", "", 404, "resource_missing"),
        ("POST", "nothing", "", 404, "no_such_route"),
    ]
    async with HttpProvider() as provider, Caller(provider) as caller:
        for method, path, body, status, code in refusals:
            assert await caller.ask(method, path, body) == (status, {"error": {"code": code}})
        assert provider.effects() == []
        await caller.ask("POST", "charges", "amount=5")
        over = await caller.ask("POST", "refunds", "charge=ch_1&amount=6")
    assert over == (400, {"error": {"code": "charge_already_refunded"}})
    assert len(provider.effects()) == 1


async def test_a_key_repeats_its_first_answer_only_where_keys_are_looked_at() -> None:
    for dedups, count in ((True, 1), (False, 2)):
        async with HttpProvider(dedups=dedups) as provider, Caller(provider) as caller:
            for _ in range(2):
                await caller.ask("POST", "charges", "amount=5", Idempotency_Key="k")
        assert len(provider.effects("charge", key="k")) == count
        assert [seen.key for seen in provider.requests] == ["k", "k"]


async def test_a_list_is_shown_newest_first_in_pages() -> None:
    async with HttpProvider() as provider, Caller(provider) as caller:
        for _ in range(3):
            provider.enter("charge", 5)
        _, first = await caller.ask("GET", "charges?limit=2")
        _, second = await caller.ask("GET", "charges?limit=2&starting_after=ch_2")
        _, refunds = await caller.ask("GET", "refunds")
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert [first["has_more"], second["has_more"]] == [True, False]
    pages = json.dumps([first["data"], second["data"]])
    assert pages.index("ch_3") < pages.index("ch_2") < pages.index("ch_1")
    assert refunds == {"object": "list", "data": [], "has_more": False}


async def test_ids_can_be_numbers_that_no_double_holds() -> None:
    async with HttpProvider(big_ids=True) as provider, Caller(provider) as caller:
        for _ in range(2):
            await caller.ask("POST", "charges", "amount=5")
    assert [one.id for one in provider.books] == [9007199254740993, 9007199254740995]


async def test_a_fault_has_its_effect_or_none_whatever_is_answered() -> None:
    script = [
        HttpFault(effect=False),
        HttpFault(status=500),
        HttpFault(breaks=Break.BEFORE_BODY),
        HttpFault(breaks=Break.IN_BODY),
    ]
    async with HttpProvider(script) as provider, Caller(provider) as caller:
        assert await caller.ask("POST", "charges", "amount=5") == (200, {})
        assert provider.effects() == []
        assert (await caller.ask("POST", "charges", "amount=5"))[0] == 500
        await caller.reply("POST", "charges", "amount=5")
        assert len(provider.effects()) == 1
        cut = await caller.reply("POST", "charges", "amount=5")
    assert isinstance(cut, Answer)
    assert cut.flaw == "broken_off"
    assert len(provider.effects()) == 2


async def test_leaving_breaks_off_what_is_still_open() -> None:
    async with HttpProvider([HttpFault(delay_s=60)]) as provider, Caller(provider) as caller:
        waiting = asyncio.ensure_future(caller.reply("POST", "charges", "amount=5"))
        while not provider.requests:  # noqa: ASYNC110  # the provider sets no event
            await asyncio.sleep(0.005)
        await provider.__aexit__(None, None, None)
        assert not isinstance(await waiting, Answer)
