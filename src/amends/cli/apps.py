"""The program that the command line works for: its capabilities and settings, by name.

`module:attribute` is imported with the working directory on the path, as if the command had been
run by `python -m`; a name that ends in `.toml` is a file of HTTP capabilities. What goes wrong
inside the program is shown as its own traceback on standard error, since only its author can mend
it.
"""

import sys
import traceback
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, TypeGuard

from amends.app.amends import Registrable
from amends.app.capabilities import Buildable
from amends.contracts.declarations import Capability
from amends.contracts.errors import AmendsError, Misuse
from amends.wiring.opening import Settings

if TYPE_CHECKING:
    from amends.worker.adapters import Adapters

Capabilities: TypeAlias = tuple[Registrable, ...]
_FILE: Final = ".toml"
_IMPORTING: Final = import_module.__code__.co_filename
_ON_THE_WAY: Final = (__file__, _IMPORTING, "<frozen importlib.")
"""How the names of the files begin that lie between a command and the app it imports."""


def load_capabilities(place: str | None) -> Capabilities:
    """The capabilities of an app; none where no app is named.

    Raises `Misuse` (`cli.place_invalid`, `cli.app_failed`, `cli.app_invalid`), and what a file of
    HTTP capabilities is refused with.
    """
    if place is None:
        return ()
    if place.endswith(_FILE):
        from amends.connectors.http import toml

        return toml.load_capabilities(place)
    found = _called(_loaded(place))
    if _is_registrable(found):
        return (found,)
    if not isinstance(found, Iterable) or isinstance(found, str | bytes):
        raise _invalid("The app is no capability and no list of capabilities.")
    capabilities = tuple(found)
    if not all(map(_is_registrable, capabilities)):
        raise _invalid("The app lists something that is no capability.")
    return capabilities


def load_settings(place: str | None) -> Settings:
    """The settings that are named, or the default ones. Raises as `load_capabilities`."""
    if place is None:
        return Settings()
    found = _called(_loaded(place))
    if not isinstance(found, Settings):
        raise _invalid("The settings are no amends.Settings.")
    return found


def load_adapters(place: str) -> "Adapters":
    """The adapters of a worker: one, an iterable of them, or a function that returns either.

    Raises as `load_capabilities`, and `Misuse` (`misuse.adapter_invalid`).
    """
    from amends.worker.adapters import Adapter, Adapters

    found = _called(_loaded(place))
    if isinstance(found, Adapters):
        return found
    several = tuple(found) if isinstance(found, Iterable) else (found,)
    adapters = [one for one in several if isinstance(one, Adapter)]
    if not adapters or len(adapters) != len(several):
        raise Misuse(
            "cli.app_invalid",
            "The place names no adapters.",
            next_step="Name an Adapter, an iterable of them, or a function that returns one.",
        )
    return Adapters(*adapters)


def app_required() -> Misuse:
    """The error of a command that cannot do without capabilities."""
    return Misuse(
        "cli.app_required",
        "This command carries something out, and no app is named.",
        next_step="Name where the capabilities are: --app module:attribute, or AMENDS_APP.",
    )


def _loaded(place: str) -> object:
    module, colon, attribute = place.partition(":")
    if not colon or not module or not attribute:
        raise Misuse(
            "cli.place_invalid",
            "An app or settings are named as module:attribute.",
            next_step="Write it as in --app shop.payments:capabilities.",
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: object = import_module(module)
        for name in attribute.split("."):
            found = getattr(found, name)
    except AmendsError:
        raise
    except (Exception, SystemExit) as error:
        _show(error)
        raise _failed("The app could not be imported.", error) from None
    return found


def _called(found: object) -> object:
    """What a function returns, and everything else as it is. A capability is no such function."""
    if not callable(found) or isinstance(found, Buildable | type):
        return found
    try:
        made: object = found()
    except AmendsError:
        raise
    except (Exception, SystemExit) as error:
        _show(error)
        raise _failed("The function that makes the app failed.", error) from None
    return made


def _show(error: BaseException) -> None:
    """The traceback as the app's author needs it: without the way through this file to the app."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_ON_THE_WAY):
        frames = frames.tb_next
    traceback.print_exception(error.with_traceback(frames))


def _is_registrable(one: object) -> TypeGuard[Registrable]:
    match one:
        case Buildable():
            return True
        case (Capability(), connector):
            return hasattr(connector, "carry_out")
        case _:
            return False


def _failed(message: str, error: BaseException) -> Misuse:
    """The kind of error stands in the one document, its words only in the traceback."""
    return Misuse(
        "cli.app_failed",
        message,
        details={"exception": type(error).__name__},
        next_step="The traceback above says where.",
    )


def _invalid(message: str) -> Misuse:
    return Misuse(
        "cli.app_invalid",
        message,
        next_step="Name a capability, an iterable of them, or a function that returns one.",
    )
