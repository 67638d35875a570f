"""The one thing that `amends verify` checks without a store: a file, or `-` for standard input.

It is read once, from front to back, since a pipe has no way back: first as much as tells a proof
from a bundle, then a bundle line by line, or a proof no further than one may be long.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from amends.cli.inputs import STDIN
from amends.cli.paper import clean
from amends.contracts.errors import Misuse, Unavailable
from amends.receipts.proof import LARGEST_PROOF, PROOF_BEGINS


class Reading(NamedTuple):
    """What is being read: how it begins, and where the rest comes from."""

    head: bytes
    rest: BinaryIO

    @property
    def is_proof(self) -> bool:
        """Whether it is a proof, sound or not; everything else is taken for a bundle."""
        return self.head == PROOF_BEGINS

    def proof(self) -> bytes:
        """The whole of it, or as much as a proof may be long."""
        return self.head + self.rest.read(LARGEST_PROOF - len(self.head))

    def lines(self) -> Iterator[bytes]:
        """The lines of a bundle. A head that holds the end of a line begins no bundle anyway."""
        yield self.head if b"\n" in self.head else self.head + self.rest.readline()
        yield from self.rest


@contextmanager
def opened(what: tuple[str, ...]) -> Iterator[Reading]:
    """What was named on the command line, open while the block lasts.

    Raises `Misuse` (`cli.bundle_required`) and `Unavailable` (`verify.no_bundle`).
    """
    if len(what) != 1:
        raise Misuse(
            "cli.bundle_required",
            "One bundle is checked at a time, or a store.",
            next_step="Name one file, - for standard input, or a store with --store.",
        )
    if what[0] == STDIN and sys.stdin is not None:
        yield _begun(sys.stdin.buffer)
        return
    with _file(Path(what[0])) as file:
        yield _begun(file)


def _begun(file: BinaryIO) -> Reading:
    return Reading(file.read(len(PROOF_BEGINS)), file)


def _file(path: Path) -> BinaryIO:
    try:
        if path.is_file():
            return path.open("rb")
    except (OSError, ValueError):
        pass  # it is as good as not there
    raise Unavailable(
        "verify.no_bundle",
        f"There is no bundle {clean(path.name)} in that folder that this user can read.",
        next_step="Name a file of amends export or amends prove, - for standard input, or a store "
        "with --store.",
    )
