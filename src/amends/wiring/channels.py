"""Where notices of approvals go: a log, a command, a webhook.

Invariants: a notice leaves as JSON and as nothing else; no shell is started; a webhook is sent
once for each try, follows no redirect, and is signed, so that its receiver can tell who sent it.

Deliberately not here: when a notice is sent, and when it is tried again (`recovery.notifying`).
"""

import asyncio
import base64
import hmac
import logging
import time
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import msgspec

from amends.contracts.errors import Misuse, Unavailable
from amends.contracts.ids import check_identifier
from amends.contracts.notices import Notice
from amends.contracts.secrets import Secret

TOLERANCE_S: Final = 300
"""How far a receiver lets a webhook's time be from its own."""

_LOG: Final = logging.getLogger("amends.notices")
_ENCODED: Final = "whsec_"
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_TIMEOUT_S: Final = 8.0


class LogChannel:
    """Writes notices to the logger `amends.notices`, one line of JSON each."""

    def __init__(self, name: str = "log") -> None:
        self.name = check_identifier(name, "channel")

    async def tell(self, notice: Notice) -> None:
        """Log it."""
        _LOG.info("%s", msgspec.json.encode(notice).decode())


class CommandChannel:
    """Starts a program, without a shell, and gives it the notice on standard input.

    Exit code 0 says that it was taken.
    """

    def __init__(self, *argv: str, name: str = "command") -> None:
        if not argv or not argv[0]:
            raise Misuse(
                "notices.command_invalid",
                "A command channel has no program to start.",
                next_step="Give the program and its arguments, one by one.",
            )
        self.name = check_identifier(name, "channel")
        self._argv = argv

    async def tell(self, notice: Notice) -> None:
        """Run it once. Raises `Unavailable` (`notices.not_taken`) and `OSError`."""
        quiet = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            *self._argv, stdin=asyncio.subprocess.PIPE, stdout=quiet, stderr=quiet
        )
        try:
            await process.communicate(msgspec.json.encode(notice) + b"\n")
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            raise _not_taken("The command did not take the notice.")


class WebhookChannel:
    """Posts notices to a URL, signed as Standard Webhooks are (HMAC-SHA256).

    Raises `Misuse` (`notices.url_invalid`, `notices.secret_invalid`). The secret is text, or
    `whsec_` and base64 as that standard writes it. Any answer but 2xx says that it was not taken; a
    redirect is such an answer. Needs the extra `http`.
    """

    def __init__(self, url: str, secret: Secret, *, name: str = "webhook") -> None:
        parts = urlsplit(url)
        schemes = ("https", "http") if parts.hostname in _LOCAL else ("https",)
        if not parts.hostname or parts.scheme not in schemes:
            raise Misuse(
                "notices.url_invalid",
                "A webhook needs an https URL; http is taken on this machine only.",
                next_step="Give the whole URL of the receiver.",
            )
        if not secret.reveal():
            raise _secret_invalid("A webhook's secret is empty.")
        _key(secret)
        self.name = check_identifier(name, "channel")
        self._url = url
        self._secret = secret

    async def tell(self, notice: Notice) -> None:
        """Post it once. Raises `Unavailable` (`notices.not_taken`), and what the client raises."""
        from aiohttp import ClientSession, ClientTimeout, DummyCookieJar

        body = msgspec.json.encode(notice)
        headers = {
            "Content-Type": "application/json",
            **signed(self._secret, notice.notice_id, round(time.time()), body),
        }
        timeout = ClientTimeout(total=_TIMEOUT_S)
        async with (
            ClientSession(timeout=timeout, cookie_jar=DummyCookieJar()) as session,
            session.post(self._url, data=body, headers=headers, allow_redirects=False) as response,
        ):
            if not 200 <= response.status < 300:
                raise _not_taken("The webhook's receiver did not take the notice.")


def signed(secret: Secret, notice_id: str, at: int, body: bytes) -> dict[str, str]:
    """The headers of Standard Webhooks for a body that is sent at this second."""
    return {
        "webhook-id": notice_id,
        "webhook-timestamp": str(at),
        "webhook-signature": f"v1,{_signature(secret, notice_id, at, body)}",
    }


def check_signed(
    secret: Secret, headers: Mapping[str, str], body: bytes, *, now: float | None = None
) -> bool:
    """Whether a received webhook was signed with this secret, and within the last minutes.

    The names of the headers are lower-case, or the mapping does not mind case.
    """
    told, id_ = headers.get("webhook-timestamp", ""), headers.get("webhook-id", "")
    if not (told.isascii() and told.isdigit() and len(told) < 16):
        return False
    at = int(told)
    if abs((time.time() if now is None else now) - at) > TOLERANCE_S:
        return False
    right = f"v1,{_signature(secret, id_, at, body)}".encode()
    given = headers.get("webhook-signature", "").split()
    return any(hmac.compare_digest(right, one.encode("utf-8", "replace")) for one in given)


def _signature(secret: Secret, notice_id: str, at: int, body: bytes) -> str:
    content = f"{notice_id}.{at}.".encode() + body
    return base64.b64encode(hmac.digest(_key(secret), content, "sha256")).decode()


def _key(secret: Secret) -> bytes:
    value = secret.reveal()
    if not value.startswith(_ENCODED):
        return value.encode()
    try:
        return base64.b64decode(value.removeprefix(_ENCODED), validate=True)
    except ValueError:
        raise _secret_invalid("What follows whsec_ in a webhook's secret is not base64.") from None


def _secret_invalid(message: str) -> Misuse:
    return Misuse("notices.secret_invalid", message, next_step="Copy the secret as a whole.")


def _not_taken(message: str) -> Unavailable:
    return Unavailable("notices.not_taken", message, next_step="It is tried again by itself.")
