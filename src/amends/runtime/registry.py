"""What can be done: capabilities with their connectors, compiled once at registration."""

from collections.abc import Callable, Mapping

import msgspec

from amends.connectors.inputs import InputType, TakesTypes
from amends.connectors.port import Connector
from amends.contracts.codes import coded
from amends.contracts.declarations import Capability
from amends.contracts.enums import Handler
from amends.contracts.ids import CapabilityId
from amends.contracts.json_types import Json
from amends.contracts.outcomes import ErrorInfo
from amends.contracts.redaction import Redactor, redacted_error, redacted_form
from amends.contracts.schema import Schema, compile_schema
from amends.contracts.secrets import Credential
from amends.transactions.hashing import contract_digest
from amends.transactions.registration import check_declaration, well_typed


class Registered(msgspec.Struct, frozen=True, kw_only=True):
    """One capability, ready for use: declaration, connector, compiled schemas, digest.

    `inputs` are the types that its handlers take; none of them, where they take plain JSON.
    """

    capability: Capability
    connector: Connector
    inputs: Mapping[Handler, InputType]
    input_schema: Schema
    output_schema: Schema | None
    compensation_schema: Schema | None
    digest: str
    redactor: Redactor
    known_keys: frozenset[str]

    def fits(self, output: Json) -> bool:
        """Whether an output fits the declared schema; without one, everything does."""
        return self.output_schema is None or self.output_schema.fits(output)

    @property
    def redact(self) -> Callable[[Json], Json] | None:
        """How outputs are redacted on write, where the capability requires it (RD-1)."""
        if not self.capability.data.redaction_required:
            return None
        return self.redacted

    def redacted(self, value: Json) -> Json:
        """The stored form of a value of a capability that requires redaction."""
        return redacted_form(value, self.known_keys)

    def shown_error(self, error: ErrorInfo, credential: Credential | None) -> ErrorInfo:
        """An error as it may be stored: scrubbed always, without its texts where required.

        The credential in use is taken out however a provider's message quotes it.
        """
        if self.capability.data.redaction_required:
            return redacted_error(error)
        if credential is None:
            return self.redactor.error(error)
        secrets = (credential.secret,)
        return Redactor(self.capability.data.redact, secrets=secrets).error(error)


class Registry:
    """The capabilities of one runtime, fixed once it has started."""

    def __init__(self) -> None:
        self._by_id: dict[str, Registered] = {}

    def register(self, capability: Capability, connector: Connector) -> None:
        """Check the declaration and admit it.

        Raises `Misuse` (`capability.invalid`) with all faults, or `capability.twice`.
        """
        capability = well_typed(capability)
        check_declaration(capability)
        if capability.id in self._by_id:
            raise coded("capability.twice", {"capability_id": capability.id})
        self._by_id[capability.id] = Registered(
            capability=capability,
            connector=connector,
            inputs=connector.inputs if isinstance(connector, TakesTypes) else {},
            input_schema=compile_schema(capability.input_schema),
            output_schema=_compiled(capability.output_schema),
            compensation_schema=_compiled(capability.compensation_schema),
            digest=contract_digest(capability),
            redactor=Redactor(capability.data.redact),
            known_keys=_known_keys(capability),
        )

    def find(self, capability_id: CapabilityId) -> Registered | None:
        """The capability, or none where it is not registered (any more)."""
        return self._by_id.get(capability_id)

    def get(self, capability_id: CapabilityId) -> Registered:
        """The capability. Raises `Refused` (`capability.not_found`)."""
        found = self._by_id.get(capability_id)
        if found is None:
            raise coded("capability.not_found")
        return found

    def all(self) -> tuple[Registered, ...]:
        """Every capability, in order of registration."""
        return tuple(self._by_id.values())

    def serving(self, registered: Registered) -> Registered:
        """Who carries out compensations of this capability (TX-COMP-3).

        Raises `Refused` (`transaction.compensation_capability_unavailable`).
        """
        named = registered.capability.compensation.compensation_capability_id
        serving = registered if named is None else self._by_id.get(named)
        needed = {Handler.COMPENSATE} if named is None else {Handler.COMPENSATE, Handler.EXECUTE}
        if serving is None or not needed & set(serving.capability.handlers):
            raise coded(
                "transaction.compensation_capability_unavailable",
                {"capability_id": named or registered.capability.id},
            )
        return serving


def _compiled(schema: Json) -> Schema | None:
    return None if schema is None else compile_schema(schema)


def _known_keys(capability: Capability) -> frozenset[str]:
    """The property names that the schemas themselves make public."""
    schemas = (
        capability.input_schema,
        capability.output_schema,
        capability.compensation_schema,
    )
    compiled = [compile_schema(schema) for schema in schemas if schema is not None]
    return frozenset().union(*(schema.known_keys for schema in compiled))
