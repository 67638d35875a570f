"""Required fails closed; if possible says what it is; and a probe that fails is a report."""

import asyncio
import sys
import threading
from pathlib import Path
from typing import Final

import pytest

from amends.containment.entering import Contain, enclose
from amends.containment.findings import ContainmentReport
from amends.containment.probing import find_bubblewrap, probe
from amends.contracts.errors import Unavailable
from tests.unit.containment.stage import bare

ABSENT: Final = ("/nowhere/bwrap",)


def fake(folder: Path, program: str) -> tuple[str, ...]:
    """Something that is called as bwrap is, and is a Python program."""
    path = folder / "bwrap.py"
    path.write_text(program)
    return (sys.executable, "-I", "-S", str(path))


async def test_where_bubblewrap_is_missing_nothing_holds() -> None:
    report = await probe(bare(), bubblewrap=ABSENT)
    assert report == ContainmentReport(reason="/nowhere/bwrap cannot be run")


async def test_elsewhere_than_on_linux_nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert await probe(bare()) == ContainmentReport(reason="this system is not Linux")


async def test_the_last_line_of_what_failed_is_the_reason(tmp_path: Path) -> None:
    failing = fake(
        tmp_path,
        "import sys\n"
        "if '--version' in sys.argv: sys.exit()\n"
        "sys.exit('bwrap: one\\nbwrap: No permissions to create \\x1b[1mnew namespace.')\n",
    )
    report = await probe(bare(), bubblewrap=failing)
    assert report.reason == "bwrap: No permissions to create [1mnew namespace"
    assert not report.ran


async def test_what_fails_without_a_word_is_named(tmp_path: Path) -> None:
    report = await probe(bare(), bubblewrap=fake(tmp_path, "import sys; sys.exit(1)"))
    assert report.reason == f"{sys.executable} failed"


async def test_an_answer_that_is_none_is_no_finding(tmp_path: Path) -> None:
    report = await probe(bare(), bubblewrap=fake(tmp_path, "print('{}')"))
    assert report == ContainmentReport(reason="the probe inside printed something else")


async def test_what_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amends.containment.probing._LIMIT_S", 0.05)
    report = await probe(bare(), bubblewrap=fake(tmp_path, "import time; time.sleep(60)"))
    assert report.reason == f"{sys.executable} did not end in time"


def children() -> str:
    """The processes that this thread has started and not reaped."""
    return Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text()


async def test_a_probe_that_is_given_up_leaves_no_process(tmp_path: Path) -> None:
    before = children()
    probing = asyncio.ensure_future(
        probe(bare(), bubblewrap=fake(tmp_path, "import time; time.sleep(60)"))
    )
    for _ in range(20):
        await asyncio.sleep(0)
    assert children() != before
    probing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probing
    assert children() == before


async def test_required_starts_nothing_where_it_does_not_hold() -> None:
    with pytest.raises(Unavailable) as caught:
        await enclose(bare(), Contain.REQUIRED, bubblewrap=ABSENT)
    assert caught.value.code == "containment.unavailable"
    assert caught.value.details == {"broken": [], "reason": "/nowhere/bwrap cannot be run"}
    assert "apt-get install bubblewrap" in caught.value.next_step


async def test_if_possible_goes_on_and_says_that_nothing_is_contained() -> None:
    enclosure = await enclose(bare(), Contain.IF_POSSIBLE, bubblewrap=ABSENT)
    assert enclosure.prefix == ()
    assert enclosure.environment == {"LANG": "C.UTF-8"}
    assert not enclosure.report.contained


async def test_off_tries_nothing_and_says_so() -> None:
    enclosure = await enclose(bare(), Contain.OFF)
    assert enclosure.prefix == ()
    assert enclosure.report.summary == "Not contained: it was switched off."


def test_bubblewrap_is_called_by_its_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bwrap"
    program.touch(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_bubblewrap() == (str(program),)
    program.unlink()
    assert find_bubblewrap() == ("bwrap",)


@pytest.mark.parametrize("word", ["required", "if_possible", "off"])
def test_the_choice_is_a_word(word: str) -> None:
    assert Contain(word).value == word
