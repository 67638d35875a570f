"""Faults of a declaration that no single text has: of the provider, and of parts beside others."""

from collections.abc import Callable, Iterator
from datetime import date, datetime, time
from decimal import Decimal
from ipaddress import ip_address
from typing import Final, NamedTuple
from urllib.parse import SplitResult, urlsplit
from uuid import UUID

import msgspec

from amends.connectors.http.compiling import make_forms
from amends.connectors.http.conversion import Unconverted, convert
from amends.connectors.http.declaration import HttpDeclaration, LookUp, Provider
from amends.connectors.http.forms import EffectForm, Forms
from amends.connectors.http.places import PROVIDER_KEY, Fault, header_name_fault
from amends.contracts import limits
from amends.contracts.errors import Misuse, Refused
from amends.contracts.ids import check_opaque
from amends.contracts.json_types import Json

_MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
_MAX_CONNECT_MS: Final = 10 * 60 * 1000

_NO_JSON: Final = (bytes, bytearray, date, datetime, time, Decimal, UUID)
"""What has a form in JSON only by somebody's choice, and is refused instead."""


def well_typed(declaration: HttpDeclaration, prefix: str = "") -> HttpDeclaration:
    """The declaration with every field of its declared type; Python checks none by itself.

    Raises `Misuse` (`connector.declaration_invalid`).
    """
    try:
        plain = msgspec.to_builtins(declaration, builtin_types=_NO_JSON)
        return convert(plain, HttpDeclaration)
    except Unconverted as unconverted:
        raise refused([unconverted.fault], prefix) from None
    except (TypeError, ValueError, RecursionError):
        raise refused([Fault("body", "or a schema holds what JSON cannot say")], prefix) from None


def checked_forms(declaration: HttpDeclaration, prefix: str = "") -> Forms:
    """The forms of a declaration.

    Raises `Misuse` (`connector.declaration_invalid`) with every fault; `prefix` stands before the
    names of the fields, where the declaration is one of several in a file.
    """
    faults: list[Fault] = []
    forms = make_forms(declaration, faults)
    faults += _provider_faults(declaration.provider, forms)
    faults += (
        Fault(demand.field, demand.text)
        for demand in _DEMANDS
        if not demand.holds(declaration, forms)
    )
    if faults:
        raise refused(faults, prefix)
    return forms


def refused(faults: list[Fault], prefix: str = "") -> Misuse:
    """The error for these faults; it names the first, and lists each once."""
    named = list(dict.fromkeys(f"{_place(fault, prefix)} {fault.text}" for fault in faults))
    listed: list[Json] = [*named]
    return Misuse(
        "connector.declaration_invalid",
        f"The declaration of an HTTP capability is not sound: {named[0]}.",
        details={"field": _place(faults[0], prefix), "faults": listed},
        next_step="Mend every fault that the details list.",
    )


def _place(fault: Fault, prefix: str) -> str:
    """The provider is declared once for all."""
    return fault.field if fault.field.startswith("provider.") else prefix + fault.field


def _provider_faults(provider: Provider, forms: Forms) -> Iterator[Fault]:
    try:
        check_opaque(provider.name, "name", length=limits.ID_LENGTH)
    except Refused:
        yield Fault("provider.name", "must name the provider")
    if provider.request_id_header is not None and header_name_fault(provider.request_id_header):
        yield Fault("provider.request_id_header", "is no name of a header")
    if not 1 <= provider.connect_timeout_ms <= _MAX_CONNECT_MS:
        yield Fault("provider.connect_timeout_ms", f"must be from 1 to {_MAX_CONNECT_MS}")
    if not 1 <= provider.max_answer_bytes <= _MAX_ANSWER_BYTES:
        yield Fault("provider.max_answer_bytes", f"must be from 1 to {_MAX_ANSWER_BYTES}")
    base = _split(provider.base_url)
    if base is None:
        yield Fault(
            "provider.base_url",
            "must be http:// or https:// with a host, a port and a path at most",
        )
    elif uses_credential(forms) and _is_in_the_open(base) and not provider.allow_plain_http:
        yield Fault("provider.base_url", "would send the credential unencrypted; use https://")


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    plain = url.isascii() and url.isprintable() and not set(url) & set(" ?#@\\{}")
    dots = any(part and not part.strip(".") for part in parts.path.split("/"))
    fits = parts.scheme in ("http", "https") and parts.hostname and plain and not dots
    return parts if fits else None


def _is_in_the_open(base: SplitResult) -> bool:
    host = base.hostname or ""
    try:
        is_local = ip_address(host).is_loopback
    except ValueError:
        is_local = host == "localhost"
    return base.scheme == "http" and not is_local


def uses_credential(forms: Forms) -> bool:
    """Whether any request carries the provider credential."""
    return any(request.secret_headers for request in forms.every_request())


class _Demand(NamedTuple):
    field: str
    text: str
    holds: Callable[[HttpDeclaration, Forms], bool]


def _sends_key(effect: EffectForm | None) -> bool:
    return effect is not None and PROVIDER_KEY in effect.request.references()


def _searched_by_key(lookup: LookUp | None) -> bool:
    return lookup is not None and lookup.by_key is not None


def _compensation_lookup(declaration: HttpDeclaration) -> LookUp | None:
    return declaration.compensate.lookup if declaration.compensate else None


def _strong_enough(declaration: HttpDeclaration, lookup: LookUp | None) -> bool:
    """A horizon makes "not found" a proof, so it needs reads that show everything."""
    horizon = declaration.capability.execution.in_flight_horizon_ms
    return horizon is None or lookup is None or lookup.strong


_DEMANDS: Final[tuple[_Demand, ...]] = (
    _Demand(
        "execute.method",
        "GET is for capabilities whose only side effect is read",
        lambda d, _: d.execute.method != "GET" or d.capability.reads_only,
    ),
    _Demand(
        "compensate.method",
        "GET cannot offset anything",
        lambda d, _: d.compensate is None or d.compensate.method != "GET",
    ),
    _Demand(
        "compensate",
        "is declared beside compensation.compensation_capability_id",
        lambda d, _: (
            d.compensate is None or d.capability.compensation.compensation_capability_id is None
        ),
    ),
    _Demand(
        "execute.idempotency_header",
        "is needed with provider_dedup_window_ms: the provider has to be told the key",
        lambda d, f: (
            d.capability.execution.provider_dedup_window_ms is None or _sends_key(f.execute)
        ),
    ),
    _Demand(
        "execute.lookup.by_key",
        "needs a request that sends {attempt.provider_key}",
        lambda d, f: not _searched_by_key(d.execute.lookup) or _sends_key(f.execute),
    ),
    _Demand(
        "compensate.lookup.by_key",
        "needs a request that sends {attempt.provider_key}",
        lambda d, f: not _searched_by_key(_compensation_lookup(d)) or _sends_key(f.compensate),
    ),
    _Demand(
        "execute.lookup.strong",
        "must be true with in_flight_horizon_ms: only then does not found mean not done",
        lambda d, _: _strong_enough(d, d.execute.lookup),
    ),
    _Demand(
        "compensate.lookup.strong",
        "must be true with in_flight_horizon_ms: only then does not found mean not done",
        lambda d, _: _strong_enough(d, _compensation_lookup(d)),
    ),
)
