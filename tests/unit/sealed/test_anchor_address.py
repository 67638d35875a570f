"""Addresses of anchors: what a URL says, and what it must not."""

import pytest

from amends.sealed.anchor_address import SCHEMA, AnchorAddress, anchor_address
from amends.testing.refusals import refused_with


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("postgresql://role@host/db", AnchorAddress("postgresql://role@host/db", SCHEMA)),
        ("postgres://host:5432/db", AnchorAddress("postgres://host:5432/db", SCHEMA)),
        (
            "postgresql://role@host/db?schema=release_worker",
            AnchorAddress("postgresql://role@host/db", "release_worker"),
        ),
        (
            "postgresql://role@host/db?sslmode=verify-full&schema=one",
            AnchorAddress("postgresql://role@host/db?sslmode=verify-full", "one"),
        ),
        (
            "postgresql:///db?host=/run/postgresql",
            AnchorAddress("postgresql:///db?host=%2Frun%2Fpostgresql", SCHEMA),
        ),
    ],
)
def test_a_url_names_a_server_and_a_schema(url: str, address: AnchorAddress) -> None:
    assert anchor_address(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///anchor.db",
        "postgresql://role:secret@host/db",
        "postgresql://role:@host/db",
        "postgresql://role@host/db?password=secret",
        "postgresql://role@host/db?schema=",
        "postgresql://role@host/db?schema=Release",
        'postgresql://role@host/db?schema=a";drop',
        "postgresql://role@host/db?schema=pg_own",
        "postgresql://role@host/db?schema=" + "a" * 64,
        "postgresql://role@host/db?schema",
        "postgresql://role@[host/db",
        "",
    ],
)
def test_passwords_other_servers_and_odd_schemas_are_refused(url: str) -> None:
    with refused_with("sealed.anchor_url") as caught:
        anchor_address(url)
    assert "secret" not in str(caught.error)
