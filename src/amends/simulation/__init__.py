"""The small world: the real runtime in virtual time, where any process can die at any await.

`loop` is the event loop without an outside, `process` what dies in it, `world` what outlives it.
`scenarios` plays what is drawn by lot in such a world, `cuts` recovers it from everywhere, and
`laws` and `ends` say what is wrong; `python -m amends.simulation` plays for as long as one likes.
No room of the product imports this one; the command line may, lazily.
"""

from amends.simulation.loop import Stalled, VirtualLoop
from amends.simulation.process import Process, ProcessDied, current_process
from amends.simulation.world import Report, VirtualClock, World, observe, run, sweep

__all__ = [
    "Process",
    "ProcessDied",
    "Report",
    "Stalled",
    "VirtualClock",
    "VirtualLoop",
    "World",
    "current_process",
    "observe",
    "run",
    "sweep",
]
