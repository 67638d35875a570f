"""Durable memory: documents with revisions, unique keys, atomic change sets and due queues.

`port` says what the runtime asks; `shapes` says which table a type of document lives in and which
of its fields can be read and filtered there; `rows` turns documents into stored bytes and back and
refuses what does not agree with itself; `wellformed` refuses change sets that mean nothing. Two
drivers stand on these: `memory`, which keeps nothing, and `sqlite`, one file for the processes of
one machine. `amends.testing.store_contract` is the definition of a driver.

What holds for every driver:

- A change set is all or nothing, and a losing one leaves every byte as it was (TX-REV-1).
- Documents are inserted if absent and replaced by revision; nothing overwrites (TX-REV-2).
- The tenant is part of every key, so nothing is found or met across tenants.
- Times that decide (`not_after`, lease ends, due times) are the store's own, taken while the change
  set holds the store.
- A body that cannot be read is named and kept away from action; it stops no listing and no queue.

A new status, a new required field or a changed meaning of an old one takes a new migration, even
one without SQL: that is what keeps an older program from opening a store that it would misread.

Deliberately not here: transition rules, deletion, encryption, backup, and the reading of store
addresses, which `wiring` does.
"""
