"""A declaration made ready for use: its templates read, its tables laid over the defaults.

Forms are made by `compiling`, which finds every fault that a declaration can have; afterwards a
request can fail only for what its attempt is told.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from amends.connectors.http import declaration as declared
from amends.connectors.http.classify import Classification, Meaning, Sight
from amends.connectors.http.templates import Node, Template, references


class RequestForm(msgspec.Struct, frozen=True, kw_only=True):
    """A request with its templates. `secret_headers` hold the credential."""

    method: str
    segments: tuple[Template, ...]
    query: Mapping[str, Template]
    headers: Mapping[str, Template]
    secret_headers: Mapping[str, Template]
    body: Node
    encoding: Literal["json", "form"]

    def references(self) -> Iterator[str]:
        """Every reference that is made anywhere in it."""
        texts = [*self.segments, *self.query.values(), *self.headers.values()]
        for template in texts:
            yield from map(str, template.references)
        yield from map(str, references(self.body))


class ObjectForm(msgspec.Struct, frozen=True, kw_only=True):
    """How an object of the provider is read: whose it is, and how far it is."""

    operation_id: str | None
    state: declared.State | None
    match: Mapping[str, Template]


class EffectForm(msgspec.Struct, frozen=True, kw_only=True):
    """An effect, or a preview, whose object says nothing of an operation."""

    request: RequestForm
    statuses: Classification[Meaning]
    at: str
    object: ObjectForm


class ByIdForm(msgspec.Struct, frozen=True, kw_only=True):
    """The look-up of one object."""

    request: RequestForm
    statuses: Classification[Sight]
    at: str


class ByKeyForm(msgspec.Struct, frozen=True, kw_only=True):
    """The search through a list."""

    request: RequestForm
    statuses: Classification[Sight]
    items: str
    key: str
    paging: declared.Paging | None
    max_pages: int
    null_is_empty: bool


class LookUpForm(msgspec.Struct, frozen=True, kw_only=True):
    """How an effect is looked up."""

    by_id: ByIdForm | None
    by_key: ByKeyForm | None
    object: ObjectForm


class Forms(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one connector can send."""

    provider: declared.Provider
    execute: EffectForm
    compensate: EffectForm | None
    preview: EffectForm | None
    execute_lookup: LookUpForm | None
    compensate_lookup: LookUpForm | None

    def every_request(self) -> Iterator[RequestForm]:
        """All requests, in no order that matters."""
        effects = (self.execute, self.compensate, self.preview)
        yield from (effect.request for effect in effects if effect is not None)
        for lookup in (self.execute_lookup, self.compensate_lookup):
            ways = (lookup.by_id, lookup.by_key) if lookup else ()
            yield from (way.request for way in ways if way is not None)
