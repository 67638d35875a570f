"""What every command over a store's file takes: the store, and how to answer."""

from dataclasses import dataclass
from typing import Annotated, Final

from cyclopts import Parameter

from amends.cli.options import DEFAULT_STORE, STORE


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Place:
    """The store, and the form of the answer.

    Parameters
    ----------
    store
        The store's URL.
    json
        Print one JSON document on standard output, also on failure.
    """

    store: Annotated[str, Parameter(env_var=STORE)] = DEFAULT_STORE
    json: Annotated[bool, Parameter(negative=(), show_default=False)] = False


HERE: Final = Place()
