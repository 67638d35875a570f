"""The SQL of each migration, word for word as it was released.

A released text is never edited, not even its spaces: databases remember its checksum. What changes
later becomes a text of its own, which replicas of the version before must be able to live with:
columns are added with a default, nothing is renamed or taken away. `seq` is the order of insertion,
by which listings are paged; the columns between `due_at` and `body` are those of
`amends.stores.shapes`. `written_at` is the server's time of the last write of a row and
`written_by` the token of the transaction that made it, by which a lost COMMIT is found again.

Every table of documents is under row-level security, for its owner too. A transaction sees the
tenants that it names in `amends.tenants`; the upkeep of all tenants, which recovery and followers
of the feed need, must say so in `amends.upkeep`, and can then read and never write. The policy is
written so that the planner cannot take it for a condition of an index: it would then believe that
a key is looked for once for each tenant of a long list, and walk over all rows of the tenant.

Deliberately not here: how and when these texts are applied (`migrations`).
"""

from string import Template
from typing import Final

from amends.stores.postgres.function import TYPES, function

BOOKS: Final = """
CREATE SCHEMA amends;
CREATE TABLE amends.migrations (
  number integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL,
  applied_at timestamptz NOT NULL
);
CREATE TABLE amends.store (
  single boolean PRIMARY KEY DEFAULT true CHECK (single),
  lineage text NOT NULL, created_at timestamptz NOT NULL,
  system_identifier text NOT NULL, timeline integer NOT NULL,
  synchronous boolean NOT NULL, confirmed_at timestamptz NOT NULL
);
"""
"""The record of the migrations themselves, and of the store's own identity.

`synchronous` says whether every commit since it was set waited for a standby.
"""

_TABLE: Final = Template("""
CREATE TABLE amends.$table (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant text COLLATE "C" NOT NULL, id text COLLATE "C" NOT NULL, revision bigint NOT NULL,
  created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL, due_at timestamptz,
  $columns,
  body text NOT NULL,
  written_at timestamptz NOT NULL, written_by uuid NOT NULL
) WITH (toast_tuple_target = 8160);
CREATE UNIQUE INDEX ${table}_by_id ON amends.$table (tenant, id);
CREATE INDEX ${table}_by_tenant ON amends.$table (tenant, seq);
CREATE INDEX ${table}_by_due ON amends.$table (tenant, due_at, seq) WHERE due_at IS NOT NULL;
""")

_SECURED: Final = Template("""
ALTER TABLE amends.$table ENABLE ROW LEVEL SECURITY;
ALTER TABLE amends.$table FORCE ROW LEVEL SECURITY;
CREATE POLICY named_tenants ON amends.$table
  USING ((tenant = ANY (string_to_array(current_setting('amends.tenants', true), chr(31)))) IS TRUE)
  WITH CHECK (tenant = ANY (string_to_array(current_setting('amends.tenants', true), chr(31))));
CREATE POLICY upkeep ON amends.$table FOR SELECT
  USING (current_setting('amends.upkeep', true) = 'every tenant');
""")

_COLUMNS: Final = (
    ("transactions", "status action_id capability_id plan_id verdict attention operation_id"),
    ("actions", "transaction_id mode capability_id status"),
    ("approvals", "status action_id transaction_id"),
    ("reservations", "action_id"),
    ("compensation_slots", "target frozen"),
    ("refusals", "action_id capability_id code"),
    ("corrections", "transaction_id target"),
    ("unclaimed_effects", "provider provider_key"),
    ("log_checkpoints", "lineage"),
    ("delegations", "delegator delegate"),
    ("notice_cursors", "channel"),
    ("limit_usages", "rule subject"),
    ("legal_holds", "capability_id state"),
)

_RECEIPTS: Final = """
CREATE SEQUENCE amends.receipts_position;
CREATE TABLE amends.receipts (
  position bigint PRIMARY KEY,
  tenant text COLLATE "C" NOT NULL, chain text COLLATE "C" NOT NULL, number bigint NOT NULL,
  hash text NOT NULL,
  body text NOT NULL,
  written_at timestamptz NOT NULL, written_by uuid NOT NULL
) WITH (toast_tuple_target = 8160);
CREATE UNIQUE INDEX receipts_by_chain ON amends.receipts (tenant, chain, number);
"""

_INDEXES: Final = """
CREATE UNIQUE INDEX transactions_by_plan ON amends.transactions (tenant, plan_id)
  WHERE plan_id IS NOT NULL;
CREATE INDEX transactions_by_operation ON amends.transactions (tenant, operation_id)
  WHERE operation_id IS NOT NULL;
CREATE INDEX transactions_by_status ON amends.transactions (tenant, status, seq);
CREATE INDEX actions_by_transaction ON amends.actions (tenant, transaction_id);
CREATE INDEX approvals_by_status ON amends.approvals (tenant, status, seq);
CREATE INDEX approvals_by_action ON amends.approvals (tenant, action_id);
CREATE INDEX delegations_by_delegate ON amends.delegations (tenant, delegate);
CREATE INDEX corrections_by_transaction ON amends.corrections (tenant, transaction_id);
"""


def _documents(table: str, columns: str) -> str:
    lines = ",\n  ".join(f'{name} text COLLATE "C"' for name in columns.split())
    made = _TABLE.substitute(table=table, columns=lines)
    return made + _SECURED.substitute(table=table)


SIGNER: Final = "ALTER TABLE amends.store ADD COLUMN signer text;"
"""The id of the key with which all replicas sign; none until the first one has said."""

DOCUMENTS_AND_RECEIPTS: Final = (
    "".join(_documents(table, columns) for table, columns in _COLUMNS)
    + _RECEIPTS
    + _SECURED.substitute(table="receipts")
    + _INDEXES
)

WRITING_AT_ONCE: Final = TYPES + function(_COLUMNS)
"""The function that writes a batch."""
