"""Certificates of pods in projected volumes: the node creates a key, requests a certificate for it with a
PodCertificateRequest, and renews it when the signer says so.

A signer is a program of the tenant and may answer at any time, or never: until then the pod waits (FailedMount). A
certificate that cannot be renewed stays in the volume.
"""

import asyncio
import base64
import logging
from collections.abc import Callable, Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from msgspec import Struct

from alcove.agent.lookup import ObjectLookup
from alcove.agent.podkey import PodKey
from alcove.agent.tenant_threads import TenantThreads
from alcove.agent.volumes import files
from alcove.agent.volumes.errors import VolumeFailure
from alcove.agent.volumes.files import Files
from alcove.api import meta, objects
from alcove.api.errors import ApiError
from alcove.api.kinds.certificates.pem import blocks
from alcove.api.kinds.certificates.podrequests import EXPIRATION_SECONDS_DEFAULT
from alcove.api.objects import Object
from alcove.client.errors import ClientError

CERTIFICATES_MAX = 32
"""Certificates in the volumes of one pod: each is a key that the node creates and a request that it follows."""
PAUSES_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Before the node looks for the first answer again: most signers answer at once. Later, the pod's worker retries."""
CLOCK_SECONDS = 60.0

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
log = logging.getLogger(__name__)


class PodCertificate(Struct, frozen=True):
    key: str
    chain: str
    made_at: float
    renew_at: float

    def is_fresh(self, now: float) -> bool:
        # If `made_at` is in the future, the clock was set back.
        return self.made_at - CLOCK_SECONDS <= now < self.renew_at

    def projected(self, source: Object, mode: int, user: int) -> Files:
        """The files that a PodCertificateProjection names."""
        contents = {
            "credentialBundlePath": self.key + self.chain,
            "keyPath": self.key,
            "certificateChainPath": self.chain,
        }
        found: Files = {}
        for field, text in contents.items():
            if path := source.get(field):
                found |= files.file(path, text.encode(), mode, user)
        return found


class _Requested(Struct, frozen=True):
    """A request that has no certificate yet."""

    key: str
    request: str
    """The name of the PodCertificateRequest."""


class PodCertificates:
    def __init__(
        self,
        lookup: ObjectLookup,
        clock: Callable[[], float],
        node: str,
        threads: TenantThreads,
        pauses: Sequence[float] = PAUSES_SECONDS,
    ) -> None:
        self._lookup = lookup
        self._clock = clock
        self._node = node
        self._threads = threads
        self._pauses = pauses
        self._requested: dict[PodKey, dict[str, _Requested]] = {}
        """By pod, and by volume and source. Lost when the agent restarts: it requests again."""

    async def current(
        self, key: PodKey, pod: Object, slot: str, source: Object, known: PodCertificate | None
    ) -> PodCertificate:
        """The certificate for a volume's `podCertificate`: the known one until it is to be renewed. `slot` names volume and
        source. Raises VolumeFailure, ApiError and ClientError if there is none yet."""
        if known is None:
            return await self._issued(key, pod, slot, source, self._pauses)
        if known.is_fresh(self._clock()):
            return known
        try:
            return await self._issued(key, pod, slot, source, (0.0,))
        except (VolumeFailure, ApiError, ClientError) as error:
            extra = {"pod": str(key), "error": str(error)}
            log.warning("certificate of a pod is not renewed yet; retrying", extra=extra)
            return known

    def forget(self, key: PodKey) -> None:
        self._requested.pop(key, None)

    async def _issued(
        self, key: PodKey, pod: Object, slot: str, source: Object, pauses: Sequence[float]
    ) -> PodCertificate:
        requested = self._requested.get(key, {}).get(slot)
        if requested is None:
            requested = await self._request(key, pod, source)
            self._requested.setdefault(key, {})[slot] = requested
        shown = f'podcertificaterequest "{requested.request}"'
        for pause in pauses:
            await asyncio.sleep(pause)
            answer = await self._lookup.certificate_request(key, requested.request)
            if answer is None:
                del self._requested[key][slot]
                raise VolumeFailure(f"{shown} was deleted before the signer answered it")
            if (issued := _answer(answer, shown)) is not None:
                del self._requested[key][slot]
                return _certificate(requested.key, issued, shown, self._clock())
        raise VolumeFailure(f'{shown} waits for signer "{source.get("signerName", "")}"')

    async def _request(self, key: PodKey, pod: Object, source: Object) -> _Requested:
        account_name = objects.get(pod, "spec", "serviceAccountName", default="default")
        account = await self._lookup.service_account(key, account_name)
        if account is None:
            raise VolumeFailure(f'serviceaccount "{account_name}" not found')
        made = await self._threads.run(key.tenant_key, _key_and_request, source.get("keyType") or "")
        spec: Object = {
            "signerName": source.get("signerName") or "",
            "podName": key.name,
            "podUID": key.uid,
            "serviceAccountName": account_name,
            "serviceAccountUID": account["metadata"]["uid"],
            "nodeName": self._node,
            "nodeUID": await self._lookup.node_uid(self._node),
            "maxExpirationSeconds": source.get("maxExpirationSeconds") or EXPIRATION_SECONDS_DEFAULT,
            "stubPKCS10Request": made.request,
        }
        if annotations := source.get("userAnnotations"):
            spec["unverifiedUserAnnotations"] = annotations
        created = await self._lookup.request_certificate(key, spec)
        return _Requested(made.key, objects.name(created))


def _answer(request: Object, shown: str) -> Object | None:
    """The status of an issued request; None if it is not answered. Raises VolumeFailure if it was refused."""
    status: Object = request.get("status") or {}
    for condition in status.get("conditions") or ():
        match condition.get("type"):
            case "Issued":
                return status
            case "Denied" | "Failed" as outcome:
                reason, message = condition.get("reason") or "", condition.get("message") or ""
                raise VolumeFailure(f"{shown}: {outcome.lower()} by the signer: {reason}: {message}")
    return None


def _certificate(key: str, issued: Object, shown: str, now: float) -> PodCertificate:
    """The certificate of a status. Raises VolumeFailure: a dedicated tenant's server may have checked less."""
    try:
        renew_at = meta.parse_time(issued["beginRefreshAt"])
        # Only the certificates, without texts in between.
        parts = [
            each.text for each in blocks(issued["certificateChain"].encode()) if each.kind == "CERTIFICATE"
        ]
        return PodCertificate(key, b"".join(parts).decode(), now, renew_at)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise VolumeFailure(f"{shown} has an answer that cannot be read") from error


def _key_and_request(key_type: str) -> _Requested:
    """A new key in PEM, and the request that proves it, in base64. Raises VolumeFailure."""
    match key_type:
        case "RSA3072" | "RSA4096":
            key: PrivateKey = rsa.generate_private_key(65537, int(key_type[3:]))
        case "ECDSAP256":
            key = ec.generate_private_key(ec.SECP256R1())
        case "ECDSAP384":
            key = ec.generate_private_key(ec.SECP384R1())
        case "ECDSAP521":
            key = ec.generate_private_key(ec.SECP521R1())
        case "ED25519":
            key = ed25519.Ed25519PrivateKey.generate()
        case _:
            raise VolumeFailure(f"keys of type {key_type!r} are not supported on this node")
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, algorithm)
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return _Requested(
        text.decode(), base64.b64encode(request.public_bytes(serialization.Encoding.DER)).decode()
    )
