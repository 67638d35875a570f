"""Rules of a policy, as they stand in a file: what they fit, and what they then say (PO-2).

A rule fits an action when everything in its `match` does and its condition holds. It then has an
effect (allow, deny, require an approval), restricts what is allowed (freeze governance, shorten a
plan's life, limit rate or value), or both.

Deliberately not here: how files are read (`rule_reading`), and how rules combine (`rule_policy`).
"""

import re
from collections.abc import Iterable
from decimal import Decimal
from enum import StrEnum
from typing import Final

import msgspec

from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.declarations import Capability
from amends.contracts.enums import (
    MUTATING_MODES,
    PREVIEW_MODES,
    Mode,
    PrincipalKind,
    Risk,
    Sensitivity,
    SideEffect,
)
from amends.contracts.principals import Principal

RULED_MODES: Final = MUTATING_MODES | PREVIEW_MODES
"""What rules are about. To look an outcome up is denied only by a rule that names the mode."""


class Effect(StrEnum):
    """What a rule says of the actions that it fits."""

    ALLOW = "allow"
    DENY = "deny"
    REQUIRE_APPROVAL = "require_approval"


class Per(StrEnum):
    """Who shares one limit. The tenant is always part of it."""

    PRINCIPAL = "principal"
    CAPABILITY = "capability"
    TENANT = "tenant"


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule fits: every field that is set; in a field, any of its values.

    `capability` may hold `*` for any characters. `mode` is, unless set, every mode but looking up
    and the refusal of rollbacks.
    """

    capability: tuple[str, ...] = ()
    risk: tuple[Risk, ...] = ()
    side_effect: tuple[SideEffect, ...] = ()
    sensitivity: tuple[Sensitivity, ...] = ()
    tenant: tuple[str, ...] = ()
    mode: tuple[Mode, ...] = ()
    kind: tuple[PrincipalKind, ...] = ()
    role: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    principal: tuple[str, ...] = ()


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """At most `maximum` in any `within_ms`: of claims, or of the amount that `of` names.

    `of` is a JSON pointer into the input, or else an expression.
    """

    maximum: Decimal
    within_ms: int
    per: Per = Per.PRINCIPAL
    of: str | None = None


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule. `line` is where it begins in its file."""

    id: str
    match: Match = Match()
    when: str | None = None
    effect: Effect | None = None
    approval: ApprovalPolicy | None = None
    freeze: bool = False
    plan_ttl_ms: int | None = None
    limits: tuple[Limit, ...] = ()
    reason: str = ""
    line: int = 0

    @property
    def modes(self) -> frozenset[Mode]:
        """The modes that it is about."""
        return frozenset(self.match.mode) or RULED_MODES


def glob_of(patterns: Iterable[str]) -> re.Pattern[str]:
    """What fits one of the patterns, in which `*` stands for any characters."""
    parts = (".*".join(map(re.escape, pattern.split("*"))) for pattern in patterns)
    return re.compile("|".join(parts))


def fits_capability(match: Match, capability: Capability) -> bool:
    """Whether the rule can fit any action of this capability."""
    return (
        (not match.capability or glob_of(match.capability).fullmatch(capability.id) is not None)
        and (not match.risk or capability.risk in match.risk)
        and (
            not match.side_effect or not set(match.side_effect).isdisjoint(capability.side_effects)
        )
        and (not match.sensitivity or capability.data.sensitivity in match.sensitivity)
    )


def fits_principal(match: Match, principal: Principal) -> bool:
    """Whether the rule is about this principal."""
    return (
        (not match.kind or principal.kind in match.kind)
        and (not match.principal or principal.id in match.principal)
        and (not match.tenant or principal.tenant in match.tenant)
        and (not match.role or not set(match.role).isdisjoint(principal.roles))
        and (not match.group or not set(match.group).isdisjoint(principal.groups))
    )
