"""Authentication of callers of a node: API servers, identified by client certificates, each for its plane's
pods.

The home plane and every dedicated plane have separate certificate authorities. An authority can issue a
certificate with any name, so the plane is determined by the authority that signed.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import NameOID
from msgspec import Struct

from alcove.api.errors import Forbidden
from alcove.api.node_api import API_SERVER_GROUP, API_SERVER_USER
from alcove.client.keys import PlaneId

_ORGANIZATION = "tenant:system"


_Subject = tuple[list[object], list[object], list[object]]
"""Organizations, organizational units, common names."""


class _Callers(Struct, frozen=True):
    """The API servers of a plane."""

    authorities: Sequence[x509.Certificate]
    """The current one, and the one before."""
    name: str
    """Of a foreign plane's; empty for Alcove's own."""

    def include(self, subject: _Subject) -> bool:
        if self.name:
            return subject[2] == [self.name]
        return subject == ([_ORGANIZATION], [API_SERVER_GROUP], [API_SERVER_USER])

    def vouch_for(self, certificate: x509.Certificate) -> bool:
        return any(_is_issued_by(certificate, each) for each in self.authorities)


class AuthorizedCallers:
    """The TLS server context and the certificate authorities of the planes that may call."""

    def __init__(self, pair: Path) -> None:
        """`pair` is the path of this node's serving certificate and key. Raises OSError, ssl.SSLError."""
        self._pair = pair
        self._authorities: dict[PlaneId, _Callers] = {}
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_3
        self.context.verify_mode = ssl.CERT_REQUIRED
        self.context.set_alpn_protocols(["http/1.1"])
        self.reload()

    def reload(self) -> None:
        """Loads the certificate from its file again, after it was renewed."""
        self.context.load_cert_chain(self._pair)

    def trust(self, plane: PlaneId, authority_pem: bytes, name: str = "") -> None:
        """Accepts the plane's API servers from the next connection on; those of a foreign plane have the common name
        `name`, and nothing else that identifies them."""
        self.context.load_verify_locations(cadata=authority_pem.decode("ascii"))
        self._authorities[plane] = _Callers(x509.load_pem_x509_certificates(authority_pem), name)

    def distrust(self, plane: PlaneId) -> None:
        self._authorities.pop(plane, None)

    def plane_of(self, der: bytes) -> PlaneId:
        """The plane of the API server that presented this certificate, which TLS has verified. Raises
        Forbidden."""
        certificate = x509.load_der_x509_certificate(der)
        subject = _subject(certificate)
        planes = [
            plane
            for plane, callers in self._authorities.items()
            if callers.include(subject) and callers.vouch_for(certificate)
        ]
        # Two foreign planes may have been joined with one authority: whose pods would it be asking for?
        if len(planes) != 1:
            raise Forbidden("only API servers may call a node")
        return planes[0]

    def is_foreign(self, plane: PlaneId) -> bool:
        """Whether its API servers are Kubernetes' own, and call the node as they call kubelets."""
        callers = self._authorities.get(plane)
        return callers is not None and bool(callers.name)


def _subject(certificate: x509.Certificate) -> _Subject:
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
