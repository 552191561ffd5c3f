"""CertificateSigningRequests: what may be requested, who may approve, and the signature.

A request is created in its requester's tenant and its subject must name that tenant, otherwise it is rejected
at creation; nothing is signed for another tenant. Certificates with the group `system:masters` are never
signed. The API server holds the authority's key, so the signers `kubernetes.io/…` sign in the same write that
approves; other signers are external programs. Node certificates are signed in ring0 only; those for serving only
for the node's own name and addresses, by an authority that nobody but API servers trusts.
"""

import base64
from collections.abc import Callable
from datetime import timedelta

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID
from msgspec import Struct

from alcove.api import meta, objects
from alcove.api.errors import Forbidden
from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.api.objects import Object
from alcove.api.resources import CERTIFICATE_SIGNING_REQUESTS
from alcove.apiserver import node_names
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.auth import certificates, subjects
from alcove.apiserver.auth.certificates import CertificateAuthority, CertificateProfile, PublicKey
from alcove.apiserver.auth.subjects import Subject, SubjectError
from alcove.apiserver.identity import MASTERS, Identity
from alcove.apiserver.rbac.authorize import Access, Authorizer
from alcove.apiserver.rbac.nodes import NODE_USER_PREFIX, NODES_GROUP, node_name
from alcove.apiserver.reader import CacheReader

CLIENT = "kubernetes.io/kube-apiserver-client"
NODE_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
NODE_SERVING = "kubernetes.io/kubelet-serving"
SIGNERS = frozenset((CLIENT, NODE_CLIENT, NODE_SERVING))

LIFETIME_SECONDS_MIN = 600
LIFETIME_SECONDS_MAX = 365 * 24 * 3600

_CLIENT_USAGES = frozenset(("client auth", "digital signature", "key encipherment"))
_SERVING_USAGES = frozenset(("server auth", "digital signature", "key encipherment"))


class SigningError(Exception):
    """The signer does not sign such a request; the message says why."""


class _Plan(Struct, frozen=True):
    """A valid request: the contents of the certificate."""

    key: PublicKey
    subject: Subject
    profile: CertificateProfile


def prepare(csr: Object, identity: Identity) -> None:
    """Sets the requester's identity in a new request, replacing what the client sent."""
    spec = csr.setdefault("spec", {})
    for field in ("username", "uid", "groups", "extra"):
        spec.pop(field, None)
    spec["username"], spec["groups"] = identity.user, list(identity.groups)
    if identity.uid:
        spec["uid"] = identity.uid
    if identity.extra:
        spec["extra"] = {key: list(values) for key, values in identity.extra.items()}


def check(csr: Object, tenant: TenantId) -> None:
    """Checks that a `kubernetes.io/…` signer would sign this request of `tenant`. Raises SigningError."""
    _plan(csr, tenant)


def sign(csr: Object, authority: CertificateAuthority, now: float) -> bytes:
    """The certificate in PEM for a request as it is stored. Raises SigningError."""
    plan = _plan(csr, TenantId(objects.get(csr, "metadata", "tenant", default="")))
    requested_seconds = objects.get(csr, "spec", "expirationSeconds", default=LIFETIME_SECONDS_MAX)
    seconds = min(max(requested_seconds, LIFETIME_SECONDS_MIN), LIFETIME_SECONDS_MAX)
    name = subjects.to_name(plan.subject)
    if objects.get(csr, "spec", "signerName") == NODE_SERVING:
        authority = authority.for_nodes(now)
    return certificates.pem(authority.sign(plan.key, name, plan.profile, now, timedelta(seconds=seconds)))


def check_node_names(csr: Object, reader: CacheReader) -> None:
    """Checks that a node's serving certificate is only for that node. Raises SigningError."""
    if objects.get(csr, "spec", "signerName") != NODE_SERVING:
        return
    request = _parsed(csr)
    node = subjects.from_name(request.subject).user.removeprefix(NODE_USER_PREFIX)
    if message := node_names.refusal(reader, node, _names(request)):
        raise SigningError(message)


