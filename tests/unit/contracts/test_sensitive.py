"""Names and looks that give a secret away, and innocent text that must stay as it is."""

import time

import pytest

from amends.contracts.sensitive import REDACTED, is_sensitive_name, scrub


@pytest.mark.rule("RD-2")
@pytest.mark.parametrize(
    "name",
    [
        "password",
        "Password",
        "new_password",
        "dbPasswd",
        "pass-phrase",
        "client_secret",
        "SECRET",
        "token",
        "access-token",
        "refreshToken",
        "api_key",
        "X-Api-Key",
        "Authorization",
        "proxy-authorization",
        "authorization_code",
        "card number",
        "cardNumber",
        "cvc",
        "card_cvc",
        "CVV2",
        "iban",
        "creditor.iban",
        "private_key",
        "Set-Cookie",
        "pin",
        "pan",
        "credentials",
    ],
)
def test_a_sensitive_name_is_known_in_every_spelling(name: str) -> None:
    assert is_sensitive_name(name)


@pytest.mark.parametrize(
    "name",
    ["", "amount", "currency", "max_tokens", "token_type", "shipping", "spin", "company", "email"],
)
def test_an_innocent_name_is_left_alone(name: str) -> None:
    assert not is_sensitive_name(name)


@pytest.mark.rule("RD-2")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("sent Bearer abc-DEF_123.456~x", f"sent Bearer {REDACTED}"),
        ("sent bearer  CANARY-CANARY", f"sent bearer  {REDACTED}"),
        ("key sk_live_CANARY9 used", f"key {REDACTED} used"),
        ("key sk_test_CANARY9, twice sk_test_b", f"key {REDACTED}, twice {REDACTED}"),
        ("rk_live_CANARY and whsec_CANARY", f"{REDACTED} and {REDACTED}"),
        ("push with ghp_CANARY", f"push with {REDACTED}"),
        ("xoxb-12-CANARY", REDACTED),
        ("jwt eyJhbGciOiJI.eyJzdWIiOiIx.CANARY_- sent", f"jwt {REDACTED} sent"),
        ("proxy http://user:CANARY@host:80/p", f"proxy http://user:{REDACTED}@host:80/p"),
        ("postgres://u:CAN@ARY/x@host/db", f"postgres://u:{REDACTED}@host/db"),
        ("redis://:CANARY@host", f"redis://:{REDACTED}@host"),
        (
            "a -----BEGIN PRIVATE KEY-----\nCANARY\n-----END PRIVATE KEY----- b",
            f"a {REDACTED} b",
        ),
        ("cut -----BEGIN RSA PRIVATE KEY-----\\nCANARY", f"cut {REDACTED}"),
    ],
)
def test_what_looks_like_a_secret_is_hidden_and_the_rest_kept(text: str, shown: str) -> None:
    assert scrub(text) == shown


@pytest.mark.rule("RD-2")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("password=CANARY", f"password={REDACTED}"),
        ("GET /v1?api_key=CANARY&page=2", f"GET /v1?api_key={REDACTED}&page=2"),
        ('{"password": "CANARY x", "n": 1}', f'{{"password": {REDACTED}, "n": 1}}'),
        ("{'token': 'it\\'s CANARY', 'n': 1}", f"{{'token': {REDACTED}, 'n': 1}}"),
        ('secret="CANARY has no end', f"secret={REDACTED}"),
        ('secret="CANARY\\', f"secret={REDACTED}"),
        ('{\\"iban\\": \\"CANARY\\"}', f'{{\\"iban\\": \\{REDACTED}'),
        ("Authorization: Basic CANARY== sent", f"Authorization: {REDACTED} sent"),
        ("[('Authorization', 'Basic CANARY')]", f"[('Authorization', {REDACTED})]"),
        ("(b'x-api-key', b'CANARY')", f"(b'x-api-key', {REDACTED})"),
        ("pwd => CANARY;x", f"pwd => {REDACTED};x"),
        ("password=a,CANARY, then", f"password={REDACTED}, then"),
        ("login: me, password:\nCANARY", f"login: me, password:\n{REDACTED}"),
        ("cvc=123 cvc=456", f"cvc={REDACTED} cvc={REDACTED}"),
        ("url='https://x/?token=CANARY'", f"url='https://x/?token={REDACTED}"),
    ],
)
def test_a_value_assigned_to_a_sensitive_name_is_hidden(text: str, shown: str) -> None:
    assert scrub(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Invalid password",
        "token=",
        "the bearer of bonds",
        "http://host:8080/path?mail=a@b.example",
        "http://[::1]:8080/a@b",
        "https://host/a:b@c",
        "at 12:30: amount=100, currency='eur'",
        "pk_live_published",
        "desk_alive_x",
        "eyJ is how they begin",
        "-----BEGIN CERTIFICATE-----",
    ],
)
def test_innocent_text_is_left_alone(text: str) -> None:
    assert scrub(text) == text


@pytest.mark.parametrize(
    "piece",
    [
        "a://a:a",
        "://",
        "eyJ-",
        "bearer ",
        "-----BEGIN PRIVATE KEY",
        "password",
        'x="',
        "\\",
        "a:",
        "-",
        "eyJaaaaaaaa.",
    ],
)
def test_no_text_makes_scrubbing_slow(piece: str) -> None:
    """Twenty kilobytes take a tenth of a second when time is linear in them, and minutes when not.

    Processor time of this process alone, so that a busy machine does not count.
    """
    text = piece * (20_000 // len(piece))
    start = time.process_time()
    scrub(text)
    assert time.process_time() - start < 5
