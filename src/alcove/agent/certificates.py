"""The node's certificates from ring0: the signing request, the wait for its approval, and when to renew.

The key is generated here and never leaves the node. The subject is the node's: ring0 automatically approves
requests of a node for itself, and rejects requests for another subject.
"""

from __future__ import annotations

import asyncio
import base64
import os
import secrets
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from msgspec import Struct

from alcove.api import objects
from alcove.api.ids import SYSTEM
from alcove.api.node_api import NODE_GROUP, NODE_USER_PREFIX
from alcove.client.client import Client
from alcove.client.resources import CERTIFICATE_SIGNING_REQUESTS

POLL_SECONDS = 0.2
SIGNED_SECONDS_MAX = 60.0
RETRY_SECONDS = 5.0
RETRY_SECONDS_MAX = 600.0
CHECK_SECONDS = 60.0
"""Long waits check the clock this often: it may be set, and the machine may be suspended."""
EARLIEST, LATEST = 0.7, 0.9
"""The fraction of a certificate's lifetime after which it is renewed: a random point between, so that nodes
do not all renew at the same time."""


class NotSigned(Exception):
    """Ring0 denied the request, or did not sign it in time; the message says which."""


class CertificatePurpose(Struct, frozen=True):
    signer: str
    usage: str
    prefix: str
    """Prefix of the names of requests."""


CLIENT = CertificatePurpose("kubernetes.io/kube-apiserver-client-kubelet", "client auth", "node-client")
SERVING = CertificatePurpose("kubernetes.io/kubelet-serving", "server auth", "node-serving")


class CertificatePair(Struct, frozen=True):
    certificate_pem: bytes
    key_pem: bytes


def subject_of(node: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, f"tenant:{SYSTEM}"),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, NODE_GROUP),
            x509.NameAttribute(NameOID.COMMON_NAME, f"{NODE_USER_PREFIX}{node}"),
        ]
    )


def renewal_time(certificate: x509.Certificate, chance: float) -> float:
    """When to renew the certificate, in epoch seconds. `chance`, from 0 to 1, selects the point."""
    start = certificate.not_valid_before_utc.timestamp()
    lifetime = certificate.not_valid_after_utc.timestamp() - start
    return start + lifetime * (EARLIEST + (LATEST - EARLIEST) * chance)


async def ask(
    client: Client, node: str, purpose: CertificatePurpose, names: Sequence[x509.GeneralName] = ()
) -> CertificatePair:
    """Requests a certificate for a new key. Raises ApiError, ClientError and NotSigned."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = f"{purpose.prefix}-{node}-{secrets.token_hex(4)}"
    spec = {
        "signerName": purpose.signer,
        "usages": ["digital signature", purpose.usage],
        "request": base64.b64encode(signing_request(key, node, names)).decode(),
    }
    await client.create(SYSTEM, CERTIFICATE_SIGNING_REQUESTS, {"metadata": {"name": name}, "spec": spec})
    certificate = await _signed(client, name)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return CertificatePair(certificate, pem)


def signing_request(key: ec.EllipticCurvePrivateKey, node: str, names: Sequence[x509.GeneralName]) -> bytes:
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject_of(node))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


async def _signed(client: Client, name: str) -> bytes:
    for _ in range(int(SIGNED_SECONDS_MAX / POLL_SECONDS)):
        request = await client.get(SYSTEM, CERTIFICATE_SIGNING_REQUESTS, name)
        for condition in objects.get(request, "status", "conditions", default=()):
            if condition.get("type") in ("Denied", "Failed"):
                raise NotSigned(
                    f'certificate signing request "{name}" was denied: {condition.get("message", "")}'
                )
        if certificate := objects.get(request, "status", "certificate"):
            return base64.b64decode(certificate)
        await asyncio.sleep(POLL_SECONDS)
    raise NotSigned(f'certificate signing request "{name}" was not signed in time; see `kubectl get csr`')


async def until(when: float, clock: Callable[[], float]) -> None:
    """Returns when the clock shows `when`, also if it is set meanwhile or the machine is suspended."""
    while (remaining := when - clock()) > 0:  # noqa: ASYNC110 - there is no event for a clock that is set
        await asyncio.sleep(min(remaining, CHECK_SECONDS))


def replace_file(path: Path, content: bytes) -> None:
    """Replaces the file atomically, also if the power fails, with mode 0600. Raises OSError."""
    path = path.resolve()  # Replaces the target of a symbolic link, not the link.
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
