"""One figure beside another: how often to measure, and how the result is written down."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

ROUNDS: Final = 5
RESULTS: Final = Path(__file__).parent / "results" / "latest.json"
_CHILD_SECONDS: Final = 1_800


class Reach(msgspec.Struct, frozen=True):
    """What a figure has to be: at least or at most `value`, as a ratio or by itself."""

    value: float
    at_most: bool = False
    absolute: bool = False


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Which case is measured beside which, and what is expected of it.

    `against` None measures the case by itself. `lower_is_better` holds for times and sizes.
    """

    name: str
    unit: str
    case: tuple[str, ...]
    against: tuple[str, ...] | None = None
    reach: Reach | None = None
    big: bool = False


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the results."""

    name: str
    value: float
    unit: str
    against: float | None
    ratio: float | None
    reach: str | None
    ok: bool | None


def measure(case: Sequence[str]) -> float:
    """Run one case in a process of its own and return its figure."""
    command = [sys.executable, "-m", "benchmarks.cases", *case]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_CHILD_SECONDS, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(case)} failed:\n{done.stderr[-2000:]}")
    figure = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(figure, int | float)
    return float(figure)


def compare(comparison: Comparison, rounds: int = ROUNDS) -> Row:
    """Measure in turn, so that both meet the same noise, and take medians."""
    values: list[float] = []
    others: list[float] = []
    for _ in range(rounds):
        values.append(measure(comparison.case))
        if comparison.against is not None:
            others.append(measure(comparison.against))
    against = median(others) if others else None
    pairs = zip(values, others, strict=True) if others else ()
    ratios = [value / other for value, other in pairs]
    ratio = median(ratios) if ratios else None
    value = median(values)
    return Row(
        name=comparison.name,
        value=value,
        unit=comparison.unit,
        against=against,
        ratio=ratio,
        reach=_spoken(comparison.reach),
        ok=_reached(comparison.reach, value, ratio),
    )


def _spoken(reach: Reach | None) -> str | None:
    if reach is None:
        return None
    sign = "≤" if reach.at_most else "≥"
    return f"{sign} {reach.value:g}" + ("" if reach.absolute else " ×")


def _reached(reach: Reach | None, value: float, ratio: float | None) -> bool | None:
    if reach is None:
        return None
    figure = value if reach.absolute or ratio is None else ratio
    return figure <= reach.value if reach.at_most else figure >= reach.value


def write(rows: Sequence[Row], path: Path = RESULTS) -> None:
    """Write the rows as a JSON list, replacing what stood there for the same names."""
    known: dict[str, Row] = {}
    if path.exists():
        known = {row.name: row for row in msgspec.json.decode(path.read_bytes(), type=list[Row])}
    known |= {row.name: row for row in rows}
    path.parent.mkdir(exist_ok=True)
    encoded = msgspec.json.encode(list(known.values()))
    path.write_bytes(msgspec.json.format(encoded, indent=1) + b"\n")


def table(rows: Sequence[Row]) -> str:
    """The rows as people read them."""
    lines = [f"{'what':52} {'value':>12} {'beside':>12} {'ratio':>8} {'wanted':>9}  "]
    for row in rows:
        beside = f"{row.against:,.0f}" if row.against is not None else ""
        ratio = f"{row.ratio:.2f} ×" if row.ratio is not None else ""
        mark = {True: "ok", False: "MISSED", None: ""}[row.ok]
        value = f"{row.value:,.0f} {row.unit}"
        lines.append(
            f"{row.name:52} {value:>12} {beside:>12} {ratio:>8} {row.reach or '':>9}  {mark}"
        )
    return "\n".join(lines)
