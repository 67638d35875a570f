"""`amends check`: every fault and every risky choice of an app's capabilities, before it is run."""

import sys
from typing import Annotated

from cyclopts import Parameter

from amends.cli.options import APP


def check(
    app: Annotated[str, Parameter(env_var=APP, help="The app: module:attribute, or a TOML file.")],
    /,
    *,
    silence: Annotated[
        tuple[str, ...], Parameter(help="A code, or capability:code; it may be given again.")
    ] = (),
    json: Annotated[
        bool, Parameter(negative=(), show_default=False, help="Print one JSON document.")
    ] = False,
) -> int:
    """List every fault and every risky choice. Nothing is opened and nothing is carried out."""
    from contextlib import redirect_stdout

    from amends.cli.answers import give
    from amends.cli.apps import load_capabilities
    from amends.cli.checks import examined

    with redirect_stdout(sys.stderr):
        answer = examined(load_capabilities(app), silence)
    return give(answer, sys.stdout, as_json=json, utc=False, interrupted=False)
