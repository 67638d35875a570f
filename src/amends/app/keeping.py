"""What is kept, and for how long: legal holds, and forgetting what was kept long enough."""

from amends.app.edges import flag_of, text_of, text_or_none
from amends.contracts.documents import LegalHold
from amends.contracts.ids import TransactionId
from amends.contracts.principals import Caller
from amends.contracts.results import Result
from amends.recovery.retaining import Retained, Retention
from amends.runtime.holds import Holds
from amends.stores.port import Page
from amends.wiring.opening import Runtime


class Keeping:
    """Operators' calls; each needs a scope of its own."""

    def __init__(self, runtime: Runtime, caller: Caller) -> None:
        self._holds = Holds(runtime.engine)
        self._retention = Retention(runtime.engine)
        self._keeper = caller

    async def place_hold(self, transaction: Result | str, *, reason: str) -> LegalHold:
        """Keep a transaction whatever its capability declares; with the scope `amends:hold`.

        Nothing can be forgotten of it until the hold is lifted. Raises the `hold.*` codes and
        `transaction.not_found`.
        """
        return await self._holds.place(
            self._keeper, _transaction(transaction), text_of(reason, "reason")
        )

    async def lift_hold(self, transaction: Result | str, *, reason: str) -> LegalHold:
        """End a hold; with the scope `amends:hold`. Raises as `place_hold`."""
        return await self._holds.lift(
            self._keeper, _transaction(transaction), text_of(reason, "reason")
        )

    async def holds(self, *, lifted: bool = False, after: str | None = None) -> Page[LegalHold]:
        """A page of the tenant's holds, newest first; with the scope `amends:hold`."""
        return await self._holds.page(
            self._keeper, lifted=flag_of(lifted, "lifted"), after=text_or_none(after, "after")
        )

    async def retain(self, *, dry_run: bool = False) -> Retained:
        """Forget what was kept for as long as its capability declares; with `amends:retain`.

        Of each transaction whose `retention_ms` is over, counted from its settlement, everything is
        replaced that people and providers have written; what happened stays, with every receipt.
        It cannot be had back. `dry_run` only says what would be done.
        """
        return await self._retention.run(self._keeper, dry_run=flag_of(dry_run, "dry_run"))


def _transaction(named: Result | str) -> TransactionId:
    if isinstance(named, Result):
        return named.transaction_id
    return TransactionId(text_of(named, "transaction_id"))
