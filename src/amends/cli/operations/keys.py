"""`amends keys`: the keys that sign a store's receipts. Its commands are loaded when asked for."""

from typing import Final

from cyclopts import App

HELP: Final = "The keys that sign receipts: list, add, rotate, export, compromised."


def _keys() -> App:
    app = App(name="keys", help=HELP)
    app.command("amends.cli.operations.ring:list_keys", name="list", help=_LIST)
    app.command("amends.cli.operations.ring:add", name="add", help=_ADD)
    app.command("amends.cli.operations.ring:rotate", name="rotate", help=_ROTATE)
    app.command("amends.cli.operations.ring:export_keys", name="export", help=_EXPORT)
    app.command("amends.cli.operations.ring:compromised", name="compromised", help=_COMPROMISED)
    return app


_LIST: Final = "List the keys of a store, and when each of them signed."
_ADD: Final = (
    "Take public keys into the ring of this machine.\n\n"
    "The file is one that amends keys export wrote. Where this machine has no key, one is made "
    "that follows the given ones, and for a store on a server it is the one that all replicas "
    "have to sign with: for the case that the key file is lost. Without a file, for when nobody "
    "has the old public keys, what was signed before is not verified any more."
)
_ROTATE: Final = (
    "Sign with a new key from now on.\n\n"
    "A checkpoint is made before, so that everything the old key signed is fixed. Programs that "
    "run notice the new key by themselves. Hand out amends keys export anew."
)
_EXPORT: Final = "Write the public keys for others to pin, as a JWK Set."
_COMPROMISED: Final = (
    "Say that somebody else may have had a key.\n\n"
    "What it signed from then on is not believed, and what it signed before only where a "
    "checkpoint shows that it was there. The key in use is rotated at once."
)
keys: Final = _keys()
