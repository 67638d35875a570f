"""The demonstration's provider: a real server process, charged through the real client."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from amends.cli.demo import contained, crash_point, stripe_calls
from amends.cli.demo.provider import API_KEY, LocalProvider
from amends.contracts.errors import Misuse, Unavailable

if TYPE_CHECKING:
    import stripe

WAIT_S = 20.0

PARENT = """
import sys, time
from amends.cli.demo.provider import LocalProvider
provider = LocalProvider.start()
print(provider.port, flush=True)
if sys.argv[1] == "exits":
    sys.exit()
time.sleep(60)
"""

CHARGES_AND_HANGS = """
import sys
from pathlib import Path
from amends.cli.demo import crash_point, stripe_calls
base_address, api_key, marker = sys.argv[1:]
client = stripe_calls.connect(base_address, api_key)
stripe_calls.make_charge(client, amount_minor=1250, currency="eur", provider_key="pk-crash")
crash_point.hang_after_effect(Path(marker))
print("went on", flush=True)
"""


@pytest.fixture
def provider() -> Iterator[LocalProvider]:
    with LocalProvider.start() as running:
        yield running


@pytest.fixture
def client(provider: LocalProvider) -> "stripe.StripeClient":
    return stripe_calls.connect(provider.base_address, API_KEY)


def charge(client: "stripe.StripeClient", key: str) -> stripe_calls.Charge:
    return stripe_calls.make_charge(client, amount_minor=1250, currency="eur", provider_key=key)


def is_listening(port: int, host: str = "127.0.0.1") -> bool:
    try:
        socket.create_connection((host, port), timeout=2).close()
    except OSError:
        return False
    return True


def stops_listening(port: int) -> bool:
    deadline = time.monotonic() + WAIT_S
    while is_listening(port) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_listening(port)


# --- the process ------------------------------------------------------------------------------


def test_the_provider_listens_on_one_loopback_address_only(provider: LocalProvider) -> None:
    """Left to itself the server listens on every address of the machine."""
    assert is_listening(provider.port)
    assert not is_listening(provider.port, "127.0.0.2")
    assert not is_listening(provider.port, "::1")


def test_a_started_provider_remembers_nothing_of_an_earlier_one() -> None:
    for _ in range(2):
        with LocalProvider.start() as provider:
            client = stripe_calls.connect(provider.base_address, API_KEY)
            assert stripe_calls.count_charges(client) == 0
            charge(client, "pk-1")
            assert stripe_calls.count_charges(client) == 1


def test_two_providers_run_side_by_side_and_share_nothing(
    provider: LocalProvider, client: "stripe.StripeClient"
) -> None:
    with LocalProvider.start() as second:
        assert second.port != provider.port
        charge(stripe_calls.connect(second.base_address, API_KEY), "pk-1")
        assert stripe_calls.count_charges(client) == 0


def test_stop_ends_the_process_removes_its_log_and_may_be_repeated() -> None:
    provider = LocalProvider.start()
    assert provider.log_path.exists()
    provider.stop()
    assert not is_listening(provider.port)
    assert not provider.log_path.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(provider.pid, 0)
    provider.stop()


@pytest.mark.parametrize("ending", ["is killed", "exits"])
def test_the_provider_ends_when_its_parent(ending: str, tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, ending],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    with parent:
        assert parent.stdout is not None
        port = int(parent.stdout.readline())
        if ending == "is killed":
            assert is_listening(port)
            parent.kill()
        parent.wait(WAIT_S)
    assert stops_listening(port)


def test_a_server_that_is_not_installed_is_named_with_the_way_to_get_it() -> None:
    with pytest.raises(Misuse, match=r"demo\.provider_missing.*amends\[demo\]"):
        LocalProvider.start(server_module="no_such_server")


def test_a_server_that_ends_at_once_is_not_waited_for() -> None:
    started = time.monotonic()
    with pytest.raises(Unavailable, match="ended instead of answering") as refused:
        LocalProvider.start(ready_within_s=WAIT_S, server_module="this")
    assert time.monotonic() - started < WAIT_S / 2
    log = Path(refused.value.next_step.removeprefix("Read its log: "))
    assert "Zen" in log.read_text()
    log.unlink()


def test_a_server_that_is_not_ready_in_time_is_ended() -> None:
    with pytest.raises(Unavailable, match="did not answer in time") as refused:
        LocalProvider.start(ready_within_s=0)
    log = Path(refused.value.next_step.removeprefix("Read its log: "))
    before = log.read_text()
    time.sleep(0.5)
    assert log.read_text() == before
    log.unlink()


def test_importing_the_demonstration_loads_neither_the_client_nor_the_server() -> None:
    probe = (
        "import sys, amends.cli.demo.provider, amends.cli.demo.stripe_calls;"
        "sys.exit(bool({'stripe', 'localstripe', 'aiohttp'} & sys.modules.keys()))"
    )
    assert (
        subprocess.run([sys.executable, "-c", probe], timeout=WAIT_S, check=False).returncode == 0
    )


def test_a_contained_socket_binds_the_ipv4_loopback_and_nothing_else(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with contained.LoopbackSocket(socket.AF_INET6, socket.SOCK_STREAM) as listener:
        listener.bind(("::", 0))
        host, port = listener.getsockname()
        assert (listener.family, host) == (socket.AF_INET, "127.0.0.1")
        assert capsys.readouterr().out == f"{contained.ANNOUNCEMENT}{port}\n"
    with (
        contained.LoopbackSocket(socket.AF_UNIX, socket.SOCK_STREAM) as other,
        pytest.raises(OSError, match="nothing but an internet address"),
    ):
        other.bind("a-path")


# --- charges and refunds ----------------------------------------------------------------------


def test_one_call_is_one_charge_that_carries_the_provider_key(
    client: "stripe.StripeClient",
) -> None:
    made = charge(client, "pk-1")
    assert (made.amount_minor, made.currency, made.status) == (1250, "eur", "succeeded")
    assert made.provider_key == "pk-1"
    assert stripe_calls.count_charges(client) == 1
    assert stripe_calls.find_charge_by_key(client, "pk-1") == made


def test_the_same_key_makes_two_charges_because_the_provider_ignores_idempotency_keys(
    client: "stripe.StripeClient",
) -> None:
    """The fact that makes the demonstration honest: only the library stands before a double."""
    first, second = charge(client, "pk-1"), charge(client, "pk-1")
    assert first.charge_id != second.charge_id
    assert stripe_calls.count_charges(client) == 2


def test_a_key_is_found_on_whatever_page_it_is_and_none_is_said_after_the_last(
    client: "stripe.StripeClient",
) -> None:
    made = [charge(client, f"pk-{n}") for n in range(5)]
    found = [stripe_calls.find_charge_by_key(client, f"pk-{n}", page_size=2) for n in range(5)]
    assert found == made
    assert stripe_calls.find_charge_by_key(client, "pk-5", page_size=2) is None
    assert stripe_calls.count_charges(client, page_size=2) == 5


def test_refunds_are_found_by_their_own_key_and_counted(client: "stripe.StripeClient") -> None:
    charge_id = charge(client, "pk-1").charge_id
    made = [
        stripe_calls.make_refund(
            client, charge_id=charge_id, amount_minor=100, provider_key=f"pk-r{n}"
        )
        for n in range(3)
    ]
    assert {(r.charge_id, r.amount_minor, r.currency) for r in made} == {(charge_id, 100, "eur")}
    found = [stripe_calls.find_refund_by_key(client, f"pk-r{n}", page_size=1) for n in range(3)]
    assert found == made
    assert stripe_calls.find_refund_by_key(client, "pk-1", page_size=1) is None
    assert stripe_calls.count_refunds(client, page_size=2) == 3
    assert stripe_calls.count_charges(client) == 1


def test_the_provider_does_not_refuse_a_second_full_refund(client: "stripe.StripeClient") -> None:
    """So a refused second refund in the demonstration is the library's doing."""
    made = charge(client, "pk-1")
    for key in ("pk-r1", "pk-r2"):
        stripe_calls.make_refund(
            client, charge_id=made.charge_id, amount_minor=made.amount_minor, provider_key=key
        )
    assert stripe_calls.count_refunds(client) == 2


