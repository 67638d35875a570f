"""Reading a declaration: every template, reference, pointer and status, with the faults they have.

All faults are found at once, each under the field that has it.

Deliberately not here: faults that several parts make together (`checks`).
"""

from collections.abc import Mapping
from typing import Final, TypeVar

from amends.connectors.http import declaration as declared
from amends.connectors.http.classify import (
    Meaning,
    Sight,
    effect_statuses,
    fault_of_key,
    list_statuses,
    object_statuses,
)
from amends.connectors.http.forms import (
    ByIdForm,
    ByKeyForm,
    EffectForm,
    Forms,
    LookUpForm,
    ObjectForm,
    RequestForm,
)
from amends.connectors.http.places import (
    CREDENTIAL,
    OPERATION_ID,
    PROVIDER_KEY,
    Fault,
    Place,
    header_fault,
    header_name_fault,
    reference_fault,
)
from amends.connectors.http.reading import pointer_fault
from amends.connectors.http.templates import (
    Node,
    Template,
    TemplateFault,
    parse,
    parse_node,
    references,
)
from amends.contracts.admission import admit_value
from amends.contracts.errors import Refused
from amends.contracts.json_types import Json

_PATH: Final = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;=:@%"
)
_PAGES: Final = 1000


def make_forms(declaration: declared.HttpDeclaration, faults: list[Fault]) -> Forms:
    """Read every part; what is wrong is added to `faults`, and then the result is of no use."""
    capability = declaration.capability
    execute = Place(capability.input_schema, effect=True)
    compensate = Place(capability.compensation_schema, effect=True)
    preview = Place(capability.input_schema)
    reader = _Reader(declaration.provider, faults)
    offset, asked = declaration.compensate, declaration.preview
    return Forms(
        provider=declaration.provider,
        execute=reader.effect("execute", declaration.execute, execute),
        compensate=None if offset is None else reader.effect("compensate", offset, compensate),
        preview=None if asked is None else reader.preview(asked, preview),
        execute_lookup=reader.lookup("execute", declaration.execute, execute),
        compensate_lookup=None
        if offset is None
        else reader.lookup("compensate", offset, compensate),
    )


Word = TypeVar("Word", bound=Meaning | Sight)


