"""The command that plays small worlds: how far it has come, and how to see a broken one again."""

import pytest

from amends.simulation.__main__ import main
from amends.simulation.scenarios import Playhouse
from amends.transactions import compensation


def test_it_says_how_far_it_has_come_and_what_it_saw(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scenarios", "30", "--seed", "7", "--seen"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("30 of 30 scenarios, ")
    assert said[0].endswith("a second: no law broken")
    house = Playhouse()
    house.play_all(range(7, 37))
    assert sorted(said[1:]) == sorted(f"{times:9}  {what}" for what, times in house.seen.items())


def test_it_names_the_seed_of_a_broken_law_and_how_to_play_it_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compensation, "check_slots", lambda *_: None)
    assert main(["--scenarios", "500"]) == 1
    said = capsys.readouterr().out
    again = said.splitlines()[-1].split()
    assert again[:4] == ["Again:", "python", "-m", "amends.simulation"]
    assert "holders" in said
    assert f"The story of seed {again[-1]}:" in said
    assert main(again[4:]) == 1
    assert capsys.readouterr().out == said
