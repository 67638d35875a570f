"""The provider's own books: what arrived there, and what effects follow from it.

Kept apart from Amends, so that counting effects here is evidence. The ledger only ever grows; what
an arrival led to is not stored but follows from those before it, in order of arrival. An arrival
may lie in the future: a request that is in flight while its sender is already dead.

`MemoryLedger` is lost with the process. `FileLedger` is shared by processes, and what a killed one
had sent still counts.
"""

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

import msgspec

Kind: TypeAlias = Literal["charge", "refund", "void"]


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it reached the provider. `declined` is its refusal, if the script says so."""

    kind: Kind
    key: str
    amount: int = 0
    currency: str = ""
    target: str = ""
    at: float = 0.0
    declined: str = ""
    ready_at: float = 0.0

    @property
    def asks(self) -> tuple[object, ...]:
        """What must be equal when a key is used again."""
        return (self.kind, self.amount, self.currency, self.target)


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """What the provider made of an arrival; `repeats` an earlier one, or is new.

    Either `operation_id` names an effect, or `refusal` says why there is none, or (for a void) both
    are empty.
    """

    arrival: Arrival
    operation_id: str = ""
    refusal: str = ""
    repeats: bool = False

    @property
    def is_effect(self) -> bool:
        """Whether money moved because of this arrival."""
        return bool(self.operation_id) and not self.repeats


class Ledger(Protocol):
    """Keeps arrivals in order."""

    def append(self, arrive: Callable[[], Arrival]) -> tuple[int, Arrival]:
        """Let something arrive, and return it with its position.

        One at a time: no two get the same position, and time does not run backwards between them.
        """
        ...

    def arrivals(self) -> Sequence[Arrival]:
        """All of them, by position."""
        ...


class MemoryLedger:
    """A ledger for one process and one thread."""

    def __init__(self) -> None:
        self._arrivals: list[Arrival] = []

    def append(self, arrive: Callable[[], Arrival]) -> tuple[int, Arrival]:
        """Let something arrive; see `Ledger`."""
        self._arrivals.append(arrive())
        return len(self._arrivals) - 1, self._arrivals[-1]

    def arrivals(self) -> Sequence[Arrival]:
        """All of them, by position."""
        return tuple(self._arrivals)


class FileLedger:
    """A ledger in a file, one JSON line per arrival, for any number of threads and processes.

    A line is written by a single appending `write`: once `append` returns it outlives the process,
    though not the machine.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)

    def append(self, arrive: Callable[[], Arrival]) -> tuple[int, Arrival]:
        """Let something arrive; see `Ledger`."""
        with self._locked(fcntl.LOCK_EX) as handle:
            position, arrival = len(_read(handle)), arrive()
            os.write(handle, msgspec.json.encode(arrival) + b"\n")
        return position, arrival

    def arrivals(self) -> Sequence[Arrival]:
        """All of them, by position."""
        with self._locked(fcntl.LOCK_SH) as handle:
            return _read(handle)

    @contextmanager
    def _locked(self, how: int) -> Iterator[int]:
        handle = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # Let go when the handle is closed, and with the process however that ends.
            fcntl.flock(handle, how)
            yield handle
        finally:
            os.close(handle)


def _read(handle: int) -> Sequence[Arrival]:
    content = os.pread(handle, os.fstat(handle).st_size, 0)
    return tuple(msgspec.json.decode(line, type=Arrival) for line in content.splitlines())


def rulings(
    arrivals: Sequence[Arrival], now: float, dedup_window_s: float | None
) -> dict[int, Ruling]:
    """What has been made of everything that arrived by `now`, by position, in order of arrival."""
    books = _Books(dedup_window_s)
    in_order = sorted(range(len(arrivals)), key=lambda position: arrivals[position].at)
    return {
        position: books.rule(arrivals[position], position)
        for position in in_order
        if arrivals[position].at <= now
    }


class _Books:
    """One reading of the ledger, from its first arrival on."""

    def __init__(self, dedup_window_s: float | None) -> None:
        self._dedup_window_s = dedup_window_s
        self._by_key: dict[str, list[Ruling]] = {}
        self._voided: set[str] = set()
        self._left: dict[str, int] = {}

    def rule(self, arrival: Arrival, position: int) -> Ruling:
        if arrival.kind == "void":
            return self._void(arrival)
        if arrival.key in self._voided:
            return Ruling(arrival=arrival, refusal="key_voided")
        earlier = self._earlier(arrival)
        if earlier is not None:
            return _repetition(arrival, earlier)
        refusal = arrival.declined or self._refund_refusal(arrival)
        operation_id = "" if refusal else f"{arrival.kind}_{position + 1}"
        made = Ruling(arrival=arrival, operation_id=operation_id, refusal=refusal)
        self._by_key.setdefault(arrival.key, []).append(made)
        if made.is_effect:
            self._move(made)
        return made

    def _void(self, arrival: Arrival) -> Ruling:
        """A key is voided for good, unless its effect is there already."""
        if any(one.is_effect for one in self._by_key.get(arrival.key, ())):
            return Ruling(arrival=arrival, refusal="already_done")
        self._voided.add(arrival.key)
        return Ruling(arrival=arrival)

    def _earlier(self, arrival: Arrival) -> Ruling | None:
        """The last ruling under the same key, while the provider still remembers it."""
        if self._dedup_window_s is None or not arrival.key:
            return None
        remembered = arrival.at - self._dedup_window_s
        made = self._by_key.get(arrival.key, [])
        return next((one for one in reversed(made) if one.arrival.at >= remembered), None)

    def _refund_refusal(self, arrival: Arrival) -> str:
        if arrival.kind != "refund":
            return ""
        if arrival.target not in self._left:
            return "no_such_charge"
        return "" if arrival.amount <= self._left[arrival.target] else "already_refunded"

    def _move(self, made: Ruling) -> None:
        arrival = made.arrival
        if arrival.kind == "charge":
            self._left[made.operation_id] = arrival.amount
        else:
            self._left[arrival.target] -= arrival.amount


def _repetition(arrival: Arrival, earlier: Ruling) -> Ruling:
    if arrival.asks != earlier.arrival.asks:
        return Ruling(arrival=arrival, refusal="key_reused")
    return msgspec.structs.replace(earlier, repeats=True)
