"""Files of rules on the command line: what is wrong with one, and what its rules decide (PO-3).

Invariants: nothing is decided or written here. What was decided about a stored action is shown as
it was kept, apart from what the rules of now would say.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from amends.cli import exits
from amends.cli.answers import Answer
from amends.cli.apps import load_capabilities
from amends.cli.paper import Paper, clean, counted
from amends.cli.session import Session
from amends.cli.viewing import tell_gates
from amends.contracts.codes import coded
from amends.contracts.declarations import Capability
from amends.contracts.documents import ActionDocument, GateVerdict
from amends.contracts.enums import Mode
from amends.contracts.errors import AmendsError, Misuse
from amends.contracts.ids import ActionId, CapabilityId
from amends.contracts.json_types import Json, JsonObject
from amends.contracts.principals import Principal
from amends.governance.policy import Policy, PolicyQuestion, PolicyVerdict
from amends.governance.rule_explaining import ExplainedRule, Explanation, explain
from amends.governance.rule_lint import LintFinding, lint
from amends.governance.rule_policy import RulePolicy
from amends.wiring.policies import PolicyFile, load_rules

_NOT_KEPT: Final = (
    "Roles and groups are not kept. They are those of now where --principals says them; "
    "others are supposed with --role and --group."
)
_STYLES: Final = {
    PolicyVerdict.ALLOW: "green",
    PolicyVerdict.REQUIRE_APPROVAL: "magenta",
    PolicyVerdict.DENY: "red",
}


# ── checking ─────────────────────────────────────────────────────────────────────────────────────


def checked(file: Path, app: str | None) -> Answer:
    """What is wrong with a file, or odd. Raises as `load_capabilities`."""
    capabilities = None if app is None else _declared(app)
    try:
        rules = load_rules(file)
    except AmendsError as error:
        if error.code != "policy.file_invalid":
            raise
        return _faulty(error)
    return _odd(rules, lint(rules.rules, capabilities))


def _declared(app: str) -> list[Capability]:
    """What an app declares, without opening anything."""
    from amends.app.capabilities import Buildable
    from amends.connectors.blocking import HandlerThreads

    threads = HandlerThreads()
    try:
        loaded = load_capabilities(app)
        built = [one.build(threads) if isinstance(one, Buildable) else one for one in loaded]
        return [capability for capability, _ in built]
    finally:
        threads.close()


def _faulty(error: AmendsError) -> Answer:
    faults = error.details["faults"]
    assert isinstance(faults, list)

    def tell(paper: Paper) -> None:
        for one in faults:
            assert isinstance(one, dict)
            _tell_line(paper, "fault", "bold red", one["line"], one["rule"], one["says"])

    short = Misuse(
        error.code,
        f"The file has {counted(len(faults), 'fault', 'faults')}, and is not used.",
        details={"file": error.details["file"]},
        next_step="Mend every fault that is listed.",
    )
    return Answer(data={"revision": None, "faults": faults, "odd": []}, tell=tell, error=short)


def _odd(rules: RulePolicy, found: tuple[LintFinding, ...]) -> Answer:
    def tell(paper: Paper) -> None:
        for one in found:
            _tell_line(paper, "odd", "yellow", one.line, one.rule, one.says)
        paper.line(f"{counted(len(rules.rules), 'rule', 'rules')}, of revision {rules.revision}.")

    error = None
    if found:
        error = Misuse(
            "policy.odd",
            counted(
                len(found),
                "thing about these rules is odd.",
                "things about these rules are odd.",
            ),
            next_step="Look at each; the file can be used as it is.",
        )
    data: JsonObject = {
        "revision": rules.revision,
        "rules": len(rules.rules),
        "faults": [],
        "odd": [msgspec.to_builtins(one) for one in found],
    }
    return Answer(data=data, tell=tell, error=error, exit_code=exits.FAILED if found else exits.OK)


def _tell_line(
    paper: Paper, word: str, style: str, line: object, rule: object, says: object
) -> None:
    where = f"line {line}" if rule is None else f"line {line}, rule {rule}"
    paper.line((f"{word:<6}", style), clean(f"{where}: {says}"))


# ── explaining ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Supposed:
    """What is asked about: a stored action, or what could be asked for."""

    action_id: str | None
    capability_id: str | None
    mode: str | None
    input: Json | msgspec.UnsetType
    approval: bool
    roles: tuple[str, ...]
    groups: tuple[str, ...]


async def explained(session: Session, supposed: Supposed) -> Answer:
    """Which rules decide.

    Raises `Misuse` (`cli.supposition_invalid`) and `Refused` (`capability.not_found`,
    `transaction.not_found`).
    """
    if (supposed.action_id is None) == (supposed.capability_id is None):
        raise Misuse(
            "cli.supposition_invalid",
            "Either a stored action is explained, or a capability that is supposed.",
            next_step="Give an action's id, or --capability.",
        )
    then: tuple[GateVerdict, ...] = ()
    if supposed.action_id is None:
        question = _what_if(session, supposed)
    else:
        question, then = await _stored(session, supposed, ActionId(supposed.action_id))
    policy = session.engine.environment.policy
    explanations = [
        explain(_rules_of(policy), replace(question, capability=one))
        for one in _asked_of(session, question)
    ]
    return _answer(question, then, explanations)


def _rules_of(policy: Policy) -> Policy:
    return policy.current if isinstance(policy, PolicyFile) else policy


def _asked_of(session: Session, question: PolicyQuestion) -> list[Capability]:
    """The capability that governs and, in a compensation, the one that carries it out."""
    registry = session.engine.environment.registry
    registered = registry.get(question.capability.id)
    both = [registered]
    if question.mode is Mode.COMPENSATE:
        both.append(registry.serving(registered))
    return list({one.capability.id: one.capability for one in both}.values())


def _what_if(session: Session, supposed: Supposed) -> PolicyQuestion:
    assert supposed.capability_id is not None
    value = None if isinstance(supposed.input, msgspec.UnsetType) else supposed.input
    return PolicyQuestion(
        capability=session.capability(supposed.capability_id),
        principal=_with(session.caller.principal, supposed),
        identity=session.caller.identity,
        mode=Mode(supposed.mode or Mode.EXECUTE),
        input=value,
        approval_requested=supposed.approval,
    )


async def _stored(
    session: Session, supposed: Supposed, action_id: ActionId
) -> tuple[PolicyQuestion, tuple[GateVerdict, ...]]:
    await session.amends.get(action_id=action_id)  # whether this caller may see it
    store = session.engine.environment.store
    found = await store.get(ActionDocument, session.caller.tenant, action_id)
    if found is None:
        raise coded("action.not_found")
    action = found.document
    value = supposed.input
    if isinstance(value, msgspec.UnsetType):
        if action.input is None:
            raise coded("action.input_required")
        value = msgspec.json.decode(action.input)
    question = PolicyQuestion(
        capability=session.capability(CapabilityId(action.capability_id)),
        principal=_with(_requester(session, action), supposed),
        identity=action.identity,
        mode=action.mode if supposed.mode is None else Mode(supposed.mode),
        input=value,
        approval_requested=action.approval_requested or supposed.approval,
    )
    return question, action.verdicts


def _requester(session: Session, action: ActionDocument) -> Principal:
    """Who asked, with what it holds now where somebody knows, and else with what was kept."""
    environment = session.engine.environment
    found = None
    if environment.principals is not None:
        found = environment.principal(action.tenant, action.principal)
    return found or Principal(
        id=action.principal.id,
        kind=action.principal.kind,
        tenant=action.tenant,
        scopes=action.scopes,
    )


def _with(principal: Principal, supposed: Supposed) -> Principal:
    return replace(
        principal,
        roles=(*principal.roles, *supposed.roles),
        groups=(*principal.groups, *supposed.groups),
    )


def _answer(
    question: PolicyQuestion,
    then: tuple[GateVerdict, ...],
    explanations: list[Explanation],
) -> Answer:
    def tell(paper: Paper) -> None:
        if then:
            tell_gates(paper, then)
            paper.line((_NOT_KEPT, "dim"))
        for one in explanations:
            _tell(paper, one)

    data: JsonObject = {
        "capability": question.capability.id,
        "mode": question.mode.value,
        "principal": question.principal.id,
        "then": [msgspec.to_builtins(one) for one in then],
        "now": [_document(one) for one in explanations],
    }
    return Answer(data=data, tell=tell)


def _document(one: Explanation) -> JsonObject:
    document: JsonObject = msgspec.to_builtins(one)
    return document


def _tell(paper: Paper, explanation: Explanation) -> None:
    decision = explanation.decision
    paper.heading("The rules of now")
    paper.field("decide", (decision.verdict.value, _STYLES[decision.verdict]))
    paper.field("by", clean(", ".join(decision.rules)))
    paper.field("because", clean(decision.reason))
    paper.field("revision", clean(decision.revision))
    if decision.freeze:
        paper.field("freeze", "governance")
    if decision.plan_ttl_ms is not None:
        paper.field("plans live", f"{decision.plan_ttl_ms / 1000:g} s at most")
    for charge in decision.charges:
        taken = f"{charge.amount} of {charge.maximum} in {charge.within_ms / 1000:g} s"
        paper.field("takes", clean(f"{taken}, {charge.subject} [{charge.rule}]"))
    if explanation.rules:
        paper.heading("Each rule")
        paper.rows([_row(one) for one in explanation.rules], ("", "line", "rule", "effect", ""))


def _row(one: ExplainedRule) -> tuple[str, ...]:
    mark = "●" if one.decides else ("○" if one.fits else " ")
    return (mark, str(one.line), clean(one.id), one.effect, clean(one.says))
