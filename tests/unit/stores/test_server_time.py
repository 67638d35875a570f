"""The server's time between two answers: never beside the truth, and never carried too long."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends.contracts.limits import LEASE_GRACE_MS, SERVER_GRACE_MS
from amends.stores.postgres.address import address_of
from amends.stores.postgres.connection import Connections, Terms
from amends.stores.postgres.reader import Reader
from amends.stores.postgres.server_time import CARRIED_S, WIDE_S, ServerTime, ticks

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


class Machines:
    """A server and this machine, whose clocks run as fast as they are told to."""

    def __init__(self, server_rate: float = 1.0, rate: float = 1.0) -> None:
        self.seconds = 0.0
        self.set_by = timedelta()
        self._server_rate = server_rate
        self._rate = rate
        self.time = ServerTime(lambda: self.seconds * self._rate)

    @property
    def now(self) -> datetime:
        return BEGAN + self.set_by + timedelta(seconds=self.seconds * self._server_rate)

    def ask(self, there: float = 0.001, back: float = 0.001) -> None:
        """A question on its way for so long, and its answer."""
        sent = self.time.ticks()
        self.seconds += there
        told = self.now
        self.seconds += back
        self.time.hear(told, sent)


ways = st.floats(0, WIDE_S / 3)


@pytest.mark.fault(21)
@given(
    st.floats(0.9, 1.1),
    st.floats(0.9, 1.1),
    st.lists(st.tuples(ways, ways, st.floats(0, 2)), min_size=1),
)
def test_the_later_end_is_never_before_the_servers_clock_however_clocks_are_slewed(
    server_rate: float, rate: float, asked: list[tuple[float, float, float]]
) -> None:
    machines = Machines(server_rate, rate)
    for there, back, passed in asked:
        machines.ask(there, back)
        machines.seconds += passed
        moment = machines.time.carried()
        if moment is not None:
            assert machines.now <= moment.latest + timedelta(microseconds=2)
            ahead = moment.earliest - machines.now
            assert ahead.total_seconds() <= CARRIED_S * 0.2 + 1e-5
            assert moment.earliest <= moment.latest


@given(st.lists(st.tuples(ways, ways, st.floats(0, 2)), min_size=1))
def test_clocks_that_agree_show_a_time_between_the_ends(
    asked: list[tuple[float, float, float]],
) -> None:
    machines = Machines()
    for there, back, passed in asked:
        machines.ask(there, back)
        machines.seconds += passed
        moment = machines.time.carried()
        if moment is not None:
            slack = timedelta(microseconds=2)
            assert moment.earliest - slack <= machines.now <= moment.latest + slack


def test_nothing_is_carried_before_the_first_answer() -> None:
    assert Machines().time.carried() is None


@pytest.mark.fault(21)
def test_a_process_that_stood_still_has_to_ask_anew() -> None:
    machines = Machines()
    machines.ask()
    machines.seconds += CARRIED_S / 2
    assert machines.time.carried() is not None
    machines.seconds += 100
    assert machines.time.carried() is None


@pytest.mark.fault(21)
def test_a_process_that_stood_still_while_it_waited_carries_nothing_of_that_answer() -> None:
    machines = Machines()
    machines.ask(back=100)
    assert machines.time.carried() is None


def test_an_answer_that_took_long_takes_nothing_from_one_that_did_not() -> None:
    machines = Machines()
    machines.ask()
    machines.ask(back=WIDE_S * 2)
    moment = machines.time.carried()
    assert moment is not None
    assert moment.earliest <= machines.now <= moment.latest


@pytest.mark.fault(18)
def test_a_lost_connection_takes_away_what_was_asked_before_it() -> None:
    machines = Machines()
    machines.ask()
    machines.time.forget()
    assert machines.time.carried() is None
    sent = machines.time.ticks()
    machines.seconds += 0.001
    machines.time.forget()
    machines.time.hear(machines.now, sent)  # the old server's, on another connection
    assert machines.time.carried() is None
    machines.ask()
    assert machines.time.carried() is not None


@pytest.mark.fault(21)
@pytest.mark.parametrize("hours", [-3, 3])
def test_a_clock_that_was_set_counts_from_the_next_answer_and_within_a_second(hours: int) -> None:
    machines = Machines()
    machines.ask()
    machines.set_by = timedelta(hours=hours)
    machines.seconds += CARRIED_S + 0.01
    assert machines.time.carried() is None
    machines.ask()
    moment = machines.time.carried()
    assert moment is not None
    assert moment.earliest <= machines.now <= moment.latest


async def test_documents_are_dated_by_the_earlier_end_and_licences_measured_by_the_later() -> None:
    seconds = [10.0]
    terms = Terms(
        address=address_of("postgresql://nobody/none"), time=ServerTime(lambda: seconds[0])
    )
    reader = Reader(Connections(terms, 1), terms)
    seconds[0] = 10.05
    terms.time.hear(BEGAN, 10.0)
    seconds[0] = 10.25
    since = [
        (moment - BEGAN).total_seconds() for moment in (await reader.now(), await reader.by_now())
    ]
    assert since == pytest.approx([0.2, 0.25 * 1.25], abs=1e-5)


def test_an_answer_is_carried_for_a_second_if_it_took_less_than_a_tenth() -> None:
    machines = Machines()
    machines.ask(0.05, 0.04)
    machines.seconds += 0.9
    assert machines.time.carried() is not None
    machines.seconds += 0.02
    assert machines.time.carried() is None
    machines.ask(0.05, 0.06)
    assert machines.time.carried() is None


def test_every_grace_that_a_server_may_have_is_twice_as_long_as_its_time_is_carried() -> None:
    assert CARRIED_S * 2 <= SERVER_GRACE_MS / 1000 <= LEASE_GRACE_MS / 1000


def test_the_clock_of_this_machine_goes_on() -> None:
    before = ticks()
    time.sleep(0.01)
    assert 0.009 < ticks() - before < 5
