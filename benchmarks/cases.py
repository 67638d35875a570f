"""One case in a process of its own: `python -m benchmarks.cases NAME …` prints one number."""

import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from benchmarks import deciding, dispatching, frames, journals, loops, pg_cases
from benchmarks.dbos_loop import dbos
from benchmarks.evidence import bare_ed25519, verified
from benchmarks.fill import filled
from benchmarks.product import run

COUNT: Final = 4_000
FEW: Final = 800


def _url(folder: Path) -> str:
    return f"sqlite:///{folder / 'bench.db'}"


def _execute(folder: Path, tasks: str) -> float:
    count = FEW if tasks == "1" else COUNT
    return asyncio.run(run(_url(folder), count=count, tasks=int(tasks)))


def _latency(folder: Path, tasks: str) -> float:
    return 1e6 / _execute(folder, tasks)


def _among(folder: Path, records: str, keys: str) -> float:
    filled(folder / "bench.db", int(records))
    work = run(_url(folder), count=COUNT, tasks=64, random_keys=keys == "random")
    return asyncio.run(work)


def _memory(folder: Path) -> float:
    _execute(folder, "64")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _command(_folder: Path, *command: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, *command], check=True, capture_output=True)
    return (time.perf_counter() - started) * 1000


CASES: Final[Mapping[str, Callable[..., float]]] = {
    "bare": lambda folder: loops.bare(folder / "bench.db", FEW * 2),
    "same_rows": lambda folder: loops.same_rows(folder / "bench.db", FEW * 2),
    "same_rows_latency": lambda folder: 1e6 / loops.same_rows(folder / "bench.db", FEW),
    "execute": _execute,
    "latency": _latency,
    "among": _among,
    "dbos": lambda folder, threads: dbos(folder / "dbos.db", 120, int(threads)),
    "verify": verified,
    "ed25519": bare_ed25519,
    "decision": lambda _folder, reached: deciding.decision(int(reached)),
    "conditions": lambda _folder, reached: deciding.engine(int(reached)),
    "memory": _memory,
    "sealed": lambda _, size: frames.sealed(int(size)),
    "cipher": lambda _, size: frames.cipher(int(size)),
    "dispatch": dispatching.dispatched,
    "syncs": dispatching.synced,
    "journal": lambda folder, count: journals.opened(folder, int(count)),
    "journal_json": lambda folder, count: journals.parsed(folder, int(count)),
    "import": lambda folder: _command(folder, "-c", "from amends import Amends, capability"),
    "python": lambda folder: _command(folder, "-c", "pass"),
    "help": lambda folder: _command(folder, "-m", "amends", "--help"),
    **pg_cases.CASES,
}


def main() -> None:
    """Run the named case in a folder of its own."""
    name, *arguments = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        print(CASES[name](Path(folder), *arguments))


if __name__ == "__main__":
    main()
