"""The port through which a session's bytes pass: a pipe, a socket, or two queues in a test.

Bytes arrive in order or not at all; they may be cut anywhere. A transport authenticates nothing and
keeps nothing: that a peer is the peer, the session proves.
"""

from typing import Protocol


class Transport(Protocol):
    """One channel to one peer."""

    async def send(self, data: bytes) -> None:
        """Hand bytes over. That this returns does not say that they arrived.

        Raises `Unavailable` (`channel.lost`); some of the bytes may have arrived all the same.
        """
        ...

    async def receive(self) -> bytes:
        """The next bytes; none once the peer's have ended, in whatever way they did."""
        ...

    async def close(self) -> None:
        """Let go of the channel. May be called again, and never raises."""
        ...
