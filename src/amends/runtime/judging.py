"""Asking the policy: at step 8, and anew where its rules changed before the claim (PO-1, PO-2).

A request is judged by the rules of one revision. The revision is read before the policy is asked;
if the rules change while it answers, that shows at the claim, and the request is judged again.
"""

from typing import Final, NamedTuple

from msgspec.structs import replace

from amends.contracts.codes import coded
from amends.contracts.documents import GateVerdict
from amends.contracts.enums import Mode
from amends.contracts.json_types import Json
from amends.governance.policy import (
    Policy,
    PolicyDecision,
    PolicyQuestion,
    PolicyVerdict,
    ask,
    force_approval,
    stricter,
)
from amends.runtime.registry import Registered
from amends.runtime.requests import Admitted, Request

POLICY_GATE: Final = "policy"


class Judgement(NamedTuple):
    """What the policy said, and the revision that was in force when it was asked."""

    decision: PolicyDecision
    revision: str

    @property
    def verdict(self) -> GateVerdict:
        """The gate's answer, as the action keeps it (PO-3)."""
        human = self.decision.verdict is PolicyVerdict.REQUIRE_APPROVAL
        return GateVerdict(
            gate=POLICY_GATE,
            answer="needs_human" if human else "allow",
            reason=self.decision.reason,
            rules=self.decision.rules,
        )


def judge(
    policy: Policy, registered: Registered, serving: Registered, request: Request, value: Json
) -> Judgement:
    """The policy's answer, for the governing capability and for the one that carries it out.

    Raises `policy.denied` with the rules that said so.
    """
    revision = policy.revision
    mode = request.action.transaction.mode
    decision = ask(policy, _question(registered, request, value))
    if serving is not registered:
        decision = stricter(decision, ask(policy, _question(serving, request, value)))
    forced = mode is Mode.COMPENSATE and registered.capability.compensation.requires_approval
    decision = force_approval(decision, required=forced)
    if decision.verdict is PolicyVerdict.DENY:
        raise coded("policy.denied", {"rules": list(decision.rules)})
    return Judgement(decision, revision)


def judged_again(policy: Policy, admitted: Admitted) -> Admitted:
    """The request as the rules of now see it; the very same one while they have not changed.

    Raises `policy.denied`.
    """
    if policy.revision == admitted.judged_under:
        return admitted
    judgement = judge(
        policy, admitted.registered, admitted.serving, admitted.request, admitted.input
    )
    verdicts = tuple(
        judgement.verdict if one.gate == POLICY_GATE else one for one in admitted.verdicts
    )
    return replace(
        admitted,
        decision=judgement.decision,
        judged_under=judgement.revision,
        verdicts=verdicts,
    )


def _question(registered: Registered, request: Request, value: Json) -> PolicyQuestion:
    return PolicyQuestion(
        capability=registered.capability,
        principal=request.caller.principal,
        identity=request.caller.identity,
        mode=request.action.transaction.mode,
        input=value,
        approval_requested=request.action.approval_required,
    )
