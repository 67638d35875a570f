"""`Amends`: open a store, say who acts, and ask."""

from collections.abc import Iterable
from os import PathLike
from types import TracebackType
from typing import Final

from amends.app.asking import Asking
from amends.app.capabilities import Buildable
from amends.app.delegates import Delegates
from amends.app.edges import principal_of
from amends.app.keeping import Keeping
from amends.app.people import People
from amends.app.views import Views
from amends.connectors.blocking import HandlerThreads
from amends.connectors.port import Closable, Connector
from amends.contracts.declarations import Capability
from amends.contracts.principals import Caller, Identity, Principal
from amends.contracts.secrets import CredentialSource
from amends.governance.policy import Policy
from amends.wiring.opening import Runtime, Settings, open_runtime

LOCAL: Final = Principal.named("local")
Registrable = Buildable | tuple[Capability, Connector]


class Amends(Asking, People, Delegates, Views, Keeping):
    """One principal's view of a running engine.

    The library is told who acts; that is recorded as asserted. `acting_as` gives the view of
    somebody else over the same engine.
    """

    def __init__(self, runtime: Runtime, caller: Caller) -> None:
        Asking.__init__(self, runtime, caller)
        People.__init__(self, runtime, caller)
        Delegates.__init__(self, runtime, caller)
        Views.__init__(self, runtime, caller)
        Keeping.__init__(self, runtime, caller)

    @staticmethod
    def open(
        url: str = "sqlite:///amends.db",
        capabilities: Iterable[Registrable] = (),
        *,
        principal: Principal = LOCAL,
        identity: Identity | None = None,
        policy: Policy | str | PathLike[str] | None = None,
        credentials: CredentialSource | None = None,
        recover: bool = True,
        settings: Settings | None = None,
    ) -> "Opening":
        """Open a store with its capabilities, as an async context manager.

        `policy` is a policy, or the name of a YAML file of rules, which needs `amends[policy]`.
        `recover` runs the sweeper inside this process. Leaving the context takes no new work, lets
        running attempts end, and leaves those that do not recoverable.
        """
        chosen = settings or Settings(policy=policy, credentials=credentials, recover=recover)
        principal = principal_of(principal)
        caller = Caller(principal=principal, identity=identity, asserted=True, trusted=True)
        return Opening(url, tuple(capabilities), caller, chosen)

    def acting_as(self, principal: Principal, identity: Identity | None = None) -> "Amends":
        """The same engine for another principal; nothing is opened or closed.

        Raises `Refused` (`input.invalid_id`, `input.unsupported_type`) for a principal that is not
        well-formed.
        """
        principal = principal_of(principal)
        caller = Caller(principal=principal, identity=identity, asserted=True, trusted=True)
        return Amends(self._runtime, caller)


class Opening:
    """The context manager that `Amends.open` returns."""

    def __init__(
        self,
        url: str,
        capabilities: tuple[Registrable, ...],
        caller: Caller,
        settings: Settings,
    ) -> None:
        self._url = url
        self._capabilities = capabilities
        self._caller = caller
        self._settings = settings
        self._runtime: Runtime | None = None
        self._threads: HandlerThreads | None = None
        self._connectors: tuple[Connector, ...] = ()

    @property
    def runtime(self) -> Runtime:
        """What was opened, for entrances that have to tell it to stop; inside the context only."""
        assert self._runtime is not None
        return self._runtime

    async def __aenter__(self) -> Amends:
        """Open the store and start the engine.

        Raises `Misuse` (`capability.invalid`) with every fault of a declaration, and whatever
        opening the store does.
        """
        self._threads = HandlerThreads()
        built = [
            one.build(self._threads) if isinstance(one, Buildable) else one
            for one in self._capabilities
        ]
        self._connectors = tuple(dict.fromkeys(connector for _, connector in built))
        self._runtime = await open_runtime(self._url, built, self._settings)
        return Amends(self._runtime, self._caller)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the engine and the store."""
        assert self._runtime is not None
        assert self._threads is not None
        try:
            await self._runtime.close()
        finally:
            self._threads.close()
            for connector in self._connectors:
                if isinstance(connector, Closable):
                    await connector.aclose()
