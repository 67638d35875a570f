"""`amends plan` and `amends dry-run`: what would happen, and a plan that can be committed once."""

from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from amends.cli.options import DEFAULTS, ActionIdOption, Input, Metadata, Options, Reviewed

if TYPE_CHECKING:
    from amends.cli.answers import Answer
    from amends.cli.session import Session

_CAPABILITY: Final = Parameter(help="What is to be done: a capability's id.")


def plan(
    capability: Annotated[str, _CAPABILITY],
    /,
    *,
    input: Input = None,
    metadata: Metadata = (),
    approval: Reviewed = False,
    plan_id: Annotated[str | None, Parameter(help="The plan's id, if you choose it.")] = None,
    transaction_id: Annotated[str | None, Parameter(help="Its transaction's id.")] = None,
    action_id: ActionIdOption = None,
    options: Options = DEFAULTS,
) -> int:
    """Make a durable plan that can be committed once, until it expires."""
    from amends.cli.inputs import identifier, optional_identifier, pairs, required_input
    from amends.cli.results import Wanted
    from amends.cli.session import act, new_action_id

    capability_id = identifier(capability, "capability_id")
    own_plan_id = optional_identifier(plan_id, "plan_id")
    own_transaction = optional_identifier(transaction_id, "transaction_id")
    id_ = optional_identifier(action_id, "action_id") or new_action_id()
    kept, value = pairs(metadata, "--metadata"), required_input(input)

    async def work(session: "Session") -> "Answer":
        declared = session.capability(capability_id)
        asked = session.amends.plan(
            capability_id,
            value,
            plan_id=own_plan_id,
            action_id=id_,
            transaction_id=own_transaction,
            approval_required=approval,
            metadata=kept,
        )
        at_most_ms = declared.service_level.timeout_ms
        result = await session.carry(asked, {"action_id": id_}, at_most_ms=at_most_ms)
        return session.results.answer(result, Wanted.PLAN)

    return act(options, work, needs_app=True, creates=True)


def dry_run(
    capability: Annotated[str, _CAPABILITY],
    /,
    *,
    input: Input = None,
    metadata: Metadata = (),
    action_id: ActionIdOption = None,
    options: Options = DEFAULTS,
) -> int:
    """See what would happen, as strongly as the capability's fidelity says; nobody is asked."""
    from amends.cli.inputs import identifier, optional_identifier, pairs, required_input
    from amends.cli.results import Wanted
    from amends.cli.session import act, new_action_id

    capability_id = identifier(capability, "capability_id")
    id_ = optional_identifier(action_id, "action_id") or new_action_id()
    kept, value = pairs(metadata, "--metadata"), required_input(input)

    async def work(session: "Session") -> "Answer":
        declared = session.capability(capability_id)
        asked = session.amends.dry_run(capability_id, value, action_id=id_, metadata=kept)
        at_most_ms = declared.service_level.timeout_ms
        result = await session.carry(asked, {"action_id": id_}, at_most_ms=at_most_ms)
        return session.results.answer(result, Wanted.PREVIEW)

    return act(options, work, needs_app=True, creates=True)
