"""`amends commit`: one plan, or all open plans of the caller, one after the other."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from amends.cli.options import (
    DEFAULTS,
    ActionIdOption,
    Flag,
    Input,
    Key,
    Metadata,
    Options,
    Pairs,
    Reviewed,
    WaitS,
    Yes,
)
from amends.contracts.errors import Misuse

if TYPE_CHECKING:
    from amends.cli.answers import Answer
    from amends.cli.session import Session


def commit(
    plan: Annotated[str | None, Parameter(help="The plan's id, or its transaction's.")] = None,
    /,
    *,
    all: Annotated[Flag, Parameter(help="All open plans of yours, oldest first.")] = False,
    capability: Annotated[str | None, Parameter(help="With --all: only of this one.")] = None,
    request: Annotated[
        Pairs, Parameter(help="With --all: only what was planned with this metadata KEY=VALUE.")
    ] = (),
    keep_going: Annotated[Flag, Parameter(help="With --all: go on after a failure.")] = False,
    input: Input = None,
    metadata: Metadata = (),
    approval: Reviewed = False,
    action_id: ActionIdOption = None,
    idempotency_key: Key = None,
    wait: WaitS = 0.0,
    yes: Yes = False,
    options: Options = DEFAULTS,
) -> int:
    """Commit a plan. Exactly one action ever claims it."""
    single = (plan, input, action_id, idempotency_key)
    if all and (any(single) or metadata or approval or wait):
        raise _one_or_all("--all commits each plan as it was planned.")
    if all:
        return _commit_all(capability, request, keep_going, yes, options)
    if plan is None or capability is not None or request or keep_going:
        raise _one_or_all("One plan is named, or --all is given with what narrows it.")
    from amends.cli.commits import Commit, commit_one
    from amends.cli.inputs import identifier, optional_identifier, pairs, read_input
    from amends.cli.session import act

    wish = Commit(
        plan_id=identifier(plan, "plan_id"),
        input=read_input(input),
        metadata=pairs(metadata, "--metadata"),
        approval=approval,
        action_id=optional_identifier(action_id, "action_id"),
        idempotency_key=idempotency_key,
        wait_s=wait,
        yes=yes,
    )

    async def work(session: "Session") -> "Answer":
        return await commit_one(session, wish)

    return act(options, work, needs_app=True)


def _commit_all(
    capability: str | None, request: tuple[str, ...], keep_going: bool, yes: bool, options: Options
) -> int:
    from amends.cli.bulk import Bulk, commit_all
    from amends.cli.inputs import optional_identifier, pairs
    from amends.cli.session import act

    bulk = Bulk(
        capability_id=optional_identifier(capability, "capability_id"),
        metadata=pairs(request, "--request"),
        keep_going=keep_going,
        yes=yes,
    )

    async def work(session: "Session") -> "Answer":
        return await commit_all(session, bulk)

    return act(options, work, needs_app=True)


def _one_or_all(message: str) -> Misuse:
    return Misuse(
        "cli.usage", message, next_step="Write amends commit PLAN, or amends commit --all."
    )
