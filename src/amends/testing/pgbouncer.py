"""A real pgbouncer in transaction mode, set so that no two transactions need share a process.

    with PgBouncer(server.port) as pooler:
        pooler.warm(url)
        store = await open_postgres(pooler.before(url))

Transactions go to the processes of the server in turn (`server_round_robin`). Once there are two of
them, which `warm` sees to, whatever a client leaves in a session is not there when it comes back:
prepared statements, settings, locks.

The program is the one that is installed; `make test` installs Debian's package. Where there is
none, asking for a pooler fails; no test is passed over.

Deliberately not here: passwords and TLS, and what is asked through it.
"""

import asyncio
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import asyncpg

from amends.testing.daemons import end_with_parent, free_port, hand_over, identity
from amends.testing.postgres_server import ROLE, run_apart

SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "pool_mode": "transaction",
        "default_pool_size": "20",
        "server_login_retry": "1",
        "server_round_robin": "1",
        "auth_type": "trust",
        "listen_addr": "127.0.0.1",
        "unix_socket_dir": "",
        "max_client_conn": "500",
    }
)
_START_S: Final = 30.0


class PgBouncer:
    """A pooler before the server on a port of this machine. Use it in a `with` block."""

    def __init__(self, server_port: int) -> None:
        self.server_port = server_port
        self.port = free_port()
        self._program = _program()
        self._folder = Path(tempfile.mkdtemp(prefix="amends-pgbouncer-"))

    def __enter__(self) -> Self:
        users = self._folder / "users"
        users.write_text("".join(f'"{role}" ""\n' for role in (ROLE, "postgres")))
        log = self._folder / "log"
        settings = {**SETTINGS, "listen_port": str(self.port), "auth_file": str(users)}
        lines = [f"{name} = {value}" for name, value in settings.items()]
        lines = [
            *("[databases]", f"* = host=127.0.0.1 port={self.server_port}"),
            *("[pgbouncer]", *lines),
        ]
        config = self._folder / "pgbouncer.ini"
        config.write_text("\n".join(lines) + "\n")
        for path in (self._folder, users, config):
            hand_over(path)
        with log.open("ab") as said:
            self._process = subprocess.Popen(
                [self._program, str(config)],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd=self._folder,
                preexec_fn=end_with_parent,
                start_new_session=True,
                text=False,
                **identity(),
            )
        self._wait(log)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def before(self, url: str) -> str:
        """The URL of a database of the server, by way of the pooler."""
        parts = urlsplit(url)
        assert parts.port == self.server_port
        netloc = parts.netloc.replace(f":{self.server_port}", f":{self.port}")
        query = urlencode([*parse_qsl(parts.query), ("pooled", "true")])
        return urlunsplit(parts._replace(netloc=netloc, query=query))

    def warm(self, url: str, processes: int = 2) -> None:
        """See to it that so many processes of the server serve this database from now on."""
        at_pooler = url.replace(f":{self.server_port}/", f":{self.port}/").partition("?")[0]

        async def hold_at_once() -> None:
            held = [
                await asyncpg.connect(at_pooler, statement_cache_size=0) for _ in range(processes)
            ]
            for statement in ("BEGIN", "COMMIT"):
                for one in held:
                    await one.execute(statement)
            await asyncio.gather(*(one.close() for one in held))

        run_apart(hold_at_once)

    def _wait(self, log: Path) -> None:
        """Until it listens. Raises `RuntimeError` with what it said."""
        end = time.monotonic() + _START_S
        while b"process up" not in (said := log.read_bytes()):
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"pgbouncer did not start: {said.decode(errors='replace')}")
            time.sleep(0.01)


def _program() -> str:
    found = shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin") or shutil.which("pgbouncer")
    if found is None:
        raise RuntimeError(
            "No pgbouncer was found. Install it; on Debian and Ubuntu:"
            " sudo apt-get install pgbouncer"
        )
    return found
