"""What one code means: its family, what happened, and what its reader can do."""

from typing import Final, NamedTuple

from amends.contracts.errors import AmendsError

RECONCILE: Final = "Do not repeat it: reconcile the transaction."
SAME_ACTION: Final = "Send the same action again later; it will not run twice."


class Code(NamedTuple):
    """One row of the list of codes."""

    family: type[AmendsError]
    message: str
    next_step: str
    retryable: bool = False
