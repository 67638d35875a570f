"""`amends verify`: whether receipts are whole, in order, unaltered, and signed by known keys.

A bundle is checked offline, and so is a proof, be it a file or what comes on standard input.
`--store` checks a store where it lies, and further: every record has to have the receipts of its
last change, and the whole log has to lead through its checkpoints.

Either way the exit code tells the kind of fault.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from amends.cli.options import Flag, Pairs

if TYPE_CHECKING:
    from amends.cli.answers import Answer
    from amends.cli.operations.checking import Asked


def verify(
    *what: Annotated[
        str,
        Parameter(
            allow_leading_hyphen=True,
            help="The file of a bundle or of a proof, or - for standard input; with --store, "
            "transactions of that store.",
        ),
    ],
    store: Annotated[
        str | None, Parameter(help="Check this store instead of a bundle; its URL.")
    ] = None,
    key: Annotated[
        Pairs, Parameter(help="A public key, in hex or as a file, instead of the one that came.")
    ] = (),
    keys: Annotated[
        Path | None, Parameter(help="The store's keys, as amends keys export wrote them.")
    ] = None,
    checkpoint: Annotated[
        tuple[Path, ...],
        Parameter(negative=(), show_default=False, help="A file with a checkpoint you have kept."),
    ] = (),
    head: Annotated[
        Pairs, Parameter(help="TRANSACTION=NUMBER:HASH, an end of a chain that you have kept.")
    ] = (),
    tenant: Annotated[str | None, Parameter(help="Whose transactions they are.")] = None,
    json: Flag = False,
) -> int:
    """Check receipts: chain, signatures, no gap, no end that was cut off."""
    import sys

    from amends.cli.answers import give
    from amends.cli.inputs import STDIN
    from amends.cli.operations.checking import Asked
    from amends.cli.usage import unknown_option

    for one in what:
        if one.startswith("-") and one != STDIN:
            raise unknown_option(one, "amends verify")
    asked = Asked(
        what=what, keys=key, heads=head, tenant=tenant, keys_file=keys, checkpoints=checkpoint
    )
    answer = _without_a_store(asked) if store is None else _of_store(store, asked)
    return give(answer, sys.stdout, as_json=json, utc=False, interrupted=False)


def _without_a_store(asked: "Asked") -> "Answer":
    from amends.cli.operations.checking import check_bundle
    from amends.cli.operations.progress import phases
    from amends.cli.operations.proofs import check_alone
    from amends.cli.operations.reading import opened

    with opened(asked.what) as reading:
        if reading.is_proof:
            return check_alone(asked, reading.proof())
        with phases() as phase:
            return check_bundle(asked, reading.lines(), phase("Verifying"))


def _of_store(url: str, asked: "Asked") -> "Answer":
    from amends.cli.operations.checking import check_lying
    from amends.cli.operations.progress import phases

    with phases() as phase:
        return check_lying(url, asked, phase("Verifying"))
