"""A journal and ledgers in folders, with entries as a test tells them; no test in here."""

from contextlib import closing
from pathlib import Path
from typing import Final

from amends.contracts.worker_payload import Failed, Succeeded, Terminal, ToolPayload
from amends.host.link import EntryRuling
from amends.ledger.document import decode_ledger, encode_ledger
from amends.ledger.operations import OperationIntent, observe_operation, record_operation
from amends.ledger.plans import make_plan
from amends.ledger.records import LedgerState
from amends.wiring.comparing import Standing, compare
from amends.wiring.hosts import Ledgers
from amends.wiring.workers import WorkerPlace, close_by_hand, initialise_worker

PLAN: Final = make_plan([("publish", "release.publish 1.2.3")])
TOOL: Final = "release.publish"
DONE: Final = Succeeded(ToolPayload.json({}))
DID_NOT: Final = Failed("it is not there")


class Sides:
    """A journal and a ledger, with one entry of each kind of story."""

    def __init__(self, folder: Path) -> None:
        self.ledgers = folder / "host"
        self.place = WorkerPlace(directory=folder / "worker", scope="tenant-a")
        initialise_worker(self.place)
        Ledgers.make(self.ledgers).close()
        self.nonces = 0

    def story(self, in_journal: Terminal | None, in_ledger: LedgerState | None) -> str:
        """An operation as either side has it, if it has it; its key."""
        self.nonces += 1
        nonce = b"%d" % self.nonces
        payload = ToolPayload.json({"version": "1.2.3"})
        intent = OperationIntent(step_id="publish", tool=TOOL, payload=payload, nonce=nonce)
        name = f"release-{self.nonces}"
        with closing(Ledgers.open(self.ledgers)) as ledgers:
            ledgers.create(name, PLAN)
            opened = ledgers.opener(name)()
            recorded = record_operation(decode_ledger(opened.payload), PLAN, intent)
            if in_ledger is not None:
                ledger = recorded.ledger
                if in_ledger is not LedgerState.PENDING:
                    ledger = observe_operation(ledger, recorded.key, in_ledger)
                opened.save(encode_ledger(ledger))
        if in_journal is not None:
            self.plant(recorded.key, in_journal)
        return recorded.key

    def plant(self, key: str, ending: Terminal) -> None:
        ruling = EntryRuling(
            tool=TOOL, operation_key=key, ending=ending, who="w", why="w", evidence="w"
        )
        close_by_hand(self.place, ruling)

    def compared(self) -> dict[str, Standing]:
        return {one.operation_key: one.standing for one in compare(self.place, self.ledgers)}
