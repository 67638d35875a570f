"""The principal under which the scheduler acts: what the built-in policy lets it do."""

import pytest

from amends.contracts.declarations import Capability
from amends.contracts.enums import Mode
from amends.contracts.ids import CapabilityId, TenantId
from amends.governance.policy import CapabilityPolicy, PolicyQuestion, PolicyVerdict
from amends.runtime.upkeep import recovery_principal

SCOPED = Capability(id=CapabilityId("shop.charge"), required_scopes=("shop:pay",))


def _verdict(mode: Mode) -> PolicyVerdict:
    question = PolicyQuestion(
        capability=SCOPED,
        principal=recovery_principal(TenantId("acme")),
        identity=None,
        mode=mode,
        input=None,
        approval_requested=False,
    )
    return CapabilityPolicy().decide(question).verdict


@pytest.mark.rule("TX-RECON-4")
def test_recovery_looks_up_what_took_scopes_to_begin() -> None:
    assert _verdict(Mode.RECONCILE) is PolicyVerdict.ALLOW


@pytest.mark.rule("TX-RECON-4")
@pytest.mark.parametrize("mode", [mode for mode in Mode if mode is not Mode.RECONCILE])
def test_recovery_does_nothing_but_look_up(mode: Mode) -> None:
    assert _verdict(mode) is PolicyVerdict.DENY
