"""Files of rules as they are held: read whole, again when they change, kept when they break."""

import asyncio
import logging
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from amends import Amends, Attempt, capability
from amends.contracts.enums import Mode, PrincipalKind, SideEffect
from amends.contracts.errors import Misuse
from amends.governance.policy import CapabilityPolicy, PolicyQuestion, PolicyVerdict
from amends.testing import builders
from amends.testing.builders import principal
from amends.testing.refusals import refused_with
from amends.wiring.opening import Settings, policy_of
from amends.wiring.policies import PolicyFile
from tests.unit.governance.policies import question

ALLOW = "version: 1\nrules:\n  - {id: one, effect: allow}\n"
DENY = "version: 1\nrules:\n  - {id: two, effect: deny}\n"
BROKEN = (
    "version: 1\nrules:\n  - {id: one, effect: alow}\n  - {id: two, when: '1 +', effect: deny}\n"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(ALLOW)
    return path


def replaced(path: Path, text: str) -> None:
    """As careful programs do it: written beside, and put into its place as a whole."""
    beside = path.with_suffix(".new")
    beside.write_text(text)
    beside.rename(path)


@pytest.mark.rule("PO-2")
def test_a_file_that_was_changed_is_noticed_with_the_next_question(file: Path) -> None:
    policy = PolicyFile(file)
    before = policy.revision
    first = policy.decide(question())
    assert (first.verdict, first.revision) == (PolicyVerdict.ALLOW, before)
    replaced(file, DENY)
    second = policy.decide(question())
    assert (second.verdict, second.rules) == (PolicyVerdict.DENY, ("two",))
    assert second.revision == policy.revision != before


def test_the_revision_is_that_of_the_content(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(ALLOW)
    policy = PolicyFile(file)
    assert policy.revision == PolicyFile(other).revision
    os.utime(file, (1, 1))
    before = policy.current
    assert policy.current is before


@pytest.mark.rule("PO-2")
@pytest.mark.parametrize("broken", [BROKEN, "", "version: [", None])
def test_a_broken_file_keeps_the_old_rules_and_says_so(
    file: Path, broken: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    policy = PolicyFile(file)
    before = policy.revision
    if broken is None:
        file.unlink()
    else:
        replaced(file, broken)
    with caplog.at_level(logging.WARNING, "amends.policy"):
        assert policy.decide(question()).verdict is PolicyVerdict.ALLOW
        assert policy.revision == before
    assert policy.fault is not None
    [told] = caplog.messages
    assert before in told
    with pytest.raises(Misuse):
        policy.reload()
    assert policy.revision == before
    replaced(file, DENY)
    assert policy.decide(question()).rules == ("two",)
    assert policy.fault is None


def test_a_file_that_is_being_written_is_not_taken_half(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = PolicyFile(file)
    before, read = policy.revision, Path.read_bytes

    def written_meanwhile(path: Path) -> bytes:
        data = read(path)
        with path.open("a") as more:
            more.write("  - {id: three, effect: deny}\n")
        return data

    replaced(file, "version: 1\nrules:\n  - {id: half, effect: allow}\n")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", written_meanwhile)
        assert policy.revision == before
    assert policy.decide(question()).rules == ("three",)


def test_reading_again_can_be_asked_for(file: Path) -> None:
    policy = PolicyFile(file)
    replaced(file, DENY)
    assert policy.reload() == policy.revision


def test_a_file_that_is_broken_at_the_start_is_refused_with_all_its_faults(file: Path) -> None:
    file.write_text(BROKEN)
    with refused_with("policy.file_invalid") as caught:
        PolicyFile(file)
    assert caught.error.details["file"] == "policy.yaml"
    faults = caught.error.details["faults"]
    assert isinstance(faults, list)
    assert [(one["line"], one["rule"], one["code"]) for one in faults if isinstance(one, dict)] == [
        (3, "one", "policy.value_invalid"),
        (4, "two", "policy.condition_invalid"),
    ]


def test_many_faults_are_told_in_short(file: Path) -> None:
    file.write_text("version: 1\nrules:\n" + "".join(f"  - {{id: r{n}}}\n" for n in range(30)))
    with refused_with("policy.file_invalid") as caught:
        PolicyFile(file)
    assert "and 10 more" in caught.error.message


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with refused_with("policy.file_unreadable"):
        PolicyFile(tmp_path / "none.yaml")


EXAMPLE = Path(__file__).parents[3] / "examples" / "policy.yaml"
AGENT = principal("bot", kind=PrincipalKind.AGENT)
CONTRACTOR = principal("carol", groups=("contractors",))


@pytest.mark.parametrize(
    ("asked", "decided_by"),
    [
        (question(), ("people-may-charge",)),
        (question({"amount": 100_001}), ("large-amounts",)),
        (replace(question(), mode=Mode.COMPENSATE, input=None), ("people-may-charge",)),
        (question({"amount": 5_000}, principal=AGENT), ("agents-charge-small-amounts",)),
        (question({"amount": 5_001}, principal=AGENT), ("policy.no_rule_allows",)),
        (question(principal=CONTRACTOR), ("no-contractors",)),
    ],
)
def test_the_example_decides_as_its_page_says(
    asked: PolicyQuestion, decided_by: tuple[str, ...]
) -> None:
    paying = builders.capability(side_effects=(SideEffect.FINANCIAL,))
    decision = PolicyFile(EXAMPLE).decide(replace(asked, capability=paying))
    assert decision.rules == decided_by


def test_settings_name_a_policy_or_its_file(file: Path) -> None:
    own = CapabilityPolicy()
    assert policy_of(Settings(policy=own)) is own
    assert isinstance(policy_of(Settings()), CapabilityPolicy)
    for name in (str(file), file):
        assert isinstance(policy_of(Settings(policy=name)), PolicyFile)


@capability("notes.keep")
async def keep(note: dict[str, str], attempt: Attempt) -> dict[str, str]:
    return {"kept": note["text"]}


async def test_a_program_names_its_file_of_rules(file: Path) -> None:
    async with Amends.open("memory:", [keep], policy=file) as amends:
        assert (await amends.execute(keep, {"text": "a"})).status == "committed"
        replaced(file, DENY)
        with refused_with("policy.denied"):
            await amends.execute(keep, {"text": "a"})


def test_a_program_whose_rules_are_broken_opens_nothing(file: Path, tmp_path: Path) -> None:
    file.write_text(BROKEN)
    store = tmp_path / "store.db"
    opened = False

    async def open_it() -> None:
        nonlocal opened
        async with Amends.open(f"sqlite:///{store}", [keep], policy=str(file)):
            opened = True

    with refused_with("policy.file_invalid"):
        asyncio.run(open_it())
    assert not opened
    assert not store.exists()
