"""What comes out of a session when bytes go in."""

from typing import NamedTuple, TypeAlias

from amends.contracts.errors import AmendsError
from amends.contracts.worker_grant import Manifest
from amends.contracts.worker_identity import Fingerprint
from amends.contracts.worker_messages import AnswerMessage, RequestMessage


class Greeted(NamedTuple):
    """The peer greeted; send `reply`. It has proved nothing yet. Version 6."""

    reply: bytes


class HostProved(NamedTuple):
    """The host is the host: reserve the fence, load the journal, then `prove`. Version 6."""


class WorkerProved(NamedTuple):
    """The worker is the worker, and this is where its journal stands. Version 6."""

    fence: int
    journal_revision: int
    journal_hash: Fingerprint


class SessionOpened(NamedTuple):
    """The host opened the session with these grants; hold its id against those that were used."""

    manifest: Manifest


class Asked(NamedTuple):
    """A request that grants and budgets allow. Look whether it is eligible, then `charge` it."""

    message: RequestMessage


class AskRefused(NamedTuple):
    """A request that they do not allow. Nothing was spent; the session goes on.

    `reply` is to be sent. It is empty in version 5, which has no word for it.
    """

    message: RequestMessage
    error: AmendsError
    reply: bytes


class Answered(NamedTuple):
    """The answer to a request of ours, held against it and against the grant."""

    message: RequestMessage
    answer: AnswerMessage


class SessionClosed(NamedTuple):
    """The host asks nothing more; answers that are owed may still be sent."""


Event: TypeAlias = (
    Greeted
    | HostProved
    | WorkerProved
    | SessionOpened
    | Asked
    | AskRefused
    | Answered
    | SessionClosed
)
