"""Fingerprints, keys, payloads, grants: the recorded values, and what is refused by its field."""

import json
import pickle
from pathlib import Path
from typing import Any, Final

import pytest

from amends.contracts.errors import Refused
from amends.contracts.worker_grant import (
    CapabilityGrant,
    Manifest,
    Resource,
    ResourceKind,
    grant_fingerprint,
    manifest_fingerprint,
)
from amends.contracts.worker_identity import (
    MAX_SOURCE,
    Fingerprint,
    OperationKey,
    check_compensation_key,
    check_fingerprint,
    check_operation_key,
    check_token,
    compensation_key,
    host_input_fingerprint,
    operation_key,
    plan_fingerprint,
    worker_input_fingerprint,
)
from amends.contracts.worker_json import MAX_BYTES, read_json
from amends.contracts.worker_payload import (
    Failed,
    PayloadFormat,
    Pending,
    Running,
    Succeeded,
    SucceededOversize,
    ToolPayload,
    canonical_input,
)
from amends.contracts.worker_wire import decode_record, encode_record

VECTORS: Final = Path(__file__).parents[2] / "vectors"
RECORDED: Final[Any] = json.loads((VECTORS / "worker-v5-recorded.json").read_text("utf-8"))
CASES: Final[Any] = json.loads((VECTORS / "worker-v5.json").read_text("utf-8"))["cases"]
GRANTS: Final = [
    *((case["grant_json"], case["grant_fingerprint"]) for case in CASES),
    *((one["grant_json"], one["grant_fingerprint"]) for one in RECORDED["session"]["grants"]),
]
HEX: Final = "0" * 64


def grant_of(text: str) -> CapabilityGrant:
    return decode_record(text.encode(), CapabilityGrant, max_bytes=10_000)


def code_of(make: Any) -> str:
    with pytest.raises(Refused) as caught:
        make()
    return caught.value.code


class TestVectors:
    @pytest.mark.rule("GR-3")
    @pytest.mark.parametrize(("text", "fingerprint"), GRANTS)
    def test_a_grant_has_its_text_and_its_fingerprint(self, text: str, fingerprint: str) -> None:
        grant = grant_of(text)
        assert encode_record(grant).decode() == text
        assert grant_fingerprint(grant) == fingerprint

    @pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
    def test_plan_inputs_and_keys_have_their_computed_values(self, case: Any) -> None:
        plan = plan_fingerprint([tuple(step) for step in case["plan_steps"]])
        assert plan == case["plan_fingerprint"]
        done, undo = case["operation"], case["compensation"]
        operation = operation_key(
            plan=plan,
            step_id=done["step_id"],
            tool=done["tool"],
            canonical=bytes.fromhex(done["canonical_input_hex"]),
            nonce=done["nonce"].encode(),
        )
        assert operation == done["operation_key"] == check_operation_key(operation)
        key = compensation_key(
            plan=plan,
            operation=operation,
            tool=done["tool"],
            tenant_scope=undo["tenant_scope"],
            grant=case["grant_fingerprint"],
            canonical=bytes.fromhex(undo["canonical_input_hex"]),
            nonce=undo["nonce"].encode(),
        )
        assert key == undo["compensation_key"] == check_compensation_key(key)

    @pytest.mark.parametrize("one", [c[k] for c in CASES for k in ("operation", "compensation")])
    def test_the_two_sides_fingerprint_one_input_differently(self, one: Any) -> None:
        canonical = bytes.fromhex(one["canonical_input_hex"])
        assert host_input_fingerprint(canonical) == one["host_input_fingerprint"]
        assert worker_input_fingerprint(canonical) == one["worker_input_fingerprint"]
        assert canonical_input(ToolPayload.from_canonical(canonical)) == canonical

    @pytest.mark.parametrize("one", RECORDED["operations"].values(), ids=RECORDED["operations"])
    def test_a_recorded_payload_has_its_recorded_bytes(self, one: Any) -> None:
        text = one["payload_text"]
        is_text = one["payload_format"] == "text"
        payload = ToolPayload.text(text) if is_text else ToolPayload.json(read_json(text.encode()))
        assert payload.canonical.hex() == one["canonical_input_hex"]
        assert worker_input_fingerprint(payload.canonical) == one["worker_input_fingerprint"]

    def test_the_recorded_manifest_is_read_and_written_alike(self) -> None:
        text = RECORDED["session"]["manifest_json"]
        manifest = decode_record(text.encode(), Manifest, max_bytes=10_000)
        assert encode_record(manifest).decode() == text
        assert manifest.grant("note.write") == manifest.grants[1]
        assert manifest.grant("other") is None
        assert check_fingerprint(manifest_fingerprint(manifest), "manifest")


