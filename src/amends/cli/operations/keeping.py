"""`amends checkpoint` and `amends prove`: fixing a store's past, and showing what is in it.

A checkpoint is worth what its keeper is: it has to lie where those who can write to the store
cannot change it.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from amends.cli.operations.place import HERE, Place

if TYPE_CHECKING:
    from amends.cli.paper import Paper
    from amends.contracts.json_types import JsonObject
    from amends.receipts.proof import Proof


def checkpoint(
    *,
    out: Annotated[Path | None, Parameter(help="A new file to write it to.")] = None,
    place: Place = HERE,
) -> int:
    """Sign what the store's log is now, to be kept elsewhere."""
    import sys

    from amends.cli.answers import Answer, give
    from amends.contracts.times import format_instant
    from amends.wiring.bundling import write_bundle
    from amends.wiring.checkpointing import make_checkpoint
    from amends.wiring.places import existing_place

    made = make_checkpoint(existing_place(place.store))
    if out is not None:
        write_bundle(out.absolute(), [made.note.encode()])
    answer = Answer(
        data={
            "store": made.lineage,
            "size": made.size,
            "at": format_instant(made.created_at),
            "note": made.note,
            "file": None if out is None else str(out),
        },
        tell=lambda paper: paper.line(made.note.removesuffix("\n")),
    )
    return give(answer, sys.stdout, as_json=place.json, utc=False, interrupted=False)


def prove(
    transaction: Annotated[str, Parameter(help="The transaction's id.")],
    /,
    *,
    checkpoint: Annotated[
        tuple[Path, ...],
        Parameter(negative=(), show_default=False, help="Also lead through this checkpoint."),
    ] = (),
    tenant: Annotated[str | None, Parameter(help="Whose transaction it is.")] = None,
    out: Annotated[
        Path | None, Parameter(help="A new file to write it to, for amends verify.")
    ] = None,
    place: Place = HERE,
) -> int:
    """Show that a transaction's receipts are in the log: paths to checkpoints, and between them."""
    import sys

    from amends.cli.answers import Answer, give
    from amends.cli.inputs import identifier
    from amends.contracts.ids import TenantId, TransactionId
    from amends.contracts.principals import DEFAULT_TENANT
    from amends.receipts.proof import write_proof
    from amends.wiring import proving
    from amends.wiring.bundling import write_bundle
    from amends.wiring.places import existing_place

    id_ = TransactionId(identifier(transaction, "transaction_id"))
    owner = TenantId(identifier(tenant or DEFAULT_TENANT, "tenant"))
    given = [proving.read_note_file(one) for one in checkpoint]
    proof = proving.prove(existing_place(place.store), owner, id_, given)
    if out is not None:
        write_bundle(out.absolute(), [write_proof(proof)])
    answer = Answer(data=_document(proof), tell=lambda paper: _tell(paper, proof))
    return give(answer, sys.stdout, as_json=place.json, utc=False, interrupted=False)


def _document(proof: "Proof") -> "JsonObject":
    import msgspec

    document: JsonObject = msgspec.to_builtins(proof)
    return document


def _tell(paper: "Paper", proof: "Proof") -> None:
    for checkpoint in proof.checkpoints:
        paper.line(checkpoint.note.removesuffix("\n"))
    for one in proof.inclusions:
        paper.line(f"receipt {one.number} is at {one.place} of {one.size}, by the path")
        for step in one.path:
            paper.line(f"  {step}")
