"""The capability of a declaration, with what its requests already tell.

Its version carries a digest of the requests, so that a plan whose governance is frozen notices when
another request would be sent than the one that was there when it was made (TX-PLAN-5).
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from amends.connectors.http.checks import uses_credential
from amends.connectors.http.declaration import HttpDeclaration
from amends.connectors.http.forms import Forms
from amends.contracts.canonical import domain_digest
from amends.contracts.declarations import Capability, TransactionContract
from amends.contracts.enums import CompensationMode, Fidelity, Handler, Mode

_COMPENSABLE: Final = frozenset({CompensationMode.SUPPORTED, CompensationMode.BEST_EFFORT})
_DIGEST_LENGTH: Final = 12


def derive_capability(declaration: HttpDeclaration, forms: Forms) -> Capability:
    """The capability as a runtime registers it."""
    told = declaration.capability
    handlers = tuple(_handlers(forms))
    compensation = told.compensation
    if forms.compensate and compensation.mode is CompensationMode.NOT_REQUIRED:
        compensation = replace(compensation, mode=CompensationMode.SUPPORTED)
    lookups = (forms.execute_lookup, forms.compensate_lookup)
    by_key = any(lookup is not None and lookup.by_key is not None for lookup in lookups)
    capability = replace(
        told,
        title=told.title or told.id,
        version=f"{told.version}+http.{_digest(declaration)}",
        handlers=handlers,
        served_by="http",
        compensation=compensation,
        execution=replace(told.execution, lookup_by_key=by_key),
        credential=replace(
            told.credential, required=told.credential.required or uses_credential(forms)
        ),
    )
    return replace(capability, transaction=told.transaction or _transaction(capability))


def _handlers(forms: Forms) -> list[Handler]:
    declared = {
        Handler.EXECUTE: forms.execute,
        Handler.PREVIEW: forms.preview,
        Handler.RECONCILE: forms.execute_lookup or forms.compensate_lookup,
        Handler.COMPENSATE: forms.compensate,
    }
    return [handler for handler, form in declared.items() if form is not None]


def _transaction(capability: Capability) -> TransactionContract:
    """The modes that the requests make possible."""
    modes = [Mode.EXECUTE, Mode.DRY_RUN, Mode.PLAN, Mode.COMMIT]
    window = capability.execution.provider_dedup_window_ms
    if Handler.RECONCILE in capability.handlers or window is not None:
        modes.append(Mode.RECONCILE)
    if capability.compensation.mode in _COMPENSABLE:
        modes.append(Mode.COMPENSATE)
    previews = Handler.PREVIEW in capability.handlers
    fidelity = Fidelity.DOWNSTREAM_VALIDATION if previews else Fidelity.POLICY_AND_SCHEMA
    return TransactionContract(supported_modes=tuple(modes), dry_run_fidelity=fidelity)


def _digest(declaration: HttpDeclaration) -> str:
    requests = msgspec.to_builtins(
        [declaration.provider, declaration.execute, declaration.compensate, declaration.preview]
    )
    return domain_digest("amends-http-v1", requests)[:_DIGEST_LENGTH]
