"""One of the two processes that race: ``python -m amends.cli.demo.racer STAGE``.

It goes on with the approved commit when told to. If it wins, it dies for real: when the provider's
answer to the charge has arrived and nobody has read it yet, the process hangs until it is killed.
Otherwise it prints the code it was refused with.

Invariants: it starts when its standard input says so, and ends with whoever holds the other end.
Nothing of the library or of the capability is changed for the crash; only the transport is.
"""

import os
import sys
import threading
from typing import Any

import msgspec
import stripe

from amends import AmendsError, blocking
from amends.cli.demo.capability import card_charges
from amends.cli.demo.crash_point import hang_after_effect
from amends.cli.demo.stage import ALICE, Stage, settings


class Errand(msgspec.Struct, frozen=True):
    """What a racer is told: the action to go on with, and the files by which it is heard."""

    stage: Stage
    action_id: str
    ready: str
    charged: str


def main(errand: Errand) -> None:
    """Get ready, say so, wait for the start, and go on with the commit."""
    start = threading.Event()
    threading.Thread(target=_listen, args=(start,), daemon=True).start()
    stage = errand.stage
    charge = card_charges(stage.client(_dying_transport(errand)))
    with blocking.open(
        stage.url, [charge], principal=ALICE, settings=settings(recover=False)
    ) as alice:
        stage.file(errand.ready).touch()
        start.wait()
        try:
            told = alice.resume(errand.action_id).status.value
        except AmendsError as error:
            told = error.code
    print(told)


def _listen(start: threading.Event) -> None:
    """The first byte is the start; the end of standard input is the end of the parent."""
    while os.read(sys.stdin.fileno(), 1):
        start.set()
    os._exit(1)


def _dying_transport(errand: Errand) -> type[stripe.RequestsClient]:
    class DyingTransport(stripe.RequestsClient):
        """Carries requests as ever, but its process does not survive the answer to a charge."""

        def request(self, method: str, *rest: Any, **options: Any) -> Any:
            answer = super().request(method, *rest, **options)
            if method == "post":
                hang_after_effect(errand.stage.file(errand.charged))
            return answer

    return DyingTransport


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Errand))
