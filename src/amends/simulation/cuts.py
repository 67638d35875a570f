"""Prefix cuts: a scenario is stopped after each of its change sets, and recovered from there.

What is left after a cut is the store as the change set left it, and the provider with everything
that had been sent to it. Until the next change set the processes may have sent more before they
died, so where they did each cut is made twice: with nothing of it sent, and with all.
"""

from collections.abc import Iterator
from typing import NamedTuple

from amends.contracts.documents import TransactionRecord
from amends.simulation.scenarios import Playhouse
from amends.simulation.town import Town
from amends.stores.port import ChangeSet, Insert, Replace


class Cut(NamedTuple):
    """One place to stop at: after so many change sets, with so many requests sent.

    `about` is the record that the last change set wrote, if it wrote one.
    """

    changes: int
    sent: int
    about: TransactionRecord | None


def cuts_of(town: Town) -> Iterator[Cut]:
    """Every place at which the scenario that was played in this town could have stopped."""
    history = town.chronicle.history
    for number, moment in enumerate(history, start=1):
        following = history[number].sent if number < len(history) else town.bank.sent
        for sent in sorted({moment.sent, following}):
            yield Cut(number, sent, _about(moment.change_set))


def recover_each_cut(house: Playhouse, seed: int) -> Iterator[Cut]:
    """Play a scenario, stop it everywhere, and recover it; each cut that held is yielded.

    Raises `Violation`.
    """
    town = house.play(seed)
    for number, cut in enumerate(cuts_of(town)):
        past = town.past(cut.changes, sent=cut.sent)
        try:
            house.recover(seed, past, at_once=number % 2 == 0)
        except BaseException as error:
            error.add_note(f"stopped after {cut.changes} change sets, with {cut.sent} sent")
            raise
        yield cut


def _about(change_set: ChangeSet) -> TransactionRecord | None:
    for change in change_set.changes:
        match change:
            case Insert(document=TransactionRecord() as record):
                return record
            case Replace(document=TransactionRecord() as record):
                return record
            case _:
                continue
    return None
