"""The adapter of a worker that publishes releases: one folder stands for the provider.

Each release is a file that is named by the key of its operation, so that it can be found again.
"""

import json
import os
from pathlib import Path

from amends.contracts.json_types import Json
from amends.contracts.worker_payload import Failed, Status, Succeeded, ToolPayload
from amends.worker.adapters import Adapter, AdapterContract, Call, LookUp

release = Adapter("release.publish", contract=AdapterContract.RECONCILIATION, horizon_s=60)


def shelf() -> Path:
    return Path(os.environ["RELEASE_SHELF"])


@release.dispatch
def publish(call: Call) -> Json:
    (shelf() / call.key).write_text(json.dumps(call.input))
    return {"published": call.key}


@release.status
def find(look: LookUp) -> Status:
    if (shelf() / look.key).exists():
        return Succeeded(ToolPayload.json({"published": look.key}))
    return Failed("there is no such release")


@release.compensate
async def withdraw(call: Call) -> Status:
    if call.input != {"undo": "release"}:
        return Failed("this is no withdrawal")
    (shelf() / call.key).write_text(f"withdrawn: {call.operation_key}")
    return Succeeded(ToolPayload.json({"withdrawn": call.operation_key}))


@release.compensation_status
async def find_withdrawal(look: LookUp) -> Status:
    if (shelf() / look.key).exists():
        return Succeeded(ToolPayload.json({"withdrawn": look.operation_key}))
    return Failed("there is no such withdrawal")
