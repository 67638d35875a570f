"""`amends export`: receipts for people who have no access to the store.

Receipts hold hashes, ids, actors, times and codes, never inputs, outputs or secrets; there is
nothing else in a bundle. Without `--out` it goes to standard output.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from amends.cli.operations.place import HERE, Place
from amends.cli.options import Flag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amends.cli.operations.progress import Told
    from amends.receipts.bundle import ChainLine


def export(
    *transactions: Annotated[str, Parameter(help="The transactions' ids.")],
    out: Annotated[Path | None, Parameter(help="A new file to write to.")] = None,
    all: Annotated[Flag, Parameter(help="Every transaction of every tenant.")] = False,
    tenant: Annotated[str | None, Parameter(help="Whose transactions they are.")] = None,
    place: Place = HERE,
) -> int:
    """Export receipts as a bundle that anybody with the public key can verify."""
    import sys

    from amends.cli.answers import Answer, give
    from amends.cli.inputs import identifier
    from amends.cli.operations.progress import phases
    from amends.cli.paper import clean
    from amends.contracts.ids import TenantId, TransactionId
    from amends.contracts.principals import DEFAULT_TENANT
    from amends.receipts.bundle import write_lines
    from amends.wiring import auditing
    from amends.wiring.places import existing_database

    ids = [TransactionId(identifier(one, "transaction_id")) for one in transactions]
    owner = TenantId(identifier(tenant or DEFAULT_TENANT, "tenant"))
    _check(ids=bool(ids), all_of_them=all, out=out, as_json=place.json)
    database = existing_database(place.store)
    header = auditing.header_of(database)
    total = auditing.count_chains(database) if all else len(ids)
    counted = Counted()
    with phases() as phase:
        chains = (
            auditing.read_all_chains(database)
            if all
            else auditing.read_chains(database, ids, owner)
        )
        lines = write_lines(header, counted.of(chains, total, phase("Exporting")))
        if out is None:
            sys.stdout.flush()
            sys.stdout.buffer.writelines(lines)
            sys.stdout.buffer.flush()
            return 0
        auditing.write_bundle(out.absolute(), lines)
    answer = Answer(
        data={
            "file": str(out),
            "store": header.store,
            "keys": list(header.keys),
            "chains": counted.chains,
            "receipts": counted.receipts,
        },
        tell=lambda paper: paper.line(
            clean(f"Written to {out}. Chains: {counted.chains}, receipts: {counted.receipts}.")
        ),
    )
    return give(answer, sys.stdout, as_json=place.json, utc=False, interrupted=False)


class Counted:
    """How much has gone by."""

    def __init__(self) -> None:
        self.chains = 0
        self.receipts = 0

    def of(self, chains: "Iterator[ChainLine]", total: int, told: "Told") -> "Iterator[ChainLine]":
        """The same chains, counted."""
        for chain in chains:
            self.chains += 1
            self.receipts += len(chain.receipts)
            told(self.chains, total)
            yield chain


def _check(*, ids: bool, all_of_them: bool, out: Path | None, as_json: bool) -> None:
    """Raises `Misuse` (`cli.transactions_required`, `cli.out_required`)."""
    from amends.contracts.errors import Misuse

    if ids == all_of_them:
        raise Misuse(
            "cli.transactions_required",
            "Either transactions are named, or --all asks for every one.",
            next_step="Name transactions, or say --all.",
        )
    if as_json and out is None:
        raise Misuse(
            "cli.out_required",
            "A bundle on standard output leaves no room for another document.",
            next_step="Write it to a file with --out, or leave --json away.",
        )
