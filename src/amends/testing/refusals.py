"""Refusals as tests see them: the code decides, and what was refused changed nothing."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from amends.contracts.errors import AmendsError


class Caught:
    """The refusal that a block ended in; `error` is set once the block has ended."""

    error: AmendsError


@contextmanager
def refused_with(code: str, *untouched: msgspec.Struct) -> Iterator[Caught]:
    """Demand that the block raises this code and leaves these documents byte for byte alike."""
    before = [msgspec.json.encode(document) for document in untouched]
    caught = Caught()
    try:
        yield caught
    except AmendsError as error:
        caught.error = error
    else:
        raise AssertionError(f"nothing was refused, although {code} was expected")
    assert caught.error.code == code, f"refused with {caught.error.code}, not with {code}"
    assert [msgspec.json.encode(document) for document in untouched] == before
