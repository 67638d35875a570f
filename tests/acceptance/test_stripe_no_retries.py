"""The Stripe client as we configure it sends each request once, however the request fails.

Controls show that a repetition would be seen: the same failures are sent three times by a client
told to repeat, and by the library's module-wide functions, whose default is two repetitions.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Literal

import pytest
import stripe

from amends.cli.demo import stripe_calls

Failure = Literal["closes", "fails", "stays silent"]

API_KEY = "sk_test_counted"
FIRST_AND_TWO_REPEATS = 3


class Counter(ThreadingHTTPServer):
    """Takes every request to its last byte, notes it, then fails as told."""

    daemon_threads = True

    def __init__(self, failure: Failure) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.failure = failure
        self.taken: list[str] = []
        self.keys: list[str] = []
        self.bodies: list[bytes] = []
        self.over = Event()

    @property
    def base_address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Counter

    def do_POST(self) -> None:
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.keys.append(self.headers["Idempotency-Key"])
        self.take_and_fail()

    def do_GET(self) -> None:
        self.take_and_fail()

    def take_and_fail(self) -> None:
        self.server.taken.append(f"{self.command} {self.path}")
        match self.server.failure:
            case "fails":
                self.send_error(500)
            case "stays silent":
                self.server.over.wait(20)
            case "closes":
                pass
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing on the console of the test run."""


@contextmanager
def counting(failure: Failure) -> Iterator[Counter]:
    server = Counter(failure)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        thread.join()
        server.server_close()


def charge_and_fail(client: stripe.StripeClient) -> stripe.StripeError:
    with pytest.raises(stripe.StripeError) as failed:
        stripe_calls.make_charge(client, amount_minor=1250, currency="eur", provider_key="pk-1")
    return failed.value


@pytest.mark.parametrize("failure", ["closes", "fails", "stays silent"])
def test_a_charge_is_sent_once_and_its_outcome_stays_open_when_the_provider(
    failure: Failure,
) -> None:
    with counting(failure) as server:
        client = stripe_calls.connect(server.base_address, API_KEY, timeout_s=0.5)
        error = charge_and_fail(client)
        assert (server.taken, server.keys) == (["POST /v1/charges"], ["pk-1"])
        assert b"metadata[amends_provider_key]=pk-1" in server.bodies[0]
    assert not stripe_calls.is_definite_refusal(error)


@pytest.mark.parametrize("failure", ["closes", "fails"])
def test_control_a_client_told_to_repeat_sends_the_charge_three_times_when_the_provider(
    failure: Failure,
) -> None:
    with counting(failure) as server:
        client = stripe.StripeClient(
            API_KEY, base_addresses={"api": server.base_address}, max_network_retries=2
        )
        charge_and_fail(client)
        assert server.taken == ["POST /v1/charges"] * FIRST_AND_TWO_REPEATS


def test_control_the_module_wide_functions_repeat_twice_by_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with counting("closes") as server:
        monkeypatch.setattr(stripe, "api_base", server.base_address)
        with pytest.raises(stripe.APIConnectionError):
            stripe.Charge.create(api_key=API_KEY, amount=1250, currency="eur")
        assert server.taken == ["POST /v1/charges"] * FIRST_AND_TWO_REPEATS


def test_a_page_that_cannot_be_read_is_asked_once_and_is_an_error_not_an_absent_charge() -> None:
    with counting("closes") as server:
        client = stripe_calls.connect(server.base_address, API_KEY, timeout_s=0.5)
        with pytest.raises(stripe.APIConnectionError):
            stripe_calls.find_charge_by_key(client, "pk-1")
        assert server.taken == ["GET /v1/charges?limit=100"]
