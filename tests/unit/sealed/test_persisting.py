"""Ledger and journal in their vaults.

There is no permit without the vault's receipt, and no effect without a durable admission, whichever
call of the disk fails.
"""

import errno
from pathlib import Path
from typing import Final

import pytest

from amends.contracts.errors import Unavailable
from amends.contracts.worker_payload import Pending
from amends.journal.admission import Dispatch, Existing
from amends.journal.capacity import JournalLimits
from amends.journal.document import decode_journal, encode_journal
from amends.journal.observation import observe_compensation
from amends.journal.records import Journal
from amends.ledger.document import decode_ledger, encode_ledger
from amends.ledger.permits import PermitDesk
from amends.ledger.targets import Stage
from amends.sealed.envelopes import Place
from amends.sealed.vault import Storage, Vault
from amends.testing.faulty_disk import FaultyDisk
from amends.testing.refusals import refused_with
from tests.unit.journal.stage import DONE, admit_inverse, inverse_key_of, key_of, succeeded
from tests.unit.ledger.stage import LATER, NOW, SESSION, Sealer, intended, ledger_with, yes
from tests.unit.sealed.stage import storage_in

MAX_BYTES: Final = JournalLimits().max_bytes
ERRORS: Final = (errno.EIO, errno.ENOSPC)


def journal_in(vault: Vault) -> Journal:
    return decode_journal(vault.payload, max_bytes=MAX_BYTES)


@pytest.mark.rule("PM-4")
def test_a_permit_takes_the_receipt_of_the_vault_and_no_older_one(tmp_path: Path) -> None:
    storage = storage_in(tmp_path)._replace(place=Place("workflow-ledger", "release-42"))
    Vault.initialise(storage, encode_ledger(ledger_with()[0]))
    vault = Vault.open(storage)
    before = vault.receipt
    ledger, target, key = intended()
    desk, sealer, asked = PermitDesk(), Sealer(), yes(ledger, target, Stage.PERMIT)
    with refused_with("permit.not_persisted"):
        desk.issue(ledger, target, asked, before, session_id=SESSION, expires_at=LATER)
    receipt = vault.save(encode_ledger(ledger))
    permit = desk.issue(ledger, target, asked, receipt, session_id=SESSION, expires_at=LATER)
    sealed = yes(ledger, target, Stage.SEAL)
    desk.redeem(permit, ledger, target, sealed, sealer, request_id="c-1", now=NOW)
    [request] = sealer.sealed
    assert request.compensation_key == key
    assert request.head is not None
    assert request.head.attempt_fence == vault.fence
    assert decode_ledger(Vault.open(storage).payload) == ledger


def undo_once(storage: Storage, effects: list[str]) -> None:
    """What a worker does with one request, in the order of the rule (WS-1)."""
    vault = Vault.open(storage)
    admission = admit_inverse(journal_in(vault))
    if isinstance(admission, Existing):
        return
    assert isinstance(admission, Dispatch)
    vault.save(encode_journal(admission.journal))
    effects.append("undone")
    observed = observe_compensation(admission.journal, key_of(), inverse_key_of(), DONE)
    vault.save(encode_journal(observed))


def ends(storage: Storage, effects: list[str]) -> bool:
    try:
        undo_once(storage, effects)
    except Unavailable:
        return False
    return True


@pytest.mark.rule("WS-1", "ST-2")
@pytest.mark.parametrize("after", [False, True], ids=["not done", "done"])
def test_whichever_call_fails_there_is_no_effect_without_a_durable_admission(
    tmp_path: Path, after: bool
) -> None:
    for number in range(1, 100):
        folder = tmp_path / str(number)
        folder.mkdir()
        disk, effects = FaultyDisk(), list[str]()
        storage = storage_in(folder, disk=disk)
        Vault.initialise(storage, encode_journal(succeeded()))
        disk.fail_at(number, error=ERRORS[number % 2], after=after)
        if ends(storage, effects):
            break
        disk.heal()
        held = journal_in(Vault.open(storage)).records[0].compensation
        assert held is not None or not effects
        undo_once(storage, effects)
        assert len(effects) <= 1
        found = admit_inverse(journal_in(Vault.open(storage)))
        assert isinstance(found, Existing)
        assert found.state in ((Pending(), DONE) if held else (DONE,))
    assert number > 30
    assert effects == ["undone"]