class TestNames:
    @pytest.mark.parametrize("value", ["", "A", "a b", "a\n", "é", "x" * 129, "op/1"])
    def test_what_is_no_token_is_refused_by_its_field(self, value: str) -> None:
        with pytest.raises(Refused) as caught:
            check_token(value, "tool")
        assert caught.value.code == "worker.token_invalid"
        assert caught.value.details == {"field": "tool"}

    @pytest.mark.rule("GR-ID-2")
    @pytest.mark.parametrize("value", ["cmp-" + HEX, "cmp-1", "OP-1", ""])
    def test_an_operation_key_never_looks_like_a_compensations(self, value: str) -> None:
        assert code_of(lambda: check_operation_key(value)) == "worker.operation_key_invalid"

    @pytest.mark.rule("GR-ID-2")
    @pytest.mark.parametrize(
        "value", ["cmp-1", "op-" + HEX, "cmp-" + HEX + "\n", "cmp-" + "A" * 64]
    )
    def test_a_compensation_key_has_the_derived_form(self, value: str) -> None:
        assert code_of(lambda: check_compensation_key(value)) == "worker.compensation_key_invalid"

    @pytest.mark.parametrize("value", [HEX[1:], HEX.replace("0", "A"), HEX + "\n"])
    def test_a_fingerprint_is_lower_case_hex(self, value: str) -> None:
        assert code_of(lambda: check_fingerprint(value, "plan")) == "worker.fingerprint_invalid"

    @pytest.mark.parametrize("nonce", [b"", b"n" * 129])
    def test_a_nonce_has_1_to_128_bytes(self, nonce: bytes) -> None:
        plan, operation = Fingerprint(HEX), OperationKey("op-1")
        assert (
            code_of(
                lambda: operation_key(plan=plan, step_id="a", tool="t", canonical=b"", nonce=nonce)
            )
            == "worker.nonce_invalid"
        )
        assert (
            code_of(
                lambda: compensation_key(
                    plan=plan,
                    operation=operation,
                    tool="t",
                    tenant_scope="s",
                    grant=plan,
                    canonical=b"",
                    nonce=nonce,
                )
            )
            == "worker.nonce_invalid"
        )

    @pytest.mark.parametrize(
        "steps",
        [
            [],
            [("a", "x"), ("a", "y")],
            [(f"s{number}", "") for number in range(1025)],
            [("a", "x" * (MAX_SOURCE + 1))],
            [("a", "\ud800")],
        ],
        ids=["none", "twice", "many", "long", "surrogate"],
    )
    def test_a_plan_has_its_form(self, steps: list[tuple[str, str]]) -> None:
        assert code_of(lambda: plan_fingerprint(steps)) == "worker.plan_invalid"


class TestPayloads:
    def test_a_payload_shows_its_size_and_never_its_content(self) -> None:
        payload = ToolPayload.text("CANARY")
        assert "CANARY" not in repr(payload) + repr(Succeeded(payload)) + repr(Failed("CANARY"))
        assert (payload.size, payload.value) == (6, "CANARY")

    def test_a_payload_does_not_change(self) -> None:
        payload = ToolPayload.json({"a": [1]})
        with pytest.raises(AttributeError):
            payload.body = "x"
        with pytest.raises(AttributeError):
            del payload.format
        value: Any = payload.value
        value["a"].append(2)
        assert payload.value == {"a": [1]}

    def test_equal_payloads_are_equal_and_can_be_kept_in_sets(self) -> None:
        one, same = ToolPayload.json({"a": 1, "b": 2}), ToolPayload.json({"b": 2, "a": 1})
        assert {one, same, pickle.loads(pickle.dumps(one))} == {one}  # noqa: S301 - our own bytes
        others = (ToolPayload.json({"a": 1.0, "b": 2}), ToolPayload.text(one.body), one.body)
        assert all(one != other for other in others)

    @pytest.mark.parametrize("text", ["\ud800", "x" * (MAX_BYTES + 1)], ids=["half", "long"])
    def test_text_that_cannot_be_sent_is_refused(self, text: str) -> None:
        assert code_of(lambda: ToolPayload.text(text)) == "worker.payload_invalid"

    @pytest.mark.parametrize(
        "canonical",
        [
            b"",
            b"xml ",
            b"text\x00\x00\x00\x00\x00\x00\x00\x02x",
            b"json\x00\x00\x00\x00\x00\x00\x00\x03[ ]",
            b"json\x00\x00\x00\x00\x00\x00\x00\x01[",
            b"text\x00\x00\x00\x00\x00\x00\x00\x01\xff",
        ],
    )
    def test_what_is_not_exactly_a_canonical_input_is_refused(self, canonical: bytes) -> None:
        assert code_of(lambda: ToolPayload.from_canonical(canonical)) == "worker.payload_invalid"

    @pytest.mark.parametrize(
        "text",
        [
            '{"state":"succeeded","payload":[]}',
            '{"state":"succeeded","payload":{"format":"json"}}',
            '{"state":"succeeded","payload":{"format":"xml","value":1}}',
            '{"state":"succeeded","payload":{"format":"text","value":1}}',
            '{"state":"succeeded","payload":{"format":"text","value":"x","more":1}}',
        ],
    )
    def test_a_payload_has_two_fields_that_fit(self, text: str) -> None:
        decode = lambda: decode_record(text.encode(), Running | Succeeded, max_bytes=999)  # type: ignore[arg-type] # a union is a form, not a type # noqa: E731
        assert code_of(decode) == "worker.payload_invalid"

    @pytest.mark.parametrize("message", ["", "x" * 4097, "\ud800"])
    def test_a_failure_says_something_and_not_too_much(self, message: str) -> None:
        assert code_of(lambda: Failed(message)) == "worker.payload_invalid"

    def test_an_oversize_success_keeps_digest_and_size(self) -> None:
        state = SucceededOversize(Fingerprint(HEX), 70_000)
        text = encode_record(state)
        assert decode_record(text, SucceededOversize, max_bytes=999) == state
        assert code_of(lambda: SucceededOversize(Fingerprint(HEX), 0)) == "worker.payload_invalid"
        assert code_of(lambda: SucceededOversize(Fingerprint("x"), 1)) == (
            "worker.fingerprint_invalid"
        )

    def test_states_are_told_apart_by_one_word(self) -> None:
        assert encode_record(Pending()) == b'{"state":"pending"}'
        assert encode_record(Succeeded(ToolPayload.text("é\n"))).decode() == (
            '{"state":"succeeded","payload":{"format":"text","value":"é\\n"}}'
        )


