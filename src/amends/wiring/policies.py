"""The policy of a YAML file: read, held, and read again when the file has changed (PO-2).

Invariants: rules change as a whole or not at all, and a decision is made by the rules of one
revision. The revision is made of the file's content. A file that is broken, or gone, leaves the
rules in force that were there; `fault` and a warning in the log `amends.policy` say so, and the
revision stays. Only at the start, when there are no rules yet, it is an error.

Whether the file has changed is seen by its name, size and times, each time the policy is asked.
Nothing runs in between.
"""

import logging
import os
from pathlib import Path
from typing import Final

from amends.contracts.canonical import digest_bytes
from amends.contracts.errors import AmendsError, Misuse
from amends.governance.conditions import ConditionRefused, Conditions
from amends.governance.policy import PolicyDecision, PolicyQuestion
from amends.governance.rule_fields import Faults
from amends.governance.rule_policy import RulePolicy, ready
from amends.governance.rule_reading import read_rules
from amends.governance.rule_tree import FileFault
from amends.governance.rules import Rule
from amends.wiring.cel import Cel
from amends.wiring.policy_yaml import read_yaml

LOG: Final = logging.getLogger("amends.policy")
_REVISION: Final = "rules-"
_SHOWN: Final = 20

Stamp = tuple[int, int, int, int]


class PolicyFile:
    """The rules of a file, as a policy."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read the file.

        Raises `Misuse`: `policy.file_unreadable`, `policy.file_invalid` with every fault,
        `policy.extra_missing`.
        """
        self.path = Path(path).absolute()
        self.fault: AmendsError | None = None
        self._stamp = _stamp(self.path)
        self._rules = load_rules(self.path)

    @property
    def revision(self) -> str:
        """Names the rules in force, after a look whether the file has changed."""
        return self.current.revision

    @property
    def current(self) -> RulePolicy:
        """The rules in force, after a look whether the file has changed."""
        stamp = _stamp(self.path)
        if stamp != self._stamp:
            self._stamp = stamp
            self._take()
        return self._rules

    def decide(self, question: PolicyQuestion) -> PolicyDecision:
        """Answer by the rules in force."""
        return self.current.decide(question)

    def reload(self) -> str:
        """Read the file now; the revision in force afterwards.

        Raises as the constructor does. The rules that were there stay in force then.
        """
        self._stamp = _stamp(self.path)
        self._take()
        if self.fault is not None:
            raise self.fault
        return self._rules.revision

    def _take(self) -> None:
        """Take the file's rules, unless it is broken, or being written just now."""
        try:
            rules = load_rules(self.path)
        except AmendsError as error:
            self.fault = error
            LOG.warning("%s The rules before it stay in force: %s.", error, self._rules.revision)
            return
        if _stamp(self.path) != self._stamp:
            self._stamp = None
            return
        if rules.revision != self._rules.revision:
            LOG.info("Rules in force: %s.", rules.revision)
            self._rules = rules
        self.fault = None


def load_rules(path: Path) -> RulePolicy:
    """The rules of a file, once. Raises as `PolicyFile`."""
    data = _read(path)
    conditions = Cel()
    rules, faults = examine_rules(data, conditions)
    if faults:
        raise _invalid(path, faults)
    return RulePolicy(rules, conditions, _REVISION + digest_bytes(data)[:_DIGEST_PART])


_DIGEST_PART: Final = 32


def examine_rules(
    data: bytes, conditions: Conditions
) -> tuple[tuple[Rule, ...], tuple[FileFault, ...]]:
    """The rules of a file's content and every fault of it, by line."""
    faults = Faults()
    tree = read_yaml(data, faults)
    rules = read_rules(tree, faults) if tree is not None else ()
    for rule in rules:
        faults.rule = rule.id
        try:
            ready(rule, conditions)
        except ConditionRefused as refused:
            faults.add("policy.condition_invalid", rule.line, f"an expression {refused.says}")
    return rules, tuple(sorted(faults.found, key=lambda fault: fault.line))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Misuse(
            "policy.file_unreadable",
            f"The policy file {path.name} cannot be read: {error.strerror or 'input/output'}.",
            next_step="Check its name and its permissions.",
        ) from None


def _stamp(path: Path) -> Stamp | None:
    """How the file looks from outside, or none where it does not."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _invalid(path: Path, faults: tuple[FileFault, ...]) -> Misuse:
    shown = "; ".join(str(fault) for fault in faults[:_SHOWN])
    more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
    return Misuse(
        "policy.file_invalid",
        f"The policy file {path.name} has {len(faults)} faults: {shown}{more}.",
        details={
            "file": path.name,
            "faults": [
                {"code": one.code, "line": one.line, "rule": one.rule, "says": one.says}
                for one in faults
            ],
        },
        next_step="Mend every fault that is listed; amends policy check lists them too.",
    )
