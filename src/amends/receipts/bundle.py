"""Receipts outside their store: lines of JSON that anybody with the public key can check (RC-3).

The first line says which store they come from and which public keys belong to it, each line after
it is one chain, and the last one counts them, so that a file which was cut off shows. There is
nothing else in a bundle, and the reader takes nothing else: every line has to be, member by member,
what a writer makes. What no hash covers has no place in it.

The keys in a bundle prove only that it agrees with itself. Whoever checks one for a reason brings
the key, and the head of a chain, from somewhere else.

Pure: lines in, lines out. Deliberately not here: files, and what is wrong with a chain (`verify`).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from amends.contracts.errors import Corrupt, Refused
from amends.contracts.evidence import Receipt
from amends.contracts.ids import TenantId
from amends.contracts.parsing import DOCUMENT_LIMITS, parse_json
from amends.receipts.signing import KeyRing

FORMAT: Final = "amends-receipts-1"
T = TypeVar("T")


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """Where the receipts come from: the store's lineage, and its public keys in hex."""

    format: str = FORMAT
    store: str
    keys: tuple[str, ...]


class ChainLine(msgspec.Struct, frozen=True, kw_only=True):
    """One chain of one tenant, from its first receipt on."""

    tenant: TenantId
    chain: str
    receipts: tuple[Receipt, ...]


class Footer(msgspec.Struct, frozen=True, kw_only=True):
    """The end: how many chains and receipts there were."""

    chains: int
    receipts: int


def write_lines(header: Header, chains: Iterable[ChainLine]) -> Iterator[bytes]:
    """The lines of a bundle, each with its line feed."""
    yield _line(header)
    counted = receipts = 0
    for chain in chains:
        counted += 1
        receipts += len(chain.receipts)
        yield _line(chain)
    yield _line(Footer(chains=counted, receipts=receipts))


class Bundle:
    """A bundle that is read line by line; `header` is known at once, the chains come as asked for.

    Raises `Corrupt`, naming the line: `bundle.malformed` for anything that is not as it is written
    here, `bundle.unknown_format` for a format that this version does not know.
    """

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = enumerate(lines, start=1)
        number, first = next(self._lines, (1, b""))
        self.header = _read(first, number, Header)
        if self.header.format != FORMAT:
            raise Corrupt(
                "bundle.unknown_format",
                "This bundle has a format that this version does not know.",
                next_step="Check it with the version that wrote it, or a later one.",
            )
        self.keys = _ring(self.header, number)

    def chains(self) -> Iterator[ChainLine]:
        """The chains in their order.

        Raises `Corrupt`: `bundle.malformed`, and `bundle.cut` when the end does not come or counts
        something else.
        """
        receipts = 0
        for number, line in self._lines:
            if (footer := _footer(line, number)) is not None:
                self._end(footer, number - 2, receipts)
                return
            chain = _read(line, number, ChainLine)
            receipts += len(chain.receipts)
            yield chain
        raise _cut()

    def _end(self, footer: Footer, chains: int, receipts: int) -> None:
        if (footer.chains, footer.receipts) != (chains, receipts):
            raise _cut()
        for number, _ in self._lines:
            raise _malformed(number)


def key_ring(public_keys: Sequence[str]) -> KeyRing:
    """A ring of public keys in hex. Raises `Corrupt` (`receipt.key_malformed`)."""
    return KeyRing([_raw(key) for key in public_keys])


def _raw(key: str) -> bytes:
    try:
        return bytes.fromhex(key)
    except ValueError:
        return b""


def _ring(header: Header, number: int) -> KeyRing:
    try:
        return key_ring(header.keys)
    except Corrupt:
        raise _malformed(number) from None


def _footer(line: bytes, number: int) -> Footer | None:
    """The last line, told from a chain by what it begins with."""
    return _read(line, number, Footer) if line.startswith(b'{"chains":') else None


def _line(part: Header | ChainLine | Footer) -> bytes:
    return msgspec.json.encode(part) + b"\n"


def _read(line: bytes, number: int, type_: type[T]) -> T:
    """A line that says exactly what a writer would have said of it."""
    try:
        tree = parse_json(line.removesuffix(b"\n"), limits=DOCUMENT_LIMITS)
        part = msgspec.convert(tree, type=type_)
    except (Refused, msgspec.ValidationError):
        raise _malformed(number) from None
    if msgspec.json.decode(msgspec.json.encode(part)) != tree:
        raise _malformed(number)
    return part


def _malformed(number: int) -> Corrupt:
    return Corrupt(
        "bundle.malformed",
        f"Line {number} of the bundle is not as export writes it.",
        details={"line": number},
        next_step="Take nothing from it; export anew, or ask whoever gave it to you.",
    )


def _cut() -> Corrupt:
    return Corrupt(
        "bundle.cut",
        "The bundle does not end where it says: something is missing or was added.",
        next_step="Take nothing from it; export anew, or ask whoever gave it to you.",
    )
