"""A process that opens a sealed record and saves what it is told, for `test_sealed_processes`.

Run with the folder. It says which fence it got, then answers each line with `saved` or the code of
the refusal. At `count` it saves one number after another until it is killed, and says each one that
is durable.
"""

import sys
from pathlib import Path

from amends.contracts.errors import AmendsError
from amends.sealed.vault import Vault
from tests.unit.sealed.stage import storage_in


def answer(vault: Vault, line: str) -> str:
    try:
        vault.save(line.encode())
    except AmendsError as refused:
        return refused.code
    return "saved"


def count(vault: Vault) -> None:
    number = int(vault.payload)
    while True:
        number += 1
        vault.save(b"%d" % number)
        print(number, flush=True)


def main() -> None:
    vault = Vault.open(storage_in(Path(sys.argv[1])))
    print(vault.fence, flush=True)
    for line in sys.stdin:
        if line == "count\n":
            count(vault)
        print(answer(vault, line.strip()), flush=True)


if __name__ == "__main__":
    main()
