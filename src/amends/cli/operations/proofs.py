"""Checks a proof for `amends verify`: that receipts are in the log of whose checkpoint was kept.

What a proof shows is worth what was brought
along: without a checkpoint and keys from elsewhere it shows only that it agrees with itself.
"""

from collections.abc import Callable
from typing import Final

from amends.cli.answers import Answer
from amends.cli.operations.checking import Asked, brought_by
from amends.cli.operations.faults import EXIT_OF_FAULT, MEANING
from amends.cli.paper import Paper, clean
from amends.contracts.errors import AmendsError, Corrupt
from amends.contracts.json_types import Json, JsonObject
from amends.contracts.times import format_instant
from amends.receipts.proof import (
    CheckedProof,
    Proof,
    check_proof,
    keys_of,
    read_proof,
)

_TRUST: Final = {
    "given": "The keys are the ones that you gave.",
    "proof": "The keys came with the proof: bring --keys and a --checkpoint that you have kept.",
}


def check_alone(asked: Asked, raw: bytes) -> Answer:
    """Check a proof and answer. Raises as `checking.brought_by` does."""
    brought = brought_by(asked)
    try:
        proof = read_proof(raw)
        keys = keys_of(proof) if brought.keys is None else brought.keys
        checked = check_proof(proof, keys, brought.heads, brought.kept)
    except Corrupt as error:
        return _answer({"faults": []}, lambda _: None, error)
    trust = "proof" if brought.keys is None else "given"
    return _answer(
        _document(proof, checked, trust),
        lambda paper: _tell(paper, proof, checked, trust),
        _error(checked),
    )


def _answer(data: JsonObject, tell: Callable[[Paper], None], error: AmendsError | None) -> Answer:
    code = None if error is None else EXIT_OF_FAULT[error.code]
    return Answer(data=data, tell=tell, error=error, exit_code=code)


def _codes(checked: CheckedProof) -> list[str]:
    return [*checked.heads, *[one.code.value for one in checked.log.findings]]


def _error(checked: CheckedProof) -> AmendsError | None:
    codes = _codes(checked)
    if not codes:
        return None
    return Corrupt(
        codes[0],
        f"The proof does not hold: {MEANING[codes[0]]}.",
        next_step="Take nothing from it; have it made anew with amends prove --out, and name the "
        "checkpoint that you have kept.",
    )


def _document(proof: Proof, checked: CheckedProof, trust: str) -> JsonObject:
    faults: list[Json] = [{"code": one.value, "says": MEANING[one]} for one in checked.heads]
    faults += [
        {"code": one.code.value, "size": one.size, "says": MEANING[one.code.value]}
        for one in checked.log.findings
    ]
    return {
        "store": clean(proof.store),
        "keys": trust,
        "tenant": proof.tenant,
        "transaction_id": proof.transaction_id,
        "heads": [{"number": one.number, "hash": one.hash} for one in proof.receipts],
        "checkpoints": [
            {"size": size, "at": format_instant(at)} for size, at in checked.log.checkpoints
        ],
        "faults": faults,
    }


def _tell(paper: Paper, proof: Proof, checked: CheckedProof, trust: str) -> None:
    if not _codes(checked):
        for one in proof.receipts:
            told = f"{proof.transaction_id}={one.number}:{one.hash}"
            paper.line(("ok     ", "green"), clean(told))
    for size, at in checked.log.checkpoints:
        paper.line(("ok     ", "green"), f"checkpoint of {size} receipts, {format_instant(at)}")
    for code in _codes(checked):
        paper.line(("fault  ", "bold red"), MEANING[code])
    paper.line((_TRUST[trust], "dim"))
