"""The credential gate: is a provider credential there, of an accepted issuer, with its scopes?"""

from datetime import datetime

from amends.contracts.codes import coded
from amends.contracts.declarations import CredentialPolicy
from amends.contracts.secrets import Credential


def check_credential(
    policy: CredentialPolicy, credential: Credential | None, now: datetime
) -> None:
    """Raise the code of the first condition that the credential does not meet."""
    if credential is None:
        if policy.required:
            raise coded("credential.missing")
        return
    if policy.accepted_issuers and credential.issuer not in policy.accepted_issuers:
        raise coded("credential.issuer_not_accepted")
    missing = [scope for scope in policy.required_scopes if scope not in credential.scopes]
    if missing:
        raise coded("credential.scope_missing", {"scopes": list(missing)})
    if credential.expires_at is not None and now >= credential.expires_at:
        raise coded("credential.expired")