def test_a_declined_card_is_a_definite_refusal_and_no_effect(
    client: "stripe.StripeClient",
) -> None:
    import stripe

    with pytest.raises(stripe.CardError) as refused:
        stripe_calls.make_charge(
            client,
            amount_minor=1250,
            currency="eur",
            provider_key="pk-1",
            card="pm_card_chargeCustomerFail",
        )
    assert stripe_calls.is_definite_refusal(refused.value)
    assert stripe_calls.count_charges(client) == 0
    remembered = stripe_calls.find_charge_by_key(client, "pk-1")
    assert remembered is not None
    assert remembered.status == "failed"


def test_a_proxy_named_in_the_environment_is_not_asked(
    provider: LocalProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    client = stripe_calls.connect(provider.base_address, API_KEY)
    assert charge(client, "pk-1").status == "succeeded"


# --- the crash --------------------------------------------------------------------------------


def test_a_process_killed_after_the_effect_leaves_one_charge_to_be_found_by_its_key(
    provider: LocalProvider, client: "stripe.StripeClient", tmp_path: Path
) -> None:
    marker = tmp_path / "charged"
    victim = subprocess.Popen(
        [sys.executable, "-c", CHARGES_AND_HANGS, provider.base_address, API_KEY, str(marker)],
        stdout=subprocess.PIPE,
    )
    pid = crash_point.wait_for_effect(marker, within_s=WAIT_S)
    assert pid == victim.pid
    os.kill(pid, signal.SIGKILL)
    said, _ = victim.communicate(timeout=WAIT_S)
    assert (victim.returncode, said) == (-signal.SIGKILL, b"")
    found = stripe_calls.find_charge_by_key(client, "pk-crash")
    assert found is not None
    assert found.amount_minor == 1250
    assert stripe_calls.count_charges(client) == 1


def test_a_process_that_nobody_kills_at_the_crash_point_kills_itself(tmp_path: Path) -> None:
    marker = tmp_path / "charged"
    code = (
        "import sys; from pathlib import Path; from amends.cli.demo import crash_point;"
        "crash_point.hang_after_effect(Path(sys.argv[1]), hang_s=0.05); print('went on')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(marker)],
        stdout=subprocess.PIPE,
        timeout=WAIT_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"")
    assert marker.exists()


def test_waiting_for_an_effect_that_does_not_come_ends_in_time(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError, match="crash point"):
        crash_point.wait_for_effect(tmp_path / "never", within_s=0.05)
