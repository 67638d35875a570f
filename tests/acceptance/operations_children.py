"""What the processes of `test_operations` do, each until it is killed. Told by its arguments."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from amends import Amends, AmendsError
from amends.stores.sqlite import backup as copying
from amends.stores.sqlite.backup import Told
from amends.wiring.backups import restore
from tests.acceptance.disk_full_app import charge


def die_after_spilling(path: str) -> None:
    """Pay on a disk that fills up, say what was heard, and die of a kill at once."""

    async def pay() -> None:
        async with Amends.open(f"sqlite:///{path}", [charge], recover=False) as amends:
            try:
                await amends.execute(charge, {"amount": 5}, transaction_id="txn_1")
            except AmendsError as error:
                print(error.code, error.details.get("kept_in"), flush=True)
                os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(pay())


def die_while_restoring(backup: str, path: str) -> None:
    """Die of a kill when half of the pages are put back."""
    copying._PAGES_AT_ONCE = 1  # type: ignore[misc]  # so that there is a half

    def phase(title: str) -> Told:
        def told(done: int, total: int) -> None:
            if title == "Restoring" and done > total // 2:
                os.kill(os.getpid(), signal.SIGKILL)

        return told

    restore(Path(backup), Path(path), replace=True, phase=phase)


def forked_child() -> int:
    """A child with a copy of everything that is open here; it does nothing for a long time."""
    child = os.fork()
    if child == 0:
        os.close(1)
        time.sleep(600)
    return child


def hold(path: str) -> None:
    """Keep a store open, with a child of its own that outlives it, and say so."""

    async def held() -> None:
        async with Amends.open(f"sqlite:///{path}", recover=False) as amends:
            await amends.list()
            child = await asyncio.create_subprocess_exec("sleep", "600")
            print(child.pid, forked_child(), flush=True)
            await asyncio.sleep(600)

    asyncio.run(held())


PARTS: Final[Mapping[str, Callable[..., None]]] = {
    "spill": die_after_spilling,
    "restore": die_while_restoring,
    "hold": hold,
}

if __name__ == "__main__":
    PARTS[sys.argv[1]](*sys.argv[2:])