def _plan(csr: Object, tenant: TenantId) -> _Plan:
    signer = objects.get(csr, "spec", "signerName", default="")
    if signer not in SIGNERS:
        raise SigningError(f'unknown signer "{signer}"')
    request = _parsed(csr)
    key = _key(request)
    try:
        subject = subjects.from_name(request.subject)
        subjects.to_name(subject)
    except SubjectError as error:
        raise SigningError(f"the request's subject: {error}") from error
    if subject.tenant != tenant:
        raise SigningError("the request's subject names another tenant than the requester's")
    if MASTERS in subject.groups:
        raise SigningError(f"use of the signer {signer} with the group {MASTERS} is not allowed")
    usages = frozenset(objects.get(csr, "spec", "usages", default=()))
    return _Plan(key, subject, _profile(signer, subject, usages, _names(request)))


def _parsed(csr: Object) -> x509.CertificateSigningRequest:
    try:
        pem = base64.b64decode(objects.get(csr, "spec", "request", default=""), validate=True)
        request = x509.load_pem_x509_csr(pem)
        signed = request.is_signature_valid
    except (ValueError, UnsupportedAlgorithm) as error:
        raise SigningError("spec.request is not a valid PEM certificate request") from error
    if not signed:
        raise SigningError("the request is not signed with its own key")
    return request


def _key(request: x509.CertificateSigningRequest) -> PublicKey:
    key = request.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey | rsa.RSAPublicKey):
        raise SigningError("the key must be ECDSA or RSA")
    if isinstance(key, rsa.RSAPublicKey) and key.key_size < 2048:
        raise SigningError(f"an RSA key of {key.key_size} bits is too short; use 2048 or more")
    return key


