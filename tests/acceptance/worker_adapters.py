"""Adapters of a worker process, for `test_worker_processes`: every effect is a line in a file.

`AMENDS_TEST_EFFECTS` names the file. `AMENDS_TEST_HANG` makes a handler wait behind its effect, and
`AMENDS_TEST_LIMIT_S` says how long it may.
"""

import os
import time
from pathlib import Path

from amends.contracts.worker_payload import Failed, Status, Succeeded, ToolPayload
from amends.worker.adapters import Adapter, AdapterContract, Call, LookUp

DONE = Succeeded(ToolPayload.json({"done": True}))
release = Adapter(
    "release.publish",
    contract=AdapterContract.RECONCILIATION,
    handler_limit_s=float(os.environ.get("AMENDS_TEST_LIMIT_S", "30")),
)


def effects() -> Path:
    return Path(os.environ["AMENDS_TEST_EFFECTS"])


def act(call: Call) -> Status:
    with effects().open("a") as file:
        file.write(call.key + "\n")
    print("on standard output, which is nobody's channel")
    if os.environ.get("AMENDS_TEST_HANG") == call.key[:3]:
        time.sleep(float(os.environ.get("AMENDS_TEST_HANG_S", "60")))
    return DONE


def find(look: LookUp) -> Status:
    known = effects().exists() and look.key in effects().read_text()
    return DONE if known else Failed("it is not there")


@release.dispatch
def publish(call: Call) -> Status:
    return act(call)


@release.compensate
def withdraw(call: Call) -> Status:
    return act(call)


@release.status
async def published(look: LookUp) -> Status:
    return find(look)


@release.compensation_status
async def withdrawn(look: LookUp) -> Status:
    return find(look)
