"""`amends worker containment` says what holds, and ends well only where everything does."""

import pytest

from amends.cli import exits
from amends.containment import probing
from amends.containment.description import Containment
from amends.containment.findings import ContainmentReport, Finding, Property, State
from tests.unit.cli.shell import Shell


def found(monkeypatch: pytest.MonkeyPatch, *findings: Finding) -> None:
    async def probe(_: Containment) -> ContainmentReport:
        return ContainmentReport(tool="bubblewrap 0.8.0", findings=findings, reason="none here")

    monkeypatch.setattr(probing, "probe", probe)


def test_what_holds_is_told_one_by_one(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, Finding(Property.PID, State.HELD), Finding(Property.NET, State.OPEN))
    told = shell("worker", "containment")
    assert told.code == exits.OK
    assert [line.split()[:2] for line in told.out.splitlines()[:-1]] == [
        ["held", "pid"],
        ["open", "net"],
    ]
    assert told.out.splitlines()[-1] == (
        "Contained by bubblewrap 0.8.0, but for what its grants open: net."
    )


def test_what_is_broken_ends_it_as_unavailable(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(monkeypatch, Finding(Property.PID, State.BROKEN))
    said = shell.json("worker", "containment")
    assert said.error == "containment.unavailable"
    assert said.json["data"]["findings"] == {"pid": "broken"}
    assert shell("worker", "containment").code == exits.OF_FAMILY["unavailable"]


def test_where_there_is_no_container_it_says_why(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(monkeypatch)
    assert "Not contained: none here." in shell("worker", "containment").out
