"""What the processes of `test_sqlite_processes` do with the one file they share.

Run with the name of a part, the path of the store and a name of its own, a process says that it is
ready, waits for one line, so that all begin at the same moment, and then answers in lines of JSON.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from amends.contracts.documents import TransactionRecord
from amends.contracts.errors import Misuse
from amends.stores.port import Accepted, ChangeSet, Insert, Loss, Lost, Replace
from amends.stores.sqlite import SqliteStore, open_sqlite
from amends.testing.store_contract_trial import commit, error_of
from amends.testing.store_documents import (
    TENANT,
    a_reservation,
    a_transaction,
    an_action,
    chain_named,
    changed,
    links,
)
from amends.wiring.drivers import open_place
from amends.wiring.places import OnServer, is_on_a_server

Part: TypeAlias = Callable[[str, str], Coroutine[Any, Any, None]]

ROUNDS: Final = 200
CHAIN: Final = chain_named("1")


async def open_and_insert(path: str, who: str) -> None:
    store = await open_sqlite(path)
    await commit(store, Insert(a_transaction(who)))
    _say({"lineage": await store.lineage()})
    await store.close()


async def replace_in_rounds(path: str, who: str) -> None:
    """Claim revision after revision, with many tasks for each; say which ones were won."""
    store = await open_sqlite(path)
    won: list[int] = []
    while (found := await store.get(TransactionRecord, TENANT, "txn_1")) is not None:
        record = found.document
        if record.revision > ROUNDS:
            break
        reservation = Insert(a_reservation(f"{who}{len(won)}"))
        claim = ChangeSet(changes=(Replace(changed(record)), reservation))
        answers = await asyncio.gather(*(store.commit(claim) for _ in range(16)))
        won += [record.revision + 1 for answer in answers if isinstance(answer, Accepted)]
        assert {answer for answer in answers if isinstance(answer, Lost)} <= {
            Lost(0, Loss.REVISION)
        }
    _say({"won": won})
    await store.close()


async def append_links(place: str, who: str) -> None:
    """Append 50 receipts to the one chain, each at what was its end a moment ago.

    The place is a file or a database on a server.
    """
    store = await open_place(OnServer(place) if is_on_a_server(place) else Path(place))
    lost = 0
    for number in range(50):
        while True:
            tail = await store.tail(TENANT, CHAIN)
            append = links(tail=tail, code=f"{who}.{number}")
            if isinstance(await store.commit(ChangeSet(changes=(append,))), Accepted):
                break
            lost += 1
    _say({"lost": lost})
    await store.close()


async def admit_the_same(path: str, who: str) -> None:
    """Sixteen tasks ask for the same action, key and transaction, and for a receipt."""
    store = await open_sqlite(path)
    for number in range(ROUNDS):
        name = str(number)
        admission = ChangeSet(
            changes=(
                Insert(an_action(f"{who}-{name}")),
                Insert(a_reservation(name)),
                Insert(a_transaction(name)),
                links(name=name),
            )
        )
        answers = await asyncio.gather(*(store.commit(admission) for _ in range(16)))
        _say([None if isinstance(one, Accepted) else [one.index, one.loss] for one in answers])
    await store.close()


async def insert_until_killed(path: str, who: str) -> None:
    """Insert with eight tasks for ever, and say of each what was accepted, after it was."""
    store = await open_sqlite(path)

    async def insert(task: int) -> None:
        number = 0
        while True:
            name = f"{who}-{task}-{number}"
            await commit(store, Insert(a_transaction(name)), links(2, name=name))
            _say(name)
            number += 1

    await asyncio.gather(*(insert(task) for task in range(8)))


async def fork(path: str, who: str) -> None:
    """Use the store, and open it, in a child that was forked while it was open here."""
    store = await open_sqlite(path)
    await commit(store, Insert(a_transaction(who)))
    child = os.fork()
    if child == 0:
        os._exit(_in_the_child(store, path))
    _, status = await asyncio.to_thread(os.waitpid, child, 0)
    await commit(store, Insert(a_transaction(f"{who}-after")))
    _say(os.waitstatus_to_exitcode(status))
    await store.close()


def _in_the_child(store: SqliteStore, path: str) -> int:
    async def use() -> int:
        for call in (
            store.get(TransactionRecord, TENANT, "txn_1"),
            store.commit(ChangeSet(changes=())),
            open_sqlite(path),
        ):
            error = await error_of(call)
            if not isinstance(error, Misuse) or error.code != "store.forked":
                return 1
        await store.close()
        return 0

    return asyncio.new_event_loop().run_until_complete(use())


def _say(answer: object) -> None:
    print(json.dumps(answer), flush=True)


PARTS: Final[Mapping[str, Part]] = {
    part.__name__: part
    for part in (
        open_and_insert,
        replace_in_rounds,
        append_links,
        admit_the_same,
        insert_until_killed,
        fork,
    )
}


if __name__ == "__main__":
    part_name, store_path, name = sys.argv[1:]
    _say("ready")
    sys.stdin.readline()
    asyncio.run(PARTS[part_name](store_path, name))
