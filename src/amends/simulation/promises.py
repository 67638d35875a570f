"""What the capability of a small world promises, drawn by lot; its provider keeps exactly that.

A promise that is kept to the letter is the hardest to live with: a request is in flight as long as
the declared horizon allows, the provider forgets a key as soon as the declared window allows. Where
the store's clock is stepped, promises carry the size of the steps with them, as a careful author's
would: no deadline can be kept more exactly than the clock that measures it.
"""

from random import Random
from typing import Final, Literal, TypeAlias

import msgspec

from amends.contracts.enums import Collision

HOUR_MS: Final = 3_600_000
PONDERED_MS: Final = 2_000
KINDS: Final = 192
"""How many different promises there are; many scenarios share one, and its compiled form."""

LookUp: TypeAlias = Literal["none", "by_reference", "by_key"]


class Promise(msgspec.Struct, frozen=True, kw_only=True):
    """One way of being a capability. Durations are milliseconds.

    `flight_ms` is how long a request may be under way after it was sent, which is declared only
    where `has_horizon`. `skew_ms` is by how much the store's clock is stepped at most. A connector
    that `ponders` waits a moment before it sends, and stops where it is asked to.
    """

    looks_up: LookUp
    voids: bool
    window_ms: int | None
    has_horizon: bool
    flight_ms: int
    lag_ms: int
    checkpoints: bool
    approval: bool
    refund_approval: bool
    max_compensations: int
    refund_window_ms: int | None
    refunds_apart: bool
    safe_to_retry: bool
    ponders: bool
    redacts: bool
    previews: bool
    collision: Collision
    key_ttl_ms: int | None
    skew_ms: int

    @property
    def horizon_ms(self) -> int | None:
        """The declared in-flight horizon."""
        return self.flight_ms + self.skew_ms if self.has_horizon else None

    @property
    def remembers_s(self) -> float | None:
        """How long the provider really repeats its answer to a key, in seconds.

        The declared window holds for what is sent inside it, so for what is in flight at its end.
        """
        if self.window_ms is None:
            return None
        return (self.window_ms + self.flight_ms + self.skew_ms) / 1000


def draw_promise(number: int) -> Promise:
    """The promise of this number, counted modulo `KINDS`; always the same."""
    lot = Random(f"promise {number % KINDS}")
    looks_up: LookUp = lot.choice(("none", "by_reference", "by_key", "by_key", "by_key"))
    return Promise(
        looks_up=looks_up,
        voids=looks_up == "by_key" and lot.random() < 0.25,
        window_ms=lot.choice((None, None, 40_000, 300_000)),
        has_horizon=lot.random() < 0.7,
        flight_ms=lot.choice((0, 8_000, 20_000)),
        lag_ms=lot.choice((0, 0, 6_000)),
        checkpoints=lot.random() < 0.7,
        approval=lot.random() < 0.3,
        refund_approval=lot.random() < 0.3,
        max_compensations=lot.choice((1, 1, 2)),
        refund_window_ms=lot.choice((None, None, None, 60_000)),
        refunds_apart=lot.random() < 0.3,
        safe_to_retry=lot.random() < 0.5,
        ponders=lot.random() < 0.3,
        redacts=lot.random() < 0.1,
        previews=lot.random() < 0.2,
        collision=lot.choice(tuple(Collision)),
        key_ttl_ms=lot.choice((None, None, 60_000)),
        skew_ms=lot.choice((0, 0, 0, 0, HOUR_MS, 2 * HOUR_MS)),
    )
