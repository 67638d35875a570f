"""Where provider credentials come from: the environment, a file, a function.

Each is asked anew for every attempt, so a rotated credential is used at once. What could not be
sent in a header is refused here, without being shown: libraries that refuse it themselves quote it
in their exceptions. From the moment a value is read it is held in a `Secret`, so that a traceback
that prints local variables prints nothing.

Deliberately not here: which credential a capability requires, and whether a scope suffices.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from amends.contracts.errors import AmendsError, Misuse, Refused, Unavailable
from amends.contracts.ids import CapabilityId, TenantId
from amends.contracts.principals import PrincipalRef
from amends.contracts.secrets import Credential, CredentialFunction, CredentialSource, Secret

CREDENTIAL_BYTES: Final = 16_384
"""The longest credential that is taken; a file that is larger is not one."""

_SENDABLE: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?")


def environment_credentials(
    variable: str, *, issuer: str = "", scopes: Sequence[str] = ()
) -> CredentialSource:
    """The value of an environment variable, for every tenant; none while it is unset or empty.

    The source raises `Refused` (`credential.invalid`).
    """
    return _Environment(variable, issuer, tuple(scopes))


def file_credentials(
    path: str | os.PathLike[str], *, issuer: str = "", scopes: Sequence[str] = ()
) -> CredentialSource:
    """The content of a file, for every tenant; none while there is no such file.

    One line feed at its end, which editors write, is no part of it; all else counts. The source
    raises `Refused` (`credential.invalid`) and, for a file that is there but cannot be read,
    `Unavailable` (`credential.unavailable`).
    """
    return _File(Path(path), issuer, tuple(scopes))


def callable_credentials(function: CredentialFunction) -> CredentialSource:
    """Whatever the function gives for a capability, tenant and principal; it runs in the loop.

    The source raises `Refused` (`credential.invalid`), `Misuse` (`credential.not_a_credential`) for
    other answers than a credential or None, and `Unavailable` (`credential.unavailable`) when the
    function raises anything but an Amends error.
    """
    return _Function(function)


class _Environment(msgspec.Struct, frozen=True):
    variable: str
    issuer: str
    scopes: tuple[str, ...]

    def credential(
        self, capability: CapabilityId, tenant: TenantId, principal: PrincipalRef
    ) -> Credential | None:
        secret = Secret(os.environ.get(self.variable, ""))
        if secret == Secret(""):
            return None
        return _checked(Credential(secret=secret, issuer=self.issuer, scopes=self.scopes))


class _File(msgspec.Struct, frozen=True):
    path: Path
    issuer: str
    scopes: tuple[str, ...]

    def credential(
        self, capability: CapabilityId, tenant: TenantId, principal: PrincipalRef
    ) -> Credential | None:
        try:
            with self.path.open("rb") as file:
                # Each byte becomes one character, so that decoding cannot fail and quote the value.
                # One byte beyond the line feed shows whether it is the last.
                secret = Secret(
                    file.read(CREDENTIAL_BYTES + 2).decode("latin-1").removesuffix("\n")
                )
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unavailable(
                "credential.unavailable",
                "The file that holds a credential cannot be read.",
                next_step="Check that it is a file and who may read it.",
            ) from error
        return _checked(Credential(secret=secret, issuer=self.issuer, scopes=self.scopes))


class _Function(msgspec.Struct, frozen=True):
    function: CredentialFunction

    def credential(
        self, capability: CapabilityId, tenant: TenantId, principal: PrincipalRef
    ) -> Credential | None:
        found = self._asked(capability, tenant, principal)
        if found is None:
            return None
        if isinstance(found, Credential):
            return _checked(found)
        del found  # most likely the bare value, which a traceback would show
        raise Misuse(
            "credential.not_a_credential",
            "A credential source answered with something else than a credential.",
            next_step="Return a Credential that holds a Secret, or None.",
        )

    def _asked(self, capability: CapabilityId, tenant: TenantId, principal: PrincipalRef) -> object:
        try:
            return self.function(capability, tenant, principal)
        except AmendsError:
            raise
        except Exception as error:
            raise Unavailable(
                "credential.unavailable",
                "The function that finds credentials failed.",
                next_step="See the cause; nothing was sent.",
            ) from error


def _checked(credential: Credential) -> Credential:
    if len(credential.secret.reveal()) <= CREDENTIAL_BYTES and _SENDABLE.fullmatch(
        credential.secret.reveal()
    ):
        return credential
    raise Refused(
        "credential.invalid",
        "A credential holds characters that cannot be sent, is empty, or is too long.",
        next_step="Store it as plain ASCII without a line feed or space around it.",
    )
