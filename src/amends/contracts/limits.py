"""Limits that every edge enforces before anything is stored; each has one home."""

from typing import Final

ID_LENGTH: Final = 128
TRANSACTION_ID_LENGTH: Final = 120
"""Leaves room for the derived plan id `plan:<transaction_id>` within `ID_LENGTH`."""

IDEMPOTENCY_KEY_LENGTH: Final = 255
"""The length that Stripe and the IETF draft on idempotency keys settle on."""

PROVIDER_OPERATION_LENGTH: Final = 512
CURSOR_LENGTH: Final = 4096
REASON_LENGTH: Final = 2000
METADATA_BYTES: Final = 16_384
OUTPUT_BYTES: Final = 1_048_576
PAGE_SIZE: Final = 200
EVIDENCE_ENTRIES: Final = 64
"""How many pieces of evidence one record keeps; receipts keep all of them."""

PLAN_TTL_MS: Final = 15 * 60 * 1000
RETRY_AFTER_MS: Final = 5_000
"""Earliest look-up after an unknown outcome that names no time of its own (reference text)."""

RETRY_AFTER_MAX_MS: Final = 24 * 3600 * 1000
LEASE_GRACE_MS: Final = 5_000
SERVER_GRACE_MS: Final = 2_000
"""The least grace where the store is on a server: twice as long as its time is carried (ADR 42)."""

TIMEOUT_MS: Final = 30_000
APPROVAL_TTL_MS: Final = 24 * 3600 * 1000
RESERVATION_LAPSE_MS: Final = 15 * 60 * 1000
"""After this an idempotency reservation whose action never got an attempt is freed."""
