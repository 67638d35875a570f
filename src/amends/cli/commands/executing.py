"""`amends execute` and `amends resume`: doing it without a plan, and going on with what waited."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from amends.cli.options import (
    DEFAULTS,
    ActionIdOption,
    Input,
    Key,
    Metadata,
    Options,
    Reviewed,
    WaitS,
    Yes,
)

if TYPE_CHECKING:
    from amends.cli.answers import Answer
    from amends.cli.session import Session


def execute(
    capability: Annotated[str, Parameter(help="What is to be done: a capability's id.")],
    /,
    *,
    input: Input = None,
    metadata: Metadata = (),
    approval: Reviewed = False,
    transaction_id: Annotated[str | None, Parameter(help="Its transaction's id.")] = None,
    action_id: ActionIdOption = None,
    idempotency_key: Key = None,
    wait: WaitS = 0.0,
    yes: Yes = False,
    options: Options = DEFAULTS,
) -> int:
    """Do it directly, without a plan that could be looked at before."""
    from amends.cli.asking import Deed
    from amends.cli.carrying import Carrying, carry_out
    from amends.cli.inputs import identifier, optional_identifier, pairs, required_input
    from amends.cli.session import act, new_action_id

    value, kept = required_input(input), pairs(metadata, "--metadata")
    carrying = Carrying(
        deed=Deed.EXECUTE,
        action_id=optional_identifier(action_id, "action_id") or new_action_id(),
        capability_id=identifier(capability, "capability_id"),
        input=value,
        transaction_id=optional_identifier(transaction_id, "transaction_id"),
        wait_s=wait,
        yes=yes,
    )

    async def work(session: "Session") -> "Answer":
        return await carry_out(
            session,
            carrying,
            lambda: session.amends.execute(
                carrying.capability_id,
                value,
                action_id=carrying.action_id,
                transaction_id=carrying.transaction_id,
                idempotency_key=idempotency_key,
                approval_required=approval,
                metadata=kept,
            ),
        )

    return act(options, work, needs_app=True, creates=True)


def resume(
    action: Annotated[str, Parameter(help="The id of the action that waited.")],
    /,
    *,
    input: Input = None,
    wait: WaitS = 0.0,
    yes: Yes = False,
    options: Options = DEFAULTS,
) -> int:
    """Go on with an action that waited for an approval. It never runs twice.

    Where the capability requires redaction, the same input has to be given again.
    """
    from amends.cli.carrying import carry_out, continued
    from amends.cli.inputs import identifier, read_input
    from amends.cli.session import act

    id_, value = identifier(action, "action_id"), read_input(input)

    async def work(session: "Session") -> "Answer":
        carrying = await continued(session, id_, value, wait_s=wait, yes=yes)
        return await carry_out(session, carrying, lambda: session.amends.resume(id_, value))

    return act(options, work, needs_app=True)
