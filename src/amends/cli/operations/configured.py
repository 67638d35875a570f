"""Checks of what a shell is set up with: the app, its settings, principals, and rules."""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Final

from amends.app.amends import Amends
from amends.cli.acting import read_principals
from amends.cli.apps import load_capabilities, load_settings
from amends.cli.paper import counted
from amends.contracts.errors import AmendsError
from amends.wiring.contents import Check, Level
from amends.wiring.opening import Settings
from amends.wiring.places import is_file

_WRITABLE_BY_OTHERS: Final = 0o022


def configured(
    app: str | None, settings: str | None, principals: Path | None, policy: Path | None
) -> Iterator[Check]:
    """One check for each that is named."""
    if app is not None:
        yield _checked("app", lambda: _told_of_app(app))
    if settings is not None:
        yield _checked("settings", lambda: _told(load_settings(settings)))
    if principals is not None:
        yield _checked("principals", lambda: _listed(principals))
    if policy is not None:
        yield _checked("policy", lambda: _ruled(policy))
        yield from _unguarded(policy)


def _checked(name: str, look: Callable[[], str]) -> Check:
    try:
        with redirect_stdout(sys.stderr):
            says = look()
    except AmendsError as error:
        says = f"{error.message} [{error.code}]"
        return Check(name=name, level=Level.FAULT, says=says, todo=error.next_step)
    return Check(name=name, level=Level.OK, says=says)


def _told_of_app(app: str) -> str:
    return f"The app declares {counted(_declared(app), 'capability', 'capabilities')}."


def _listed(principals: Path) -> str:
    number = len(read_principals(principals).principals)
    return counted(number, "principal is listed.", "principals are listed.")


def _ruled(policy: Path) -> str:
    """How many rules there are, and their revision, which decisions name."""
    from amends.wiring.policies import PolicyFile

    rules = PolicyFile(policy).current
    return f"{counted(len(rules.rules), 'rule', 'rules')}, of revision {rules.revision}."


def _unguarded(policy: Path) -> Iterator[Check]:
    """A warning where others can write the rules, since these decide what is allowed."""
    if os.name == "posix" and is_file(policy) and policy.stat().st_mode & _WRITABLE_BY_OTHERS:
        yield Check(
            name="policy",
            level=Level.WARN,
            says=f"Other users can write {policy.name}, and so decide what is allowed.",
            todo=f"Run: chmod go-w {policy.name}",
        )


def _told(settings: Settings) -> str:
    """What can be told of settings: policies and credential sources may hold secrets."""
    return f"They drain {settings.drain_ms} ms, with a grace of {settings.grace_ms} ms."


def _declared(app: str) -> int:
    """How many capabilities an app has, all of which could be registered."""

    async def register() -> int:
        capabilities = load_capabilities(app)
        async with Amends.open("memory:", capabilities, recover=False):
            return len(capabilities)

    return asyncio.run(register())
