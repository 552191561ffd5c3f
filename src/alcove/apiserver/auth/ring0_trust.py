"""What a dedicated plane's API server trusts of ring0: two more authorities beside its own.

    ring0-ca.crt    signs the client certificates of ring0's components and administrators
    node-ca.crt     signs the serving certificates of nodes' agents

Ring0's components use their certificates on every plane: a plane never sees the keys. Ring0's authority also signs
for the users of shared tenants, who have no rights here: of its certificates only those of ring0 are accepted.
"""

from pathlib import Path

from cryptography import x509
from msgspec import Struct

from alcove.api.errors import Unauthorized
from alcove.api.ids import SYSTEM
from alcove.apiserver.auth import keyfiles
from alcove.apiserver.auth.certificates import issued_by, load_certificate
from alcove.apiserver.auth.keyfiles import KeyFileError
from alcove.apiserver.identity import Identity

CLIENT_CA = "ring0-ca.crt"
NODE_CA = "node-ca.crt"


class Ring0Trust(Struct, frozen=True):
    client_authority: x509.Certificate
    client_authority_pem: bytes
    node_authority_pem: bytes

    @classmethod
    def load(cls, directory: Path) -> "Ring0Trust":
        """Raises KeyFileError."""
        clients, nodes = (_read(directory / name) for name in (CLIENT_CA, NODE_CA))
        load_certificate(directory / NODE_CA, nodes)
        return cls(load_certificate(directory / CLIENT_CA, clients), clients, nodes)

    def check(self, der: bytes, identity: Identity) -> None:
        """Raises Unauthorized for a certificate of ring0's authority that is not of ring0."""
        if identity.tenant != SYSTEM and issued_by(
            x509.load_der_x509_certificate(der), self.client_authority
        ):
            raise Unauthorized(
                "Unauthorized: the client certificate is of ring0's authority, but not ring0's; get one from this server"
            )


def _read(path: Path) -> bytes:
    data = keyfiles.read(path)
    if data is None:
        raise KeyFileError(f"{path} does not exist; a dedicated API server needs it to trust ring0")
    return data
