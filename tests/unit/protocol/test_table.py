"""The table of sessions, once more from the rules, and whole."""

import itertools

import pytest

from amends.protocol.table import TABLE, MessageKind, SessionState, first_state, following
from amends.protocol.versions import Role, Version

HOST, WORKER = Role.HOST, Role.WORKER
S, K = SessionState, MessageKind
BOTH, SIXTH = {Version.LINES, Version.SEALED}, {Version.SEALED}

GREETINGS = {
    (HOST, K.HOST_HELLO, S.HOST_HELLO): (S.WORKER_HELLO, SIXTH),
    (WORKER, K.WORKER_HELLO, S.WORKER_HELLO): (S.HOST_FINISHED, SIXTH),
    (HOST, K.HOST_FINISHED, S.HOST_FINISHED): (S.WORKER_FINISHED, SIXTH),
    (WORKER, K.WORKER_FINISHED, S.WORKER_FINISHED): (S.READY, SIXTH),
    (HOST, K.OPEN_SESSION, S.READY): (S.OPEN, BOTH),
    (HOST, K.CLOSE_SESSION, S.OPEN): (S.CLOSING, BOTH),
}
ASKED = {
    K.INVOKE: BOTH,
    K.DISPATCH_OPERATION: BOTH,
    K.COMPENSATE_OPERATION: BOTH,
    K.RECONCILE_OPERATION: BOTH,
    K.CANCEL: BOTH,
    K.COMPENSATION_STATE_REQUEST: SIXTH,
}
ANSWERED = {
    K.RESULT: BOTH,
    K.OPERATION_RESULT: BOTH,
    K.COMPENSATION_RESULT: BOTH,
    K.RECONCILED_OPERATION: BOTH,
    K.CANCELLATION_RESULT: BOTH,
    K.COMPENSATION_STATE: SIXTH,
    K.REJECTED: SIXTH,
}
EXPECTED = (
    GREETINGS
    | {(HOST, kind, S.OPEN): (S.OPEN, versions) for kind, versions in ASKED.items()}
    | {
        (WORKER, kind, state): (state, versions)
        for kind, versions in ANSWERED.items()
        for state in (S.OPEN, S.CLOSING)
    }
)


@pytest.mark.rule("FR-2", "FR-5")
@pytest.mark.parametrize("version", Version)
def test_every_message_in_every_state_by_either_side_is_allowed_or_not(version: Version) -> None:
    for sender, kind, state in itertools.product(Role, MessageKind, SessionState):
        after, versions = EXPECTED.get((sender, kind, state), (None, BOTH))
        expected = after if version in versions else None
        assert following(state, sender, kind, version) is expected, (sender, kind, state)


def test_no_two_rows_speak_of_the_same_message_in_the_same_state() -> None:
    places = [(row.kind, row.sender, row.before) for row in TABLE]
    assert len(set(places)) == len(places) == len(EXPECTED)


def test_a_message_has_one_sender() -> None:
    senders: dict[MessageKind, set[Role]] = {}
    for row in TABLE:
        senders.setdefault(row.kind, set()).add(row.sender)
    assert senders.keys() == set(MessageKind)
    assert all(len(roles) == 1 for roles in senders.values())


def test_version_5_begins_without_a_greeting() -> None:
    assert first_state(Version.LINES) is S.READY
    assert first_state(Version.SEALED) is S.HOST_HELLO


@pytest.mark.parametrize("role", Role)
def test_each_role_has_one_other(role: Role) -> None:
    assert role.other is not role
    assert role.other.other is role
