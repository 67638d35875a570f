"""A secret shows itself only where it is asked to."""

import copy
import pickle
import traceback

import msgspec
import pytest

from amends.contracts.errors import Misuse
from amends.contracts.secrets import Credential, Secret

CANARY = "tok-CANARY\n"


@pytest.mark.case("SEC-03")
def test_a_secret_is_hidden_in_every_rendering() -> None:
    secret = Secret(CANARY)
    credential = Credential(secret=secret, issuer="vault")
    shown = [
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret!r:>20}",
        "%s" % secret,  # noqa: UP031 - the old way of formatting is a way out too
        repr([secret]),
        repr(credential),
        str(Misuse("misuse.x", f"with {secret}")),
    ]
    assert not [text for text in shown if "CANARY" in text]
    assert secret.reveal() == CANARY


@pytest.mark.case("SEC-03")
def test_a_traceback_with_locals_does_not_show_the_secret() -> None:
    def fails(secret: Secret) -> None:
        raise RuntimeError("no connection")

    held = Secret(CANARY)
    try:
        fails(held)
    except RuntimeError as error:
        trace = traceback.TracebackException.from_exception(error, capture_locals=True)
    shown = "".join(trace.format())
    assert "Secret(***)" in shown
    assert "CANARY" not in shown


@pytest.mark.case("SEC-03")
def test_a_secret_cannot_be_pickled_copied_or_stored() -> None:
    secret = Secret(CANARY)
    for refuse in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(Misuse) as refused:
            refuse(secret)
        assert refused.value.code == "secret.not_storable"
        assert "CANARY" not in str(refused.value)
    for encode in (msgspec.json.encode, msgspec.msgpack.encode, msgspec.to_builtins):
        with pytest.raises(TypeError) as unsupported:
            encode(Credential(secret=secret))
        assert "CANARY" not in str(unsupported.value)


def test_a_secret_has_no_hash_and_no_dictionary() -> None:
    secret = Secret(CANARY)
    with pytest.raises(TypeError):
        hash(secret)
    assert not hasattr(secret, "__dict__")


def test_secrets_are_equal_when_their_values_are() -> None:
    assert Secret(CANARY) == Secret(CANARY)
    assert Secret(CANARY) != Secret("other")
    assert Secret(CANARY) != CANARY
