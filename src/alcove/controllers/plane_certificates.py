"""What the plane controller needs of certificates; made by the process, since controllers know nothing of X.509."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from alcove.api.ids import TenantId

CA_CERTIFICATE, CA_KEY, SIGNING_KEY = "ca.crt", "ca.key", "sa.key"
RING0_CA, NODE_CA = "ring0-ca.crt", "node-ca.crt"
RING0_TOKEN_KEYS = "sa.pub"
"""Public keys of the service account tokens that ring0's API server has issued, on the plane of a tenant that moved there."""
OWN_KEYS = (CA_CERTIFICATE, CA_KEY, SIGNING_KEY)
"""The plane's own keys. The files of its directory are named like these entries of its Secret."""

PlaneKeys = Mapping[str, str]
"""Keys and certificates in PEM, by file name."""


class PlaneUser(Struct, frozen=True):
    tenant: TenantId
    name: str
    groups: tuple[str, ...] = ()


class IssuedKubeconfig(Struct, frozen=True):
    text: str
    renew_at: float
    """When a new one is due, epoch seconds."""


class PlaneCertificates(Struct, frozen=True):
    new_keys: Callable[[TenantId], dict[str, str]]
    """A new authority and a key that signs service account tokens."""
    are_valid: Callable[[PlaneKeys], bool]
    """Whether the keys are complete, belong together and have not expired."""
    public_keys: Callable[[PlaneKeys], str]
    """The public key of service account tokens, in PEM."""
    kubeconfig: Callable[[PlaneKeys, str, PlaneUser], IssuedKubeconfig]
    """For a user, with a new client certificate; the second argument is the server's URL."""
