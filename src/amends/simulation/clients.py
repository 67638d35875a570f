"""The clients of a small world together: what they do next, at which pace.

One move after the other is drawn by lot from those that make sense now, and goes through whichever
process is alive. Clients share what they know, so that one decides on what another began.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from amends.simulation.client import Move
from amends.simulation.decider import Decider
from amends.simulation.investigator import Investigator
from amends.simulation.messenger import Messenger
from amends.simulation.requester import Requester
from amends.simulation.town import Town

_PAUSES_S: Final = (0.0, 0.0, 0.5, 4.0, 6.0, 16.0, 45.0, 130.0)


class Clients:
    """Everybody who asks anything of one town. Every town has other habits."""

    def __init__(self, town: Town) -> None:
        self._lot = town.lot
        everybody = (Requester(town), Decider(town), Investigator(town), Messenger(town))
        usual = [habit for one in everybody for habit in one.habits().items()]
        self._choosers: list[Callable[[], Move | None]] = [move for move, _ in usual]
        self._weights = [often * self._lot.choice((0.1, 1, 4)) for _, often in usual]

    async def live(self, moves: int) -> None:
        """Make some moves, now and then two at once, with pauses between them."""
        for _ in range(moves):
            at_once = 2 if self._lot.random() < 0.25 else 1
            await asyncio.gather(*(self._draw()() for _ in range(at_once)))
            await asyncio.sleep(self._lot.choice(_PAUSES_S))

    def _draw(self) -> Move:
        while True:
            move = self._lot.choices(self._choosers, self._weights)[0]()
            if move is not None:
                return move
