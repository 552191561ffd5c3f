"""The configuration of an API server, and what its process or processes prepare with it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from alcove.api.destinations import Network
from alcove.api.ids import SYSTEM
from alcove.apiserver.admission.order import AdmissionSettings
from alcove.apiserver.auth import keyfiles
from alcove.apiserver.auth.certificates import CertificateAuthority
from alcove.apiserver.auth.ring0_trust import Ring0Trust
from alcove.apiserver.auth.subjects import Subject
from alcove.apiserver.auth.tls import ServerCertificate
from alcove.apiserver.buffers import BufferLimits
from alcove.apiserver.identity import MASTERS
from alcove.apiserver.services import STORED_BYTES_PER_TENANT_MAX
from alcove.apiserver.watch_hub import WATCHES_PER_TENANT_MAX
from alcove.cli.kubeconfig import KubeconfigCertificate, render
from alcove.http.limits import LIMITS
from alcove.store import encryption_config
from alcove.store.compaction import RetentionPolicy
from alcove.store.encryption import Encryption
from alcove.store.encryption_config import ENCRYPTION_FILE

CA_BEFORE = "ca-before.crt"
"""Among the keys of a dedicated plane: the certificate of the authority before."""


class ApiServerConfig(Struct, frozen=True, kw_only=True):
    data: Path
    """Persistent state: the store, keys and certificates."""
    host: str = "127.0.0.1"
    port: int = 6443
    hosts: tuple[str, ...] = ()
    """Further names and addresses in the serving certificate."""
    listen: tuple[str, ...] = ()
    """Further local addresses to listen on, at the same port."""
    etcd: tuple[str, ...] = ()
    """Endpoints (`host:port`) of the cluster's etcd. Empty for the embedded store."""
    etcd_pki: Path | None = None
    """Directory with ca.crt, client.crt and client.key for etcd. None for no TLS."""
    etcd_server_name: str = ""
    """In etcd's certificates, if it is not the name or address of the endpoint."""
    encryption: Path | None = None
    """An EncryptionConfiguration file. None for `encryption.yaml` in `data`, if it exists."""
    keys: Path | None = None
    """Of a dedicated plane: a directory with its authority, its signing key, and ring0's authorities, which is only
    read. None to keep keys in `data`."""
    is_closed: bool = False
    """A dedicated plane begins closed: ring0 moves the tenant's objects there."""
    tokens: Path | None = None
    """A file of static bootstrap tokens."""
    authentication: Path | None = None
    """An AuthenticationConfiguration file: the OIDC issuers of ring0's users."""
    admission: AdmissionSettings = AdmissionSettings()
    history: RetentionPolicy = RetentionPolicy()
    """How much history is kept for watches to resume from."""
    buffers: BufferLimits = BufferLimits()
    """How many bytes are buffered for tenants."""
    connections_per_tenant_max: int = LIMITS.connections_per_group_max
    watches_per_tenant_max: int = WATCHES_PER_TENANT_MAX
    stored_bytes_per_tenant_max: int = STORED_BYTES_PER_TENANT_MAX
    webhook_networks: tuple[Network, ...] = ()
    """Private networks in which tenants' webhooks are allowed."""

    @property
    def store(self) -> Path:
        """The file of the embedded store."""
        return self.data / "store.db"

    @property
    def pki(self) -> Path:
        """The directory of certificates that the server issues for itself."""
        return self.data / "pki"

    def url(self, port: int) -> str:
        return f"https://{self.host}:{port}"

    def load_encryption(self) -> Encryption:
        """Raises StoreOpenError."""
        default = self.data / ENCRYPTION_FILE
        path = self.encryption or (default if default.exists() else None)
        return Encryption() if path is None else encryption_config.load(path)


class ServerKeys(Struct, frozen=True):
    """The server's authority and certificate, created if they do not exist."""

    authority: CertificateAuthority
    ring0: Ring0Trust | None
    """On a dedicated plane."""
    serving: ServerCertificate

    @classmethod
    def open(cls, config: ApiServerConfig, clock: Callable[[], float]) -> ServerKeys:
        """Raises KeyFileError."""
        keys = config.keys or config.pki
        authority = CertificateAuthority.open(keys, clock())
        ring0 = Ring0Trust.load(keys) if config.keys else None
        # Certificates of the authority that this one has replaced stay valid.
        further = ring0.client_authority_pem + (keyfiles.read(keys / CA_BEFORE) or b"") if ring0 else b""
        serving = ServerCertificate(config.pki, authority, (config.host, *config.hosts), clock, further)
        return cls(authority, ring0, serving)


def write_admin_kubeconfig(config: ApiServerConfig, url: str, authority: CertificateAuthority) -> Path:
    """Writes a kubeconfig of ring0's administrator to the data directory, readable by its owner only."""
    subject = Subject(SYSTEM, "admin", (MASTERS,))
    issued = authority.client(subject, time.time())
    credential = KubeconfigCertificate(issued.certificate_pem, issued.key_pem)
    path = config.data / "admin.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(render(url, authority.certificate_pem, SYSTEM, "admin", credential))
    return path
