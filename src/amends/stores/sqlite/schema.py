"""The SQL of each migration, word for word as it was released.

A released text is never edited, not even its spaces: files remember its checksum. What changes
later becomes a text of its own. `seq` is the order of insertion, by which listings are paged; the
columns between `due_at` and `body` are those of `amends.stores.shapes`; instants are microseconds
since 1970.

Deliberately not here: how and when these texts are applied (`migrations`).
"""

from typing import Final

DOCUMENTS_AND_RECEIPTS: Final = """
CREATE TABLE transactions (
  seq INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, due_at INTEGER,
  status TEXT NOT NULL, action_id TEXT NOT NULL, capability_id TEXT NOT NULL,
  plan_id TEXT, verdict TEXT, attention TEXT, operation_id TEXT,
  body TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX transactions_by_id ON transactions (tenant, id);
CREATE UNIQUE INDEX transactions_by_plan ON transactions (tenant, plan_id)
  WHERE plan_id IS NOT NULL;
CREATE INDEX transactions_by_operation ON transactions (tenant, operation_id)
  WHERE operation_id IS NOT NULL;
CREATE INDEX transactions_by_tenant ON transactions (tenant);
CREATE INDEX transactions_by_status ON transactions (tenant, status);
CREATE INDEX transactions_by_due ON transactions (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE actions (
  seq INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, due_at INTEGER,
  transaction_id TEXT NOT NULL, mode TEXT NOT NULL, capability_id TEXT NOT NULL, status TEXT,
  body TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX actions_by_id ON actions (tenant, id);
CREATE INDEX actions_by_tenant ON actions (tenant);
CREATE INDEX actions_by_transaction ON actions (tenant, transaction_id);
CREATE INDEX actions_by_due ON actions (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE approvals (
  seq INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, due_at INTEGER,
  status TEXT NOT NULL, action_id TEXT NOT NULL, transaction_id TEXT NOT NULL,
  body TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX approvals_by_id ON approvals (tenant, id);
CREATE INDEX approvals_by_tenant ON approvals (tenant);
CREATE INDEX approvals_by_status ON approvals (tenant, status);
CREATE INDEX approvals_by_action ON approvals (tenant, action_id);
CREATE INDEX approvals_by_due ON approvals (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE reservations (
  seq INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, due_at INTEGER,
  action_id TEXT NOT NULL,
  body TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX reservations_by_id ON reservations (tenant, id);
CREATE INDEX reservations_by_due ON reservations (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE compensation_slots (
  seq INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, due_at INTEGER,
  target TEXT NOT NULL, frozen TEXT,
  body TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX compensation_slots_by_id ON compensation_slots (tenant, id);
CREATE INDEX compensation_slots_by_due ON compensation_slots (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE refusals (
  seq INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, due_at INTEGER,
  action_id TEXT, capability_id TEXT, code TEXT NOT NULL,
  body TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX refusals_by_id ON refusals (tenant, id);
CREATE INDEX refusals_by_tenant ON refusals (tenant);
CREATE INDEX refusals_by_due ON refusals (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE corrections (
  seq INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, due_at INTEGER,
  transaction_id TEXT NOT NULL, target TEXT NOT NULL,
  body TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX corrections_by_id ON corrections (tenant, id);
CREATE INDEX corrections_by_tenant ON corrections (tenant);
CREATE INDEX corrections_by_transaction ON corrections (tenant, transaction_id);
CREATE INDEX corrections_by_due ON corrections (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE unclaimed_effects (
  seq INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, due_at INTEGER,
  provider TEXT NOT NULL, provider_key TEXT,
  body TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX unclaimed_effects_by_id ON unclaimed_effects (tenant, id);
CREATE INDEX unclaimed_effects_by_tenant ON unclaimed_effects (tenant);
CREATE INDEX unclaimed_effects_by_due ON unclaimed_effects (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE receipts (
  position INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL, chain TEXT NOT NULL, number INTEGER NOT NULL,
  hash TEXT NOT NULL,
  body TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX receipts_by_chain ON receipts (tenant, chain, number);
"""

LOG_CHECKPOINTS: Final = """
CREATE TABLE log_checkpoints (
  seq INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, due_at INTEGER,
  lineage TEXT NOT NULL,
  body TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX log_checkpoints_by_id ON log_checkpoints (tenant, id);
CREATE INDEX log_checkpoints_by_tenant ON log_checkpoints (tenant);
CREATE INDEX log_checkpoints_by_due ON log_checkpoints (due_at) WHERE due_at IS NOT NULL;
"""

DELEGATIONS_AND_NOTICES: Final = """
CREATE TABLE delegations (
  seq INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, due_at INTEGER,
  delegator TEXT NOT NULL, delegate TEXT NOT NULL,
  body TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX delegations_by_id ON delegations (tenant, id);
CREATE INDEX delegations_by_tenant ON delegations (tenant);
CREATE INDEX delegations_by_delegate ON delegations (tenant, delegate);
CREATE INDEX delegations_by_due ON delegations (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE notice_cursors (
  seq INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, due_at INTEGER,
  channel TEXT NOT NULL,
  body TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX notice_cursors_by_id ON notice_cursors (tenant, id);
CREATE INDEX notice_cursors_by_tenant ON notice_cursors (tenant);
CREATE INDEX notice_cursors_by_due ON notice_cursors (due_at) WHERE due_at IS NOT NULL;
"""

LIMIT_USAGES: Final = """
CREATE TABLE limit_usages (
  seq INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, due_at INTEGER,
  rule TEXT NOT NULL, subject TEXT NOT NULL,
  body TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX limit_usages_by_id ON limit_usages (tenant, id);
CREATE INDEX limit_usages_by_tenant ON limit_usages (tenant);
CREATE INDEX limit_usages_by_due ON limit_usages (due_at) WHERE due_at IS NOT NULL;
"""

LEGAL_HOLDS: Final = """
CREATE TABLE legal_holds (
  seq INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, due_at INTEGER,
  capability_id TEXT NOT NULL, state TEXT NOT NULL,
  body TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX legal_holds_by_id ON legal_holds (tenant, id);
CREATE INDEX legal_holds_by_tenant ON legal_holds (tenant);
CREATE INDEX legal_holds_by_due ON legal_holds (due_at) WHERE due_at IS NOT NULL;
"""

BOOKS: Final = """
CREATE TABLE migrations (
  number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL,
  applied_at INTEGER NOT NULL
) STRICT;
CREATE TABLE store (lineage TEXT NOT NULL, created_at INTEGER NOT NULL) STRICT;
"""
"""The record of the migrations themselves, and of the store's own identity."""
