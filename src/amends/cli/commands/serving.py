"""`amends worker init`, `run`, `listen` and `listen-tls`: a worker's folder, and one session."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from amends.cli.options import Flag

if TYPE_CHECKING:
    from amends.wiring.workers import WorkerPlace


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Journal:
    """Where a worker's journal lies.

    Parameters
    ----------
    state
        The worker's folder.
    scope
        The tenant scope that the journal belongs to.
    anchor
        The anchor, if it is not in the folder: a file, or postgresql://role@host/database?schema=name.
    encrypted
        Encrypt what is written. Say it each time, or never.
    """

    state: Annotated[Path, Parameter(env_var="AMENDS_WORKER_STATE")]
    scope: Annotated[str, Parameter(env_var="AMENDS_WORKER_SCOPE")]
    anchor: Annotated[str | None, Parameter(env_var="AMENDS_WORKER_ANCHOR")] = None
    encrypted: Flag = False

    def place(self) -> "WorkerPlace":
        """As the wiring takes it."""
        from amends.wiring.anchors import anchor_place
        from amends.wiring.workers import WorkerPlace

        return WorkerPlace(
            directory=self.state,
            scope=self.scope,
            anchor=None if self.anchor is None else anchor_place(self.anchor),
            encrypted=self.encrypted,
        )


_SAME_DISK: Final = (
    "The anchor lies on the journal's own disk. It finds single files that are put back, and not a "
    "disk that is restored as a whole; --anchor puts it elsewhere."
)


def init(*, journal: Journal) -> None:
    """Make a worker's folder with an empty journal."""
    import sys

    from amends.sealed.anchors import Protection
    from amends.wiring.workers import initialise_worker

    if initialise_worker(journal.place()) is Protection.SINGLE_FILES:
        print(_SAME_DISK, file=sys.stderr)


def run(
    adapters: Annotated[str, Parameter(help="Where the adapters are, as module:attribute.")],
    /,
    *,
    bootstrap_fd: Annotated[int, Parameter(help="The inherited descriptor of the bootstrap.")],
    read_fd: Annotated[int, Parameter(help="The inherited descriptor to read frames from.")],
    write_fd: Annotated[int, Parameter(help="The inherited descriptor to write frames to.")],
    journal: Journal,
) -> None:
    """Serve one session of the host that started this process."""
    import asyncio
    import sys
    from contextlib import redirect_stdout

    from amends.cli.apps import load_adapters
    from amends.wiring.workers import Descriptors, serve_child

    descriptors = Descriptors(bootstrap_fd, read_fd, write_fd)
    with redirect_stdout(sys.stderr):
        asyncio.run(serve_child(load_adapters(adapters), journal.place(), descriptors))


def listen(
    adapters: Annotated[str, Parameter(help="Where the adapters are, as module:attribute.")],
    /,
    *,
    socket: Annotated[str, Parameter(help="The path of the socket, in a folder of this user.")],
    host_user: Annotated[int, Parameter(help="The id of the user that the host runs as.")],
    group: Annotated[
        int | None, Parameter(help="The id of a group that the host is in, if it is another user.")
    ] = None,
    journal: Journal,
) -> None:
    """Wait for the host at a Unix socket, and serve one session of it."""
    import asyncio
    import sys
    from contextlib import redirect_stdout

    from amends.cli.apps import load_adapters
    from amends.wiring.workers import Door, serve_socket

    door = Door(socket, host_user, group)
    with redirect_stdout(sys.stderr):
        asyncio.run(serve_socket(load_adapters(adapters), journal.place(), door))


def listen_tls(
    adapters: Annotated[str, Parameter(help="Where the adapters are, as module:attribute.")],
    address: Annotated[str, Parameter(help="Where to listen, as tls://host:port.")],
    /,
    *,
    certificate: Annotated[Path, Parameter(help="This worker's certificate, in PEM.")],
    private_key: Annotated[Path, Parameter(help="Its private key, with mode 0600.")],
    peers: Annotated[Path, Parameter(help="The certificates of the hosts that are taken.")],
    secret: Annotated[Path, Parameter(help="The secret that both machines hold, mode 0600.")],
    journal: Journal,
) -> None:
    """Wait for the host at an address of this machine, and serve one session of it."""
    import asyncio
    import sys
    from contextlib import redirect_stdout

    from amends.cli.apps import load_adapters
    from amends.transports.tls_files import TlsFiles
    from amends.wiring.workers import TlsDoor, serve_tls

    files = TlsFiles(
        certificate=str(certificate),
        private_key=str(private_key),
        peers=str(peers),
        secret=str(secret),
    )
    with redirect_stdout(sys.stderr):
        serving = serve_tls(load_adapters(adapters), journal.place(), TlsDoor(address, files))
        asyncio.run(serving)
