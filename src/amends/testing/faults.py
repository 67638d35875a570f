"""What can go wrong with one request to a provider, phase by phase.

A fault says two things that a caller cannot tell apart: whether the request arrives, which is when
the effect happens, and what becomes of the answer. `ScriptedProvider` plays one per request.

| fault | effect | what the caller gets |
|---|---|---|
| `none` | at once | the answer |
| `connect` | none | connection refused: certainly nothing sent |
| `headers` | none | connection reset |
| `body` | as told, perhaps later | connection reset |
| `acknowledgement` | at once | connection reset |
| `server_error` | none | a 500 |
| `server_error_after_commit` | at once | a 500 |
| `late` | at once | the answer, late |
| `never` | as told | nothing, for ever |
| `decline` | none, for this key | a 402 |
| `accepted` | at once, not yet ready | a 202 |
| `duplicate` | none | a 409 |
| `stranger` | at once | the answer to somebody else's request |
"""

from enum import StrEnum

import msgspec


class Answer(StrEnum):
    """What the caller gets, once its request has arrived or been lost."""

    REPLY = "reply"
    REFUSED = "refused"
    RESET = "reset"
    SERVER_ERROR = "server_error"
    CONFLICT = "conflict"
    STRANGER = "stranger"
    NOTHING = "nothing"


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """How one request goes. `declines` is the code under which the provider refuses it."""

    arrives: bool = True
    arrives_after_s: float = 0.0
    declines: str = ""
    ready_after_s: float = 0.0
    answer: Answer = Answer.REPLY
    answer_after_s: float = 0.0


def none() -> Fault:
    """All goes well."""
    return Fault()


def connect() -> Fault:
    """No connection: nothing was sent, and the caller knows it."""
    return Fault(arrives=False, answer=Answer.REFUSED)


def headers() -> Fault:
    """The connection dies before the request is whole: no effect, which the caller cannot know."""
    return Fault(arrives=False, answer=Answer.RESET)


def body(*, effect: bool, after_s: float = 0.0) -> Fault:
    """The connection dies within the body; the request arrives or not, perhaps after a while.

    With a delay it is the request that is still in flight when the caller has given up.
    """
    return Fault(arrives=effect, arrives_after_s=after_s, answer=Answer.RESET)


def acknowledgement() -> Fault:
    """The effect is there, the answer is lost."""
    return Fault(answer=Answer.RESET)


def server_error() -> Fault:
    """A 500 before any work."""
    return Fault(arrives=False, answer=Answer.SERVER_ERROR)


def server_error_after_commit() -> Fault:
    """A 500 although the effect is there."""
    return Fault(answer=Answer.SERVER_ERROR)


def late(seconds: float) -> Fault:
    """The effect is there at once, the answer comes after so long."""
    return Fault(answer_after_s=seconds)


def never(*, effect: bool = True) -> Fault:
    """The caller waits for ever."""
    return Fault(arrives=effect, answer=Answer.NOTHING)


def decline(code: str = "card_declined") -> Fault:
    """A definite refusal, which the provider remembers under the key."""
    return Fault(declines=code)


def accepted(seconds: float = 60.0) -> Fault:
    """A 202: the provider will do it, and says for so long that it is not ready."""
    return Fault(ready_after_s=seconds)


def duplicate() -> Fault:
    """A 409, as if the key had been seen before."""
    return Fault(arrives=False, answer=Answer.CONFLICT)


def stranger() -> Fault:
    """The effect is there, but the answer names another operation and another amount."""
    return Fault(answer=Answer.STRANGER)
