"""HTTP capabilities from a TOML file: one provider, any number of capabilities.

    [provider]
    name = "stripe"
    base_url = "https://api.stripe.com"
    headers = { Authorization = "Bearer {credential}" }

    [[capability]]
    id = "payments.charge"
    side_effects = ["financial"]
    input_schema = { type = "object", … }
    execute = { path = "/v1/charges", body = { amount = "{input.amount}" }, … }

A table says what the records of `declaration` say, under their names; a capability's own fields
stand beside its requests. A field that nobody knows is refused, wherever it stands, since a limit
that is misspelt would otherwise be none. Errors name fields, never values.
"""

import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import to_builtins
from msgspec.structs import asdict

from amends.connectors.http.checks import refused
from amends.connectors.http.connector import Clock, http_capability, transport_for, utc_now
from amends.connectors.http.conversion import Unconverted, convert
from amends.connectors.http.declaration import Effect, HttpDeclaration, Preview, Provider
from amends.connectors.http.places import Fault
from amends.connectors.port import Connector
from amends.contracts.declarations import Capability
from amends.contracts.errors import Misuse

FILE_BYTES: Final = 4 * 1024 * 1024
_DERIVED: Final = ("handlers", "served_by")
_POSITION: Final = re.compile(r"\(at ([^()]*)\)$")


class Table(Capability, frozen=True, kw_only=True):
    """A capability with its requests, as it stands in a file."""

    execute: Effect
    compensate: Effect | None = None
    preview: Preview | None = None


class File(msgspec.Struct, frozen=True, kw_only=True):
    """A whole file."""

    provider: Provider
    capability: tuple[Table, ...]


def load_capabilities(
    path: str | os.PathLike[str], *, base_url: str | None = None, clock: Clock = utc_now
) -> tuple[tuple[Capability, Connector], ...]:
    """The capabilities of a TOML file, as `Amends.open` takes them; they share connections.

    `base_url` replaces the file's, for another deployment or a fake. Raises `Misuse`:
    `connector.file_unreadable`, `connector.toml_malformed`, and `connector.declaration_invalid`
    with the name of the field.
    """
    file = _converted(_parsed(Path(path)))
    provider = file.provider
    if base_url is not None:
        provider = msgspec.structs.replace(provider, base_url=base_url)
    transport = transport_for(provider)
    return tuple(
        http_capability(
            _declaration(provider, table),
            transport=transport,
            clock=clock,
            prefix=f"capability[{place}].",
        )
        for place, table in enumerate(file.capability)
    )


def _declaration(provider: Provider, table: Table) -> HttpDeclaration:
    fields = asdict(table)
    execute, compensate, preview = (
        fields.pop(name) for name in ("execute", "compensate", "preview")
    )
    return HttpDeclaration(
        capability=Capability(**fields),
        provider=provider,
        execute=execute,
        compensate=compensate,
        preview=preview,
    )


def _parsed(path: Path) -> dict[str, object]:
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES + 1)
    except OSError as error:
        raise Misuse(
            "connector.file_unreadable",
            "The file with the HTTP capabilities cannot be read.",
            next_step="Check its path, and who may read it.",
        ) from error
    if len(content) > FILE_BYTES:
        raise _malformed("it is too large")
    try:
        return tomllib.loads(content.decode())
    except UnicodeDecodeError:
        raise _malformed("it is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        position = _POSITION.search(str(error))
        raise _malformed(position[1] if position else "somewhere") from None


def _malformed(where: str) -> Misuse:
    return Misuse(
        "connector.toml_malformed",
        f"The file with the HTTP capabilities is not TOML: {where}.",
        details={"where": where},
        next_step="Mend its syntax.",
    )


def _converted(tables: dict[str, object]) -> File:
    try:
        file = convert(tables, File)
    except Unconverted as unconverted:
        raise refused([unconverted.fault]) from None
    faults = [Fault(field, "is not known") for field in _unknown(tables, to_builtins(file), "")]
    faults += [
        Fault(f"capability[{place}].{field}", "follows from the rest")
        for place, table in enumerate(_tables(tables))
        for field in _DERIVED
        if field in table
    ]
    if faults:
        raise refused(faults)
    return file


def _tables(tables: dict[str, object]) -> list[dict[str, object]]:
    return convert(tables["capability"], list[dict[str, object]])


def _unknown(given: object, taken: object, where: str) -> Iterator[str]:
    """The fields that did not arrive in the records that were made of them."""
    if isinstance(given, dict) and isinstance(taken, dict):
        for name, value in given.items():
            field = f"{where}.{name}".removeprefix(".")
            if name not in taken:
                yield field
            else:
                yield from _unknown(value, taken[name], field)
    elif isinstance(given, list) and isinstance(taken, list | tuple):
        for place, (value, other) in enumerate(zip(given, taken, strict=True)):
            yield from _unknown(value, other, f"{where}[{place}]")
