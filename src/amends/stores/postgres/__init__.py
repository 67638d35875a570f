"""The PostgreSQL driver: one database, shared by any number of processes on any number of machines.

From the bottom up: `failures` turns what the server or the network reports into what a caller can
act on; `address` reads a URL; `schema` and `migrations` are the tables; `demands` refuses a server
that could lose what it acknowledged and a role that sees every tenant; `connection` opens one;
`writes` makes a change set ready; `verdicts` decides a batch of them over what was read; `function`
is the SQL that writes one, and `statements` the rest; `server_time` is what is known of its clock;
`session` is one transaction over a batch; `truth` finds out what became of a COMMIT that nobody
answered; `writer` is the queue; `reader` and `feed` answer questions; `listening` wakes who waits;
`store` is what users get. `questions` asks across tenants, for the upkeep, and `survey` says what.

What holds here:

- `Accepted` means that the server acknowledged a synchronous commit, or that one made later did.
- Change sets that wait at the same moment share one transaction, each with its own verdict.
- All times are the server's, asked for or told a moment ago. Nothing depends on a session: every
  setting is local to a transaction, every lock ends with one.
- No row of a tenant is seen or written unless the transaction named that tenant.
- A connection that may hold an open transaction is ended and never used again.

Deliberately not here: rules, encryption, backups (which are the server's own business).
"""

from amends.stores.postgres.store import PostgresStore, open_postgres

__all__ = ["PostgresStore", "open_postgres"]
