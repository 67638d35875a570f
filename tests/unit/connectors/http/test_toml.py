"""Capabilities from TOML files: what they become, and how a mistake is told."""

from pathlib import Path

import pytest

from amends.connectors.http import HttpConnector, load_capabilities
from amends.connectors.http.toml import FILE_BYTES
from amends.contracts.approval_policy import ByRole
from amends.contracts.enums import Handler, Risk, SideEffect
from amends.contracts.errors import Misuse
from amends.transactions.registration import check_declaration

EXAMPLE = Path(__file__).parents[4] / "examples" / "payments.toml"
MINIMAL = """
[provider]
name = "scripted"
base_url = "http://127.0.0.1:9"

[[capability]]
id = "payments.charge"
side_effects = ["financial"]
risk = "high"
plan_ttl_ms = 1000
input_schema = { type = "object", properties = { amount = { type = "integer" } } }
execution = { provider_dedup_window_ms = 1000 }
approval = { rule = { type = "role", role = "cfo" } }

[capability.execute]
path = "/v1/charges"
body = { amount = "{input.amount}" }
idempotency_header = "Idempotency-Key"

[[capability]]
id = "payments.look"
side_effects = ["read"]
execute = { method = "GET", path = "/v1/charges" }
"""


def _write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "capabilities.toml"
    path.write_text(text)
    return path


def _error(tmp_path: Path, text: str) -> Misuse:
    with pytest.raises(Misuse) as caught:
        load_capabilities(_write(tmp_path, text))
    return caught.value


def test_a_file_becomes_capabilities_that_can_be_registered(tmp_path: Path) -> None:
    (charge, first), (look, second) = load_capabilities(_write(tmp_path, MINIMAL))
    check_declaration(charge)
    check_declaration(look)
    assert (charge.id, charge.risk, charge.plan_ttl_ms) == ("payments.charge", Risk.HIGH, 1000)
    assert charge.side_effects == (SideEffect.FINANCIAL,)
    assert charge.execution.provider_dedup_window_ms == 1000
    assert charge.approval is not None
    assert charge.approval.rule == ByRole("cfo")
    assert (type(charge).__name__, charge.served_by) == ("Capability", "http")
    assert look.reads_only
    assert isinstance(first, HttpConnector)
    assert isinstance(second, HttpConnector)


def test_the_example_loads_and_can_be_registered() -> None:
    ((charge, _),) = load_capabilities(EXAMPLE)
    check_declaration(charge)
    assert set(charge.handlers) == {Handler.EXECUTE, Handler.RECONCILE, Handler.COMPENSATE}


@pytest.mark.parametrize(
    ("old", "new", "field", "text"),
    [
        ('name = "scripted"', 'name = "scripted"\nregion = "eu"', "provider.region", "not known"),
        ('name = "scripted"', "", "provider.name", "missing"),
        ("[provider]", "[providr]", "provider", "missing"),
        ("plan_ttl_ms", "plan_tll_ms", "capability[0].plan_tll_ms", "not known"),
        ('risk = "high"', 'risk = "CANARY"', "capability[0].risk", "none of the words"),
        ("plan_ttl_ms = 1000", 'plan_ttl_ms = "CANARY"', "capability[0].plan_ttl_ms", "not fit"),
        (
            "provider_dedup_window_ms",
            "provider_dedup_windw_ms",
            "capability[0].execution.provider_dedup_windw_ms",
            "not known",
        ),
        (
            'role = "cfo"',
            'role = "cfo", rank = 1',
            "capability[0].approval.rule.rank",
            "not known",
        ),
        (
            'type = "role"',
            'type = "CANARY"',
            "capability[0].approval.rule.type",
            "none of the words",
        ),
        ("idempotency_header", "idempotency_headr", "capability[0].execute.idempotency_headr", ""),
        ('path = "/v1/charges"\nbody', "body", "capability[0].execute.path", "missing"),
        ('method = "GET"', 'method = "CANARY"', "capability[1].execute.method", "none of"),
        ('method = "GET"', 'method = "POST", body = 1979-05-27', "capability[1].execute.body", ""),
        ('path = "/v1/charges" }', 'path = "{CANARY" }', "capability[1].execute.path", ""),
        ('base_url = "http:', 'base_url = "CANARY:', "provider.base_url", "must be"),
        (
            'id = "payments.look"',
            'id = "payments.look"\nhandlers = ["execute"]',
            "capability[1].handlers",
            "follows",
        ),
        (
            'id = "payments.look"',
            'id = "payments.look"\nserved_by = "mcp"',
            "capability[1].served_by",
            "follows",
        ),
    ],
)
def test_a_mistake_is_told_with_its_field_and_without_the_value(
    tmp_path: Path, old: str, new: str, field: str, text: str
) -> None:
    assert MINIMAL.count(old) == 1
    error = _error(tmp_path, MINIMAL.replace(old, new))
    assert error.code == "connector.declaration_invalid"
    assert error.details["field"] == field
    assert text in error.message
    assert field in error.message
    assert "CANARY" not in f"{error}{error.details}"


def test_fields_inside_a_schema_or_a_body_are_nobodys_business(tmp_path: Path) -> None:
    text = MINIMAL.replace("body = { amount", "body = { anything = { goes = [1] }, amount")
    load_capabilities(_write(tmp_path, text))


def test_a_file_that_is_no_toml_is_told_with_the_place(tmp_path: Path) -> None:
    error = _error(tmp_path, MINIMAL + "\nbroken = CANARY\n")
    assert error.code == "connector.toml_malformed"
    assert str(error.details["where"]).startswith("line ")
    assert "CANARY" not in f"{error}{error.details}"


def test_a_file_that_is_too_large_or_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "capabilities.toml"
    for content in (b"#" * (FILE_BYTES + 1), b'name = "\xff"'):
        path.write_bytes(content)
        with pytest.raises(Misuse) as caught:
            load_capabilities(path)
        assert caught.value.code == "connector.toml_malformed"


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misuse) as caught:
        load_capabilities(tmp_path / "missing.toml")
    assert caught.value.code == "connector.file_unreadable"


def test_another_base_url_can_be_given_and_is_checked_too() -> None:
    load_capabilities(EXAMPLE, base_url="https://api.example.test")
    with pytest.raises(Misuse) as caught:
        load_capabilities(EXAMPLE, base_url="http://api.example.test")
    assert caught.value.details["field"] == "provider.base_url"
