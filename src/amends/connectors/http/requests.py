"""Filling in a request: from its form and what an attempt is told to what is sent.

Invariants: the same facts give the same bytes, so that a re-drive repeats its first request to the
letter; numbers in bodies are spelt as they were approved (RFC 8785); the credential is checked here
and only handed on.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from msgspec import UNSET

from amends.connectors.http.codes import CREDENTIAL_INVALID, CREDENTIAL_MISSING
from amends.connectors.http.forms import RequestForm
from amends.connectors.http.messages import Outgoing, SecretHeader
from amends.connectors.http.places import CREDENTIAL
from amends.connectors.http.templates import (
    Facts,
    Template,
    Unfit,
    fill,
    fits_header,
    form,
    header,
    query,
    segment,
)
from amends.connectors.port import Call, OriginalEffect
from amends.contracts.canonical import canonical_bytes
from amends.contracts.json_types import Json
from amends.contracts.outcomes import ProviderOperation
from amends.contracts.secrets import Credential, Secret

_CREDENTIAL_LENGTH: Final = 16_384
_ALWAYS: Final[Mapping[str, str]] = {
    "accept": "application/json",
    # What somebody kept of an earlier look-up says nothing of now.
    "cache-control": "no-cache",
    # Compressed answers would have to be unpacked without knowing how large they become.
    "accept-encoding": "identity",
    "user-agent": "amends",
}
_CONTENT_TYPES: Final[Mapping[str, str]] = {
    "json": "application/json",
    "form": "application/x-www-form-urlencoded",
}


def facts_of(call: Call) -> Facts:
    """What references may look into; what the call does not have is not there at all."""
    facts: dict[str, Json] = {"attempt": _attempt(call)}
    if call.input is not None or not call.capability.data.redaction_required:
        facts["input"] = call.input
    if call.identity is not None:
        identity = call.identity
        facts["identity"] = _present(
            external_account=identity.external_account, subject=identity.subject
        )
    if call.provider_operation is not None:
        facts["operation"] = _operation(call.provider_operation)
    if call.original is not None:
        facts["original"] = _original(call.original)
    return facts


def _attempt(call: Call) -> Json:
    return _present(
        tenant=call.tenant,
        principal=call.principal.id,
        transaction_id=call.transaction_id,
        action_id=call.action_id,
        number=call.number,
        provider_key=call.provider_key,
        fence=call.fence,
    )


def _original(original: OriginalEffect) -> Json:
    operation = None if original.operation is None else _operation(original.operation)
    return _present(
        action_id=original.action_id,
        transaction_id=original.transaction_id,
        provider_key=original.provider_key,
        input=original.input,
        output=original.output,
        operation=operation,
    )


def _operation(operation: ProviderOperation) -> Json:
    return _present(id=operation.operation_id, request_id=operation.request_id)


def _present(**facts: Json) -> Json:
    return {name: fact for name, fact in facts.items() if fact is not None}


def outgoing(
    form_: RequestForm,
    base_url: str,
    facts: Facts,
    credential: Credential | None,
    more: Mapping[str, str],
) -> Outgoing:
    """The request of these facts; `more` are parameters of the query beside its own.

    Raises `Unfit`, which names the reference or header and never the value.
    """
    path = "/".join(segment(one, facts) for one in form_.segments)
    words = [query({n: t for n, t in form_.query.items() if n not in more}, facts), _plain(more)]
    parameters = "&".join(word for word in words if word)
    body, content_type = _body(form_, facts)
    headers = {name: header(one, name, facts) for name, one in form_.headers.items()}
    return Outgoing(
        method=form_.method,
        url=f"{base_url.rstrip('/')}/{path}" + (f"?{parameters}" if parameters else ""),
        headers={
            **_ALWAYS,
            **content_type,
            **{name: value for name, value in headers.items() if isinstance(value, str)},
        },
        secret_headers=_secret_headers(form_.secret_headers, credential),
        body=body,
    )


def _plain(parameters: Mapping[str, str]) -> str:
    return "&".join(
        f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in parameters.items()
    )


def _body(form_: RequestForm, facts: Facts) -> tuple[bytes | None, dict[str, str]]:
    if form_.body is None:
        return None, {}
    filled = fill(form_.body, facts)
    if filled is UNSET:
        return None, {}
    content_type = {"content-type": _CONTENT_TYPES[form_.encoding]}
    if form_.encoding == "form" and isinstance(filled, dict):
        return form(filled).encode(), content_type
    return canonical_bytes(filled), content_type


def _secret_headers(
    templates: Mapping[str, Template], credential: Credential | None
) -> tuple[SecretHeader, ...]:
    if not templates:
        return ()
    if credential is None:
        raise Unfit(CREDENTIAL_MISSING, CREDENTIAL)
    if len(credential.secret.reveal()) > _CREDENTIAL_LENGTH or not fits_header(
        credential.secret.reveal()
    ):
        raise Unfit(CREDENTIAL_INVALID, CREDENTIAL)
    return tuple(
        _secret_header(name, template, credential.secret) for name, template in templates.items()
    )


def _secret_header(name: str, template: Template, secret: Secret) -> SecretHeader:
    """The plain text before and after the one reference, and the secret itself."""
    first, last = template.parts[0], template.parts[-1]
    before = first if isinstance(first, str) else ""
    after = last if isinstance(last, str) else ""
    return SecretHeader(name, before, secret, after)
