"""Checks receipts for `amends verify`, and says what was found.

Chains are checked one after the other and forgotten, so that a large store or bundle needs little
memory. The heads of whole chains are told, since whoever keeps one can later see that an end was
cut off.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from amends.cli.answers import Answer
from amends.cli.inputs import identifier, pairs
from amends.cli.operations.faults import EXIT_OF_FAULT, MEANING
from amends.cli.operations.progress import Told
from amends.cli.paper import Paper, clean
from amends.contracts.errors import AmendsError, Corrupt, Misuse
from amends.contracts.evidence import Tail
from amends.contracts.ids import TenantId, TransactionId
from amends.contracts.json_types import Json, JsonObject
from amends.contracts.principals import DEFAULT_TENANT
from amends.contracts.times import format_instant
from amends.receipts.audit import BundleAudit, CheckedChain, CheckedLog, Finding, Heads
from amends.receipts.bundle import Bundle
from amends.receipts.checkpoint import Note
from amends.receipts.log import LogFinding
from amends.receipts.signing import KeyRing
from amends.wiring.auditing import (
    check_log,
    check_store,
    given_key,
    given_keys,
    identify,
    public_keys,
)
from amends.wiring.places import existing_place
from amends.wiring.proving import read_note_file

SHOWN: Final = 50
"""How many chains are told to people one by one; of more, only those with a fault."""

_TRUST: Final[Mapping[str, str]] = MappingProxyType(
    {
        "given": "The keys are the ones that you gave.",
        "store": "The keys are those beside the store: whoever holds one can make all of it anew.",
        "bundle": "The keys came in the bundle, so this shows only that it agrees with itself.",
    }
)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What was asked for, as it was typed."""

    what: tuple[str, ...]
    keys: tuple[str, ...]
    heads: tuple[str, ...]
    tenant: str | None
    keys_file: Path | None = None
    checkpoints: tuple[Path, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Brought:
    """What somebody brought along to check by."""

    keys: KeyRing | None
    heads: Heads
    kept: tuple[Note, ...]


@dataclass(kw_only=True)
class Found:
    """What came of it."""

    lineage: str
    trust: str
    chains: int = 0
    receipts: int = 0
    whole: list[CheckedChain] = field(default_factory=list)
    faulty: list[CheckedChain] = field(default_factory=list)
    log: CheckedLog = field(default_factory=CheckedLog)
    seal: str | None = None
    error: AmendsError | None = None

    @property
    def first(self) -> str | None:
        """The code of the first fault: in a chain, of the file, in the log, of the seal."""
        for chain in self.faulty:
            return chain.findings[0].code
        if self.error is not None:
            return self.error.code
        for finding in self.log.findings:
            return finding.code.value
        return self.seal


def check_bundle(asked: Asked, lines: Iterable[bytes], told: Told) -> Answer:
    """Check a bundle and answer. Raises as `brought_by` does."""
    return _answer(_of_bundle(lines, brought_by(asked), told))


def check_lying(url: str, asked: Asked, told: Told) -> Answer:
    """Check a store where it lies, and answer.

    Raises as `brought_by` does, for a store that is not there, and `Refused`
    (`transaction.not_found`).
    """
    return _answer(_of_store(url, asked, brought_by(asked), told))


def brought_by(asked: Asked) -> Brought:
    """What was brought along, read. Raises `Misuse`, `Unavailable` and `Corrupt`."""
    return Brought(
        keys=_keys(asked),
        heads=_heads(asked.heads),
        kept=tuple(map(read_note_file, asked.checkpoints)),
    )


def _keys(asked: Asked) -> KeyRing | None:
    """The keys that were brought, if any; a JWK Set says more of a key than the key alone."""
    if not asked.keys and asked.keys_file is None:
        return None
    alone = KeyRing([given_key(one) for one in asked.keys])
    pinned = KeyRing() if asked.keys_file is None else given_keys(asked.keys_file)
    return KeyRing([*alone.published, *pinned.published])


def _of_bundle(lines: Iterable[bytes], brought: Brought, told: Told) -> Found:
    found = Found(lineage="", trust="given" if brought.keys else "bundle")
    try:
        bundle = Bundle(lines)
        found.lineage = clean(bundle.header.store)
        keys = bundle.keys if brought.keys is None else brought.keys
        audit = BundleAudit(bundle, keys, brought.heads, brought.kept)
        _collect(found, audit.chains(), brought.heads, 0, told)
        found.log = audit.log()
        found.seal = None if found.first else audit.seal()
    except Corrupt as error:
        found.error = error
    return found


def _of_store(url: str, asked: Asked, brought: Brought, told: Told) -> Found:
    store = existing_place(url)
    ids = [TransactionId(identifier(one, "transaction_id")) for one in asked.what]
    tenant = TenantId(identifier(asked.tenant or DEFAULT_TENANT, "tenant"))
    lineage, chains_there = identify(store)
    found = Found(lineage=lineage, trust="given" if brought.keys else "store")
    keys = public_keys(store) if brought.keys is None else brought.keys
    heads, kept = brought.heads, brought.kept
    total = len(ids) or chains_there
    chains = check_store(store, keys, heads, ids, tenant, kept)
    _collect(found, chains, heads, total, told)
    if not ids or kept:
        found.log = check_log(store, keys, kept)
    return found


def _collect(
    found: Found, chains: Iterator[CheckedChain], heads: Heads, total: int, told: Told
) -> None:
    unmatched = dict(heads)
    for chain in chains:
        unmatched.pop(chain.transaction_id, None)
        found.chains += 1
        found.receipts += chain.receipts
        told(found.chains, max(total, found.chains))
        if chain.findings:
            found.faulty.append(chain)
        elif len(found.whole) < SHOWN:
            found.whole.append(chain)
    for transaction_id in unmatched:
        found.faulty.append(_unmatched(transaction_id))


def _unmatched(transaction_id: TransactionId) -> CheckedChain:
    return CheckedChain(
        tenant=TenantId(""),
        transaction_id=transaction_id,
        receipts=0,
        head=None,
        findings=(Finding("bundle.head_unmatched", 0, None),),
    )


def _heads(given: tuple[str, ...]) -> Heads:
    """Heads as they are typed, `txn_1=7:` and the hash. Raises `Misuse` (`cli.head_invalid`)."""
    heads: dict[TransactionId, Tail] = {}
    for transaction_id, text in pairs(given, "--head").items():
        number, _, digest = text.partition(":")
        if not (number.isascii() and number.isdecimal() and len(digest) == 64):
            raise Misuse(
                "cli.head_invalid",
                "A head is the number of a chain's last receipt and its hash.",
                next_step="Write it as amends verify has told it: txn_1=7: and 64 hex digits.",
            )
        heads[TransactionId(transaction_id)] = Tail(int(number), digest)
    return heads


def _answer(found: Found) -> Answer:
    first = found.first
    faults: list[Json] = [_fault(chain, one) for chain in found.faulty for one in chain.findings]
    faults += [_log_fault(one) for one in found.log.findings]
    if found.seal is not None:
        faults.append({"code": found.seal, "says": MEANING[found.seal]})
    data: JsonObject = {
        "store": found.lineage,
        "keys": found.trust,
        "chains": found.chains,
        "receipts": found.receipts,
        "heads": [_head(chain) for chain in found.whole],
        "checkpoints": [
            {"size": size, "at": format_instant(at)} for size, at in found.log.checkpoints
        ],
        "faults": faults,
    }
    return Answer(
        data=data,
        tell=lambda paper: _tell(paper, found),
        error=None if first is None else _error(first, found),
        exit_code=None if first is None else EXIT_OF_FAULT[first],
    )


def _error(code: str, found: Found) -> AmendsError:
    place: JsonObject = {}
    if found.error is not None and found.error.code == code:
        return found.error
    if found.faulty:
        chain = found.faulty[0]
        finding = chain.findings[0]
        place = {
            "transaction_id": chain.transaction_id,
            "position": finding.position,
            "number": finding.number,
        }
    return Corrupt(
        code,
        f"The receipts do not hold: {MEANING[code]}.",
        details=place,
        next_step="Keep everything as it is, and compare it with a backup or an earlier export.",
    )


def _log_fault(one: LogFinding) -> JsonObject:
    return {"code": one.code.value, "size": one.size, "says": MEANING[one.code.value]}


def _head(chain: CheckedChain) -> JsonObject:
    assert chain.head is not None
    head: JsonObject = msgspec.to_builtins(chain.head)
    return {"tenant": chain.tenant, "transaction_id": chain.transaction_id} | head


def _fault(chain: CheckedChain, one: Finding) -> JsonObject:
    return {
        "tenant": chain.tenant,
        "transaction_id": chain.transaction_id,
        "code": one.code,
        "position": one.position,
        "number": one.number,
        "says": MEANING[one.code],
    }


def _tell(paper: Paper, found: Found) -> None:
    for chain in found.whole if found.chains <= SHOWN else ():
        assert chain.head is not None
        head = f"{chain.transaction_id}={chain.head.number}:{chain.head.hash}"
        paper.line(("ok     ", "green"), clean(head))
    for chain in found.faulty:
        for one in chain.findings:
            number = "the end" if one.number is None else f"receipt {one.number}"
            where = f"{chain.transaction_id}, {number} (position {one.position})"
            paper.line(("fault  ", "bold red"), clean(f"{where}: {MEANING[one.code]}"))
    for size, at in found.log.checkpoints:
        paper.line(("ok     ", "green"), f"checkpoint of {size} receipts, {format_instant(at)}")
    for log_fault in found.log.findings:
        where = f"checkpoint of {log_fault.size} receipts"
        paper.line(("fault  ", "bold red"), f"{where}: {MEANING[log_fault.code.value]}")
    if found.seal is not None:
        paper.line(("fault  ", "bold red"), MEANING[found.seal])
    counted = f"Chains: {found.chains}, receipts: {found.receipts}, store: {found.lineage}."
    paper.line(clean(counted))
    paper.line((_TRUST[found.trust], "dim"))
