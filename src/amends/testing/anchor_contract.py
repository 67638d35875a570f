"""What every anchor keeps to, as tests that run over any of them (ST-2, ST-3).

Subclass `AnchorContract` with a fixture `bench`, which gives what an anchor stands on for one test,
and let pytest collect the subclass.

Deliberately not here: what each anchor stands on. It shows by itself what its disk, its server and
its network do to it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from amends.contracts.errors import AmendsError
from amends.contracts.worker_identity import Fingerprint
from amends.sealed.anchors import FENCES_LOST, FIRST, Anchor, Floor
from amends.sealed.envelopes import Place
from amends.sealed.files import SealedFile
from amends.sealed.keys import KeyRing
from amends.sealed.vault import Storage, Vault
from amends.testing.refusals import refused_with
from amends.wiring.anchors import OpenAnchor

PLACE: Final = Place("worker-journal", "tenant-release")
OTHER: Final = Place("worker-journal", "tenant-other")
KEYS: Final = KeyRing("storage-v1", {"storage-v1": b"\x07" * 32})
_MAX_BYTES: Final = 100_000


class AnchorBench(ABC):
    """What one anchor stands on."""

    @abstractmethod
    def open(self) -> OpenAnchor:
        """Open the anchor, which was made empty."""

    @abstractmethod
    def keep(self) -> None:
        """Remember everything that the anchor holds now, as a backup does."""

    @abstractmethod
    def put_back(self) -> None:
        """Have the anchor hold what was remembered, while nobody has it open."""

    @abstractmethod
    def reseatings(self) -> list[tuple[str, str]]:
        """Who re-seated something and why, from the first to the last."""


class CutOff(Anchor):
    """An anchor whose `advance` is cut off by a crash, before it is carried out or after."""

    def __init__(self, inner: Anchor, *, after: bool) -> None:
        self._inner, self._after = inner, after

    def floor(self, place: Place) -> Floor | None:
        """See `Anchor`."""
        return self._inner.floor(place)

    def create(self, place: Place, floor: Floor) -> None:
        """See `Anchor`."""
        self._inner.create(place, floor)

    def reserve(self, place: Place) -> Floor:
        """See `Anchor`."""
        return self._inner.reserve(place)

    def reseat(self, place: Place, floor: Floor, *, who: str, why: str) -> None:
        """See `Anchor`."""
        self._inner.reseat(place, floor, who=who, why=why)

    def advance(self, place: Place, before: Floor, after: Floor) -> None:
        """See `Anchor`."""
        if self._after:
            self._inner.advance(place, before, after)
        raise OSError("the process ended here")


class AnchorContract:
    """The promises. Each test has an anchor of its own, and a folder for the record."""

    @pytest.fixture(autouse=True)
    def _folder(self, bench: AnchorBench, tmp_path: Path) -> None:
        self._tried = bench
        self._records = tmp_path / "records"
        self._records.mkdir(mode=0o700)
        self._record = self._records / "journal"

    @contextmanager
    def anchored(self) -> Iterator[Storage]:
        """The record's place, over the anchor as it is now."""
        anchor = self._tried.open()
        try:
            yield self.storage(anchor)
        finally:
            anchor.close()

    def storage(self, anchor: Anchor) -> Storage:
        """The record's place, over this anchor."""
        file = SealedFile(self._records, "journal", max_bytes=_MAX_BYTES)
        return Storage(PLACE, file, anchor, KEYS)

    def saved(self, *payloads: bytes) -> None:
        """Save these, one opening after the other; the first one initialises."""
        with self.anchored() as storage:
            for payload in payloads:
                if self._record.exists():
                    Vault.open(storage).save(payload)
                else:
                    Vault.initialise(storage, payload)

    def test_a_floor_is_created_once_and_read_by_whoever_opens_next(self) -> None:
        with self.anchored() as storage:
            assert storage.anchor.floor(PLACE) is None
            storage.anchor.create(PLACE, FIRST)
            with refused_with("sealed.initialised"):
                storage.anchor.create(PLACE, FIRST)
        with self.anchored() as storage:
            assert storage.anchor.floor(PLACE) == FIRST
            assert storage.anchor.floor(OTHER) is None

    @pytest.mark.rule("ST-3")
    def test_a_fence_is_never_established_by_a_write_and_never_given_twice(self) -> None:
        with self.anchored() as storage:
            anchor = storage.anchor
            with refused_with("sealed.not_initialised"):
                anchor.reserve(PLACE)
            anchor.create(PLACE, FIRST)
            one, two = anchor.reserve(PLACE), anchor.reserve(PLACE)
            assert (one.fence, two.fence) == (1, 2)
            moved = Floor(1, Fingerprint("1" * 64), 2)
            for stale in (FIRST, one, Floor(0, FIRST.commitment, 9)):
                with refused_with("sealed.fenced"):
                    anchor.advance(PLACE, stale, moved)
            with refused_with("sealed.fenced"):
                anchor.advance(OTHER, two, moved)
            anchor.advance(PLACE, two, moved)
            anchor.advance(PLACE, two, moved)  # whose answer was lost, say
            with refused_with("sealed.anchor_moved"):
                anchor.advance(PLACE, two, Floor(1, Fingerprint("2" * 64), 2))
            with refused_with("sealed.fenced"):
                anchor.advance(PLACE, Floor(1, moved.commitment, 0), Floor(2, moved.commitment, 0))
            assert anchor.floor(PLACE) == moved

    @pytest.mark.rule("ST-3")
    def test_fences_that_are_taken_at_the_same_moment_differ(self) -> None:
        def take(_: int) -> int:
            with self.anchored() as storage:
                return storage.anchor.reserve(PLACE).fence

        with self.anchored() as storage:
            storage.anchor.create(PLACE, FIRST)
            with ThreadPoolExecutor(4) as threads:
                assert sorted(threads.map(take, range(8))) == list(range(1, 9))

    @pytest.mark.rule("ST-3")
    def test_of_two_who_move_from_one_floor_at_the_same_moment_one_does(self) -> None:
        with self.anchored() as storage, ThreadPoolExecutor(4) as threads:
            storage.anchor.create(PLACE, FIRST)
            floor = storage.anchor.reserve(PLACE)

            def moves(number: int) -> str:
                after = Floor(1, Fingerprint(f"{number}" * 64), floor.fence)
                with self.anchored() as mine:
                    try:
                        mine.anchor.advance(PLACE, floor, after)
                    except AmendsError as error:
                        return error.code
                return "moved"

            outcomes = list(threads.map(moves, range(4)))
            assert sorted(outcomes) == ["moved", *["sealed.anchor_moved"] * 3]

    @pytest.mark.rule("ST-2", "ST-3")
    def test_threads_that_share_an_anchor_do_not_disturb_one_another(self) -> None:
        places = [Place("workflow-ledger", f"plan-{number}") for number in range(4)]
        with self.anchored() as storage, ThreadPoolExecutor(len(places)) as threads:
            anchor = storage.anchor
            for place in places:
                anchor.create(place, FIRST)

            def move(place: Place) -> Floor | None:
                floor = anchor.reserve(place)
                for revision in range(1, 11):
                    after = Floor(revision, floor.commitment, floor.fence)
                    anchor.advance(place, floor, after)
                    floor = after
                return anchor.floor(place)

            assert list(threads.map(move, places)) == [Floor(10, FIRST.commitment, 1)] * 4

    @pytest.mark.fault(36)
    @pytest.mark.rule("ST-1", "ST-2")
    def test_an_old_record_is_refused(self) -> None:
        self.saved(b"first")
        old = self._record.read_bytes()
        self.saved(b"second")
        self._record.write_bytes(old)
        with self.anchored() as storage, refused_with("sealed.rolled_back"):
            Vault.open(storage)

    @pytest.mark.fault(35)
    @pytest.mark.rule("ST-2")
    def test_a_blank_record_is_refused_and_never_begun_anew(self) -> None:
        self.saved(b"first")
        self._record.unlink()
        with self.anchored() as storage:
            with refused_with("sealed.local_lost"):
                Vault.open(storage)
            with refused_with("sealed.local_lost"):
                Vault.initialise(storage, b"first")

    @pytest.mark.fault(38)
    @pytest.mark.rule("ST-2")
    @pytest.mark.parametrize("later", [[b"third"], [b"third", b"fourth"]], ids=["one", "two"])
    def test_an_old_anchor_is_refused(self, later: list[bytes]) -> None:
        self.saved(b"first", b"second")
        self._tried.keep()
        self.saved(*later)
        self._tried.put_back()
        with self.anchored() as storage, refused_with("sealed.ahead"):
            Vault.open(storage)

    @pytest.mark.rule("ST-2")
    def test_a_fork_is_refused(self) -> None:
        self.saved(b"first")
        old = self._record.read_bytes()
        self._tried.keep()
        self.saved(b"one story")
        one = self._record.read_bytes()
        self._tried.put_back()
        self._record.write_bytes(old)
        self.saved(b"another story")
        self._record.write_bytes(one)
        with self.anchored() as storage, refused_with("sealed.forked"):
            Vault.open(storage)

    @pytest.mark.rule("ST-1", "ST-2")
    def test_a_transplanted_record_is_refused(self) -> None:
        self.saved(b"first")
        with self.anchored() as storage:
            other = storage._replace(place=OTHER)
            for act in (Vault.open, lambda place: Vault.initialise(place, b"first")):
                with refused_with("sealed.transplanted"):
                    act(other)
            storage.anchor.create(OTHER, FIRST)
            with refused_with("sealed.transplanted"):
                Vault.open(other)

    @pytest.mark.rule("ST-2")
    def test_neither_record_nor_floor_asks_for_an_explicit_beginning(self) -> None:
        with self.anchored() as storage:
            with refused_with("sealed.not_initialised"):
                Vault.open(storage)
            assert storage.anchor.floor(PLACE) is None

    @pytest.mark.fault(39)
    @pytest.mark.rule("ST-2")
    @pytest.mark.parametrize("after", [False, True], ids=["anchor not moved", "anchor moved"])
    def test_a_crash_between_record_and_anchor_is_finished_on_opening(self, after: bool) -> None:
        self.saved(b"first")
        with self.anchored() as storage:
            vault = Vault.open(self.storage(CutOff(storage.anchor, after=after)))
            with pytest.raises(OSError, match="ended here"):
                vault.save(b"second")
        with self.anchored() as storage:
            again = Vault.open(storage)
            assert (again.payload, again.revision) == (b"second", 2)
            assert again.finished_a_crash is not after
        self.saved(b"third")

    @pytest.mark.rule("ST-3")
    def test_opening_ends_every_writer_before_it(self) -> None:
        self.saved(b"first")
        with self.anchored() as storage, self.anchored() as elsewhere:
            old, new = Vault.open(storage), Vault.open(elsewhere)
            with refused_with("sealed.fenced"):
                old.save(b"late")
            new.save(b"second")
            assert Vault.open(storage).payload == b"second"

    @pytest.mark.rule("ST-2", "ST-3")
    def test_a_record_without_its_floor_is_seated_by_a_person_who_ends_every_fence(self) -> None:
        self._tried.keep()
        self.saved(b"first", b"second")
        with self.anchored() as storage:
            fence = Vault.open(storage).fence  # the record was written under the one before
        self._tried.put_back()
        with self.anchored() as storage:
            for act in (Vault.open, lambda place: Vault.initialise(place, b"first")):
                with refused_with("sealed.unanchored"):
                    act(storage)
            Vault.reseat(storage, who="olga", why="the anchor is gone")
            vault = Vault.open(storage)
            assert vault.payload == b"second"
            assert vault.fence >= fence + FENCES_LOST
            Vault.reseat(storage, who="olga", why="once more")
        assert self._tried.reseatings() == [
            ("olga", "the anchor is gone"),
            ("olga", "once more"),
        ]
