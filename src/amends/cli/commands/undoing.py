"""`amends compensate`, `cancel`, `withdraw`: offsetting, stopping in time, taking a plan back."""

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


def compensate(
    target: Annotated[str, Parameter(help="The action or transaction whose effect is offset.")],
    /,
    *,
    input: Input = None,
    metadata: Metadata = (),
    approval: Reviewed = False,
    transaction_id: Annotated[
        str | None, Parameter(help="The id of the compensation's own transaction.")
    ] = None,
    action_id: ActionIdOption = None,
    idempotency_key: Key = None,
    wait: WaitS = 0.0,
    yes: Yes = False,
    options: Options = DEFAULTS,
) -> int:
    """Offset an earlier effect by a new governed action. It does not erase the effect."""
    from amends.cli.asking import Deed
    from amends.cli.by_hand import show
    from amends.cli.carrying import Carrying, carry_out
    from amends.cli.inputs import identifier, optional_identifier, pairs, required_input
    from amends.cli.session import act, new_action_id
    from amends.cli.viewing import ACTION, TRANSACTION, find

    target_id, kept = identifier(target, "target"), pairs(metadata, "--metadata")
    own_id = optional_identifier(action_id, "action_id") or new_action_id()
    own_transaction = optional_identifier(transaction_id, "transaction_id")
    value = required_input(input)

    async def work(session: "Session") -> "Answer":
        view = await find(session.amends, target_id, (ACTION, TRANSACTION))
        show(session, view)
        carrying = Carrying(
            deed=Deed.COMPENSATE,
            action_id=own_id,
            capability_id=view.result.capability_id,
            input=value,
            transaction_id=own_transaction,
            wait_s=wait,
            yes=yes,
        )
        return await carry_out(
            session,
            carrying,
            lambda: session.amends.compensate(
                view.result.action_id,
                value,
                action_id=own_id,
                transaction_id=own_transaction,
                idempotency_key=idempotency_key,
                approval_required=approval,
                metadata=kept,
            ),
        )

    return act(options, work, needs_app=True)


def cancel(
    action: Annotated[str, Parameter(help="The action's id, or its transaction's.")],
    /,
    *,
    reason: Annotated[str, Parameter(help="Why, for whoever reads it later.")] = "",
    yes: Yes = False,
    options: Options = DEFAULTS,
) -> int:
    """Cancel an action before its claim; after it, only ask for it to stop."""
    from amends.cli import by_hand
    from amends.cli.inputs import identifier
    from amends.cli.session import act

    id_ = identifier(action, "action_id")

    async def work(session: "Session") -> "Answer":
        return await by_hand.cancel(session, id_, reason=reason, yes=yes)

    return act(options, work)


def withdraw(
    plan: Annotated[str, Parameter(help="The plan's id, or its transaction's.")],
    /,
    *,
    yes: Yes = False,
    options: Options = DEFAULTS,
) -> int:
    """Withdraw a plan that waits: it cannot be committed any more."""
    from amends.cli import by_hand
    from amends.cli.inputs import identifier
    from amends.cli.session import act

    id_ = identifier(plan, "plan_id")

    async def work(session: "Session") -> "Answer":
        return await by_hand.withdraw(session, id_, yes=yes)

    return act(options, work)
