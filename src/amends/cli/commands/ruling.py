"""`amends policy check` and `amends policy explain`."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from cyclopts import Parameter

from amends.cli.options import APP, DEFAULTS, POLICY, Flag, Input, Options, Pairs, Reviewed

if TYPE_CHECKING:
    from amends.cli.answers import Answer
    from amends.cli.session import Session

ModeName: TypeAlias = Literal["execute", "dry_run", "plan", "commit", "compensate", "reconcile"]


def check(
    file: Annotated[Path, Parameter(env_var=POLICY, help="The YAML file.")],
    /,
    *,
    app: Annotated[
        str | None, Parameter(env_var=APP, help="Compare the rules with this app's capabilities.")
    ] = None,
    json: Flag = False,
) -> int:
    """Check a file of rules: every fault, and what is odd about it."""
    import sys
    from contextlib import redirect_stdout

    from amends.cli.answers import give
    from amends.cli.rules import checked

    stdout = sys.stdout
    with redirect_stdout(sys.stderr):
        answer = checked(file, app)
    return give(answer, stdout, as_json=json, utc=False, interrupted=False)


def explain(
    action: Annotated[str | None, Parameter(help="A stored action's id.")] = None,
    /,
    *,
    capability: Annotated[
        str | None, Parameter(help="Without an action: the capability to suppose.")
    ] = None,
    mode: Annotated[ModeName | None, Parameter(help="The mode to suppose.")] = None,
    input: Input = None,
    approval: Reviewed = False,
    role: Annotated[Pairs, Parameter(help="A role that the requester has, for this look.")] = (),
    group: Annotated[Pairs, Parameter(help="A group of the requester, for this look.")] = (),
    options: Options = DEFAULTS,
) -> int:
    """Explain which rule decides, and why the others do not."""
    from amends.cli.inputs import optional_identifier, read_input
    from amends.cli.rules import Supposed, explained
    from amends.cli.session import act

    supposed = Supposed(
        action_id=optional_identifier(action, "action_id"),
        capability_id=optional_identifier(capability, "capability_id"),
        mode=mode,
        input=read_input(input),
        approval=approval,
        roles=role,
        groups=group,
    )

    async def work(session: "Session") -> "Answer":
        return await explained(session, supposed)

    if supposed.action_id is None:  # nothing that is stored matters, and no store is made
        options = replace(options, store="memory:")
    return act(options, work, needs_app=True)
