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
    from amends.contracts.json_types import JsonObject
    from amends.wiring.bundling import Chosen

_UNSEALED = (
    "The bundle is not sealed and brings no keys, since this user cannot read the key beside the"
    " store: amends verify needs --keys, and will say so."
)


def export(
    *transactions: Annotated[str, Parameter(help="The transactions' ids.")],
    out: Annotated[Path | None, Parameter(help="A new file to write to.")] = None,
    all: Annotated[
        Flag, Parameter(help="Every transaction of every tenant, or of the one that is named.")
    ] = False,
    tenant: Annotated[str | None, Parameter(help="Whose transactions they are.")] = None,
    since: Annotated[
        str | None, Parameter(help="With --all: what changed at this time or later (RFC 3339).")
    ] = None,
    until: Annotated[
        str | None, Parameter(help="With --all: what began before this time (RFC 3339).")
    ] = None,
    checkpoint: Annotated[
        tuple[Path, ...],
        Parameter(
            negative=(), show_default=False, help="Also prove that this checkpoint is led through."
        ),
    ] = (),
    place: Place = HERE,
) -> int:
    """Export receipts as a bundle that anybody with the public keys can verify."""
    import sys

    from amends.cli.answers import Answer, give
    from amends.cli.operations.progress import phases
    from amends.cli.paper import clean, notes
    from amends.wiring.bundling import bundle_of, count_chosen, write_bundle
    from amends.wiring.places import existing_place
    from amends.wiring.proving import read_note_file

    chosen = _chosen(transactions, all_of_them=all, tenant=tenant, since=since, until=until)
    _check(out=out, as_json=place.json)
    given = [read_note_file(one) for one in checkpoint]
    store = existing_place(place.store)
    with phases() as phase:
        counted = Counted(count_chosen(store, chosen), phase("Exporting"))
        lines = counted.of(bundle_of(store, chosen, given))
        if out is None:
            code = _written(lines)
        else:
            write_bundle(out.absolute(), lines)
    told = counted.told()
    if not told["sealed"]:
        notes().line(_UNSEALED)
    if out is None:
        return code
    says = f"Written to {out}. Chains: {told['chains']}, receipts: {told['receipts']}."
    answer = Answer(
        data={"file": str(out), **told},
        tell=lambda paper: paper.line(clean(says)),
    )
    return give(answer, sys.stdout, as_json=place.json, utc=False, interrupted=False)


def _written(lines: "Iterator[bytes]") -> int:
    """Write a bundle to standard output; the exit code."""
    import sys

    from amends.cli.output import unwritten

    try:
        sys.stdout.flush()
        sys.stdout.buffer.writelines(lines)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as failure:
        return unwritten(sys.stdout, failure, 0)
    return 0


class Counted:
    """Lines of a bundle that go by: how far they are, and what the first and the last one say."""

    def __init__(self, total: int, told: "Told") -> None:
        self._total = total
        self._told = told
        self._first = self._last = b""

    def of(self, lines: "Iterator[bytes]") -> "Iterator[bytes]":
        """The same lines, looked at."""
        for number, line in enumerate(lines):
            self._first = self._first or line
            self._last = line
            self._told(min(number, self._total), self._total)
            yield line

    def told(self) -> "JsonObject":
        """What was written."""
        import msgspec

        from amends.receipts.keyset import from_base64url

        first, last = msgspec.json.decode(self._first), msgspec.json.decode(self._last)
        return {
            "store": first["store"],
            "keys": [from_base64url(key["x"]).hex() for key in first["keys"]],
            "checkpoints": len(first.get("checkpoints", ())),
            "chains": last["chains"],
            "receipts": last["receipts"],
            "sealed": "signature" in last,
        }


def _chosen(
    transactions: tuple[str, ...],
    *,
    all_of_them: bool,
    tenant: str | None,
    since: str | None,
    until: str | None,
) -> "Chosen":
    """Raises `Misuse` (`cli.transactions_required`), and `Refused` for what cannot be read."""
    from amends.cli.inputs import identifier, optional_identifier
    from amends.contracts.errors import Misuse
    from amends.contracts.ids import TenantId, TransactionId
    from amends.contracts.times import parse_instant
    from amends.wiring.bundling import Chosen

    bounded = since is not None or until is not None
    if bool(transactions) == all_of_them or (bounded and not all_of_them):
        raise Misuse(
            "cli.transactions_required",
            "Either transactions are named, or --all asks for every one, perhaps of some time.",
            next_step="Name transactions, or say --all, with --since and --until where wanted.",
        )
    owner = optional_identifier(tenant, "tenant")
    return Chosen(
        transactions=tuple(
            [TransactionId(identifier(one, "transaction_id")) for one in transactions]
        ),
        tenant=None if owner is None else TenantId(owner),
        since=None if since is None else parse_instant(since, "since"),
        until=None if until is None else parse_instant(until, "until"),
    )


def _check(*, out: Path | None, as_json: bool) -> None:
    """Raises `Misuse` (`cli.out_required`)."""
    from amends.contracts.errors import Misuse

    if as_json and out is None:
        raise Misuse(
            "cli.out_required",
            "A bundle on standard output leaves no room for another document.",
            next_step="Write it to a file with --out, or leave --json away.",
        )
