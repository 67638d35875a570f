"""HTTP capabilities without code: declared in Python or in a TOML file.

    async with Amends.open(url, load_capabilities("payments.toml")) as amends: ...

Nothing here imports aiohttp until a capability is made; it comes with `amends[http]`.
"""

from amends.connectors.http.classify import Meaning, Sight
from amends.connectors.http.connector import HttpConnector, http_capability
from amends.connectors.http.declaration import (
    ById,
    ByKey,
    ByLastItem,
    ByOffset,
    ByToken,
    Effect,
    HttpDeclaration,
    LookUp,
    Preview,
    Provider,
    State,
)
from amends.connectors.http.toml import load_capabilities

__all__ = [
    "ById",
    "ByKey",
    "ByLastItem",
    "ByOffset",
    "ByToken",
    "Effect",
    "HttpConnector",
    "HttpDeclaration",
    "LookUp",
    "Meaning",
    "Preview",
    "Provider",
    "Sight",
    "State",
    "http_capability",
    "load_capabilities",
]
