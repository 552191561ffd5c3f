"""A pod's network attachment as the agent's other parts see it, and its errors.

NetworkError
└── NetworkNotReady   the pod cannot be attached yet: retry later; the message says what it waits for
"""

from msgspec import Struct

DOMAIN = "cluster.local"


class NetworkError(Exception):
    pass


class NetworkNotReady(NetworkError):
    pass


class Attachment(Struct, frozen=True):
    namespace_path: str
    """Path of the pod's network namespace; empty for the host network and on hollow nodes."""
    addresses: tuple[str, ...]
    """The pod's addresses, that of the first interface first."""
    nameservers: tuple[str, ...] = ()
    """The network's DNS; empty if the pod uses the node's nameservers."""
    domain: str = DOMAIN
    mtu: int = 0
