"""When two names mean one person: judged broadly, since it only ever takes a power away (AP-1).

Powers are granted to exact ids. Sameness is judged by the *names* a caller goes by: the id, the
person behind it where authentication knows one, and the subject it acts for. Each is folded: case,
Unicode form, invisible characters and the prefix of local users make no difference. Two callers who
share a folded name are one voice.

Deliberately not here: letters of other scripts that look alike; ids have none, and subjects come
from authentication.
"""

import unicodedata
from collections.abc import Iterable
from typing import Final

from amends.contracts.principals import Identity, Principal, PrincipalRef

LOCAL_PREFIX: Final = "local:"
"""How the command line names users of this machine: `local:alice` is the person `alice`."""


def folded(name: str) -> str:
    """The name as it is compared. Folding it again changes nothing."""
    while (simpler := _fold(name)) != name:
        name = simpler
    return name


def _fold(name: str) -> str:
    text = unicodedata.normalize("NFKC", name).casefold()
    seen = "".join(one for one in text if unicodedata.category(one)[0] not in "CZ")
    return unicodedata.normalize("NFKC", seen).removeprefix(LOCAL_PREFIX)


def names_of(principal: Principal, identity: Identity | None = None) -> tuple[str, ...]:
    """Every folded name of a caller, in order and once each."""
    subject = identity.subject if identity else None
    return _names([principal.id, *principal.persons, subject])


def names_in(ref: PrincipalRef, identity: Identity | None = None) -> tuple[str, ...]:
    """The folded names that a record's own principal gives away."""
    return _names([ref.id, identity.subject if identity else None])


def _names(names: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(sorted({folded(name) for name in names if name is not None}))


def same_person(one: Iterable[str], other: Iterable[str]) -> bool:
    """Whether two sets of folded names have one in common."""
    return not frozenset(one).isdisjoint(other)
