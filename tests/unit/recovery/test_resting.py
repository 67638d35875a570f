"""What cannot be helped just now is left alone, longer each time, and forgotten once helped."""

from datetime import UTC, datetime

from amends.contracts.times import after_ms
from amends.recovery.resting import Resting

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_rest_doubles_up_to_a_minute() -> None:
    resting, now, spans = Resting(), NOW, []
    for _ in range(9):
        resting.rest("one", now)
        end = next(
            ms for ms in range(0, 70_000, 500) if not resting.rests("one", after_ms(now, ms))
        )
        spans.append(end)
        now = after_ms(now, end)
    assert spans == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]


def test_what_is_no_longer_due_is_forgotten() -> None:
    resting = Resting()
    resting.rest("one", NOW)
    resting.rest("two", NOW)
    resting.keep({"two", "three"})
    assert len(resting) == 1
    assert not resting.rests("one", NOW)
    assert resting.rests("two", NOW)
