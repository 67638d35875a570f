"""What the tests of this folder share."""

from pathlib import Path

import pytest

from amends.transports.tls import Opened, TlsListener
from tests.unit.wiring.machines import Machines


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    """Both, with the worker's ends of all channels at hand."""
    made, accepted = Machines(tmp_path), TlsListener.accept

    async def kept(listener: TlsListener) -> Opened:
        opened = await accepted(listener)
        made.transports.append(opened[0])
        return opened

    monkeypatch.setattr(TlsListener, "accept", kept)
    return made
