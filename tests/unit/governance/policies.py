"""Rules and questions for the tests of policies."""

from collections.abc import Sequence

from msgspec.structs import replace

from amends.contracts.enums import Mode
from amends.contracts.json_types import Json
from amends.governance.policy import PolicyDecision, PolicyQuestion, ask
from amends.governance.rule_policy import RulePolicy
from amends.governance.rules import Rule
from amends.testing.builders import capability, principal
from amends.wiring.cel import Cel

CEL = Cel()


def question(input: Json = None, /, **changes: object) -> PolicyQuestion:
    asked = PolicyQuestion(
        capability=capability(),
        principal=principal(),
        identity=None,
        mode=Mode.EXECUTE,
        input={"amount": 500} if input is None else input,
        approval_requested=False,
    )
    return replace(asked, **changes)


def policy(*rules: Rule) -> RulePolicy:
    return RulePolicy(rules, CEL, "rules-1")


def decided(rules: Sequence[Rule], asked: PolicyQuestion | None = None) -> PolicyDecision:
    return ask(policy(*rules), asked or question())
