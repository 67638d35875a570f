"""How a version 6 session begins: two greetings, keys from both, and a proof each way (FR-5).

    host    →  hello     nonce, versions, session, tenant, fingerprint of the manifest
    worker  →  hello     its own nonce, and the rest as it has it
    host    →  finished  the hash of both greetings, under the host's key
    worker  →  finished  its fence, journal revision and journal hash, under the worker's key

The greetings are in the clear. The keys are made of the session key and of the exact bytes of both,
so whoever changes one bit of either has two sides that understand nothing of one another. The
worker learns that the host is the host before it reserves its fence; a stranger cannot fence it out
(WS-4).
"""

from hashlib import sha256
from typing import Final

import msgspec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from amends.contracts.codes import coded
from amends.contracts.errors import Refused
from amends.contracts.worker_identity import Fingerprint, check_fingerprint, check_token
from amends.contracts.worker_messages import check_counter
from amends.contracts.worker_wire import decode_record, encode_record
from amends.protocol.bootstrap import KEY_LENGTH, SessionKey
from amends.protocol.breaking import ChannelBroken
from amends.protocol.records import Keys, Record, header_of, hello_kind
from amends.protocol.versions import MAX_FRAME, Role, Version

NONCE_LENGTH: Final = 32
_INFO: Final = b"amends-worker-keys-v6"


class Hello(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One greeting. The nonce is in hex."""

    nonce: str
    versions: tuple[int, ...]
    session_id: str
    tenant_scope: str
    manifest_fingerprint: Fingerprint

    def __post_init__(self) -> None:
        check_fingerprint(self.nonce, "nonce")
        check_token(self.session_id, "session_id")
        check_token(self.tenant_scope, "tenant_scope")
        check_fingerprint(self.manifest_fingerprint, "manifest_fingerprint")


class HostFinished(
    msgspec.Struct, frozen=True, tag="host_finished", tag_field="type", forbid_unknown_fields=True
):
    """The host has the keys of this transcript."""

    transcript: Fingerprint


class WorkerFinished(
    msgspec.Struct, frozen=True, tag="worker_finished", tag_field="type", forbid_unknown_fields=True
):
    """The worker has the keys, and this is where its journal stands."""

    transcript: Fingerprint
    fence: int
    journal_revision: int
    journal_hash: Fingerprint

    def __post_init__(self) -> None:
        check_counter(self.fence, "fence")
        check_counter(self.journal_revision, "journal_revision")
        check_fingerprint(self.journal_hash, "journal_hash")


def make_hello(
    session_id: str, tenant_scope: str, manifest_fingerprint: Fingerprint, nonce: bytes
) -> Hello:
    """A greeting that offers version 6. Raises `Misuse` (`misuse.channel_nonce`)."""
    if len(nonce) != NONCE_LENGTH:
        raise coded("misuse.channel_nonce")
    return Hello(
        nonce=nonce.hex(),
        versions=(Version.SEALED.value,),
        session_id=session_id,
        tenant_scope=tenant_scope,
        manifest_fingerprint=manifest_fingerprint,
    )


def hello_record(hello: Hello, sender: Role) -> bytes:
    """The bytes of a greeting, header included."""
    body = encode_record(hello)
    return header_of(hello_kind(sender), len(body)) + body


def read_hello(record: Record, session_id: str, tenant_scope: str) -> Hello:
    """The peer's greeting, if it greets for this session and tenant and offers version 6.

    Raises `ChannelBroken`.
    """
    try:
        hello = decode_record(record.body, Hello, max_bytes=MAX_FRAME)
    except Refused as refusal:
        raise ChannelBroken("channel.message_malformed", {"reason": refusal.code}) from None
    named = (hello.versions, hello.session_id, hello.tenant_scope)
    if named != ((Version.SEALED,), session_id, tenant_scope):
        raise ChannelBroken("channel.session_mismatch")
    return hello


def transcript_of(host_hello: bytes, worker_hello: bytes) -> Fingerprint:
    """The hash of both greetings, exactly as they passed, in hex."""
    lengths = len(host_hello).to_bytes(8, "big")
    return Fingerprint(sha256(lengths + host_hello + worker_hello).hexdigest())


def derive_keys(key: SessionKey, transcript: Fingerprint) -> Keys:
    """One key for each direction; another transcript gives two other keys."""
    derivation = HKDF(SHA256(), 2 * KEY_LENGTH, salt=bytes.fromhex(transcript), info=_INFO)
    material = derivation.derive(key.reveal())
    return Keys(material[:KEY_LENGTH], material[KEY_LENGTH:])
