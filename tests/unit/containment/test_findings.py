"""Each property is judged by what was tried, and one that does not hold contains nothing."""

from typing import Any, Final

import pytest
from msgspec.structs import replace

from amends.containment.description import Containment
from amends.containment.findings import (
    MEANING,
    NAMESPACES,
    ContainmentReport,
    Finding,
    Property,
    State,
    judge,
)
from tests.unit.containment.stage import bare, held_inside, held_outside

NO_CAPABILITY: Final = held_inside().status
BREAKS: Final[list[tuple[Property, dict[str, Any]]]] = [
    (Property.PID, {"processes": (1, 2, 77)}),
    (Property.NET, {"reached": ("bait",)}),
    (Property.NET, {"interfaces": ("eth0", "lo")}),
    (Property.READ_ONLY, {"written": ("/usr/lib",)}),
    (Property.READ_ONLY, {"not_sealed": ("/proc",)}),
    (Property.HIDDEN, {"read": ("/tmp/bait",)}),
    (Property.NO_NEW_PRIVILEGES, {"status": NO_CAPABILITY | {"NoNewPrivs": "0"}}),
    (Property.NO_NEW_PRIVILEGES, {"status": NO_CAPABILITY | {"NoNewPrivs": ""}}),
    *(
        (Property.NO_CAPABILITIES, {"status": NO_CAPABILITY | {name: "0000000000000001"}})
        for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")
    ),
    (Property.NO_CAPABILITIES, {"status": {"NoNewPrivs": "1"}}),
    (Property.NEW_SESSION, {"session": 0}),
    (Property.ENVIRONMENT, {"environment": ("AWS_SECRET", "LANG")}),
    (Property.DESCRIPTORS, {"descriptors": (0, 1, 2, 7)}),
]


def states(found: tuple[Finding, ...]) -> dict[Property, State]:
    return {one.property: one.state for one in found}


def broken(inside: dict[str, Any], outside: dict[str, Any], containment: Containment) -> set[str]:
    found = judge(replace(held_inside(), **inside), replace(held_outside(), **outside), containment)
    return {one.property for one in found if one.state is State.BROKEN}


def test_a_container_that_holds_holds_in_every_property() -> None:
    found = judge(held_inside(), held_outside(), bare())
    assert states(found) == dict.fromkeys(Property, State.HELD)


@pytest.mark.parametrize(("one", "change"), BREAKS, ids=lambda one: str(one)[:40])
def test_what_got_through_breaks_its_property_and_no_other(
    one: Property, change: dict[str, Any]
) -> None:
    assert broken(change, {}, bare()) == {one}


@pytest.mark.parametrize("one", NAMESPACES)
def test_a_namespace_that_is_shared_or_unknown_is_broken(one: Property) -> None:
    outside = held_outside().namespaces
    name = NAMESPACES[one]
    assert broken({"namespaces": held_inside().namespaces | {name: outside[name]}}, {}, bare()) == {
        one
    }
    lacking = {key: value for key, value in held_inside().namespaces.items() if key != name}
    assert broken({"namespaces": lacking}, {}, bare()) == {one}


def test_a_child_that_outlives_its_parent_is_broken() -> None:
    assert broken({}, {"died_with_parent": False}, bare()) == {Property.DIES_WITH_PARENT}


def test_a_descriptor_that_was_handed_over_is_expected() -> None:
    assert broken({"descriptors": (0, 1, 2, 7)}, {"descriptors": (7,)}, bare()) == set()


def test_a_network_that_is_granted_whole_is_open_and_not_held() -> None:
    opened = replace(bare(), whole_network=True)
    found = judge(replace(held_inside(), reached=("bait",)), held_outside(), opened)
    assert states(found)[Property.NET] is State.OPEN
    report = ContainmentReport(tool="bubblewrap 0.8.0", findings=found)
    assert report.contained
    assert report.summary == ("Contained by bubblewrap 0.8.0, but for what its grants open: net.")


def test_every_property_has_a_meaning() -> None:
    assert set(MEANING) == set(Property)


def test_a_report_says_contained_only_when_nothing_is_broken() -> None:
    found = judge(held_inside(), held_outside(), bare())
    report = ContainmentReport(tool="bubblewrap 0.8.0", findings=found)
    assert (report.contained, report.broken, report.open) == (True, (), ())
    assert report.summary == "Contained by bubblewrap 0.8.0."
    assert replace(report, as_root=True).summary == "Contained by bubblewrap 0.8.0 as root."
    one = replace(report, findings=(*found[1:], Finding(Property.PID, State.BROKEN)))
    assert (one.contained, one.broken) == (False, (Property.PID,))
    assert one.summary == "Not contained: these do not hold: pid."


def test_a_report_without_findings_says_why() -> None:
    report = ContainmentReport(reason="bwrap cannot be run")
    assert (report.ran, report.contained) == (False, False)
    assert report.summary == "Not contained: bwrap cannot be run."
    assert report.document() == {
        "contained": False,
        "tool": "",
        "as_root": False,
        "reason": "bwrap cannot be run",
        "findings": {},
    }
