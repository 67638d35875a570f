"""What a user writes for a worker: an adapter that publishes releases and withdraws them.

It runs in the worker's process and sees the folder that was granted and nothing else. `register`
has one line for each effect, so whoever counts its lines counts effects. While the file `hold` is
there, a withdrawal does not return: that is when the demonstration kills the worker.
"""

import os
import time
from pathlib import Path

from amends.contracts.json_types import Json
from amends.contracts.worker_payload import Failed, Status, Succeeded, ToolPayload
from amends.worker.adapters import Adapter, AdapterContract, Call, LookUp

release = Adapter("release.publish", contract=AdapterContract.RECONCILIATION)


def shelf() -> Path:
    """The folder of the releases."""
    return Path(os.environ["AMENDS_DEMO_SHELF"])


@release.dispatch
def publish(call: Call) -> Json:
    """Publish the release."""
    return _write("published", call.key)


@release.compensate
def withdraw(call: Call) -> Status:
    """Take the release back, if that is what is asked for."""
    if not isinstance(call.input, dict) or call.input.keys() != {"reason"}:
        return Failed("this is no withdrawal")
    done = _write("withdrawn", call.key)
    while (shelf() / "hold").exists():
        time.sleep(0.05)
    return Succeeded(ToolPayload.json(done))


@release.status
def find(look: LookUp) -> Status:
    """Look a release up."""
    return _find(look.key)


@release.compensation_status
def find_withdrawal(look: LookUp) -> Status:
    """Look a withdrawal up."""
    return _find(look.key)


def _find(wanted: str) -> Status:
    for line in (shelf() / "register").read_text("utf-8").splitlines():
        word, key = line.split()
        if key == wanted:
            return Succeeded(ToolPayload.json({word: key}))
    return Failed("the register does not have it")


def _write(word: str, key: str) -> dict[str, Json]:
    with (shelf() / "register").open("a", encoding="utf-8") as register:
        register.write(f"{word} {key}\n")
    return {word: key}
