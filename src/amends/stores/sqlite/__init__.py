"""The SQLite driver: one file, shared by the threads and processes of one machine.

From the bottom up: `failures` turns what SQLite reports into what a caller can act on; `connection`
opens a file with the settings that durability needs, and refuses one that will not have them;
`migrations` is the schema; `statements` is the SQL of each table; `changes` prepares a change set
and applies it; `session` is one write transaction over a batch of them; `writer` decides who is
written when; `reader` answers questions; `opened` holds the files this process has open; `store`
is what users get. `looking` opens a file that its user may only read. Beside these, for the upkeep
of a whole file: `survey` asks across tenants, and `backup` copies a file and puts one back.

What holds here:

- `Accepted` means that the change set was flushed to the disk (WAL, `synchronous=FULL`).
- Change sets that wait at the same moment share one transaction and one flush; each keeps its own
  verdict.
- After an error that leaves the file in doubt, every call is refused until it is opened again.
- Nothing is ever written without the lock that other processes respect.

Deliberately not here: network file systems, encryption.
"""

from amends.stores.sqlite.store import SqliteStore, open_sqlite

__all__ = ["SqliteStore", "open_sqlite"]
