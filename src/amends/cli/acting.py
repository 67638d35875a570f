"""Who acts: the user of this machine, or a principal that a file lets this user act for.

Invariants: the user is the one the kernel names, never what an environment variable says; a
principal that the file does not give to this user cannot be named; powers that are granted by name
(approving, operating) come from the file only. Without a file the local user may use every
capability of the embedded store, and neither approve for others nor operate (TX-VIEW-0). The file
is read again whenever it is asked what a principal holds now, so that who is struck off it, or
loses a role, has not approved what is not used yet (AP-5).

Deliberately not here: protection from that user. Whoever can write the database file can write
anything into it; the file of principals keeps records honest, and its own rights guard it.
"""

import os
import tomllib
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from amends.cli.options import Options
from amends.contracts.enums import PrincipalKind
from amends.contracts.errors import Misuse, Refused
from amends.contracts.ids import TenantId
from amends.contracts.persons import LOCAL_PREFIX
from amends.contracts.principals import (
    ANY_SCOPE,
    DEFAULT_TENANT,
    Caller,
    Identity,
    Principal,
    PrincipalRef,
)

ANYBODY: Final = "*"
_WRITABLE_BY_OTHERS: Final = 0o022
CONFIGURE: Final = (
    "List the principal in a TOML file ([[principals]] with id, kind, scopes and os_users), and "
    "name the file with --principals or AMENDS_PRINCIPALS."
)


class Listed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One principal of the file. `os_users` are the users who may act for it; "*" is everybody.

    `person` is who is behind it, where one person has several principals.
    """

    id: str
    kind: PrincipalKind = PrincipalKind.USER
    tenant: str = DEFAULT_TENANT
    scopes: tuple[str, ...] = (ANY_SCOPE,)
    roles: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    person: str | None = None
    os_users: tuple[str, ...] = ()
    external_account: str | None = None
    subject: str | None = None

    def principal(self) -> Principal:
        """As it acts. Raises `Refused` (`input.invalid_id`)."""
        return Principal.named(
            self.id,
            tenant=self.tenant,
            kind=self.kind,
            scopes=self.scopes,
            roles=self.roles,
            groups=self.groups,
            persons=() if self.person is None else (self.person,),
        )

    def identity(self, principal: Principal) -> Identity | None:
        """On whose external account it acts, where the file says so."""
        if self.external_account is None and self.subject is None:
            return None
        return Identity(
            tenant=principal.tenant, external_account=self.external_account, subject=self.subject
        )


class Listing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file.

    With `one_voice_per_os_user`, a user of this machine is one voice in approvals, whichever
    principals it acts for.
    """

    one_voice_per_os_user: bool = False
    principals: tuple[Listed, ...] = ()


class FilePrincipals:
    """The file as a source of principals: what they hold now."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def principal(self, tenant: TenantId, ref: PrincipalRef) -> Principal | None:
        """The listed principal, or the local user, who needs no list.

        Raises `Misuse` (`cli.principals_invalid`).
        """
        listed = [one.principal() for one in read_principals(self._path).principals]
        for one in listed:
            if one.tenant == tenant and one.ref == ref:
                return one
        local = tenant == DEFAULT_TENANT and ref.kind is PrincipalKind.USER
        if local and ref.id.startswith(LOCAL_PREFIX) and ref.id not in [one.id for one in listed]:
            return Principal.named(ref.id)
        return None


def os_user() -> str:
    """The user this process belongs to, by the kernel's word and not the environment's."""
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid-{os.getuid()}"
    except ImportError:  # where there is no password database, as on Windows
        return os.getlogin()


def local_id(user: str) -> str:
    """The principal id of a user of this machine; one that cannot be an id is named by number."""
    try:
        return Principal.named(LOCAL_PREFIX + user).id
    except Refused:
        return f"{LOCAL_PREFIX}uid-{os.getuid()}"


def caller(options: Options) -> Caller:
    """Who acts in this command.

    Raises `Misuse` (`cli.principals_required`, `cli.principals_invalid`) and `Refused`
    (`cli.principal_not_permitted`).
    """
    user = os_user()
    file = Listing() if options.principals is None else read_principals(options.principals)
    listed, voice = file.principals, local_id(user) if file.one_voice_per_os_user else None
    if options.as_ is None:
        own = [one for one in listed if one.id == local_id(user)]
        return _acting(own[0], voice) if own else _local(user)
    if options.principals is None:
        raise Misuse(
            "cli.principals_required",
            "--as needs a file that says who may act for whom.",
            next_step=CONFIGURE,
        )
    permitted = [one for one in listed if one.id == options.as_ and _permits(one, user)]
    if not permitted:
        raise Refused(
            "cli.principal_not_permitted",
            "The file of principals does not let this user act for that principal.",
            next_step="Add this user to the os_users of the principal, or ask somebody who may.",
        )
    return _acting(permitted[0], voice)


def read_principals(path: Path) -> Listing:
    """A file of principals. Raises `Misuse` (`cli.principals_invalid`)."""
    try:
        if os.name == "posix" and path.stat().st_mode & _WRITABLE_BY_OTHERS:
            raise _invalid("The file of principals can be written by other users.")
        listing = msgspec.convert(tomllib.loads(path.read_text("utf-8")), Listing)
    except (OSError, UnicodeDecodeError) as error:
        raise _invalid("The file of principals cannot be read.") from error
    except tomllib.TOMLDecodeError as error:
        raise _invalid("The file of principals is not TOML.") from error
    except msgspec.ValidationError as error:
        raise _invalid(f"The file of principals does not fit: {error}.") from error
    _check(listing.principals)
    return listing


def _check(listed: tuple[Listed, ...]) -> None:
    if len({one.id for one in listed}) != len(listed):
        raise _invalid("The file of principals lists an id twice.")
    for one in listed:
        try:
            one.principal()
        except Refused as error:
            raise _invalid(f"The file of principals does not fit: {error.message}") from error


def _acting(listed: Listed, voice: str | None) -> Caller:
    principal = listed.principal()
    if voice is not None:
        principal = replace(principal, persons=(*principal.persons, voice))
    return Caller(principal=principal, identity=listed.identity(principal))


def _local(user: str) -> Caller:
    return Caller(principal=Principal.named(local_id(user)))


def _permits(listed: Listed, user: str) -> bool:
    return user in listed.os_users or ANYBODY in listed.os_users


def _invalid(message: str) -> Misuse:
    return Misuse("cli.principals_invalid", message, next_step="Mend the file, then try again.")
