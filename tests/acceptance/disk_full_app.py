"""An app whose disk fills up in the middle of a payment: the charge is made, and then no file of
this process may grow beyond what it is.

The limit is the kernel's own (`RLIMIT_FSIZE`), so the store meets a real error of a real write. The
provider's books and a spilled settlement are small files, and still fit.
"""

import os
import resource
from pathlib import Path
from typing import Final

from amends import Attempt, ExecutionContract, capability

BOOKS: Final = "DISK_FULL_BOOKS"
LIMIT: Final = 4096


def moved(key: str) -> None:
    """The provider does it, and keeps it."""
    with Path(os.environ[BOOKS]).open("a") as file:
        file.write(f"{key}\n")


@capability(
    "payments.charge",
    side_effects=["financial"],
    execution=ExecutionContract(lookup_by_key=True),
)
async def charge(order: dict[str, int], attempt: Attempt) -> dict[str, str]:
    moved(attempt.provider_key)
    # Python ignores the signal that comes with it, so that a write just fails.
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))
    return {"charge": "ch_1"}


@charge.reconcile
async def look(order: dict[str, int], attempt: Attempt) -> dict[str, str]:
    raise AssertionError("the provider is not asked: its answer is at hand")