def _names(request: x509.CertificateSigningRequest) -> list[x509.GeneralName]:
    try:
        return list(request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return []
    except (ValueError, x509.DuplicateExtension) as error:
        raise SigningError("the request's extensions cannot be read") from error


def _profile(
    signer: str, subject: Subject, usages: frozenset[str], names: list[x509.GeneralName]
) -> CertificateProfile:
    serving = signer == NODE_SERVING
    allowed = _SERVING_USAGES if serving else _CLIENT_USAGES
    needed = "server auth" if serving else "client auth"
    if needed not in usages or not usages <= allowed:
        raise SigningError(f'usages must include "{needed}" and be of {", ".join(sorted(allowed))}')
    if signer != CLIENT:
        _check_node(subject, usages)
    if serving:
        if not names or not all(isinstance(name, x509.DNSName | x509.IPAddress) for name in names):
            raise SigningError("subject alternative names must be DNS names and IP addresses, at least one")
        return CertificateProfile([ExtendedKeyUsageOID.SERVER_AUTH], names, "key encipherment" in usages)
    if names:
        raise SigningError("a client certificate has no subject alternative names")
    return CertificateProfile([ExtendedKeyUsageOID.CLIENT_AUTH], (), "key encipherment" in usages)


def _check_node(subject: Subject, usages: frozenset[str]) -> None:
    if subject.tenant != SYSTEM:
        raise SigningError("nodes belong to ring0")
    if subject.groups != (NODES_GROUP,):
        raise SigningError(f"the request's subject must have the one group OU={NODES_GROUP}")
    if not subject.user.startswith(NODE_USER_PREFIX) or subject.user == NODE_USER_PREFIX:
        raise SigningError(f"the request's subject must have a common name CN={NODE_USER_PREFIX}NAME")
    if "digital signature" not in usages:
        raise SigningError('usages must include "digital signature"')


class CertificateRequests(Plugin):
    """Admission of requests: sets the requester, checks the right to approve or sign, and signs on
    approval."""

    def __init__(
        self,
        reader: CacheReader,
        authorizer: Authorizer,
        authority: CertificateAuthority,
        clock: Callable[[], float],
    ) -> None:
        self._reader = reader
        self._authorizer = authorizer
        self._authority = authority
        self._clock = clock

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        if resource != CERTIFICATE_SIGNING_REQUESTS:
            return False
        if operation is Operation.CREATE:
            return not subresource
        return operation is Operation.UPDATE and subresource in ("approval", "status")

    async def admit(self, attributes: Attributes) -> None:
        csr = attributes.obj
        if csr is None:
            return
        if attributes.operation is Operation.CREATE:
            prepare(csr, attributes.identity)
        elif attributes.subresource == "approval":
            self._require(attributes, "approve")
            _sign_approved(csr, self._reader, self._authority, self._clock())

    async def validate(self, attributes: Attributes) -> None:
        csr, old = attributes.obj or {}, attributes.old or {}
        if attributes.operation is Operation.CREATE:
            # Set again, because a webhook after this plugin may have changed it.
            prepare(csr, attributes.identity)
            _check_creatable(attributes, csr, self._reader)
        elif attributes.subresource == "status" and _outcome(csr) != _outcome(old):
            self._require(attributes, "sign")

    def _require(self, attributes: Attributes, verb: str) -> None:
        """Requires the verb on the signer, by its name or by its domain (`example.com/*`). Raises
        Forbidden."""
        signer = objects.get(attributes.old or {}, "spec", "signerName", default="")
        domain = signer.partition("/")[0]
        for name in (signer, f"{domain}/*"):
            access = Access(verb, attributes.tenant, CERTIFICATE_SIGNING_REQUESTS.group, "signers", name=name)
            if self._authorizer.authorize(attributes.identity, access).allowed:
                return
        message = f'user not permitted to {verb} requests with signerName "{signer}"'
        raise Forbidden.of(CERTIFICATE_SIGNING_REQUESTS, attributes.name, message)


def _check_creatable(attributes: Attributes, csr: Object, reader: CacheReader) -> None:
    name = attributes.name or objects.name(csr)
    if attributes.identity.tenant != attributes.tenant:
        message = "a certificate is requested in the requester's own tenant; impersonate a user of this one"
        raise Forbidden.of(CERTIFICATE_SIGNING_REQUESTS, name, message)
    if objects.get(csr, "spec", "signerName") in SIGNERS:
        try:
            check(csr, attributes.tenant)
            _check_requester(csr, attributes.identity)
            check_node_names(csr, reader)
        except SigningError as error:
            raise Forbidden.of(CERTIFICATE_SIGNING_REQUESTS, name, str(error)) from error


def _check_requester(csr: Object, identity: Identity) -> None:
    """A node may request only its own certificates: a compromised one must not get others, even by a wrong
    approval."""
    if not node_name(identity):
        return
    signer, subject = objects.get(csr, "spec", "signerName"), subjects.from_name(_parsed(csr).subject)
    if signer == CLIENT or subject.user != identity.user:
        raise SigningError("a node may request only node certificates in its own name")


def _outcome(csr: Object) -> tuple[object, object]:
    status = csr.get("status") or {}
    return status.get("certificate") or "", status.get("conditions") or []


def _sign_approved(csr: Object, reader: CacheReader, authority: CertificateAuthority, now: float) -> None:
    """Sets the certificate of an approved request of a `kubernetes.io/…` signer, or the Failed condition."""
    status = csr.setdefault("status", {})
    conditions = status.setdefault("conditions", [])
    kinds = {condition.get("type") for condition in conditions if condition.get("status") == "True"}
    if objects.get(csr, "spec", "signerName") not in SIGNERS or status.get("certificate"):
        return
    if "Approved" not in kinds or kinds & {"Denied", "Failed"}:
        return
    try:
        check_node_names(csr, reader)
        status["certificate"] = base64.b64encode(sign(csr, authority, now)).decode("ascii")
    except SigningError as error:
        message, when = str(error), meta.format_time(now)
        conditions.append(
            {
                "type": "Failed",
                "status": "True",
                "reason": "SignerValidationFailure",
                "message": message,
                "lastUpdateTime": when,
                "lastTransitionTime": when,
            }
        )
