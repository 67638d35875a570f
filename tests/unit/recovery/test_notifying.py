"""People are told about approvals by what is durable: at least once, and in nobody's way."""

import asyncio
import logging
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.approvals import ApprovalRequest
from amends.contracts.declarations import DataContract
from amends.contracts.errors import Unavailable
from amends.contracts.json_types import Json
from amends.contracts.notices import Notice, NoticeCursor
from amends.recovery.notifying import CURSORS, TRIES, Notifier, link_to
from amends.testing.builders import approval_request
from amends.testing.workbench import BOB, Workbench
from tests.unit.runtime.desk import Desk, action, ask, hidden

LINK = "https://desk.example/{tenant}/approvals/{approval_id}"


class Heard:
    """A channel that keeps what it is told, and fails as often as it is told to."""

    def __init__(self, name: str = "heard", fails: int = 0) -> None:
        self.name = name
        self.fails = fails
        self.tries = 0
        self.notices: list[Notice] = []
        self.once = asyncio.Event()

    async def tell(self, notice: Notice) -> None:
        self.tries += 1
        if self.fails:
            self.fails -= 1
            raise OSError("hunter2")
        self.notices.append(notice)
        self.once.set()

    @property
    def events(self) -> list[str]:
        return [one.event for one in self.notices]


def guarded(place: Path | None = None, **changes: object) -> Workbench:
    policy = ApprovalPolicy(reason="Two people look at payments.", evidence=("ticket",))
    return Workbench(served=[Desk().served(approval=policy, **changes)], file=place)


def following(bench: Workbench, channel: Heard) -> Notifier:
    return Notifier(bench.store, channel, link=LINK)


async def until_told(notifier: Notifier) -> None:
    while await notifier.round():
        pass


async def cursor_of(bench: Workbench, channel: Heard) -> NoticeCursor | None:
    found = await bench.store.get(NoticeCursor, CURSORS, f"notices:{channel.name}")
    return found.document if found else None


@pytest.mark.rule("AP-3")
async def test_a_request_and_its_decisions_are_told_with_a_link(tmp_path: Path) -> None:
    heard = Heard()
    async with guarded(tmp_path / "amends.db") as bench:
        waiting = await ask(bench, action(id="act_1"))
        await until_told(following(bench, heard))
        (notice,) = heard.notices
        assert (notice.event, notice.status, notice.revision) == (
            "approval_requested",
            "pending",
            1,
        )
        assert notice.link == f"https://desk.example/acme/approvals/{waiting.approval_id}"
        assert (notice.requester, notice.evidence) == ("alice", ("ticket",))
        assert notice.reason == "Two people look at payments."
        await bench.bob.approve(waiting, evidence={"ticket": "T-1"}, reason="looked")
        await ask(bench, action(id="act_1"))
        await until_told(following(bench, heard))
        assert heard.events == ["approval_requested", "approval_granted"]
        assert len({one.notice_id for one in heard.notices}) == 2


@pytest.mark.rule("AP-3", "RD-2")
async def test_a_notice_holds_no_input_and_nothing_that_people_wrote() -> None:
    heard = Heard()
    async with guarded(data=DataContract(redaction_required=True)) as bench:
        secret: Json = {"amount": 500, "note": "hunter2"}
        waiting = await ask(bench, action(id="act_1", input=secret))
        await bench.bob.deny(waiting, reason="hunter2")
        await until_told(following(bench, heard))
        assert heard.events == ["approval_denied"]
        assert b"hunter2" not in msgspec.json.encode(heard.notices)


@pytest.mark.rule("AP-3")
async def test_an_expiry_is_told_and_what_waits_no_more_is_not() -> None:
    heard = Heard()
    async with guarded() as bench:
        await ask(bench, action(id="act_1"))
        bench.wait(24 * 3600)
        await until_told(following(bench, heard))
        assert heard.notices == []
        await bench.sweep()
        await until_told(following(bench, heard))
        assert heard.events == ["approval_expired"]


async def test_what_was_decided_long_ago_is_not_told_by_a_new_channel() -> None:
    heard = Heard()
    async with guarded() as bench:
        waiting = await ask(bench, action(id="act_1"))
        await bench.bob.deny(waiting)
        bench.wait(timedelta(days=1).total_seconds() + 1)
        await ask(bench, action(id="act_2"))
        await until_told(following(bench, heard))
        assert [(one.event, one.action_id) for one in heard.notices] == [
            ("approval_requested", "act_2")
        ]


async def test_a_crash_between_telling_and_remembering_tells_again_under_the_same_id(
    tmp_path: Path,
) -> None:
    heard = Heard()
    async with guarded(tmp_path / "amends.db") as bench:
        await ask(bench, action(id="act_1"))
        tell = heard.tell

        async def told_and_dead(notice: Notice) -> None:
            await tell(notice)
            raise asyncio.CancelledError

        heard.tell = told_and_dead  # type: ignore[method-assign]  # dies with the notice sent
        with pytest.raises(asyncio.CancelledError):
            await following(bench, heard).round()
        heard.tell = tell  # type: ignore[method-assign]  # the next process
        await bench.restart()
        assert not await following(bench, heard).round()  # the dead one still holds it
        bench.wait(61)
        await until_told(following(bench, heard))
        first, again = heard.notices
        assert first == again


