"""Narrowing a grant: every limit can go down, resources can become fewer, nothing grows (GR-2).

Tool and format stay. A narrowed grant is another grant with another fingerprint.
"""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from amends.contracts.codes import coded
from amends.contracts.worker_grant import CapabilityGrant, Resource

LIMITS: Final = ("max_calls", "max_input_bytes", "max_output_bytes", "max_compensations")


def attenuate(
    grant: CapabilityGrant,
    *,
    max_calls: int | None = None,
    max_input_bytes: int | None = None,
    max_output_bytes: int | None = None,
    max_compensations: int | None = None,
    resources: Iterable[Resource] | None = None,
) -> CapabilityGrant:
    """The grant with these limits; what is not named stays. No compensation at all is allowed.

    Raises `Refused` (`worker.grant_widened`, `worker.grant_invalid`).
    """
    kept = grant.resources if resources is None else tuple(resources)
    inner = replace(
        grant,
        max_calls=_or(max_calls, grant.max_calls),
        max_input_bytes=_or(max_input_bytes, grant.max_input_bytes),
        max_output_bytes=_or(max_output_bytes, grant.max_output_bytes),
        max_compensations=_or(max_compensations, grant.max_compensations),
        resources=kept,
    )
    check_within(grant, inner)
    return inner


def check_within(outer: CapabilityGrant, inner: CapabilityGrant) -> None:
    """Refuse an inner grant that allows anything that the outer does not.

    Raises `Refused` (`worker.grant_widened`), which names the field.
    """
    for field in ("tool", "format"):
        if getattr(inner, field) != getattr(outer, field):
            raise coded("worker.grant_widened", {"field": field})
    for field in LIMITS:
        if getattr(inner, field) > getattr(outer, field):
            raise coded("worker.grant_widened", {"field": field})
    if not set(inner.resources) <= set(outer.resources):
        raise coded("worker.grant_widened", {"field": "resources"})


def _or(limit: int | None, before: int) -> int:
    return before if limit is None else limit
