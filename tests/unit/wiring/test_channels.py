"""Where notices go: a log, a command, a webhook that its receiver can check."""

import asyncio
import json
import logging
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from amends.contracts.approvals import ApprovalStatus
from amends.contracts.enums import Mode, Risk
from amends.contracts.ids import ActionId, ApprovalId, CapabilityId, TenantId, TransactionId
from amends.contracts.notices import Notice
from amends.contracts.secrets import Secret
from amends.testing.builders import NOW
from amends.testing.refusals import refused_with
from amends.wiring.channels import (
    CommandChannel,
    LogChannel,
    WebhookChannel,
    check_signed,
    signed,
)

SECRET = Secret("hunter2-hunter2")
NOTICE = Notice(
    notice_id="ab" * 32,
    event="approval_requested",
    at=NOW,
    tenant=TenantId("acme"),
    approval_id=ApprovalId("apr_1"),
    action_id=ActionId("act_1"),
    transaction_id=TransactionId("txn_1"),
    capability_id=CapabilityId("payments.charge"),
    mode=Mode.COMMIT,
    risk=Risk.HIGH,
    requester="alice",
    status=ApprovalStatus.PENDING,
    revision=1,
    expires_at=NOW,
    evidence=(),
    reason="",
    link="https://desk.example/apr_1",
)
Handler = Callable[[web.Request], Awaitable[web.Response]]


@asynccontextmanager
async def receiving(handler: Handler) -> AsyncIterator[str]:
    """A receiver on this machine; its URL."""
    app = web.Application()
    app.router.add_route("*", "/{any:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    finally:
        await runner.cleanup()


async def test_a_log_gets_one_line_of_json(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "amends.notices"):
        await LogChannel().tell(NOTICE)
    (record,) = caplog.records
    assert json.loads(record.getMessage())["approval_id"] == "apr_1"


async def test_a_command_gets_the_notice_on_its_standard_input(tmp_path: Path) -> None:
    out = tmp_path / "out"
    code = "import sys; open(sys.argv[1], 'w').write(sys.stdin.read())"
    await CommandChannel(sys.executable, "-c", code, str(out)).tell(NOTICE)
    assert msgspec.json.decode(out.read_text(), type=Notice) == NOTICE


async def test_a_command_that_fails_or_is_not_there_has_not_taken_it() -> None:
    with refused_with("notices.not_taken"):
        await CommandChannel(sys.executable, "-c", "raise SystemExit(3)").tell(NOTICE)
    with pytest.raises(FileNotFoundError):
        await CommandChannel("/nowhere/at/all").tell(NOTICE)
    with refused_with("notices.command_invalid"):
        CommandChannel()


async def test_a_command_that_hangs_is_ended_with_whoever_gives_up_on_it(tmp_path: Path) -> None:
    out = tmp_path / "out"
    os.mkfifo(out)
    code = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(60)"
    channel = CommandChannel(sys.executable, "-c", code, str(out))
    task = asyncio.create_task(channel.tell(NOTICE))
    async with asyncio.timeout(20):
        pid = int(await asyncio.to_thread(out.read_text))
    task.cancel()
    await asyncio.wait((task,))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("secret", [SECRET, Secret("whsec_c2VjcmV0IG9mIG1pbmU=")])
async def test_a_webhook_is_signed_so_that_its_receiver_can_check_it(secret: Secret) -> None:
    seen: list[tuple[dict[str, str], bytes]] = []

    async def take(request: web.Request) -> web.Response:
        seen.append(({k.lower(): v for k, v in request.headers.items()}, await request.read()))
        return web.Response(status=204)

    async with receiving(take) as url:
        await WebhookChannel(url, secret).tell(NOTICE)
    ((headers, body),) = seen
    assert msgspec.json.decode(body, type=Notice) == NOTICE
    assert check_signed(secret, headers, body)
    assert not check_signed(Secret("another"), headers, body)
    assert not check_signed(secret, headers, body + b" ")
    assert not check_signed(secret, {**headers, "webhook-id": "other"}, body)
    assert secret.reveal() not in str(headers)


@pytest.mark.parametrize("status", [302, 307, 400, 429, 500])
async def test_any_other_answer_says_that_it_was_not_taken_and_no_redirect_is_followed(
    status: int,
) -> None:
    asked: list[str] = []

    async def refuse(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(status=status, headers={"Location": "/elsewhere"})

    async with receiving(refuse) as url:
        with refused_with("notices.not_taken"):
            await WebhookChannel(url, SECRET).tell(NOTICE)
    assert asked == ["/hook"]


def test_a_signature_is_that_of_standard_webhooks() -> None:
    """The example of the standard's own libraries."""
    body = b'{"test": 2432232314}'
    secret = Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = signed(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert check_signed(secret, headers, body, now=1614265330)


@pytest.mark.parametrize(
    "change",
    [
        {"webhook-timestamp": ""},
        {"webhook-timestamp": "soon"},
        {"webhook-timestamp": "9" * 40},
        {"webhook-timestamp": "²"},
        {"webhook-signature": ""},
        {"webhook-signature": "v1,"},
        {"webhook-signature": "v1,\u00e9\ud800"},
    ],
)
def test_a_webhook_that_is_not_whole_is_not_signed(change: dict[str, str]) -> None:
    headers = signed(SECRET, "msg_1", 1000, b"{}")
    assert check_signed(SECRET, headers, b"{}", now=1000)
    assert not check_signed(SECRET, {**headers, **change}, b"{}", now=1000)


@pytest.mark.parametrize(("now", "right"), [(700, True), (1300, True), (699, False), (1301, False)])
def test_an_old_webhook_is_not_taken_for_a_new_one(now: float, right: bool) -> None:
    headers = signed(SECRET, "msg_1", 1000, b"{}")
    assert check_signed(SECRET, headers, b"{}", now=now) is right


@pytest.mark.parametrize(
    ("url", "secret", "code"),
    [
        ("http://example.com/hook", "s", "notices.url_invalid"),
        ("ftp://example.com/hook", "s", "notices.url_invalid"),
        ("nonsense", "s", "notices.url_invalid"),
        ("https://example.com/hook", "", "notices.secret_invalid"),
        ("https://example.com/hook", "whsec_!!", "notices.secret_invalid"),
    ],
)
def test_a_webhook_that_nobody_could_trust_is_refused_when_it_is_set_up(
    url: str, secret: str, code: str
) -> None:
    with refused_with(code):
        WebhookChannel(url, Secret(secret))


@pytest.mark.parametrize("name", ["", "a b", "ａ"])
def test_a_channel_has_a_plain_name(name: str) -> None:
    with refused_with("input.invalid_id"):
        LogChannel(name)
