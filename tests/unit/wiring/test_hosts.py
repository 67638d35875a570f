"""A host's ledgers, and the command of a worker; the example starts one."""

from contextlib import closing
from pathlib import Path

from amends.ledger.document import decode_ledger
from amends.ledger.plans import make_plan
from amends.protocol.versions import Version
from amends.testing.refusals import refused_with
from amends.wiring.hosts import Ledgers, draw_bootstrap, worker_command
from amends.wiring.workers import WorkerPlace

PLAN = make_plan([("publish", "release.publish 1.2.3")])


def test_each_plan_has_a_ledger_that_is_made_once_and_opened_under_a_fresh_fence(
    tmp_path: Path,
) -> None:
    with closing(Ledgers.make(tmp_path / "host")) as ledgers:
        ledgers.create("release-42", PLAN)
        with refused_with("sealed.initialised"):
            ledgers.create("release-42", PLAN)
    with closing(Ledgers.open(tmp_path / "host")) as ledgers:
        opens = ledgers.opener("release-42")
        first, second = opens(), opens()
        assert decode_ledger(first.payload).plan_fingerprint == PLAN.fingerprint
        assert second.fence == first.fence + 1
        with refused_with("sealed.fenced"):
            first.save(first.payload)
        with refused_with("sealed.not_initialised"):
            ledgers.opener("release-43")()


def test_the_command_of_a_worker_names_its_place_and_no_secret() -> None:
    place = WorkerPlace(directory=Path("state"), scope="tenant-a")
    plain = worker_command("release_adapter:release", place)
    assert plain[1:] == [
        "-m", "amends", "worker", "run", "release_adapter:release", "--state", "state",
        "--scope", "tenant-a",
    ]  # fmt: skip
    elsewhere = WorkerPlace(
        directory=Path("state"), scope="tenant-a", anchor=Path("anchor"), encrypted=True
    )
    more = worker_command("release_adapter:release", elsewhere)
    assert more == [*plain, "--anchor", "anchor", "--encrypted"]


def test_each_session_has_a_name_and_a_key_of_its_own() -> None:
    one, other = draw_bootstrap(), draw_bootstrap(Version.LINES)
    assert one.session_id != other.session_id
    assert one.key != other.key
    assert (one.version, other.version) == (Version.SEALED, Version.LINES)
