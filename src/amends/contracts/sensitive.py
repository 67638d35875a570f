"""What is a secret by its name, and what is one by its look.

Names are compared without case and without `-`, `_`, `.` and spaces, so `X-Api-Key` is `apikey`.
Both tables err towards hiding: a hidden page token costs a look elsewhere, a shown one the account.
Every pattern is bounded or possessive, so the time stays linear in the text, whoever wrote it.

Deliberately not here: walking values (`redaction`), and guessing at card numbers in free text,
which one order number in ten would resemble.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

REDACTED: Final = "[redacted]"

_ANYWHERE: Final = (
    "password passwd passphrase secret apikey privatekey accesskey signingkey encryptionkey "
    "cardnumber iban cvc cvv"
).split()
_AT_THE_END: Final = ("token", "authorization", "ssn")
_WHOLE: Final = frozenset(
    "auth authorizationcode bearer cookie credential credentials csc otp pan pin pwd securitycode "
    "sessionid setcookie".split()
)
_IGNORED_IN_NAMES: Final[Mapping[int, None]] = MappingProxyType(dict.fromkeys(map(ord, "-_. ")))

_LOOKS: Final = (
    # A private key in PEM, also one that was cut before its end.
    re.compile(
        r"-----BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY-----.*?"
        r"(?:-----END [A-Z0-9 ]{0,32}PRIVATE KEY-----|\Z)",
        re.DOTALL,
    ),
    # The password of a URL; what looks like a port is left alone.
    re.compile(
        r"(?<=://)(?P<kept>[^\s:/?#@\[]{0,256}:)(?!\d{1,5}(?:[/?#\s]|\Z))\S{1,1024}(?=@)",
    ),
    re.compile(r"(?<![\w-])(?P<kept>bearer\s{1,8})[\w.~+/=-]{8,}", re.IGNORECASE),
    # Keys that say of themselves what they are: payment, source hosting, chat, JSON web tokens.
    re.compile(r"(?:(?:sk|rk)_(?:live|test)|whsec|gh[opsur]|github_pat)_\w+"),
    re.compile(r"xox[abeprs]-[\w-]+"),
    re.compile(r"(?<![\w-])eyJ[\w-]{8,}+\.[\w-]{8,}+\.[\w-]*"),
)
_NAMED: Final = re.compile(
    r"""(?<![\w-])([\w-]++)\\?["']?\s{0,4}(?:=>?|:|(?<=["']),)\s{0,4}\\?""",
)
_VALUE: Final = re.compile(
    r"""b?"(?:[^"\\]|\\.?)*+(?:"|\Z)"""
    r"""|b?'(?:[^'\\]|\\.?)*+(?:'|\Z)"""
    r"""|(?:(?:basic|bearer|digest|token)\s{1,4})?(?:[^\s&,;]|,(?!\s))+""",
    re.DOTALL | re.IGNORECASE,
)


def is_sensitive_name(name: str) -> bool:
    """Whether what stands under this name is hidden, whatever it is."""
    bare = name.casefold().translate(_IGNORED_IN_NAMES)
    return bare in _WHOLE or bare.endswith(_AT_THE_END) or any(part in bare for part in _ANYWHERE)


def scrub(text: str) -> str:
    """`text` without what looks like a secret, and without values assigned to sensitive names."""
    for look in _LOOKS:
        text = look.sub(_masked, text)
    return _without_assigned(text)


def _masked(match: re.Match[str]) -> str:
    return match.groupdict().get("kept", "") + REDACTED


def _without_assigned(text: str) -> str:
    """Hide the value in `password=…`, `"api_key": "…"`, `Authorization: Basic …` and their like."""
    parts: list[str] = []
    done = 0
    for named in _NAMED.finditer(text):
        if named.start() < done or not is_sensitive_name(named[1]):
            continue
        value = _VALUE.match(text, named.end())
        if value is not None:
            parts += [text[done : named.end()], REDACTED]
            done = value.end()
    return "".join([*parts, text[done:]])
