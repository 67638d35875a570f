"""A value that was declared secret is followed through a whole program, and found nowhere.

SEC-01 as the library answers it: what is shown, exported, logged, raised, and what lies on the
disk. The command line shows what these views hold.
"""

import base64
import logging
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from amends.contracts.actions import TransactionRequest
from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.declarations import DataContract
from amends.contracts.enums import Mode
from amends.contracts.errors import AmendsError
from amends.contracts.events import ProviderEvent, Said
from amends.contracts.ids import TransactionId
from amends.contracts.json_types import Json
from amends.contracts.outcomes import ErrorInfo, NotApplied
from amends.receipts.bundle import FORMAT, ChainLine, Header, write_lines
from amends.receipts.chain import chain_of
from amends.receipts.keyset import jwk_of
from amends.testing.invariants import canary_absent
from amends.testing.workbench import ALICE, TENANT, Workbench
from tests.unit.runtime.desk import Desk, action, ask

CANARY: Final = "kanarienvogel-7319"
IN_BASE64: Final = base64.b64encode(CANARY.encode()).decode()
SECRETIVE: Final[Json] = {
    "card": CANARY,
    "coded": IN_BASE64,
    "nested": {"list": [1, {"note": CANARY}], CANARY: True},
    "url": f"https://user:{CANARY}@example.test/?q={CANARY}",
}
SAID: Final = f"The customer {CANARY} has called."
REDACTED: Final = DataContract(redaction_required=True, contains_pii=True)


class Leaky(Exception):
    """What a provider's client raises: its text quotes the request, and so does what caused it."""

    def __init__(self) -> None:
        super().__init__(f"POST https://example.test?card={CANARY} failed: {SECRETIVE}")
        self.__cause__ = ValueError(CANARY)


def leaky_desk() -> Desk:
    """Succeeds, then fails for certain, then leaves it open, always quoting what it was given."""
    no = ErrorInfo(code="no", message=f"card {CANARY}", details={CANARY: SECRETIVE})
    return Desk(
        [{"echo": SECRETIVE, CANARY: IN_BASE64}, NotApplied(error=no), Leaky()],
        preview=[{"quote": SECRETIVE}],
        reconcile=[Leaky(), {"found": SECRETIVE}],
        compensate=[Leaky()],
    )


