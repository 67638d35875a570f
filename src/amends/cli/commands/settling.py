"""`amends settle`, `rule` and `release`: what operators do by hand, under their own names."""

from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

from cyclopts import Parameter

from amends.cli.options import DEFAULTS, Flag, Options, Yes

if TYPE_CHECKING:
    from amends.cli.answers import Answer
    from amends.cli.session import Session

Ruling: TypeAlias = Literal["committed", "not_committed", "partial"]
_TRANSACTION: Final = Parameter(help="The transaction's id, or one of its plan or actions.")


def settle(
    transaction: Annotated[str, _TRANSACTION],
    verdict: Annotated[Ruling, Parameter(help="What was found at the provider.")],
    /,
    *,
    reference: Annotated[str, Parameter(help="Where the evidence lies.")],
    note: Annotated[str, Parameter(help="What was found, in words.")],
    accept_risk: Annotated[
        Flag, Parameter(help="Rule not_committed although a request may still be under way.")
    ] = False,
    revision: Annotated[
        int | None, Parameter(help="The record's revision that you have looked at.")
    ] = None,
    yes: Yes = False,
    options: Options = DEFAULTS,
) -> int:
    """Rule on an unknown outcome by hand, with evidence. Operators only.

    An operator is a principal of kind operator in the file that --principals names.
    """
    from amends.cli.by_hand import rule_on
    from amends.cli.inputs import identifier
    from amends.cli.session import act

    id_ = identifier(transaction, "transaction_id")

    async def work(session: "Session") -> "Answer":
        return await rule_on(
            session,
            id_,
            verdict,
            reference=reference,
            note=note,
            accept_risk=accept_risk,
            revision=revision,
            yes=yes,
        )

    return act(options, work)


def rule(
    correction: Annotated[str, Parameter(help="The correction's id; see amends tx show.")],
    ruling: Annotated[str, Parameter(help="What was found, where, and what follows, in words.")],
    /,
    *,
    allow_compensation: Annotated[
        Flag, Parameter(help="Let the effect be offset again, once nothing else forbids it.")
    ] = False,
    yes: Yes = False,
    options: Options = DEFAULTS,
) -> int:
    """Rule on evidence that contradicts a settled transaction. Operators only."""
    from amends.cli.by_hand import rule_on_correction
    from amends.cli.inputs import identifier
    from amends.cli.session import act

    id_ = identifier(correction, "correction_id")

    async def work(session: "Session") -> "Answer":
        return await rule_on_correction(
            session, id_, ruling, allow_compensation=allow_compensation, yes=yes
        )

    return act(options, work)


def release(
    transaction: Annotated[str, _TRANSACTION],
    /,
    *,
    yes: Yes = False,
    options: Options = DEFAULTS,
) -> int:
    """Release what a restore froze of a transaction. Operators only."""
    from amends.cli.by_hand import let_go
    from amends.cli.inputs import identifier
    from amends.cli.session import act

    id_ = identifier(transaction, "transaction_id")

    async def work(session: "Session") -> "Answer":
        return await let_go(session, id_, yes=yes)

    return act(options, work)
