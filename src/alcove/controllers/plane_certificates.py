"""What the plane controller needs of certificates; made by the process, since controllers know nothing of X.509."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from alcove.api.ids import TenantId

CA_CERTIFICATE, CA_KEY, SIGNING_KEY = "ca.crt", "ca.key", "sa.key"
RING0_CA, NODE_CA = "ring0-ca.crt", "node-ca.crt"
RING0_TOKEN_KEYS = "sa.pub"
"""Public keys of the service account tokens that ring0's API server has issued, on the plane of a tenant that moved there."""
CA_BEFORE = "ca-before.crt"
"""The certificate of the authority before: certificates that it has signed are accepted until it expires."""
ETCD_CA, ETCD_CERTIFICATE, ETCD_KEY = "etcd-ca.crt", "etcd.crt", "etcd.key"
"""Of a plane with etcd: both sides of the connection have this certificate, and its authority has signed no other one."""
ETCD_NAME = "etcd"
"""The server's name in it."""
ETCD_KEYS = (ETCD_CA, ETCD_CERTIFICATE, ETCD_KEY)
OWN_KEYS = (CA_CERTIFICATE, CA_KEY, SIGNING_KEY, CA_BEFORE, *ETCD_KEYS)
"""The plane's own keys. The files of its directory are named like these entries of its Secret."""

PlaneKeys = Mapping[str, str]
"""Keys and certificates in PEM, by file name."""


def authorities(keys: PlaneKeys) -> str:
    """Certificates, in PEM, by which the plane's API servers are verified, old and new ones."""
    return keys[CA_CERTIFICATE] + keys.get(CA_BEFORE, "")


class PlaneUser(Struct, frozen=True):
    tenant: TenantId
    name: str
    groups: tuple[str, ...] = ()


class IssuedKubeconfig(Struct, frozen=True):
    text: str
    renew_at: float
    """When a new one is due, epoch seconds."""


class PlaneCertificates(Struct, frozen=True):
    own_keys: Callable[[TenantId, PlaneKeys, bool], dict[str, str]]
    """The given keys; with new ones in place of those that are missing, do not belong together or expire soon, and with
    those of etcd if the third argument says so."""
    encryption: Callable[[], str]
    """A new EncryptionConfiguration, with a new key."""
    public_keys: Callable[[PlaneKeys], str]
    """The public key of service account tokens, in PEM."""
    kubeconfig: Callable[[PlaneKeys, str, PlaneUser], IssuedKubeconfig]
    """For a user, with a new client certificate; the second argument is the server's URL."""
