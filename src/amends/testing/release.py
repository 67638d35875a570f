"""One story for all crash tests of workers: a release is published, and then withdrawn.

`go_on` takes the next documented step and no other, so what recovers after a crash is what goes on
without one. `books` is the provider: what really happened, by key.

Deliberately not here: processes, and who dies when.
"""

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Final

from amends.contracts.worker_grant import CapabilityGrant
from amends.contracts.worker_messages import AnsweredStatus, Indeterminate
from amends.contracts.worker_payload import Failed, Status, Succeeded, ToolPayload
from amends.host.channel import WorkerChannel
from amends.host.verifiers import Verifiers
from amends.host.workflow import Workflow
from amends.journal.records import Journal
from amends.journal.reports import compensation_state
from amends.ledger.operations import OperationIntent
from amends.ledger.plans import make_plan
from amends.ledger.records import Ledger, LedgerState
from amends.ledger.recovery import Recovery
from amends.worker.adapters import Adapter, AdapterContract, Adapters, Call, LookUp

SCOPE: Final = "tenant-release"
GRANT: Final = CapabilityGrant("release.publish", max_calls=8, max_compensations=8)
INPUT: Final = ToolPayload.json({"version": "1.2.3"})
INVERSE: Final = ToolPayload.json({"undo": "release"})
PLAN: Final = make_plan([("publish", "let release = true")])
INTENT: Final = OperationIntent(
    step_id="publish", tool=GRANT.tool, payload=INPUT, nonce=b"release-42:publish:1"
)
NONCE: Final = b"release-42:publish:undo:1"
DONE: Final = Succeeded(ToolPayload.json({"done": True}))
YES: Final = Verifiers(grant=lambda _: True, action=lambda _: True)


def make_adapters(
    act: Callable[[str], Awaitable[None]], has: Callable[[str], Awaitable[bool]]
) -> Adapters:
    """A worker's adapters over a provider that acts under a key, and knows under which it did."""
    release = Adapter(GRANT.tool, contract=AdapterContract.RECONCILIATION)

    async def carry(call: Call) -> Status:
        await act(call.key)
        return DONE

    async def carry_back(call: Call) -> Status:
        await act(call.key)
        return DONE

    async def find(look: LookUp) -> Status:
        return DONE if await has(look.key) else Failed("it is not there")

    async def find_back(look: LookUp) -> Status:
        return DONE if await has(look.key) else Failed("it is not there")

    release.dispatch(carry)
    release.compensate(carry_back)
    release.status(find)
    release.compensation_status(find_back)
    return Adapters(release)


class Progress(StrEnum):
    """What one step came to."""

    GOES_ON = "goes_on"
    UNSURE = "unsure"
    """Nobody can say yet; ask again later, over a new channel."""
    ENDED = "ended"


async def go_on(workflow: Workflow, channel: WorkerChannel) -> Progress:
    """Take the next documented step. Raises as the workflow does."""
    if not workflow.ledger.operations:
        await workflow.record(INTENT)
        return Progress.GOES_ON
    [operation] = workflow.ledger.operations
    key = operation.operation_key
    target = workflow.target(key, SCOPE, GRANT, INVERSE)
    match workflow.recovery(key):
        case Recovery.LOOK_UP_ORIGINAL:
            if operation.state not in (LedgerState.PENDING, LedgerState.RUNNING):
                return Progress.ENDED
            return _progress(await workflow.dispatch(channel, key, INPUT))
        case Recovery.MAY_RECORD:
            await workflow.record_compensation(target, NONCE)
            return Progress.GOES_ON
        case Recovery.OFFER_AGAIN:
            return _progress(await workflow.compensate(channel, target))
        case Recovery.REPORT | Recovery.EXPLICIT_POLICY:
            return Progress.ENDED


def _progress(status: AnsweredStatus) -> Progress:
    return Progress.UNSURE if isinstance(status, Indeterminate) else Progress.GOES_ON


def faults_in(ledger: Ledger, journal: Journal, effects: dict[str, int]) -> list[str]:
    """What is not as it has to be once nothing more follows, from what is durable alone."""
    faults = [f"{key} happened {times} times" for key, times in effects.items() if times > 1]
    [operation], [record] = ledger.operations, journal.records
    key, held = operation.operation_key, operation.compensation
    happened = effects.get(key, 0) == 1
    if (operation.state is LedgerState.SUCCEEDED, record.state == DONE) != (happened, happened):
        faults.append(f"the original is {operation.state} and {record.state}")
    if held is None:
        return faults if not happened else [*faults, "nothing was withdrawn"]
    state = compensation_state(journal, key, held.compensation_key)
    undone = effects.get(held.compensation_key, 0) == 1
    if (held.state is LedgerState.SUCCEEDED, state == DONE) != (undone, undone):
        faults.append(f"the inverse is {held.state} and {state}")
    return faults
