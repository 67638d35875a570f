"""Scenarios of the small world, each a function of one number.

A scenario draws a promise, a town and its fates from its seed, lets clients live there, then heals:
the provider's faults end, the processes end, and a fresh one sweeps until nothing is due.
Every change set was held against the laws by then; the rest is asked in the end. Whatever is wrong
is raised as `Violation` with the seed, which plays the very same scenario again.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final

from amends.receipts.signing import Ed25519Signer, KeyRing
from amends.simulation.capabilities import Shelf
from amends.simulation.client import perform
from amends.simulation.clients import Clients
from amends.simulation.ends import find_broken_ends
from amends.simulation.hosts import Host
from amends.simulation.promises import draw_promise
from amends.simulation.town import Past, Town
from amends.simulation.world import World

LAST_S: Final = 60.0
"""How long the processes of the bad times may live on in the good ones."""

SWEEPS: Final = 400
"""After so many rounds a world that is still not quiet never will be."""

_SIGNED: Final = 8
"""One scenario out of so many signs its receipts; signing is the dearest thing here."""

_KEY: Final = bytes(range(32))


class Violation(AssertionError):
    """A scenario in which the product broke a law."""

    def __init__(self, seed: int, faults: Iterable[str], story: Iterable[str]) -> None:
        self.seed = seed
        self.faults = tuple(faults)
        self.story = tuple(story)
        listed = "\n  ".join(self.faults)
        super().__init__(f"seed {seed}:\n  {listed}")


class Playhouse:
    """Plays scenarios one after the other, and counts what was seen in all of them."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.played = 0
        self._shelf = Shelf()
        self._signer = Ed25519Signer(_KEY)

    def play_all(self, seeds: Iterable[int]) -> None:
        """Play one scenario after the other. Raises `Violation` for the first that is broken."""
        for seed in seeds:
            self.play(seed)

    def play(self, seed: int) -> Town:
        """Play the scenario of a seed to its end. Raises `Violation`."""

        async def acts(town: Town) -> None:
            await _live(town)
            await _heal(town)

        return self._stage(World(seed), seed, acts)

    def recover(self, seed: int, past: Past, *, at_once: bool) -> Town:
        """Go on where that seed's scenario stopped, with every process dead and all faults over.

        Whoever asked for something asks again: `at_once`, or when all has come to rest.
        Raises `Violation`.
        """

        async def acts(town: Town) -> None:
            healer = _start_healing(town)
            if not at_once:
                await rest(town, healer)
            await _ask_again(town, healer)
            await rest(town, healer)

        return self._stage(World(seed, start=past.clock), seed, acts, past)

    def _stage(
        self,
        world: World,
        seed: int,
        acts: Callable[[Town], Awaitable[None]],
        past: Past | None = None,
    ) -> Town:
        promise = draw_promise(seed)
        signer = self._signer if seed % _SIGNED == 0 else None
        towns: list[Town] = []

        async def scenario(world: World) -> None:
            town = Town(world, promise, self._shelf.registry(promise), signer, past)
            towns.append(town)
            await acts(town)
            keys = KeyRing([self._signer.public_key] if signer else [])
            town.chronicle.faults.extend(await find_broken_ends(town, keys))

        try:
            world.run(scenario)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        (town,) = towns
        if town.chronicle.faults:
            raise Violation(seed, town.chronicle.faults, town.story)
        self.played += 1
        self.seen += town.chronicle.seen
        return town


async def _live(town: Town) -> None:
    clients = Clients(town)
    lives = [clients.live(town.lot.randint(2, 5)) for _ in range(town.lot.choice((1, 1, 2)))]
    if town.promise.skew_ms:
        lives.append(town.step_clock())
    await asyncio.gather(*lives)


async def _heal(town: Town) -> None:
    """End all faults, then all processes, and sweep until nothing is due."""
    town.clear_up()
    survivors = tuple(town.hosts)
    if town.lot.random() < 0.3:
        await asyncio.sleep(LAST_S * town.lot.random())
    for host in survivors:
        host.process.kill()
    healer = _start_healing(town)
    others = [town.start_host(fated=False)] if town.lot.random() < 0.3 else []
    await rest(town, healer, *others)


def _start_healing(town: Town) -> Host:
    town.clear_up()
    town.begin_anew()
    return town.start_host(fated=False)


async def _ask_again(town: Town, host: Host) -> None:
    for request in tuple(town.asked):
        who = f"again {request.action.action_id}"
        await town.ask(who, partial(perform, request), host=host)


async def rest(town: Town, *hosts: Host) -> None:
    """Sweep until nothing is due; several processes sweep at once."""
    for _ in range(SWEEPS):
        due = town.chronicle.next_due()
        if due is None:
            return
        wait = (due - town.chronicle.clock()).total_seconds()
        await asyncio.sleep(max(wait, 0.001))
        await asyncio.gather(*(host.process.run(host.sweeper.sweep()) for host in hosts))
    town.chronicle.fault("it never became quiet")
