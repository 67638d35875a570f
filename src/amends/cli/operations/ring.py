"""What `amends keys` does: the key ring of a store, shown, rotated, published."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from amends.cli.operations.place import HERE, Place

if TYPE_CHECKING:
    from amends.cli.paper import Paper
    from amends.contracts.json_types import JsonObject
    from amends.receipts.signing import KeyRing, PublishedKey


def list_keys(*, place: Place = HERE) -> int:
    """List the keys of a store."""
    from amends.wiring.keys import key_path, read_keys
    from amends.wiring.places import beside, existing_place

    keys = read_keys(key_path(beside(existing_place(place.store))))
    return _told(keys.ring, place)


def add(
    file: Annotated[
        Path | None, Parameter(help="A JWK Set, as amends keys export writes it.")
    ] = None,
    /,
    *,
    place: Place = HERE,
) -> int:
    """Take public keys into the ring of this machine."""
    from amends.receipts.signing import KeyRing
    from amends.stores.rows import system_clock
    from amends.wiring.auditing import given_keys
    from amends.wiring.keys import add_keys, key_path
    from amends.wiring.places import beside, existing_place
    from amends.wiring.shared_keys import appoint

    store = existing_place(place.store)
    given = KeyRing(()) if file is None else given_keys(file)
    keys = add_keys(key_path(beside(store)), given, system_clock())
    appoint(store)
    return _told(keys.ring, place, changed=True)


def rotate(*, place: Place = HERE) -> int:
    """Sign with a new key from now on."""
    from amends.stores.rows import system_clock
    from amends.wiring.checkpointing import make_checkpoint
    from amends.wiring.keys import key_path, rotate_key
    from amends.wiring.places import beside, existing_place
    from amends.wiring.shared_keys import appoint

    store = existing_place(place.store)
    make_checkpoint(store)
    keys = rotate_key(key_path(beside(store)), system_clock())
    appoint(store)
    return _told(keys.ring, place, changed=True)


def compromised(
    key: Annotated[str, Parameter(help="The key's id.")],
    /,
    *,
    since: Annotated[str, Parameter(help="From when on it may have been in other hands.")],
    place: Place = HERE,
) -> int:
    """Say that somebody else may have had a key."""
    from amends.contracts.times import parse_instant
    from amends.stores.rows import system_clock
    from amends.wiring.keys import compromise_key, key_path
    from amends.wiring.places import beside, existing_place
    from amends.wiring.shared_keys import appoint

    at = parse_instant(since, "since")
    store = existing_place(place.store)
    keys = compromise_key(key_path(beside(store)), key, at, system_clock())
    appoint(store)
    return _told(keys.ring, place, changed=True)


def export_keys(
    *,
    out: Annotated[Path | None, Parameter(help="A new file to write to.")] = None,
    place: Place = HERE,
) -> int:
    """Write the public keys as a JWK Set."""
    import sys

    import msgspec

    from amends.cli.answers import Answer, give
    from amends.receipts.keyset import write_key_set
    from amends.wiring.bundling import write_bundle
    from amends.wiring.keys import key_path, read_keys
    from amends.wiring.places import beside, existing_place

    keys = read_keys(key_path(beside(existing_place(place.store))))
    text = write_key_set(keys.published)
    if out is not None:
        write_bundle(out.absolute(), [text])
    answer = Answer(
        data=msgspec.json.decode(text),
        tell=lambda paper: paper.line(
            text.decode().removesuffix("\n") if out is None else f"Written to {out}."
        ),
    )
    return give(answer, sys.stdout, as_json=place.json, utc=False, interrupted=False)


def _told(ring: "KeyRing", place: Place, *, changed: bool = False) -> int:
    import sys

    from amends.cli.answers import Answer, give
    from amends.wiring.places import is_on_a_server

    shared = changed and is_on_a_server(place.store)
    answer = Answer(
        data={"keys": [_document(key) for key in ring.published]},
        tell=lambda paper: _tell(paper, ring, shared=shared),
    )
    return give(answer, sys.stdout, as_json=place.json, utc=False, interrupted=False)


def _document(key: "PublishedKey") -> "JsonObject":
    from amends.contracts.times import format_instant

    times = {"since": key.since, "until": key.until, "compromised": key.compromised}
    return {
        "key_id": key.key_id,
        "public_key": key.public_key.hex(),
        **{name: None if at is None else format_instant(at) for name, at in times.items()},
    }


def _tell(paper: "Paper", ring: "KeyRing", *, shared: bool) -> None:
    from amends.contracts.times import format_instant

    for key in ring.published:
        since = "the beginning" if key.since is None else format_instant(key.since)
        until = "now" if key.until is None else format_instant(key.until)
        said = f"{key.key_id}  from {since} to {until}"
        if key.compromised is not None:
            said += f", in other hands since {format_instant(key.compromised)}"
        paper.line(said)
    if shared:
        paper.line(("Give the key file to every machine that has a replica of this store.", "dim"))
