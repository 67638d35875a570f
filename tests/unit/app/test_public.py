"""The names that programs import: one list, loaded when the first of them is asked for."""

import importlib
import subprocess
import sys

import pytest

import amends
from amends.app import public


@pytest.mark.parametrize("name", public.__all__)
def test_a_public_name_is_what_the_list_says(name: str) -> None:
    assert getattr(amends, name) is getattr(public, name)
    assert name in dir(amends)


def test_the_list_is_sorted_and_is_what_a_star_import_brings() -> None:
    assert sorted(public.__all__, key=lambda name: (name[0].islower(), name)) == public.__all__
    assert importlib.import_module("amends").__all__ == public.__all__


def test_what_is_not_on_the_list_is_not_there() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Engine'"):
        importlib.import_module("amends").Engine  # noqa: B018  # that it raises is the point


def test_the_portal_is_there_without_an_import_of_its_own() -> None:
    probe = "import amends; print(amends.blocking.open.__name__)"
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=20, check=True
    )
    assert (done.stdout, done.stderr) == ("open\n", "")


def test_a_principal_is_named_in_plain_strings() -> None:
    olga = amends.Principal.named("olga", tenant="acme", kind="operator", roles=["finance"])
    assert (olga.id, olga.tenant, olga.kind, olga.roles) == (
        "olga",
        "acme",
        "operator",
        ("finance",),
    )
    assert amends.Principal.named("alice").tenant == "default"


@pytest.mark.parametrize("names", [{"id": "a b"}, {"id": ""}, {"id": "a", "tenant": "../x"}])
def test_a_principal_with_a_name_that_is_none_is_refused(names: dict[str, str]) -> None:
    with pytest.raises(amends.Refused, match=r"input\.invalid_id"):
        amends.Principal.named(**names)


def test_importing_the_package_alone_loads_nothing_of_it() -> None:
    probe = "import sys, amends; print(*sorted(m for m in sys.modules if m.startswith('amends.')))"
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=20, check=True
    )
    assert done.stdout.split() == []


def test_a_program_without_http_or_workers_loads_neither() -> None:
    probe = "import sys; from amends import Amends, capability; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=20, check=True
    )
    loaded = {name for name in done.stdout.split() if name.startswith("amends.")}
    rooms = ("amends.connectors.http", "amends.worker", "amends.host", "amends.transports")
    assert [name for name in sorted(loaded) if name.startswith(rooms)] == []
    assert "amends.app.amends" in loaded