async def test_a_channel_that_fails_is_tried_later_and_later_and_then_given_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard = Heard(fails=TRIES)
    async with guarded() as bench:
        await ask(bench, action(id="act_1"))
        waiting = await ask(bench, action(id="act_2"))
        notifier = following(bench, heard)
        rests = [1, 2, 4, 8, 16, 32, 64]
        with caplog.at_level(logging.WARNING, "amends.notices"):
            for tried, rest in enumerate(rests, start=1):
                assert not await notifier.round()
                bench.wait(rest - 0.5)
                assert not await notifier.round()
                assert heard.tries == tried
                bench.wait(0.5)
            await until_told(notifier)
        assert [one.action_id for one in heard.notices] == [waiting.action_id]
        cursor = await cursor_of(bench, heard)
        assert cursor is not None
        assert (cursor.failures, cursor.given_up) == (0, 1)
        assert "hunter2" not in caplog.text
        assert "OSError" in caplog.text


async def test_a_failing_channel_stands_in_no_others_way_and_in_no_pipelines() -> None:
    dead, alive = Heard("dead", fails=100), Heard("alive")
    async with guarded() as bench:
        waiting = await ask(bench, action(id="act_1"))
        await asyncio.gather(*(until_told(following(bench, one)) for one in (dead, alive)))
        assert alive.events == ["approval_requested"]
        await bench.bob.approve(waiting, evidence={"ticket": "T-1"})
        assert (await ask(bench, action(id="act_1"))).status == "committed"


async def test_two_processes_that_follow_one_store_do_not_both_tell() -> None:
    heard = Heard()
    async with guarded() as bench:
        await ask(bench, action(id="act_1"))
        other = Heard()
        tell = heard.tell

        async def slowly(notice: Notice) -> None:
            await until_told(following(bench, other))
            await tell(notice)

        heard.tell = slowly  # type: ignore[method-assign]  # the other comes while this one tells
        await until_told(following(bench, heard))
        await until_told(following(bench, other))
        assert (heard.events, other.events) == (["approval_requested"], [])


async def test_who_loses_the_race_for_a_channel_tells_nothing() -> None:
    one, other = Heard(), Heard()
    async with guarded() as bench:
        await ask(bench, action(id="act_1"))
        await asyncio.gather(*(following(bench, each).round() for each in (one, other)))
        assert len(one.notices) + len(other.notices) == 1


async def test_a_feed_without_approvals_is_passed_over_without_a_write_for_each() -> None:
    heard = Heard()
    async with Workbench(served=[Desk().served()]) as bench:
        assert not await following(bench, heard).round()
        for _ in range(3):
            await ask(bench, action())
        notifier = following(bench, heard)
        await until_told(notifier)
        first = await cursor_of(bench, heard)
        await ask(bench, action())
        await until_told(notifier)
        assert first is not None
        assert await cursor_of(bench, heard) == first
        assert heard.notices == []


async def test_how_far_a_quiet_channel_has_come_is_kept_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("amends.recovery.notifying._KEPT_EVERY", 2)
    heard = Heard()
    async with Workbench(served=[Desk().served()]) as bench:
        positions = []
        notifier = following(bench, heard)
        for _ in range(3):
            await ask(bench, action())
            await until_told(notifier)
            cursor = await cursor_of(bench, heard)
            assert cursor is not None
            positions.append(cursor.position)
        assert positions == sorted(set(positions))


async def test_a_request_that_cannot_be_found_is_passed_over() -> None:
    heard = Heard()
    async with guarded() as bench:
        await ask(bench, action(id="act_1"))
        undo = hidden(bench, ApprovalRequest)
        await until_told(following(bench, heard))
        undo()
        assert heard.notices == []
        assert await cursor_of(bench, heard) is not None


async def test_a_store_that_is_away_for_a_while_ends_nothing() -> None:
    heard = Heard()
    async with guarded() as bench:
        notifier = Notifier(bench.store, heard, poll_s=0.001)
        feed, away = bench.store.feed, [True]

        async def sometimes(**asked: int) -> object:
            if away:
                away.pop()
                raise Unavailable("store.unavailable", "away")
            return await feed(**asked)

        bench.store.feed = sometimes  # type: ignore[method-assign,assignment]  # away once
        running = asyncio.create_task(notifier.run())
        await ask(bench, action(id="act_1"))
        async with asyncio.timeout(5):
            await heard.once.wait()
        running.cancel()
        await asyncio.wait((running,))
        assert away == []


def test_what_is_filled_into_a_link_stays_one_segment() -> None:
    request = replace(approval_request(), tenant="a/../b c")
    assert link_to("https://d/{tenant}?x={action_id}{other}", request).startswith(
        "https://d/a%2F..%2Fb%20c?x="
    )
    assert link_to("", request) == ""
    assert BOB.id not in link_to("{approval_id}{transaction_id}", request)
