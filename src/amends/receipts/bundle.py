"""Receipts outside their store: lines of JSON that anybody with the public key can check (RC-3).

The first line says which store they come from, which public keys belong to it, and the checkpoints
of its log; each line after it is one chain, with the way from the chain to the checkpoints. The
last line counts them and seals all before it with the store's key, so that a file which was cut,
spliced or put together anew shows. There is nothing else in a bundle, and the reader takes nothing
else: every line has to be, byte by byte, what a writer makes.

The keys in a bundle prove only that it agrees with itself. Whoever checks one for a reason brings
the keys, and the head of a chain or a checkpoint, from somewhere else.

Pure: lines in, lines out. Deliberately not here: files, what is wrong with a chain (`verify`), and
what checkpoints say (`log`).
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final, TypeVar

import msgspec

from amends.contracts.errors import Corrupt
from amends.contracts.evidence import Receipt
from amends.contracts.ids import TenantId
from amends.receipts.keyset import Jwk, key_of
from amends.receipts.signing import KeyRing, Signer

FORMAT: Final = "amends-receipts-2"
SEAL_TAG: Final = b"amends-bundle-v1\n"
T = TypeVar("T")


class SealFault(StrEnum):
    """What can be wrong with the seal of a bundle whose lines are each as they should be."""

    ALTERED = "bundle.altered"
    UNSEALED = "bundle.unsealed"
    KEY_UNKNOWN = "bundle.key_unknown"
    KEY_COMPROMISED = "bundle.key_compromised"


class Published(msgspec.Struct, frozen=True, omit_defaults=True):
    """A checkpoint, and the path which shows that it goes on from the one before it, if any."""

    note: str
    path: tuple[str, ...] = ()


class Header(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the receipts come from: the store's lineage, its public keys, and its checkpoints, the
    earliest first. `whole` says that every receipt of the store's log is here.
    """

    format: str
    store: str
    keys: tuple[Jwk, ...]
    checkpoints: tuple[Published, ...] = ()
    whole: bool = False


class Inclusion(msgspec.Struct, frozen=True, kw_only=True):
    """The way from a receipt, by its number and its place in the log, to the checkpoint of `size`.

    The path is in hex, from the leaf upwards.
    """

    size: int
    number: int
    place: int
    path: tuple[str, ...]


class ChainLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One chain of one tenant, from its first receipt on, with each one's place in the log.

    `proofs` has one for each checkpoint by which the chain had grown.
    """

    tenant: TenantId
    chain: str
    receipts: tuple[Receipt, ...]
    places: tuple[int, ...] = ()
    proofs: tuple[Inclusion, ...] = ()


class Footer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The end: how many chains and receipts there were, and the seal over the lines before."""

    chains: int
    receipts: int
    digest: str
    key_id: str | None = None
    signature: str | None = None


def write_lines(
    header: Header, chains: Iterable[ChainLine], signer: Signer | None = None
) -> Iterator[bytes]:
    """The lines of a bundle, each with its line feed, sealed where there is a signer."""
    digest = hashlib.sha256()
    counted = receipts = 0
    line = _line(header)
    digest.update(line)
    yield line
    for chain in chains:
        counted += 1
        receipts += len(chain.receipts)
        line = _line(chain)
        digest.update(line)
        yield line
    footer = Footer(chains=counted, receipts=receipts, digest=digest.hexdigest())
    if signer is not None:
        held = signer.held()
        signature = held.sign(_sealed_bytes(footer)).hex()
        footer = msgspec.structs.replace(footer, key_id=held.key_id, signature=signature)
    yield _line(footer)


class Bundle:
    """A bundle that is read line by line; `header` is known at once, the chains come as asked for.

    Raises `Corrupt`, naming the line: `bundle.malformed` for anything that is not as it is written
    here, `bundle.unknown_format` for a format that this version does not know.
    """

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = enumerate(lines, start=1)
        self._digest = hashlib.sha256()
        number, first = next(self._lines, (1, b""))
        _require_format(first, number)
        self.header = _read(first, number, _HEADER)
        self._take(first)
        self.keys = _ring(self.header, number)
        self._footer: Footer | None = None

    def chains(self) -> Iterator[ChainLine]:
        """The chains in their order.

        Raises `Corrupt`: `bundle.malformed`, and `bundle.cut` when the end does not come or counts
        something else.
        """
        receipts = 0
        for number, line in self._lines:
            if line.startswith(_ENDS):
                self._end(_read(line, number, _FOOTER), number - 2, receipts)
                return
            chain = _read(line, number, _CHAIN)
            self._take(line)
            receipts += len(chain.receipts)
            yield chain
        raise _cut()

    def seal_fault(self, keys: KeyRing) -> SealFault | None:
        """What is wrong with the seal, for whoever believes these keys; after the last chain.

        With an empty ring a bundle that was never sealed passes.
        """
        footer = self._footer
        assert footer is not None
        if footer.digest != self._digest.hexdigest():
            return SealFault.ALTERED
        if footer.signature is None or footer.key_id is None:
            return SealFault.UNSEALED if len(keys) else None
        key = keys.get(footer.key_id)
        if key is None:
            return SealFault.KEY_UNKNOWN
        if not keys.confirms(footer.key_id, _sealed_bytes(footer), footer.signature):
            return SealFault.ALTERED
        return SealFault.KEY_COMPROMISED if key.compromised else None

    def _take(self, line: bytes) -> None:
        """Into the digest, with the line feed that readers may have taken off."""
        self._digest.update(line if line.endswith(b"\n") else line + b"\n")

    def _end(self, footer: Footer, chains: int, receipts: int) -> None:
        if (footer.chains, footer.receipts) != (chains, receipts):
            raise _cut()
        for number, _ in self._lines:
            raise _malformed(number)
        self._footer = footer


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
        return KeyRing(map(key_of, header.keys))
    except Corrupt:
        raise _malformed(number) from None


def _sealed_bytes(footer: Footer) -> bytes:
    """What a seal covers; the counts follow from the lines."""
    return SEAL_TAG + footer.digest.encode()


_HEADER: Final = msgspec.json.Decoder(Header)
_CHAIN: Final = msgspec.json.Decoder(ChainLine)
_FOOTER: Final = msgspec.json.Decoder(Footer)
_ENCODER: Final = msgspec.json.Encoder()
_ENDS: Final = b'{"chains":'
"""How the last line is told from a chain."""


class _Formatted(msgspec.Struct):
    format: str


_FORMATTED: Final = msgspec.json.Decoder(_Formatted)


def _line(part: Header | ChainLine | Footer) -> bytes:
    return _ENCODER.encode(part) + b"\n"


def _read(line: bytes, number: int, decoder: msgspec.json.Decoder[T]) -> T:
    """A line that says exactly what a writer would have said of it.

    Comparing the bytes leaves no room for what parsers read in two ways: a member twice, one that
    nobody reads, another spelling of a number or of a text.
    """
    try:
        part = decoder.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise _malformed(number) from None
    if _ENCODER.encode(part) != line.removesuffix(b"\n"):
        raise _malformed(number)
    return part


def _require_format(line: bytes, number: int) -> None:
    """A later format may have another first line, but says which one it is."""
    try:
        stated = _FORMATTED.decode(line).format
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise _malformed(number) from None
    if stated != FORMAT:
        raise Corrupt(
            "bundle.unknown_format",
            "This bundle has a format that this version does not know.",
            next_step="Check it with the version that wrote it, or export it anew.",
        )


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
