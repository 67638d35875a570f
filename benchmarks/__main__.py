"""`python -m benchmarks [--big] [NAME …]`: measure, print the table, write the results."""

import argparse
from collections.abc import Sequence
from typing import Final

from benchmarks.pg_server import server_for_all
from benchmarks.rows import ROUNDS, Comparison, Reach, Row, compare, table, write

BARE: Final = ("bare",)
SAME_ROWS: Final = ("same_rows",)
AT_64: Final = ("execute", "64")

COMPARISONS: Final = (
    Comparison(
        name="execute at 64, beside the bare loop",
        unit="/s",
        case=AT_64,
        against=BARE,
        reach=Reach(1.0),
    ),
    Comparison(
        name="execute at 64, beside the same-rows loop",
        unit="/s",
        case=AT_64,
        against=SAME_ROWS,
        reach=Reach(1.5),
    ),
    Comparison(
        name="execute at 64, beside DBOS with 1 thread",
        unit="/s",
        case=AT_64,
        against=("dbos", "1"),
        reach=Reach(20),
    ),
    Comparison(
        name="execute at 64, beside DBOS with 4 threads",
        unit="/s",
        case=AT_64,
        against=("dbos", "4"),
        reach=Reach(20),
    ),
    Comparison(
        name="latency at 1, beside the same-rows loop",
        unit="µs",
        case=("latency", "1"),
        against=("same_rows_latency",),
        reach=Reach(2.0, at_most=True),
    ),
    Comparison(
        name="seal and open 256 bytes, beside the bare cipher",
        unit="µs",
        case=("sealed", "256"),
        against=("cipher", "256"),
        reach=Reach(4.0, at_most=True),
    ),
    Comparison(
        name="seal and open 4096 bytes, beside the bare cipher",
        unit="µs",
        case=("sealed", "4096"),
        against=("cipher", "4096"),
        reach=Reach(4.0, at_most=True),
    ),
    Comparison(
        name="a dispatch to a child, beside its bare syncs",
        unit="µs",
        case=("dispatch",),
        against=("syncs",),
        reach=Reach(1.5, at_most=True),
    ),
    *(
        Comparison(
            name=f"open a journal of {count} operations, beside bare JSON",
            unit="µs",
            case=("journal", count),
            against=("journal_json", count),
        )
        for count in ("64", "10000")
    ),
    Comparison(
        name="verification of a bundle, beside bare Ed25519",
        unit="/s",
        case=("verify",),
        against=("ed25519",),
        reach=Reach(0.8),
    ),
    Comparison(
        name="a decision over 200 rules, 20 conditions reached",
        unit="µs",
        case=("decision", "20"),
        against=("conditions", "20"),
        reach=Reach(50, at_most=True, absolute=True),
    ),
    Comparison(
        name="a decision over 200 rules, 200 conditions reached",
        unit="µs",
        case=("decision", "200"),
        against=("conditions", "200"),
        reach=Reach(300, at_most=True, absolute=True),
    ),
    Comparison(
        name="memory of a process that executes",
        unit="MB",
        case=("memory",),
        reach=Reach(120, at_most=True, absolute=True),
    ),
    Comparison(
        name="import of what programs use",
        unit="ms",
        case=("import",),
        against=("python",),
        reach=Reach(200, at_most=True, absolute=True),
    ),
    Comparison(
        name="amends --help",
        unit="ms",
        case=("help",),
        against=("python",),
        reach=Reach(300, at_most=True, absolute=True),
    ),
    Comparison(
        name="1 000 000 records there, time-ordered keys",
        unit="/s",
        case=("among", "1000000", "ordered"),
        against=AT_64,
        reach=Reach(0.9),
        big=True,
    ),
    Comparison(
        name="1 000 000 records there, random client keys",
        unit="/s",
        case=("among", "1000000", "random"),
        against=AT_64,
        reach=Reach(0.65),
        big=True,
    ),
)

ON_POSTGRESQL: Final = (
    Comparison(
        name="PostgreSQL: execute at 64, beside the same-rows loop",
        unit="/s",
        case=("pg_execute", "64"),
        against=("pg_same_rows", "64"),
        reach=Reach(0.8),
    ),
    Comparison(
        name="PostgreSQL: execute at 64, beside the bare loop",
        unit="/s",
        case=("pg_execute", "64"),
        against=("pg_bare", "64"),
    ),
    Comparison(
        name="PostgreSQL: latency at 1, beside the same-rows loop",
        unit="µs",
        case=("pg_latency",),
        against=("pg_same_rows_latency",),
        reach=Reach(2.0, at_most=True),
    ),
    Comparison(
        name="PostgreSQL: latency at 1, beside the bare loop",
        unit="µs",
        case=("pg_latency",),
        against=("pg_bare_latency",),
    ),
    *(
        Comparison(
            name=f"PostgreSQL: execute at 64, beside DBOS, {threads}",
            unit="/s",
            case=("pg_execute", "64"),
            against=("pg_dbos", threads),
            reach=Reach(10),
        )
        for threads in ("4", "16", "64")
    ),
    Comparison(
        name="PostgreSQL: two processes at 64 each, beside one",
        unit="/s",
        case=("pg_two", "64"),
        against=("pg_execute", "64"),
    ),
    Comparison(
        name="PostgreSQL: 64 claimants of a plan, last verdict",
        unit="ms",
        case=("pg_last_verdict",),
    ),
    Comparison(
        name="PostgreSQL: 2 000 000 records there",
        unit="/s",
        case=("pg_among", "2000000"),
        against=("pg_execute", "64"),
        reach=Reach(0.9),
        big=True,
    ),
)
"""All on one server, which is started for them."""


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of names; all by default")
    parser.add_argument("--big", action="store_true", help="the long ones instead")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    asked = parser.parse_args()
    rows = [_measured(one, asked.rounds) for one in _chosen(COMPARISONS, asked.names, asked.big)]
    if on_server := _chosen(ON_POSTGRESQL, asked.names, asked.big):
        with server_for_all():
            rows += [_measured(one, asked.rounds) for one in on_server]
    write(rows)
    print(table(rows))


def _chosen(all_: Sequence[Comparison], names: Sequence[str], big: bool) -> list[Comparison]:
    return [
        one
        for one in all_
        if one.big is big and (not names or any(part in one.name for part in names))
    ]


def _measured(comparison: Comparison, rounds: int) -> Row:
    print(f"measuring: {comparison.name}", flush=True)
    return compare(comparison, rounds)


if __name__ == "__main__":
    main()
