"""Programs for the commands about keeping and checking: careful, careless and broken ones."""

from typing import Final

from amends import DataContract, FunctionCapability, capability
from amends.contracts.declarations import Capability, CompensationContract
from amends.contracts.enums import CompensationMode
from amends.contracts.ids import CapabilityId


@capability("notes.write", data=DataContract(retention_ms=1))
async def write(note: dict[str, str]) -> dict[str, str]:
    """Write a note, and say it again."""
    return note


@capability("notes.read", side_effects=["read"])
async def read(note: dict[str, str]) -> dict[str, str]:
    """Read a note."""
    return note


@capability(
    "notes.pay",
    side_effects=["financial"],
    accepted_risks=["financial_unapproved", "key_not_required", "horizon_missing"],
)
async def pay(note: dict[str, str]) -> None:
    """Pay for a note."""


@capability("notes.misspelt", side_effects=["read"], accepted_risks=["finansial_unapproved"])
async def misspelt(note: dict[str, str]) -> None:
    """Accept what there is not."""


capabilities: Final = (write, read)
careless: Final = (pay, read)
typing_error: Final = (misspelt,)
careful: Final = (read,)


def broken() -> tuple[object, ...]:
    """Everything that keeps an app from starting, all at once."""
    told, connector = read.build()
    bare = Capability(id=CapabilityId("notes.bare"))
    lost = CompensationContract(
        mode=CompensationMode.SUPPORTED,
        compensation_capability_id=CapabilityId("notes.nobody"),
    )
    twice: FunctionCapability[..., object] = read
    wrong = Capability(id=CapabilityId("notes.typed"), risk="very high")  # type: ignore[arg-type]  # the fault

    @capability("notes.send", compensation=lost)
    async def sends(note: dict[str, str]) -> None:
        """Send what nobody can take back."""

    return ((bare, connector), (told, connector), twice, (wrong, connector), sends)
