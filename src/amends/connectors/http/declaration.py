"""An HTTP capability as it is declared: what governs it, and the requests that carry it out.

These records say everything there is to say; nothing of it is code. Texts in paths, queries,
headers and bodies are templates (`templates`), pointers are JSON pointers (RFC 6901) into the
object that an answer is about, statuses are written `402` or `4xx` (`classify`).

Deliberately not here: checking a declaration (`forms`) and reading one from a file (`toml`).
"""

from typing import Literal, TypeAlias

import msgspec

from amends.connectors.http.classify import Meaning, Sight
from amends.contracts import limits
from amends.contracts.declarations import Capability
from amends.contracts.json_types import Json

CONNECT_TIMEOUT_MS = 5_000


class Provider(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The far end. `name` stands in records beside the provider's operation ids.

    `headers` go with every request; the credential is written `{credential}`, and in headers only.
    `statuses` hold for the answers to every effect, unless that effect says otherwise.
    `error_code` is where a refusal names its reason, `request_id_header` who can be asked about it.
    `allow_plain_http` sends credentials without encryption to other hosts than this one.
    """

    name: str
    base_url: str
    headers: dict[str, str] = {}
    statuses: dict[str, Meaning] = {}
    error_code: str | None = None
    request_id_header: str | None = None
    connect_timeout_ms: int = CONNECT_TIMEOUT_MS
    max_answer_bytes: int = limits.OUTPUT_BYTES
    allow_plain_http: bool = False


class Request(msgspec.Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True):
    """One request. `path` follows the provider's `base_url`."""

    path: str
    query: dict[str, str] = {}
    headers: dict[str, str] = {}
    body: Json = None
    encoding: Literal["json", "form"] = "json"


class State(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The provider's own word on how far an object is; a word that is not listed is uncertain."""

    at: str
    applied: tuple[str, ...]
    pending: tuple[str, ...] = ()
    not_applied: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()


class ById(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Asks for one object by the operation id that was recorded, `{operation.id}`."""

    method: Literal["GET", "POST"] = "GET"
    object: str = ""
    statuses: dict[str, Sight] = {}


class ByToken(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag="token",
    tag_field="by",
):
    """The answer names the next page, at `next`; the last page names none."""

    parameter: str
    next: str


class ByLastItem(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag="last_item",
    tag_field="by",
):
    """The next page is asked for by the last item's id; `more` says whether there is one.

    Without `more` a page without items is the last.
    """

    parameter: str
    id: str
    more: str | None = None


class ByOffset(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag="offset",
    tag_field="by",
):
    """The next page is asked for by how many items came before it.

    The last page is the one that reaches `total`, or else the first without items.
    """

    parameter: str
    total: str | None = None


Paging: TypeAlias = ByToken | ByLastItem | ByOffset


class ByKey(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Searches a list for the item that carries our provider key at `key`.

    The list is complete after one page unless `paging` says how it goes on. `null_is_empty` takes
    null for a list without items; otherwise, and wherever there is no list, it is unreadable.
    """

    method: Literal["GET", "POST"] = "GET"
    items: str
    key: str
    paging: Paging | None = None
    max_pages: int = 20
    null_is_empty: bool = False
    statuses: dict[str, Sight] = {}


class LookUp(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the provider is asked what became of an effect: by its id where that is known.

    What is found must agree with `match`, where pointers stand for templates. `match`,
    `operation_id` and `state` are those of the effect unless they are given here. `strong` promises
    that the provider's reads show every effect once `consistency_delay_ms` has passed; only then
    may `in_flight_horizon_ms` be declared, with which "not found" can become proof.
    """

    by_id: ById | None = None
    by_key: ByKey | None = None
    match: dict[str, str] | None = None
    operation_id: str | None = None
    state: State | None = None
    strong: bool = False


class Effect(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The one request of an attempt, and how its answer is read.

    `idempotency_header` carries the provider key. `object` is where in the answer the object
    stands; `operation_id`, `state` and `match` point into it. An answer that does not agree with
    `match`, or whose state is not readable, is uncertain. `GET` is for capabilities that only read.
    """

    method: Literal["POST", "PUT", "PATCH", "DELETE", "GET"] = "POST"
    idempotency_header: str | None = None
    statuses: dict[str, Meaning] = {}
    object: str = ""
    operation_id: str | None = None
    state: State | None = None
    match: dict[str, str] = {}
    lookup: LookUp | None = None


class Preview(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request that lets the provider validate, and has no effect."""

    method: Literal["GET", "POST"] = "POST"
    statuses: dict[str, Meaning] = {}
    object: str = ""


class HttpDeclaration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A capability that is carried out over HTTP.

    Of `capability`, these are derived where they are left out: handlers, modes, whether effects can
    be looked up by key, whether a credential is required, and that compensation is supported.
    """

    capability: Capability
    provider: Provider
    execute: Effect
    compensate: Effect | None = None
    preview: Preview | None = None
