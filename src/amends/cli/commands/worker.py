"""`amends worker`: contained workers. Its commands are loaded when they are asked for."""

from typing import Final

from cyclopts import App

HELP: Final = "Run contained workers, and rule on their journals."


def _worker() -> App:
    app = App(name="worker", help=HELP)
    app.command("amends.cli.commands.serving:init", name="init", help=_INIT)
    app.command("amends.cli.commands.serving:run", name="run", help=_RUN)
    app.command("amends.cli.commands.serving:listen", name="listen", help=_LISTEN)
    app.command("amends.cli.commands.serving:listen_tls", name="listen-tls", help=_TLS)
    app.command("amends.cli.commands.journals:resolve", name="resolve", help=_RESOLVE)
    app.command("amends.cli.commands.journals:release", name="release", help=_RELEASE)
    app.command("amends.cli.commands.journals:supersede", name="supersede", help=_SUPERSEDE)
    app.command("amends.cli.commands.journals:reseat", name="reseat", help=_RESEAT)
    app.command("amends.cli.commands.comparing:compare", name="compare", help=_COMPARE)
    app.command(
        "amends.cli.commands.journals:accept_anchor", name="accept-anchor", help=_ACCEPT_ANCHOR
    )
    app.command("amends.cli.commands.containing:containment", name="containment", help=_CONTAIN)
    return app


_INIT: Final = (
    "Make a worker's folder: its keys, its anchor and an empty journal.\n\n"
    "Keep a copy of keys.json elsewhere. A folder that was lost is never made anew by itself."
)
_RUN: Final = (
    "Serve one session of one host.\n\n"
    "A host starts this command itself, and hands it the session through inherited descriptors. "
    "Exit code 5 says that an effect may have happened and nobody wrote down what came of it."
)
_LISTEN: Final = (
    "Wait at a Unix socket for the host, and serve one session of it.\n\n"
    "The kernel says as whom the other end runs; whoever is not the named user is hung up on. Run "
    "it under a supervisor that starts it again after each session."
)
_TLS: Final = (
    "Wait for a host on another machine, and serve one session of it over TLS 1.3.\n\n"
    "Either side takes the certificates only that are in its file of peers; no authority vouches "
    "for anybody. Run it under a supervisor that starts it again after each session."
)
_RESOLVE: Final = (
    "End an open entry of a journal by hand, while no worker serves it.\n\n"
    "Say what was found, and where. It is never reopened, and never run again."
)
_RELEASE: Final = "Let a frozen journal admit again, after both sides were compared."
_SUPERSEDE: Final = (
    "Let an open inverse be looked up under another grant.\n\n"
    "For an intent that was stranded by a change of its grant and moved on the host's side. It is "
    "looked up under the new grant, and never run."
)
_RESEAT: Final = (
    "Go on from a journal that was restored, or whose anchor was lost or restored.\n\n"
    "Put back what can be put back first. The journal as it lies there is vouched for, and admits "
    "nothing until `amends worker release`: compare it with the ledgers of its host before, with "
    "`amends worker compare`. Every opening there was has ended; the anchor keeps who and why."
)
_COMPARE: Final = (
    "Compare a journal with the ledgers of its host.\n\n"
    "An orphan is an effect that no ledger claims: the host forgot that it had asked for it. Exit "
    "code 1 says that there is one, or that both sides contradict. Nothing is changed."
)
_ACCEPT_ANCHOR: Final = (
    "Go on with an anchor's server that was restored or failed over.\n\n"
    "It ends every opening there was. Compare records and anchor first: a record that is one save "
    "ahead of its floor is taken as after a crash. The anchor keeps who accepted it, and why."
)
_CONTAIN: Final = (
    "Show whether workers can be contained here.\n\n"
    "A container is run, and tries to get out. What holds is shown one by one. Exit code 8 says "
    "that something does not hold."
)
worker: Final = _worker()
