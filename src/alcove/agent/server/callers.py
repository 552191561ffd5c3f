"""Who may call a node: API servers, each for the pods of its own plane, by their client certificates.

The home plane's API servers and a dedicated tenant's have authorities of their own. All of them can make any
name up; which authority signed tells them apart.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import NameOID

from alcove.api.errors import Forbidden
from alcove.api.node_api import API_SERVER_GROUP, API_SERVER_USER
from alcove.client.keys import PlaneId

_ORGANIZATION = "tenant:system"


class AuthorizedCallers:
    """The server's side of TLS, and the planes that may call."""

    def __init__(self, pair: Path) -> None:
        """This node's serving certificate with its key. Raises OSError, ssl.SSLError."""
        self._pair = pair
        self._authorities: dict[PlaneId, x509.Certificate] = {}
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_3
        self.context.verify_mode = ssl.CERT_REQUIRED
        self.context.set_alpn_protocols(["http/1.1"])
        self.reload()

    def reload(self) -> None:
        """Shows what is in the file now: the certificate was renewed."""
        self.context.load_cert_chain(self._pair)

    def trust(self, plane: PlaneId, authority_pem: bytes) -> None:
        """Lets the plane's API servers in, from the next connection on."""
        self.context.load_verify_locations(cadata=authority_pem.decode("ascii"))
        self._authorities[plane] = x509.load_pem_x509_certificate(authority_pem)

    def distrust(self, plane: PlaneId) -> None:
        self._authorities.pop(plane, None)

    def plane_of(self, der: bytes) -> PlaneId:
        """Whose API server shows this certificate, which the handshake found good. Raises Forbidden."""
        certificate = x509.load_der_x509_certificate(der)
        if _names(certificate) == ([_ORGANIZATION], [API_SERVER_GROUP], [API_SERVER_USER]):
            for plane, authority in self._authorities.items():
                if _is_issued_by(certificate, authority):
                    return plane
        raise Forbidden("only API servers may call a node")


def _names(certificate: x509.Certificate) -> tuple[list[object], list[object], list[object]]:
    kinds = (NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME, NameOID.COMMON_NAME)
    first, second, third = (
        [each.value for each in certificate.subject.get_attributes_for_oid(kind)] for kind in kinds
    )
    return list(first), list(second), list(third)


def _is_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True
