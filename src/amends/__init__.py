"""Amends: actions that cannot be taken back, with a plan, an approval, and one claim each.

This module is what programs import; its names are listed in `amends.app.public`, and `blocking` is
the portal for programs without an event loop. They are loaded when the first of them is asked for,
so that a command which needs none starts at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amends import blocking as blocking
    from amends.app.public import *  # noqa: F403  # the list is there, for people and type checkers
else:

    def __getattr__(name: str) -> object:
        if name == "blocking":
            return import_module("amends.blocking")
        from amends.app import public

        if name == "__all__" or name in public.__all__:
            return getattr(public, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=None)

    def __dir__() -> list[str]:
        from amends.app import public

        return sorted([*globals(), *public.__all__])
