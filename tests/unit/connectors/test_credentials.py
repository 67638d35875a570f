"""Credentials come from three sources, and never show in what goes wrong."""

import traceback
from pathlib import Path

import pytest

from amends.connectors.credentials import (
    CREDENTIAL_BYTES,
    callable_credentials,
    environment_credentials,
    file_credentials,
)
from amends.contracts.enums import PrincipalKind
from amends.contracts.errors import AmendsError, Misuse, Refused, Unavailable
from amends.contracts.ids import CapabilityId, PrincipalId, TenantId
from amends.contracts.principals import PrincipalRef
from amends.contracts.secrets import Credential, CredentialSource, Secret

VARIABLE = "AMENDS_TEST_TOKEN"
ANN = PrincipalRef(PrincipalId("ann"), PrincipalKind.USER)
BAD = [
    "tok-CANARY\n\n",
    "tok-CANARY\r\n",
    "tok-CANARYü",
    "tok-CANARY\t",
    "CANARY\r\nX-Evil: 1",
    " CANARY",
    "CANARY ",
    "CANARY\x7f",
    "CANARY" * CREDENTIAL_BYTES,
]


def _ask(source: CredentialSource) -> Credential | None:
    return source.credential(capability=CapabilityId("pay"), tenant=TenantId("t1"), principal=ANN)


def _revealed(source: CredentialSource) -> str | None:
    found = _ask(source)
    return None if found is None else found.secret.reveal()


def _failure(source: CredentialSource) -> AmendsError:
    with pytest.raises(AmendsError) as caught:
        _ask(source)
    return caught.value


def _rendered(error: BaseException) -> str:
    shown = traceback.TracebackException.from_exception(error, capture_locals=True)
    return "".join(shown.format())


def test_a_variable_is_read_anew_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    source = environment_credentials(VARIABLE, issuer="vault", scopes=["pay"])
    monkeypatch.setenv(VARIABLE, "one")
    assert _revealed(source) == "one"
    monkeypatch.setenv(VARIABLE, "Bearer two")
    found = _ask(source)
    assert found is not None
    assert (found.secret.reveal(), found.issuer, found.scopes) == ("Bearer two", "vault", ("pay",))


def test_a_variable_that_is_unset_or_empty_gives_no_credential(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert _ask(environment_credentials(VARIABLE)) is None
    monkeypatch.setenv(VARIABLE, "")
    assert _ask(environment_credentials(VARIABLE)) is None


def test_a_file_is_read_anew_each_time_and_may_be_missing(tmp_path: Path) -> None:
    source = file_credentials(tmp_path / "token", issuer="vault", scopes=("pay",))
    assert _ask(source) is None
    (tmp_path / "token").write_text("one")
    assert _revealed(source) == "one"
    (tmp_path / "token").write_text("two")
    assert _revealed(source) == "two"


def test_the_one_line_feed_that_an_editor_writes_is_no_part_of_a_credential(tmp_path: Path) -> None:
    source = file_credentials(tmp_path / "token")
    for value in ("one", "t" * CREDENTIAL_BYTES):
        (tmp_path / "token").write_text(f"{value}\n")
        assert _revealed(source) == value
    for value in ("\n", "t" * CREDENTIAL_BYTES + "\nmore", "t" * CREDENTIAL_BYTES + "t\n", "\none"):
        (tmp_path / "token").write_text(value)
        assert _failure(source).code == "credential.invalid"


@pytest.mark.case("SEC-03")
def test_a_line_feed_elsewhere_than_in_a_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "tok-CANARY\n")
    credential = Credential(secret=Secret("tok-CANARY\n"))
    for source in (
        environment_credentials(VARIABLE),
        callable_credentials(lambda *_about: credential),
    ):
        failure = _failure(source)
        assert failure.code == "credential.invalid"
        assert "CANARY" not in _rendered(failure)


def test_a_file_that_cannot_be_read_is_not_taken_for_a_missing_one(tmp_path: Path) -> None:
    failure = _failure(file_credentials(tmp_path))
    assert isinstance(failure, Unavailable)
    assert failure.code == "credential.unavailable"


def test_an_empty_file_is_not_a_credential(tmp_path: Path) -> None:
    (tmp_path / "token").touch()
    assert _failure(file_credentials(tmp_path / "token")).code == "credential.invalid"


def test_a_function_is_asked_for_whom_and_what() -> None:
    asked: list[object] = []

    def find(*about: object) -> Credential | None:
        asked.append(about)
        return Credential(secret=Secret("tok")) if len(asked) == 1 else None

    source = callable_credentials(find)
    assert (_revealed(source), _revealed(source)) == ("tok", None)
    assert asked == [("pay", "t1", ANN)] * 2


def test_a_failing_function_is_unavailable_and_an_error_of_ours_stays_what_it_is() -> None:
    def fail(*_about: object) -> Credential | None:
        raise TimeoutError

    def refuse(*_about: object) -> Credential | None:
        raise Refused("credential.expired", "It has expired.")

    failure = _failure(callable_credentials(fail))
    assert (type(failure), failure.code) == (Unavailable, "credential.unavailable")
    assert isinstance(failure.__cause__, TimeoutError)
    assert _failure(callable_credentials(refuse)).code == "credential.expired"


@pytest.mark.case("SEC-03")
@pytest.mark.parametrize("value", BAD)
def test_a_credential_that_cannot_be_sent_is_refused_without_being_shown(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, value)
    (tmp_path / "token").write_bytes(value.encode())
    credential = Credential(secret=Secret(value))
    for source in (
        environment_credentials(VARIABLE),
        file_credentials(tmp_path / "token"),
        callable_credentials(lambda *_about: credential),
    ):
        failure = _failure(source)
        assert (type(failure), failure.code) == (Refused, "credential.invalid")
        assert "CANARY" not in f"{failure!r}{failure.details}{source!r}"
        assert "CANARY" not in _rendered(failure)


@pytest.mark.case("SEC-03")
def test_a_function_that_answers_with_the_bare_value_does_not_show_it_either() -> None:
    source = callable_credentials(lambda *_about: "tok-CANARY")  # type: ignore[arg-type]  # the mistake
    failure = _failure(source)
    assert (type(failure), failure.code) == (Misuse, "credential.not_a_credential")
    assert "CANARY" not in _rendered(failure)
