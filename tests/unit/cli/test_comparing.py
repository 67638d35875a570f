"""`amends worker compare` shows what nobody claims, and ends with its verdict."""

from pathlib import Path

import pytest

from amends.ledger.records import LedgerState
from tests.unit.cli.shell import Shell
from tests.unit.wiring.sides import DONE, TOOL, Sides


@pytest.mark.case("CMP-08")
def test_operators_see_what_nobody_claims_and_the_command_says_no(
    tmp_path: Path, shell: Shell
) -> None:
    sides = Sides(tmp_path)
    options = ("--state", str(sides.place.directory), "--scope", "tenant-a")
    sides.story(DONE, LedgerState.SUCCEEDED)
    ahead = sides.story(DONE, LedgerState.PENDING)
    told = shell("worker", "compare", str(sides.ledgers), *options)
    assert (told.code, ahead in told.out) == (0, True)
    orphan = sides.story(DONE, None)
    told = shell("worker", "compare", str(sides.ledgers), *options)
    assert told.code == 1
    assert f"orphan       {TOOL}  {orphan}" in told.out
    assert "journal succeeded, ledger none" in told.out
    assert told.out.splitlines()[-1] == "1 of 3 entries agree."
    entries = shell("worker", "compare", str(sides.ledgers), *options, "--json").json["data"]
    assert [one["standing"] for one in entries["entries"]] == ["agreed", "ahead", "orphan"]
