"""The node's serving certificate: asked of ring0, kept on disk, renewed before it ends.

The key is made here and never leaves. The certificate's subject is the node's: by it API servers know whom they talk to.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from alcove.api import objects
from alcove.api.errors import ApiError
from alcove.api.ids import SYSTEM
from alcove.api.nodeapi import NODE_GROUP, NODE_USER_PREFIX
from alcove.client.client import Client
from alcove.client.errors import ClientError
from alcove.client.resources import CERTIFICATE_SIGNING_REQUESTS

log = logging.getLogger(__name__)

SIGNER = "kubernetes.io/kubelet-serving"
POLL_SECONDS = 0.2
SIGNED_SECONDS_MAX = 60.0
LOOK_SECONDS = 600.0
RETRY_SECONDS = 5.0


class NotSigned(Exception):
    pass


class ServingCertificate:
    def __init__(self, folder: Path, node: str, address: str, client: Client) -> None:
        self.certificate = folder / "serving.crt"
        self.key = folder / "serving.key"
        self._node = node
        self._address = address
        self._client = client

    async def ready(self) -> None:
        """Waits until there is one that is good for a while."""
        while self._is_due():
            try:
                await self._renew()
            except (ApiError, ClientError, NotSigned) as error:
                log.warning("no serving certificate yet", extra={"node": self._node, "error": str(error)})
                await asyncio.sleep(RETRY_SECONDS)

    async def keep(self, renewed: Callable[[], None]) -> None:
        """Until cancelled; `renewed` is called each time there is another."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._is_due():
                await self.ready()
                renewed()

    def _is_due(self) -> bool:
        """There is none, it is another node's, or two thirds of its time are over."""
        try:
            found = x509.load_pem_x509_certificate(self.certificate.read_bytes())
            serialization.load_pem_private_key(self.key.read_bytes(), None)
        except (OSError, ValueError):
            return True
        if found.subject != _subject(self._node):
            return True
        begins, ends = found.not_valid_before_utc, found.not_valid_after_utc
        return datetime.now(UTC) >= begins + (ends - begins) * 2 / 3

    async def _renew(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = f"node-serving-{self._node}-{secrets.token_hex(4)}"
        spec = {
            "signerName": SIGNER,
            "usages": ["digital signature", "server auth"],
            "request": base64.b64encode(self._request(key)).decode(),
        }
        await self._client.create(
            SYSTEM, CERTIFICATE_SIGNING_REQUESTS, {"metadata": {"name": name}, "spec": spec}
        )
        certificate = await self._signed(name)
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        _write(self.key, pem)
        _write(self.certificate, certificate)

    async def _signed(self, name: str) -> bytes:
        for _ in range(int(SIGNED_SECONDS_MAX / POLL_SECONDS)):
            found = await self._client.get(SYSTEM, CERTIFICATE_SIGNING_REQUESTS, name)
            if certificate := objects.get(found, "status", "certificate"):
                return base64.b64decode(certificate)
            await asyncio.sleep(POLL_SECONDS)
        raise NotSigned(f"nobody signed the request {name}")

    def _request(self, key: ec.EllipticCurvePrivateKey) -> bytes:
        names = [x509.DNSName(self._node), x509.IPAddress(ip_address(self._address))]
        builder = x509.CertificateSigningRequestBuilder().subject_name(_subject(self._node))
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _subject(node: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, f"tenant:{SYSTEM}"),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, NODE_GROUP),
            x509.NameAttribute(NameOID.COMMON_NAME, f"{NODE_USER_PREFIX}{node}"),
        ]
    )


def _write(path: Path, content: bytes) -> None:
    """At once or not at all, for this user's eyes alone."""
    draft = path.with_suffix(".new")
    draft.touch(mode=0o600)
    draft.write_bytes(content)
    draft.rename(path)
