"""What a pod's network is, as the agent's other parts see it, and the one thing that can be wrong with it.

NetworkError
└── NetworkNotReady   the pod cannot be attached yet: try again later; the message says what it waits for
"""

from msgspec import Struct

DOMAIN = "cluster.local"


class NetworkError(Exception):
    pass


class NetworkNotReady(NetworkError):
    pass


class Attachment(Struct, frozen=True):
    namespace_path: str
    """Of the pod's network namespace; empty: the node's own, or (on a hollow node) none at all."""
    addresses: tuple[str, ...]
    """The pod's own first."""
    nameservers: tuple[str, ...] = ()
    """The network's DNS; empty: those of the node."""
    domain: str = DOMAIN
    mtu: int = 0
