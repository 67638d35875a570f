"""`amends verify`: whether receipts are whole, in order, unaltered, and signed by known keys.

A bundle is checked offline, and so is a proof. `--store` checks a store where it lies, and further:
every record has to have the receipts of its last change, and the whole log has to lead through its
checkpoints.
Either way the exit code tells the kind of fault.
"""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from amends.cli.options import Flag, Pairs


def verify(
    *what: Annotated[
        str,
        Parameter(
            help="The file of a bundle or of a proof; or with --store, transactions of that store."
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
    from amends.cli.operations.checking import Asked, check
    from amends.cli.operations.progress import phases
    from amends.cli.operations.proofs import check_file, is_proof

    asked = Asked(
        what=what,
        store=store,
        keys=key,
        heads=head,
        tenant=tenant,
        keys_file=keys,
        checkpoints=checkpoint,
    )
    if is_proof(asked):
        answer = check_file(asked)
    else:
        with phases() as phase:
            answer = check(asked, phase("Verifying"))
    return give(answer, sys.stdout, as_json=json, utc=False, interrupted=False)
