"""What an error means for somebody at a shell: the command to type, the option that is missing.

The engine's next steps speak of calls; here they are followed by what a shell can do about them.
"""

import shlex
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

from amends.cli.acting import CONFIGURE
from amends.contracts.codes import coded
from amends.contracts.errors import AmendsError

_OPERATOR: Final = f'On the command line, an operator has kind = "operator". {CONFIGURE}'
_SETTLER: Final = (
    'On the command line, who rules or settles has the scope "amends:settle" by name, or '
    f'kind = "operator" with every scope. {CONFIGURE}'
)
_RELEASER: Final = (
    'On the command line, who releases has the scope "amends:release" by name, or '
    f'kind = "operator" with every scope. {CONFIGURE}'
)
_KEEPER: Final = (
    'On the command line, who holds or forgets has the scope "amends:hold" or "amends:retain" by '
    f'name, or kind = "operator" with every scope. {CONFIGURE}'
)
_APPROVER: Final = (
    f'On the command line, an approver has the scope "amends:approve" by name. {CONFIGURE}'
)
_POWERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "approval.not_allowed": _APPROVER,
        "approval.separation_of_duties": _APPROVER,
        "transaction.provider_operation_not_accepted": _OPERATOR,
        "transaction.reconcile_not_allowed": _OPERATOR,
        "transaction.settle_not_allowed": _SETTLER,
        "transaction.release_not_allowed": _RELEASER,
        "correction.ruling_not_allowed": _SETTLER,
        "hold.not_allowed": _KEEPER,
        "retention.not_allowed": _KEEPER,
    }
)


def hinted(error: AmendsError, again: str = "") -> AmendsError:
    """The same error, with what can be typed; `again` are the options that are to be repeated."""
    hint = " ".join(_hints(error, again))
    if not hint:
        return error
    return type(error)(
        error.code,
        error.message,
        details=error.details,
        next_step=f"{error.next_step} {hint}".lstrip(),
    )


def unknown_capability(typed: str, known: Iterable[str]) -> AmendsError:
    """The error of an id that nothing is registered under, with the one that is much like it.

    What was typed is not repeated.
    """
    error = coded("capability.not_found")
    close = get_close_matches(typed, known, n=1)
    hint = f"Did you mean {close[0]}?" if close else "Or see what the app has with amends check."
    return type(error)(error.code, error.message, next_step=f"{error.next_step} {hint}")


def _hints(error: AmendsError, again: str) -> list[str]:
    hints = []
    if error.code in _POWERS:
        hints.append(f"{_POWERS[error.code]} Then use --as.")
    due = error.details.get("reconcile_after")
    if error.code == "transaction.reconcile_not_due" and isinstance(due, str):
        hints.append(f"That is {due}; --wait SECONDS waits for it.")
    until = error.details.get("until")
    if error.code == "transaction.in_progress" and isinstance(until, str):
        hints.append(f"Its lease ends at {until}; --wait SECONDS waits for it.")
    wait_ms = error.details.get("retry_after_ms")
    if error.code == "policy.limit_exceeded" and isinstance(wait_ms, int):
        hints.append(f"Rule {error.details.get('rule')} has room again in {wait_ms / 1000:.0f} s.")
    id_ = error.details.get("transaction_id") or error.details.get("action_id")
    if isinstance(id_, str):
        hints.append(f"Type: amends tx show {shlex.quote(id_)} {again}".rstrip())
    return hints
