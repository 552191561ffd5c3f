"""Certificates that a node asks of ring0, in its own name: the request, the wait for it, and when the next is due.

The key is made here and never leaves the node. The subject is the node's: ring0 approves by itself what a node asks
for itself, and refuses what it asks for another.
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
LOOK_SECONDS = 60.0
"""Waits are cut into pieces: the clock may be set, and the machine may have slept."""
EARLIEST, LATEST = 0.7, 0.9
"""Of a certificate's life, when the next one is asked for: somewhere between, so that nodes do not all ask at once."""


class NotSigned(Exception):
    """Ring0 did not sign, in time or at all; the message says which."""


class CertificatePurpose(Struct, frozen=True):
    signer: str
    usage: str
    prefix: str
    """Of the requests' names."""


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
    """When to ask for the next, in epoch seconds. `chance`, from 0 to 1, picks the point."""
    begins = certificate.not_valid_before_utc.timestamp()
    lives = certificate.not_valid_after_utc.timestamp() - begins
    return begins + lives * (EARLIEST + (LATEST - EARLIEST) * chance)


async def ask(
    client: Client, node: str, purpose: CertificatePurpose, names: Sequence[x509.GeneralName] = ()
) -> CertificatePair:
    """A new key with its certificate. Raises ApiError, ClientError, NotSigned."""
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
        found = await client.get(SYSTEM, CERTIFICATE_SIGNING_REQUESTS, name)
        for condition in objects.get(found, "status", "conditions", default=()):
            if condition.get("type") in ("Denied", "Failed"):
                raise NotSigned(f"the request {name} was refused: {condition.get('message', '')}")
        if certificate := objects.get(found, "status", "certificate"):
            return base64.b64decode(certificate)
        await asyncio.sleep(POLL_SECONDS)
    raise NotSigned(f"nobody signed the request {name}; `kubectl get csr` tells more")


async def until(when: float, clock: Callable[[], float]) -> None:
    """Returns when the clock shows `when`, also after it was set or stood still."""
    while (left := when - clock()) > 0:  # noqa: ASYNC110 - nobody tells of a clock that is set
        await asyncio.sleep(min(left, LOOK_SECONDS))


def replace_file(path: Path, content: bytes) -> None:
    """At once or not at all, also when the power goes; for this user's eyes alone. Raises OSError."""
    path = path.resolve()  # A link stays one.
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
