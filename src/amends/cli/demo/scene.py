"""What every chapter needs at hand: the stage, the teller, and what was seen so far."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from amends import AmendsError, Result, blocking
from amends.blocking import Portal
from amends.cli.demo import stripe_calls
from amends.cli.demo.capability import card_charges
from amends.cli.demo.seen import Seen
from amends.cli.demo.stage import ALICE, Patience, Stage, settings
from amends.cli.demo.teller import Teller


class Scene:
    """One telling of the story, with its capability over the one provider."""

    def __init__(self, stage: Stage, teller: Teller) -> None:
        self.stage = stage
        self.teller = teller
        self.patience = Patience()
        self.seen = Seen()
        self._client = stage.client()
        self.charge = card_charges(self._client)

    def opened(self) -> AbstractContextManager[Portal]:
        """Amends on the database of the stage, for Alice, looking after what is due."""
        return blocking.open(
            self.stage.url, [self.charge], principal=ALICE, settings=settings(recover=True)
        )

    def enter(self, sentence: str, result: Result, style: str = "green") -> Result:
        """Tell what came of something, and keep its status for the timeline."""
        return self.step(self.seen.timeline, sentence, result, style)

    def step(
        self, timeline: list[str], sentence: str, result: Result, style: str = "green"
    ) -> Result:
        """As `enter`, for the timeline of another act."""
        timeline.append(result.status.value)
        self.teller.found(sentence, result.status.value, style)
        return result

    def refuse(
        self, sentence: str, ask: Callable[[], object], kept: list[str] | None = None
    ) -> None:
        """Do what has to be refused, tell its code and keep it."""
        try:
            ask()
        except AmendsError as error:
            (self.seen.refused if kept is None else kept).append(error.code)
            self.teller.refused(sentence, error.code)
        else:
            self.teller.found(sentence, "was not refused", "red")

    def wait(
        self, sentence: str, expected_s: float, look: Callable[[], Result], statuses: set[str]
    ) -> Result:
        """Wait as long as the status is one of these; what it is then.

        Raises `Unavailable` (`demo.too_slow`).
        """
        with self.teller.waiting(sentence, expected_s) as tick:
            while (result := look()).status.value in statuses:
                self.patience.check(sentence)
                tick()
        return result

    def count(self) -> None:
        """Ask the provider, not the database, how often money has moved."""
        self.seen.charges = stripe_calls.count_charges(self._client)
        self.seen.refunds = stripe_calls.count_refunds(self._client)
        self.teller.counted(f"At the provider: {self.tally}.")

    @property
    def tally(self) -> str:
        """The provider's last count in words."""
        return f"{_of(self.seen.charges, 'charge')}, {_of(self.seen.refunds, 'refund')}"


def _of(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"
