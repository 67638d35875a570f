"""What every command over a store takes: app, store, who acts, and how to answer.

Each option has an environment variable, so that a shell can be set up once. This module is loaded
for the help of a command and brings nothing of the engine with it.
"""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, TypeAlias

from cyclopts import Parameter

APP: Final = "AMENDS_APP"
SETTINGS: Final = "AMENDS_SETTINGS"
POLICY: Final = "AMENDS_POLICY"
STORE: Final = "AMENDS_STORE"
PRINCIPALS: Final = "AMENDS_PRINCIPALS"
DEFAULT_STORE: Final = "sqlite:///amends.db"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Options:
    """The options that all commands over a store share.

    Parameters
    ----------
    app
        Where the capabilities are, as module:attribute. The attribute is a capability, an iterable
        of them, or a function that returns one.
    settings
        Where the amends.Settings are (policy, credentials, drain time), as module:attribute.
    policy
        The YAML file of rules that decide what is allowed, instead of the settings' policy.
    store
        The store's URL.
    as_
        Act for this principal of the principals file.
    principals
        The TOML file that lists principals and which users of this machine may act for them.
    json
        Print one JSON document on standard output, also on failure.
    utc
        Show times in UTC instead of local time.
    """

    app: Annotated[str | None, Parameter(env_var=APP)] = None
    settings: Annotated[str | None, Parameter(env_var=SETTINGS)] = None
    policy: Annotated[Path | None, Parameter(env_var=POLICY)] = None
    store: Annotated[str, Parameter(env_var=STORE)] = DEFAULT_STORE
    as_: Annotated[str | None, Parameter(name="--as")] = None
    principals: Annotated[Path | None, Parameter(env_var=PRINCIPALS)] = None
    json: Annotated[bool, Parameter(negative=(), show_default=False)] = False
    utc: Annotated[bool, Parameter(negative=(), show_default=False)] = False

    def again(self) -> str:
        """What a next command has to repeat of these, as it is typed.

        A URL that may hold a password is left out.
        """
        environment = os.environ
        said = []
        if self.app is not None and self.app != environment.get(APP):
            said += ["--app", self.app]
        if self.settings is not None and self.settings != environment.get(SETTINGS):
            said += ["--settings", self.settings]
        if self.policy is not None and str(self.policy) != environment.get(POLICY):
            said += ["--policy", str(self.policy)]
        if self.store != environment.get(STORE, DEFAULT_STORE) and "@" not in self.store:
            said += ["--store", self.store]
        if self.principals is not None and str(self.principals) != environment.get(PRINCIPALS):
            said += ["--principals", str(self.principals)]
        if self.as_ is not None:
            said += ["--as", self.as_]
        return shlex.join(said)


DEFAULTS: Final = Options()

Flag: TypeAlias = Annotated[bool, Parameter(negative=(), show_default=False)]
Yes: TypeAlias = Annotated[
    bool,
    Parameter(
        name=("--yes", "-y"),
        negative=(),
        show_default=False,
        help="Do not ask. What is not guaranteed is said all the same.",
    ),
]
Input: TypeAlias = Annotated[
    str | None,
    Parameter(
        allow_leading_hyphen=True,
        help="The input as JSON, @file to read it from a file, or - for standard input.",
    ),
]
Pairs: TypeAlias = Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)]
Metadata: TypeAlias = Annotated[
    tuple[str, ...],
    Parameter(
        negative=(),
        show_default=False,
        help="KEY=VALUE, kept with the action for finding it again. May be given many times.",
    ),
]
ActionIdOption: TypeAlias = Annotated[
    str | None, Parameter(help="The action's id. The same id again never runs twice.")
]
Key: TypeAlias = Annotated[
    str | None, Parameter(name="--idempotency-key", help="One key per intent; a repeat is found.")
]
Reviewed: TypeAlias = Annotated[
    bool,
    Parameter(
        name="--approval",
        negative=(),
        show_default=False,
        help="Ask for an approval even where no rule asks for one.",
    ),
]
WaitS: TypeAlias = Annotated[
    float,
    Parameter(name="--wait", help="Wait this many seconds for an approval, then go on."),
]