class _Reader:
    """Reads the parts of one declaration and collects their faults."""

    def __init__(self, provider: declared.Provider, faults: list[Fault]) -> None:
        self._provider = provider
        self._faults = faults
        self._statuses("provider.statuses", provider.statuses)
        self._pointer("provider.error_code", provider.error_code)

    def effect(self, where: str, effect: declared.Effect, place: Place) -> EffectForm:
        key = effect.idempotency_header
        own = {} if key is None else {key: f"{{{PROVIDER_KEY}}}"}
        if key is not None:
            self._add(f"{where}.idempotency_header", header_name_fault(key))
        self._statuses(f"{where}.statuses", effect.statuses)
        self._pointer(f"{where}.object", effect.object)
        return EffectForm(
            request=self._request(where, effect, effect.method, place, own),
            statuses=effect_statuses(effect.statuses, self._provider.statuses),
            at=effect.object,
            object=self._object(where, effect.operation_id, effect.state, effect.match, place),
        )

    def preview(self, preview: declared.Preview, place: Place) -> EffectForm:
        self._statuses("preview.statuses", preview.statuses)
        self._pointer("preview.object", preview.object)
        return EffectForm(
            request=self._request("preview", preview, preview.method, place, {}),
            statuses=effect_statuses(preview.statuses, self._provider.statuses),
            at=preview.object,
            object=ObjectForm(operation_id=None, state=None, match={}),
        )

    def lookup(self, of: str, effect: declared.Effect, place: Place) -> LookUpForm | None:
        lookup = effect.lookup
        if lookup is None:
            return None
        where, place = f"{of}.lookup", place._replace(lookup=True)
        match = effect.match if lookup.match is None else lookup.match
        if not match:
            self._add(f"{where}.match", "is needed: what is found must be shown to be ours")
        if lookup.by_id is None and lookup.by_key is None:
            self._add(where, "needs by_id or by_key")
        return LookUpForm(
            by_id=self._by_id(f"{where}.by_id", lookup.by_id, place),
            by_key=self._by_key(f"{where}.by_key", lookup.by_key, place),
            object=self._object(
                where,
                lookup.operation_id or effect.operation_id,
                lookup.state or effect.state,
                match,
                place,
            ),
        )

    def _by_id(self, where: str, way: declared.ById | None, place: Place) -> ByIdForm | None:
        if way is None:
            return None
        self._statuses(f"{where}.statuses", way.statuses)
        self._pointer(f"{where}.object", way.object)
        request = self._request(where, way, way.method, place, {})
        if OPERATION_ID not in request.references():
            self._add(where, f"must ask for {{{OPERATION_ID}}}")
        return ByIdForm(request=request, statuses=object_statuses(way.statuses), at=way.object)

    def _by_key(self, where: str, way: declared.ByKey | None, place: Place) -> ByKeyForm | None:
        if way is None:
            return None
        self._statuses(f"{where}.statuses", way.statuses)
        self._pointer(f"{where}.items", way.items)
        self._pointer(f"{where}.key", way.key)
        self._paging(f"{where}.paging", way.paging)
        if not 1 <= way.max_pages <= _PAGES:
            self._add(f"{where}.max_pages", f"must be from 1 to {_PAGES}")
        return ByKeyForm(
            request=self._request(where, way, way.method, place, {}),
            statuses=list_statuses(way.statuses),
            items=way.items,
            key=way.key,
            paging=way.paging,
            max_pages=way.max_pages,
            null_is_empty=way.null_is_empty,
        )

    def _paging(self, where: str, paging: declared.Paging | None) -> None:
        match paging:
            case declared.ByToken():
                self._pointer(f"{where}.next", paging.next)
            case declared.ByLastItem():
                self._pointer(f"{where}.id", paging.id)
                self._pointer(f"{where}.more", paging.more)
            case declared.ByOffset():
                self._pointer(f"{where}.total", paging.total)
            case None:
                return
        if not paging.parameter:
            self._add(f"{where}.parameter", "must name a parameter of the query")

    def _object(
        self,
        where: str,
        operation_id: str | None,
        state: declared.State | None,
        match: Mapping[str, str],
        place: Place,
    ) -> ObjectForm:
        self._pointer(f"{where}.operation_id", operation_id)
        if state is not None:
            self._pointer(f"{where}.state.at", state.at)
            words = (*state.applied, *state.pending, *state.not_applied, *state.partial)
            if not state.applied or len(set(words)) != len(words):
                self._add(f"{where}.state", "needs words for applied, and each word only once")
        for pointer in match:
            self._pointer(f"{where}.match", pointer)
        templates = self._texts(f"{where}.match", match, place)
        if match and all(_may_be_missing(one) for one in templates.values()):
            self._add(f"{where}.match", "needs one comparison that is not optional")
        return ObjectForm(operation_id=operation_id, state=state, match=templates)

    def _request(
        self,
        where: str,
        request: declared.Request,
        method: str,
        place: Place,
        own_headers: Mapping[str, str],
    ) -> RequestForm:
        headers = self._headers(where, request, own_headers, place._replace(header=True))
        secret = {name for name, one in headers.items() if _holds_credential(one)}
        if method == "GET" and request.body is not None:
            self._add(f"{where}.body", "cannot be sent with GET")
        if request.encoding == "form" and not isinstance(request.body, dict):
            self._add(f"{where}.body", "must be a table to be sent as a form")
        return RequestForm(
            method=method,
            segments=self._path(f"{where}.path", request.path, place),
            query=self._texts(f"{where}.query", request.query, place),
            headers={name: one for name, one in headers.items() if name not in secret},
            secret_headers={name: headers[name] for name in sorted(secret)},
            body=self._body(f"{where}.body", request.body, place),
            encoding=request.encoding,
        )

    def _headers(
        self, where: str, request: declared.Request, own: Mapping[str, str], place: Place
    ) -> dict[str, Template]:
        """The provider's headers, those of the request over them, and the key's own.

        A name is one name however it is written.
        """
        texts = {
            name.lower(): (place_of, name, value)
            for place_of, headers in (
                ("provider.headers", self._provider.headers),
                (f"{where}.headers", request.headers),
                (where, own),
            )
            for name, value in headers.items()
        }
        made: dict[str, Template] = {}
        for one_name, (place_of, name, value) in texts.items():
            made[one_name] = self._text(f"{place_of}.{name}", value, place)
            if name not in own:
                self._add(f"{place_of}.{name}", header_fault(name, made[one_name]))
        return made

    def _path(self, where: str, path: str, place: Place) -> tuple[Template, ...]:
        if not path.startswith("/"):
            self._add(where, "must begin with a slash")
        segments = tuple(self._text(where, part, place) for part in path.split("/")[1:])
        for segment in segments:
            literal = "".join(part for part in segment.parts if isinstance(part, str))
            if not _PATH.issuperset(literal):
                self._add(
                    where, "has a character that a path cannot hold; queries are declared apart"
                )
            if len(segment.parts) == 1 and literal and not literal.strip("."):
                self._add(where, "has a segment of dots alone")
            if any(reference.optional for reference in segment.references):
                self._add(where, "has an optional reference, and a segment cannot be left out")
        return segments

    def _body(self, where: str, body: Json, place: Place) -> Node:
        try:
            node = parse_node(admit_value(body))
        except (TemplateFault, Refused) as error:
            self._add(where, error.message if isinstance(error, Refused) else str(error))
            return None
        for reference in references(node):
            self._add(where, reference_fault(reference, place))
        return node

    def _texts(self, where: str, texts: Mapping[str, str], place: Place) -> dict[str, Template]:
        return {name: self._text(f"{where}.{name}", text, place) for name, text in texts.items()}

    def _text(self, where: str, text: str, place: Place) -> Template:
        try:
            template = parse(text)
        except TemplateFault as error:
            self._add(where, str(error))
            return Template(())
        for reference in template.references:
            self._add(where, reference_fault(reference, place))
        return template

    def _statuses(self, where: str, words: Mapping[str, Word]) -> None:
        for key, word in words.items():
            self._add(f"{where}.{key}", fault_of_key(key, word))

    def _pointer(self, where: str, pointer: str | None) -> None:
        if pointer is not None:
            self._add(where, pointer_fault(pointer))

    def _add(self, where: str, text: str | None) -> None:
        if text is not None:
            self._faults.append(Fault(where, text))


def _may_be_missing(template: Template) -> bool:
    return any(reference.optional for reference in template.references)


def _holds_credential(template: Template) -> bool:
    return any(reference.root == CREDENTIAL for reference in template.references)
