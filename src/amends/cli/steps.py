"""What can be done next, as commands to type: the engine's next steps in the words of a shell."""

import shlex
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from amends.contracts.enums import IN_FLIGHT, WireStatus
from amends.contracts.json_types import Json
from amends.contracts.results import Result

_WATCHED: Final = frozenset(WireStatus(one.value) for one in IN_FLIGHT)
_EXAMPLE: Final = "'{{…}}'"
_TEMPLATES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "approve": "amends approve {approval}",
        "cancel": "amends cancel {action}",
        "commit": "amends commit {plan}",
        "compensate": f"amends compensate {{transaction}} --input {_EXAMPLE}",
        "execute": f"amends execute {{capability}} --input {_EXAMPLE}",
        "get": "amends tx show {transaction}",
        "plan": f"amends plan {{capability}} --input {_EXAMPLE}",
        "reconcile": "amends reconcile {transaction}",
        "resume": "amends resume {action}",
        "rule": "amends rule cor_… 'what was found'",
        "settle": (
            "amends settle {transaction} committed|not_committed|partial --reference … --note …"
        ),
        "watch": "amends tx watch {transaction}",
        "withdraw": "amends withdraw {transaction}",
    }
)


_OF_OTHERS: Final = frozenset({"approve", "rule", "settle"})
"""What the one who asked may not do as a rule."""


class Step(NamedTuple):
    """One thing that can be done now: a call, a sentence about it, and the command."""

    call: str
    text: str
    command: str


def next_steps(result: Result, again: str) -> tuple[Step, ...]:
    """What can be done about a result now; `again` are the options that have to be repeated."""
    steps = [(one.call, one.text) for one in result.next]
    if result.status in _WATCHED:
        steps = [
            ("watch", "Watch it until it has ended."),
            ("reconcile", "Find out what happened, if its process is gone and its lease over."),
        ]
    if result.status is WireStatus.REQUIRES_HUMAN:
        if result.approval_id is None:
            steps = [one for one in steps if one[0] != "approve"]
        steps.insert(1, ("resume", "Go on once it is approved."))
    return tuple(Step(call, text, _command(call, result, again)) for call, text in steps)


def documents(steps: tuple[Step, ...]) -> list[Json]:
    """The steps as JSON."""
    return [dict(step._asdict()) for step in steps]


def _command(call: str, result: Result, again: str) -> str:
    command = _TEMPLATES[call].format(
        action=shlex.quote(result.action_id),
        approval=shlex.quote(result.approval_id or ""),
        capability=shlex.quote(result.capability_id),
        plan=shlex.quote(result.plan_id or ""),
        transaction=shlex.quote(result.transaction_id),
    )
    return f"{command} {_for_others(again) if call in _OF_OTHERS else again}".rstrip()


def _for_others(again: str) -> str:
    """The same options, for somebody else to type."""
    words = shlex.split(again)
    if "--as" not in words:
        return again
    at = words.index("--as")
    rest = shlex.join((*words[:at], *words[at + 2 :]))
    return f"{rest} --as …".lstrip()
