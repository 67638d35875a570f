"""One HTTP exchange as plain records: what is sent, and what came of sending it."""

from typing import TypeAlias

import msgspec

from amends.contracts.secrets import Secret


class SecretHeader(msgspec.Struct, frozen=True):
    """A header that holds the credential, which is not put in before it is sent."""

    name: str
    before: str
    secret: Secret
    after: str


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """A request, ready to be sent once."""

    method: str
    url: str
    headers: dict[str, str]
    secret_headers: tuple[SecretHeader, ...] = ()
    body: bytes | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the provider answered. With a `flaw` the body is not all there, or not what was sent."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    flaw: str = ""

    def header(self, name: str) -> list[str]:
        """Every value of a header, in order; `name` in any case."""
        return [value for key, value in self.headers if key.lower() == name.lower()]


class NotSent(msgspec.Struct, frozen=True):
    """No byte of the request has left: there was no connection to send it on."""

    reason: str


class NoAnswer(msgspec.Struct, frozen=True):
    """The request may have arrived, and there is no answer."""

    reason: str


Reply: TypeAlias = Answer | NotSent | NoAnswer

BROKEN_OFF = "broken_off"
"""The flaw of an answer whose connection broke, or whose time was over, within its body."""

TIMEOUT = "timeout"