class Heard:
    """Everything that anybody was shown or told, as text."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def shown(self, *values: object) -> None:
        """As a program prints it, and as an entrance sends it."""
        for value in values:
            self.texts += [repr(value), str(value), msgspec.json.encode(value).decode()]

    def raised(self, error: AmendsError) -> None:
        """With its causes, and with the details that entrances show."""
        self.texts += [str(error), repr(error), repr(dict(error.details))]
        self.texts += traceback.format_exception(error)


async def plan_approve_and_commit(bench: Workbench, heard: Heard) -> None:
    """The straight way: preview, plan, approval, commit, and a refused commit between."""
    heard.shown(await ask(bench, action(Mode.DRY_RUN, input=SECRETIVE)))
    plan = await ask(
        bench, action(Mode.PLAN, input=SECRETIVE, transaction="txn_plan", metadata={CANARY: CANARY})
    )
    for wrong in ({"card": CANARY + "!"}, {"card": CANARY, "huge": 2**70}):
        with pytest.raises(AmendsError) as caught:
            await bench.alice.commit(plan, wrong)
        heard.raised(caught.value)
    waiting = await bench.alice.commit(plan, SECRETIVE)
    heard.shown(plan, waiting, await bench.bob.approval(waiting))
    heard.shown(await bench.bob.approve(waiting, reason=SAID, evidence={"ticket": CANARY}))
    done = await bench.alice.resume(waiting, SECRETIVE)
    assert done.status == "committed"
    heard.shown(done)
    offset = await bench.alice.compensate(done, SECRETIVE, transaction_id="txn_offset")
    await bench.bob.approve(offset, reason=SAID)
    unsure = await bench.alice.resume(offset, SECRETIVE)
    assert unsure.status == "outcome_unknown"
    heard.shown(offset, unsure)


async def fail_and_look_up(bench: Workbench, heard: Heard) -> None:
    """A definite no, an exception that quotes everything, and look-ups that do so too."""
    for name, ends in (("txn_no", "failed"), ("txn_open", "outcome_unknown")):
        asked = action(id=f"act_{name}", transaction=name, input=SECRETIVE)
        await bench.bob.approve(await ask(bench, asked))
        made = await ask(bench, asked)
        assert made.status == ends
        heard.shown(made)
    with pytest.raises(AmendsError) as caught:
        await ask(bench, action(id="act_txn_open", transaction="txn_open", input=SECRETIVE))
    heard.raised(caught.value)
    for ends in ("outcome_unknown", "reconciled"):
        bench.wait(3_600)
        looked = await bench.alice.reconcile("txn_open")
        assert looked.status == ends
        heard.shown(looked)


async def say_it_by_hand(bench: Workbench, heard: Heard) -> None:
    """People repeat it wherever they may write: a denial, a cancellation, rulings, a request."""
    for name in ("act_denied", "act_cancelled"):
        waiting = await ask(bench, action(id=name, transaction=f"txn_{name}", input=SECRETIVE))
        if name == "act_denied":
            heard.shown(await bench.bob.deny(waiting, reason=SAID))
        else:
            heard.shown(await bench.alice.cancel(waiting, reason=SAID))
    ruled = await bench.olga.settle(
        "txn_offset", "committed", reference=CANARY, note=SAID, accept_risk=True
    )
    heard.shown(ruled)
    record = await bench.record("txn_plan")
    key = record.provider_key
    no = ProviderEvent(provider="p", event_id="e", said=Said.NOT_APPLIED, provider_key=key)
    heard.shown(await bench.olga.evidence(no))
    [correction] = (await bench.olga.get("txn_plan")).corrections
    heard.shown(await bench.olga.rule(correction, SAID, allow_compensation=True))
    request = TransactionRequest(
        transaction_id=TransactionId("txn_said"),
        action=action(Mode.PLAN, id="act_said", input=SECRETIVE),
        requested_by=ALICE.ref,
        reason=SAID,
        metadata={CANARY: CANARY},
    )
    heard.shown(await bench.alice.transact(request))


async def read_back(bench: Workbench, heard: Heard) -> None:
    """Every view, and the receipts as they are exported."""
    chains: list[ChainLine] = []
    for name in ("txn_plan", "txn_offset", "txn_no", "txn_open", "txn_act_denied", "txn_said"):
        view = await bench.olga.get(name, include_result=True, include_receipts=True)
        heard.shown(view)
        chain = chain_of(view.result.transaction_id)
        chains.append(ChainLine(tenant=TENANT, chain=chain, receipts=view.receipts))
    keys = tuple(map(jwk_of, bench.signer.ring.published))
    header = Header(format=FORMAT, store="bench", keys=keys)
    exported = [line.decode() for line in write_lines(header, chains, bench.signer)]
    assert len(exported) == len(chains) + 2
    heard.texts += exported
    heard.texts += [repr(await bench.snapshot()), repr(await bench.olga.refusals())]
    heard.texts += [repr(await bench.olga.list()), repr(await bench.olga.approvals())]


def files_of(database: Path) -> Iterator[bytes]:
    """Everything of the store on the disk, its write-ahead log included."""
    for one in sorted(database.parent.glob(f"{database.name}*")):
        yield one.read_bytes()


@pytest.mark.case("SEC-01")
@pytest.mark.rule("RD-1", "RD-2", "RC-4")
async def test_what_was_declared_secret_is_found_nowhere_on_its_whole_way(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    database, heard = tmp_path / "amends.db", Heard()
    served = leaky_desk().served(data=REDACTED, approval=ApprovalPolicy())
    async with Workbench(served=[served], file=database) as bench:
        await plan_approve_and_commit(bench, heard)
        await fail_and_look_up(bench, heard)
        await say_it_by_hand(bench, heard)
        await read_back(bench, heard)
        while_open = list(files_of(database))
        assert len(while_open) >= 2, "the write-ahead log is not where it was looked for"
    for secret in (CANARY, IN_BASE64):
        assert canary_absent(secret, *while_open, *files_of(database)) == []
        assert canary_absent(secret, *heard.texts, caplog.text) == []


SECRET: Final = "sk_live_4242424242424242"


@pytest.mark.rule("RD-2")
async def test_what_looks_like_a_secret_is_scrubbed_from_whatever_people_write(
    tmp_path: Path,
) -> None:
    """Without required redaction reasons stay readable, and a key that slipped in does not."""
    said, database = f"It was {SECRET}, I think.", tmp_path / "amends.db"
    no = NotApplied(error=ErrorInfo(code="no"))
    served = Desk([no]).served(approval=ApprovalPolicy())
    async with Workbench(served=[served], file=database) as bench:
        for end, name in enumerate(("act_denied", "act_cancelled", "act_asked")):
            request = TransactionRequest(
                transaction_id=TransactionId(f"txn_{end}"),
                action=action(id=name),
                requested_by=ALICE.ref,
                reason=said,
            )
            waiting = (await bench.alice.transact(request)).result
            if name == "act_denied":
                denied = await bench.bob.deny(waiting, reason=said)
                assert denied.decisions[0].reason == "It was [redacted], I think."
            elif name == "act_cancelled":
                await bench.alice.cancel(waiting, reason=said)
            else:
                await bench.bob.approve(waiting, reason=said, evidence={"ticket": said})
                await bench.olga.place_hold(waiting, reason=said)
        assert canary_absent(SECRET, *files_of(database)) == []
