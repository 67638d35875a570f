"""Anchors by the text that names them: a path, or a URL of a server."""

from pathlib import Path

from amends.testing.refusals import refused_with
from amends.wiring.anchors import anchor_place, text_of
from amends.wiring.hosts import worker_command
from amends.wiring.places import OnServer
from amends.wiring.workers import WorkerPlace

URL = "postgresql://release_worker@anchors/anchors?schema=release_worker"


def test_a_url_of_postgresql_is_a_server_and_everything_else_a_path() -> None:
    assert anchor_place("anchor.db") == Path("anchor.db")
    assert anchor_place(URL) == OnServer(URL)
    for text in ("/var/lib/anchor.db", URL):
        assert text_of(anchor_place(text)) == text


def test_a_worker_s_command_names_the_server_of_its_anchor() -> None:
    place = WorkerPlace(directory=Path("state"), scope="tenant-a", anchor=anchor_place(URL))
    assert worker_command("release_adapter:release", place)[-2:] == ["--anchor", URL]


def test_a_url_with_a_password_names_no_anchor() -> None:
    with refused_with("sealed.anchor_url"):
        anchor_place("postgresql://role:secret@host/db")
