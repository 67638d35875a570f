"""Fixtures for the rules of one record: the same rules in every time zone."""

import time
from collections.abc import Iterator

import pytest

ZONES = ("UTC", "America/New_York", "Asia/Kolkata", "Pacific/Kiritimati", "Europe/Paris")


@pytest.fixture(params=ZONES)
def local_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The process runs in each of these zones in turn."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()
