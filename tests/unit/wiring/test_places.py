"""Store URLs: which file one names, and that upkeep makes none."""

from pathlib import Path

import pytest

from amends.testing.refusals import refused_with
from amends.wiring.places import (
    OnServer,
    beside,
    beside_of,
    database_of,
    existing_database,
    existing_place,
    file_of,
)

SERVER = "postgresql://me:canary@host:5432/shop"


def test_a_url_names_a_file_from_the_working_directory_or_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert database_of("sqlite:///amends.db") == tmp_path / "amends.db"
    assert database_of("sqlite:////srv/amends.db") == Path("/srv/amends.db")
    assert database_of("memory:") is None


@pytest.mark.parametrize("url", ["", "sqlite:///", "amends.db", "mysql://host/db", "memory"])
def test_any_other_url_is_refused(url: str) -> None:
    with refused_with("store.url_unknown"):
        database_of(url)


def test_upkeep_needs_a_file_that_is_there(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/amends.db"
    assert file_of(url) == tmp_path / "amends.db"
    with refused_with("store.not_found") as caught:
        existing_database(url)
    assert str(tmp_path) not in caught.error.message
    (tmp_path / "amends.db").touch()
    assert existing_database(url) == tmp_path / "amends.db"


def test_a_store_on_a_server_is_no_file_and_its_key_lies_in_the_folder_that_the_url_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert database_of(SERVER) is None
    assert beside_of(SERVER) == tmp_path / "amends-shop"
    assert beside_of(f"{SERVER}?pooled=true&folder=/var/lib/amends") == Path(
        "/var/lib/amends/amends-shop"
    )
    assert beside_of("postgresql://host/../a b") == tmp_path / "amends-.._a_b"
    place = existing_place(SERVER)
    assert isinstance(place, OnServer)
    assert beside(place) == tmp_path / "amends-shop"
    for named in (file_of, existing_database):
        with refused_with("store.on_a_server") as caught:
            named(SERVER)
        assert "canary" not in str(caught.error)


def test_a_store_in_memory_has_no_file() -> None:
    for named in (file_of, existing_database):
        with refused_with("store.no_file"):
            named("memory:")


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    with refused_with("store.not_found"):
        existing_database(f"sqlite:///{tmp_path}")