class TestGrants:
    @pytest.mark.rule("GR-1")
    def test_a_grant_gives_little_unless_it_says_more(self) -> None:
        grant = CapabilityGrant.text("note.write")
        assert grant.format is PayloadFormat.TEXT
        assert grant == CapabilityGrant("note.write", PayloadFormat.TEXT, 1, 16_384, 65_536, 0, ())
        assert CapabilityGrant.json("a").with_compensation_limit(1).max_compensations == 1

    @pytest.mark.rule("GR-1")
    @pytest.mark.parametrize(
        ("fields", "field"),
        [
            ({"max_calls": 0}, "max_calls"),
            ({"max_calls": True}, "max_calls"),
            ({"max_input_bytes": 0}, "max_input_bytes"),
            ({"max_output_bytes": 0}, "max_output_bytes"),
            ({"max_compensations": -1}, "max_compensations"),
            ({"max_compensations": 2**32}, "max_compensations"),
            ({"resources": (Resource(ResourceKind.SECRET, "a"),) * 2}, "resources"),
            (
                {"resources": tuple(Resource(ResourceKind.SECRET, f"s{n}") for n in range(65))},
                "resources",
            ),
        ],
    )
    def test_a_grant_with_a_wrong_limit_is_refused_by_its_field(
        self, fields: dict[str, Any], field: str
    ) -> None:
        with pytest.raises(Refused) as caught:
            CapabilityGrant("a", **fields)
        assert caught.value.code == "worker.grant_invalid"
        assert caught.value.details == {"field": field}

    @pytest.mark.rule("GR-ID-1")
    @pytest.mark.parametrize(
        ("text", "code"),
        [
            ('{"tool":"a","more":1}', "worker.message_invalid"),
            ('{"tool":"a","tool":"a"}', "input.duplicate_key"),
            ('{"tool":"a","max_calls":1.0}', "worker.message_invalid"),
            ('{"tool":"A"}', "worker.token_invalid"),
            ('{"tool":"a","resources":[{"kind":"file","id":"x"}]}', "worker.message_invalid"),
            ('{"tool":"a","resources":[{"kind":"secret","id":"X"}]}', "worker.token_invalid"),
        ],
    )
    def test_a_grant_is_read_strictly(self, text: str, code: str) -> None:
        assert code_of(lambda: grant_of(text)) == code

    @pytest.mark.rule("GR-3")
    def test_every_field_of_a_grant_is_in_its_fingerprint(self) -> None:
        grant = CapabilityGrant.json("a")
        others = [
            CapabilityGrant("b"),
            CapabilityGrant("a", PayloadFormat.TEXT),
            CapabilityGrant("a", max_calls=2),
            CapabilityGrant("a", max_input_bytes=1),
            CapabilityGrant("a", max_output_bytes=1),
            CapabilityGrant("a", max_compensations=1),
            CapabilityGrant("a", resources=(Resource(ResourceKind.SECRET, "k"),)),
        ]
        assert len({grant_fingerprint(one) for one in [grant, *others]}) == 8

    @pytest.mark.rule("GR-5")
    def test_a_manifest_names_each_tool_once_and_not_too_many(self) -> None:
        one = CapabilityGrant.json("a")
        many = tuple(CapabilityGrant.json(f"t{number}") for number in range(129))
        assert code_of(lambda: Manifest(5, "s", (one, one))) == "worker.manifest_invalid"
        assert code_of(lambda: Manifest(5, "s", many)) == "worker.manifest_invalid"
        assert code_of(lambda: Manifest(5, "S", (one,))) == "worker.token_invalid"
