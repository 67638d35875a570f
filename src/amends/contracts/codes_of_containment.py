"""What the surroundings of a worker answer with: its container, and the socket that leads to it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from amends.contracts.code import Code
from amends.contracts.errors import Conflict, Misuse, PeerViolation, Refused, Unavailable

CONTAINMENT_CODES: Final[Mapping[str, Code]] = MappingProxyType(
    {
        "containment.unavailable": Code(
            Unavailable,
            "Containment is required, and this machine does not hold it; no worker was started.",
            "On Debian: apt-get install bubblewrap. Then see amends worker containment.",
        ),
        "containment.resource_unknown": Code(
            Refused,
            "A grant names a resource, and nobody said what it is on this machine.",
            "Provide it, as something that fits its kind.",
        ),
        "containment.path_refused": Code(
            Misuse,
            "A path cannot be put into a container.",
            "Write it absolute and plain; not /, /tmp, or what the kernel keeps.",
        ),
        "containment.paths_overlap": Code(
            Misuse,
            "A path lies inside one that the worker can write, so it could be replaced.",
            "Put what it may only read somewhere else.",
        ),
        "channel.stranger": Code(
            PeerViolation,
            "The process at the other end of the socket runs as another user.",
            "Nothing was sent. Find out who listens there, or name the right user.",
        ),
        "channel.socket_unsafe": Code(
            Unavailable,
            "Somebody else could replace the socket, or a folder that it lies in.",
            "Give it a folder of its user that nobody else can write, without links on the way.",
        ),
        "channel.socket_taken": Code(
            Conflict, "Another process listens at this socket.", "End it, or choose another path."
        ),
        # another machine
        "channel.certificate_stranger": Code(
            PeerViolation,
            "The other end shows a certificate that is not pinned, or speaks something else.",
            "Nothing was asked. Compare its certificate with the file of peers.",
        ),
        "channel.identity_unusable": Code(
            Unavailable,
            "A certificate, its private key or the shared secret cannot be used.",
            "Mend the file that is named: PEM for certificates and keys, 64 hex digits as secret.",
        ),
        "channel.secret_unsafe": Code(
            Unavailable,
            "A file that holds a secret is missing, or others than its user can get at it.",
            "Make it a plain file of the user that runs this, with mode 0600.",
        ),
        "channel.address_unavailable": Code(
            Unavailable,
            "Nothing can listen at this address.",
            "End what listens there, or choose another address of this machine.",
        ),
        "misuse.tls_address": Code(
            Misuse, "This is no address of a worker.", "Write it as tls://host:port."
        ),
        "misuse.socket_path": Code(
            Misuse,
            "This is no path of a socket: it is relative, abstract or too long.",
            "Give an absolute path of at most 100 bytes in the file system.",
        ),
        "misuse.peer_user": Code(
            Misuse,
            "No user can be known by this number.",
            "Give the id of the user that the peer runs as, and never that of nobody.",
        ),
    }
)
