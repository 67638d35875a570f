"""The SQL of `amends.write`: everything that a batch leaves behind, written in one call.

A call is one statement, so a batch that is expected to succeed needs no transaction around it. What
a statement alone cannot promise, a function does: its steps come one after the other, so the
tenants are named before any row is reached, whatever the planner makes of a step. Its settings end
with it, and the tenants with the transaction.

Each document comes as one value: its `kind` says what becomes of it, and `parts` which kinds there
are and in which order they are carried out. A row is replaced at the revision `before`, inserted if
absent, or guarded at the revision `before`; a receipt follows on the one before it, whose hash is
`previous` where that is not in the same call. If any row was not as it was taken to be, or
`not_after` has come, or the call was held up for so long that a lease would count from long ago,
everything is taken back and `at` is null. Whether commits wait for a standby is compared with what
is written down each time: somebody else may have written that they do, while they did. Nothing is
judged here: what follows is for the caller.

As in `schema`, what was released is never edited: a step that adds a table replaces the function by
one that also knows that table, and takes the same.

Deliberately not here: verdicts, locks that must be held before a verdict, and what a call is given.
"""

from collections.abc import Sequence
from string import Template
from typing import Final

FEED_LOCK: Final = 0x416D6E64_00000002
"""Shared by everybody who has a position in the feed and has not committed it yet."""

NEWS: Final = "amends_news"
"""The channel on which listeners hear of what people wait for."""

WIDTH: Final = 7
"""How many columns a table has at most between `due_at` and `body`."""

TYPES: Final = f"""
CREATE TYPE amends.written_document AS (
  kind text, tenant text, id text, before bigint, revision bigint, created_at timestamptz,
  updated_at timestamptz, due_at timestamptz, due_ms bigint, body text,
  {", ".join(f"c{n} text" for n in range(1, WIDTH + 1))}
);
CREATE TYPE amends.written_receipt AS (
  tenant text, chain text, number bigint, hash text, previous text, body text
);
"""
"""What a call is given, a value for each row: a driver that binds a column for each field of them
looks at every single field to see whether it is a list of its own.
"""

_ROWS: Final = "unnest(documents) AS i"
_DUE: Final = "coalesce(i.due_at, at + i.due_ms * interval '1 millisecond')"

_TABLE: Final = Template(f"""
      WHEN 'replace $table' THEN
        UPDATE amends.$table AS r SET due_at = {_DUE}, revision = i.revision,
          updated_at = i.updated_at, $settings, body = i.body, written_at = at, written_by = token
          FROM {_ROWS}
          WHERE i.kind = 'replace $table' AND r.tenant = i.tenant AND r.id = i.id
          AND r.revision = i.before;
      WHEN 'insert $table' THEN
        INSERT INTO amends.$table (tenant, id, revision, created_at, updated_at, due_at, $columns,
          body, written_at, written_by)
          SELECT i.tenant, i.id, i.revision, i.created_at, i.updated_at, {_DUE}, $values, i.body,
          at, token FROM {_ROWS} WHERE i.kind = 'insert $table' ON CONFLICT DO NOTHING;
      WHEN 'guard $table' THEN
        PERFORM 1 FROM {_ROWS} JOIN amends.$table AS r ON r.tenant = i.tenant AND r.id = i.id
          AND r.revision = i.before WHERE i.kind = 'guard $table' FOR SHARE OF r;""")

_FUNCTION: Final = Template(f"""
CREATE OR REPLACE FUNCTION amends.write(
  named text, token uuid, clock timestamptz, not_after timestamptz, parts text[],
  documents amends.written_document[], receipts amends.written_receipt[],
  OUT at timestamptz
) LANGUAGE plpgsql
  SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
  SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
  SET lock_timeout = '2s'
AS $$$$
DECLARE
  ended timestamptz;
  part text;
  count bigint;
  touched bigint := 0;
  waits boolean := current_setting('synchronous_standby_names') <> ''
    AND current_setting('synchronous_commit') IN ('on', 'remote_apply');
BEGIN
  PERFORM set_config('amends.tenants', named, true);
  at := coalesce(clock, clock_timestamp());
  BEGIN
    FOREACH part IN ARRAY parts LOOP
      CASE part$tables
      END CASE;
      GET DIAGNOSTICS count = ROW_COUNT;
      touched := touched + count;
    END LOOP;
    IF 'insert approvals' = ANY (parts) OR 'replace approvals' = ANY (parts) THEN
      PERFORM pg_notify('{NEWS}', '');
    END IF;
    IF cardinality(receipts) > 0 THEN
      PERFORM pg_advisory_xact_lock_shared({FEED_LOCK});
      INSERT INTO amends.receipts (position, tenant, chain, number, hash, body, written_at,
        written_by)
        SELECT nextval('amends.receipts_position'), i.tenant, i.chain, i.number, i.hash, i.body, at,
        token FROM unnest(receipts) AS i
        WHERE i.previous IS NULL OR EXISTS (SELECT FROM amends.receipts AS r
        WHERE r.tenant = i.tenant AND r.chain = i.chain AND r.number = i.number - 1
        AND r.hash = i.previous) ON CONFLICT DO NOTHING;
      GET DIAGNOSTICS count = ROW_COUNT;
      touched := touched + count;
    END IF;
    UPDATE amends.store AS s SET synchronous = waits WHERE s.synchronous <> waits;
    ended := coalesce(clock, clock_timestamp());
    IF touched <> cardinality(documents) + cardinality(receipts) OR ended >= not_after
      OR ended > at + interval '1 second' THEN
      RAISE SQLSTATE 'AMNOT';
    END IF;
  EXCEPTION WHEN SQLSTATE 'AMNOT' THEN
    at := NULL;
  END;
END
$$$$;
""")


def function(tables: Sequence[tuple[str, str]]) -> str:
    """The function for these tables, each with the names of its columns."""
    parts = []
    for table, columns in tables:
        names = columns.split()
        settings = ", ".join(f"{name} = i.c{place}" for place, name in enumerate(names, 1))
        values = ", ".join(f"i.c{place}" for place, _ in enumerate(names, 1))
        parts.append(
            _TABLE.substitute(
                table=table, settings=settings, columns=", ".join(names), values=values
            )
        )
    return _FUNCTION.substitute(tables="".join(parts))
