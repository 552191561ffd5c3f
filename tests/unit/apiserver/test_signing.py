"""Certificate signing requests: who may request what, and the certificate of an approved request."""

import base64
from datetime import timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from alcove.api.errors import Forbidden
from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.api.kind import Kind, Scope
from alcove.api.objects import Object
from alcove.api.resources import CERTIFICATE_SIGNING_REQUESTS
from alcove.api.schema.node import SchemaNode, SchemaType
from alcove.apiserver import signing
from alcove.apiserver.admission.base import Attributes, Operation
from alcove.apiserver.auth import clientcert
from alcove.apiserver.auth.certificates import CertificateAuthority
from alcove.apiserver.identity import Identity
from alcove.apiserver.rbac.authorize import Authorizer
from alcove.apiserver.rbac.defaults import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from alcove.apiserver.signing import CLIENT, NODE_CLIENT, NODE_SERVING, SigningError
from alcove.testing.memory_reader import MemoryReader

ACME = TenantId("acme")
NOW = 1_800_000_000.0
KEY = ec.generate_private_key(ec.SECP256R1())
O, OU, CN = NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME, NameOID.COMMON_NAME  # noqa: E741
Part = tuple[x509.ObjectIdentifier, str]
ANN: tuple[Part, ...] = ((O, "tenant:acme"), (OU, "dev"), (CN, "ann"))
NODE: tuple[Part, ...] = ((O, "tenant:system"), (OU, "system:nodes"), (CN, "system:node:n1"))
CLIENT_USAGES = ["digital signature", "client auth"]
SERVING_USAGES = ["digital signature", "server auth"]
ADDRESS = x509.IPAddress(ip_address("10.0.0.1"))

AnyKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey


def pem(parts: tuple[Part, ...], *names: x509.GeneralName, key: AnyKey = KEY) -> bytes:
    builder = x509.CertificateSigningRequestBuilder().subject_name(
        x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(key, algorithm).public_bytes(serialization.Encoding.PEM)


def csr(
    request: bytes,
    signer: str = CLIENT,
    usages: list[str] = CLIENT_USAGES,
    tenant: TenantId = ACME,
    **spec: object,
) -> Object:
    return {
        "metadata": {"name": "r", "tenant": tenant},
        "spec": {
            "request": base64.b64encode(request).decode(),
            "signerName": signer,
            "usages": usages,
            **spec,
        },
    }


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority.open(tmp_path_factory.mktemp("pki"), NOW)


def identified(certificate: bytes) -> clientcert.CertificateIdentity:
    loaded = x509.load_pem_x509_certificate(certificate)
    return clientcert.identify(loaded.public_bytes(serialization.Encoding.DER), NOW)


def test_a_client_certificate_is_whom_it_asks_for(authority: CertificateAuthority) -> None:
    found = identified(signing.sign(csr(pem(ANN)), authority, NOW))
    assert (found.tenant, found.user, found.groups) == ("acme", "ann", ("dev", "system:authenticated"))


@pytest.mark.parametrize(
    ("requested_seconds", "seconds"),
    [(None, 365 * 86_400), (3600, 3600), (1, 600), (10**9, 365 * 86_400)],
)
def test_lifetimes(authority: CertificateAuthority, requested_seconds: int | None, seconds: int) -> None:
    request = csr(pem(ANN), expirationSeconds=requested_seconds) if requested_seconds else csr(pem(ANN))
    certificate = x509.load_pem_x509_certificate(signing.sign(request, authority, NOW))
    assert certificate.not_valid_after_utc.timestamp() == NOW + seconds
    assert certificate.not_valid_after_utc - certificate.not_valid_before_utc >= timedelta(minutes=10)


def test_a_nodes_certificates(authority: CertificateAuthority) -> None:
    client = csr(pem(NODE), NODE_CLIENT, CLIENT_USAGES, SYSTEM)
    assert identified(signing.sign(client, authority, NOW)).user == "system:node:n1"
    usages = [*SERVING_USAGES, "key encipherment"]
    serving = csr(pem(NODE, x509.DNSName("n1"), ADDRESS), NODE_SERVING, usages, SYSTEM)
    certificate = x509.load_pem_x509_certificate(signing.sign(serving, authority, NOW))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert list(names) == [x509.DNSName("n1"), ADDRESS]
    assert certificate.extensions.get_extension_for_class(x509.KeyUsage).value.key_encipherment
    with pytest.raises(Exception, match="not for client authentication"):
        identified(signing.sign(serving, authority, NOW))


REFUSED: dict[str, tuple[Object, str]] = {
    "another tenant": (csr(pem(((O, "tenant:other"), (CN, "ann")))), "names another tenant"),
    "ring0": (csr(pem(((O, "tenant:system"), (CN, "ann")))), "names another tenant"),
    "ring0 asks for a tenant": (csr(pem(ANN), tenant=SYSTEM), "names another tenant"),
    "no tenant": (csr(pem(((CN, "ann"),))), "exactly one organization, O=tenant:T"),
    "two tenants": (
        csr(pem(((O, "tenant:acme"), (O, "tenant:system"), (CN, "ann")))),
        "exactly one organization",
    ),
    "stock groups": (csr(pem(((O, "system:masters"), (CN, "ann")))), "exactly one organization"),
    "masters": (csr(pem((*ANN, (OU, "system:masters")))), "group system:masters is not allowed"),
    "no user": (csr(pem(((O, "tenant:acme"),))), "exactly one common name"),
    "another signer": (csr(pem(ANN), "example.com/mine"), "unknown signer"),
    "the legacy signer": (csr(pem(ANN), "kubernetes.io/legacy-unknown"), "unknown signer"),
    "a server's usage": (csr(pem(ANN), usages=[*CLIENT_USAGES, "server auth"]), "usages must include"),
    "an authority's usage": (csr(pem(ANN), usages=[*CLIENT_USAGES, "cert sign"]), "usages must include"),
    "no client usage": (csr(pem(ANN), usages=["digital signature"]), 'must include "client auth"'),
    "names for a client": (csr(pem(ANN, x509.DNSName("kubernetes"))), "no subject alternative names"),
    "a tenant's node": (csr(pem((*ANN[:1], *NODE[1:])), NODE_CLIENT), "nodes belong to ring0"),
    "a node of no group": (
        csr(pem((NODE[0], NODE[2])), NODE_CLIENT, CLIENT_USAGES, SYSTEM),
        "the one group OU=system:nodes",
    ),
    "a node of more groups": (
        csr(pem((*NODE, (OU, "admins"))), NODE_CLIENT, CLIENT_USAGES, SYSTEM),
        "the one group OU=system:nodes",
    ),
    "a node that is a user": (
        csr(pem((*NODE[:2], (CN, "ann"))), NODE_CLIENT, CLIENT_USAGES, SYSTEM),
        "CN=system:node:NAME",
    ),
    "a node without a name": (
        csr(pem((*NODE[:2], (CN, "system:node:"))), NODE_CLIENT, CLIENT_USAGES, SYSTEM),
        "CN=system:node:NAME",
    ),
    "a node's server without names": (csr(pem(NODE), NODE_SERVING, SERVING_USAGES, SYSTEM), "at least one"),
    "a node's server by mail": (
        csr(pem(NODE, ADDRESS, x509.RFC822Name("a@b.c")), NODE_SERVING, SERVING_USAGES, SYSTEM),
        "DNS names and IP addresses",
    ),
    "a short key": (
        csr(pem(ANN, key=rsa.generate_private_key(public_exponent=65537, key_size=1024))),
        "too short",
    ),
    "a key of another kind": (csr(pem(ANN, key=ed25519.Ed25519PrivateKey.generate())), "ECDSA or RSA"),
    "not a request": (csr(b"rubbish"), "not a valid PEM certificate request"),
    "not base64": (
        {"metadata": {"tenant": "acme"}, "spec": {"request": "*", "signerName": CLIENT}},
        "not a valid PEM",
    ),
    "nothing": ({}, "unknown signer"),
}


@pytest.mark.parametrize("attack", REFUSED)
def test_refused(authority: CertificateAuthority, attack: str) -> None:
    request, message = REFUSED[attack]
    with pytest.raises(SigningError, match=message):
        signing.sign(request, authority, NOW)


def test_a_request_somebody_changed_is_not_signed(authority: CertificateAuthority) -> None:
    whole = x509.load_pem_x509_csr(pem(ANN)).public_bytes(serialization.Encoding.DER)
    changed = whole.replace(b"ann", b"bob")
    text = (
        b"-----BEGIN CERTIFICATE REQUEST-----\n"
        + base64.encodebytes(changed)
        + b"-----END CERTIFICATE REQUEST-----\n"
    )
    with pytest.raises(SigningError, match="not signed with its own key"):
        signing.sign(csr(text), authority, NOW)


def test_the_server_writes_the_requesters_identity() -> None:
    request = csr(pem(ANN), username="root", uid="0", groups=["system:masters"], extra={"x": ["y"]})
    signing.prepare(request, Identity(ACME, "bob", ("dev",), "u1", {"scopes": ("a",)}))
    spec = request["spec"]
    assert (spec["username"], spec["uid"], spec["groups"]) == ("bob", "u1", ["dev"])
    assert spec["extra"] == {"scopes": ["a"]}
    signing.prepare(request, Identity(ACME, "bob"))
    assert "uid" not in request["spec"] and "extra" not in request["spec"]


class World:
    def __init__(self, authority: CertificateAuthority) -> None:
        self.reader = MemoryReader()
        self.plugin = signing.CertificateRequests(
            self.reader, Authorizer(self.reader), authority, lambda: NOW
        )

    def give(self, user: str, verb: str, signer: str) -> None:
        rule = {
            "verbs": [verb],
            "apiGroups": [CERTIFICATE_SIGNING_REQUESTS.group],
            "resources": ["signers"],
            "resourceNames": [signer],
        }
        self.reader.put(ACME, CLUSTER_ROLES, {"metadata": {"name": user}, "rules": [rule]})
        binding = {
            "metadata": {"name": user},
            "roleRef": {"kind": "ClusterRole", "name": user},
            "subjects": [{"kind": "User", "name": user}],
        }
        self.reader.put(ACME, CLUSTER_ROLE_BINDINGS, binding)

    async def write(
        self, obj: Object, identity: Identity, old: Object | None = None, subresource: str = ""
    ) -> Object:
        attributes = Attributes(
            operation=Operation.CREATE if old is None else Operation.UPDATE,
            kind=KIND,
            tenant=ACME,
            namespace="",
            name="r",
            subresource=subresource,
            obj=obj,
            old=old,
            identity=identity,
        )
        assert self.plugin.handles(attributes.operation, CERTIFICATE_SIGNING_REQUESTS, subresource)
        await self.plugin.admit(attributes)
        await self.plugin.validate(attributes)
        return obj


KIND = Kind(
    group=CERTIFICATE_SIGNING_REQUESTS.group,
    version="v1",
    kind="CertificateSigningRequest",
    resource=CERTIFICATE_SIGNING_REQUESTS.resource,
    singular="certificatesigningrequest",
    scope=Scope.TENANT,
    schema=SchemaNode(SchemaType.OBJECT),
)
USER, APPROVER = Identity(ACME, "ann"), Identity(ACME, "approver")


@pytest.fixture
def world(authority: CertificateAuthority) -> World:
    return World(authority)


def approved(request: Object, kind: str = "Approved") -> Object:
    return {**request, "status": {"conditions": [{"type": kind, "status": "True"}]}}


async def test_an_approved_request_gets_a_certificate(world: World) -> None:
    world.give("approver", "approve", CLIENT)
    request = await world.write(csr(pem(ANN)), USER)
    assert request["spec"]["username"] == "ann"
    signed = await world.write(approved(request), APPROVER, request, "approval")
    assert identified(base64.b64decode(signed["status"]["certificate"])).user == "ann"


async def test_a_wildcard_signer_permission_allows_approval(world: World) -> None:
    world.give("approver", "approve", "kubernetes.io/*")
    request = csr(pem(ANN))
    assert "certificate" in (await world.write(approved(request), APPROVER, request, "approval"))["status"]


@pytest.mark.parametrize(("verb", "signer"), [("approve", NODE_CLIENT), ("sign", CLIENT), ("get", CLIENT)])
async def test_who_may_not_approve(world: World, verb: str, signer: str) -> None:
    world.give("approver", verb, signer)
    request = csr(pem(ANN))
    new = approved(request)
    with pytest.raises(Forbidden, match=f'user not permitted to approve requests with signerName "{CLIENT}"'):
        await world.write(new, APPROVER, request, "approval")
    assert "certificate" not in new["status"]


async def test_the_signer_asked_about_is_the_stored_one(world: World) -> None:
    world.give("approver", "approve", "example.com/mine")
    stored, sent = csr(pem(ANN)), approved(csr(pem(ANN), "example.com/mine"))
    with pytest.raises(Forbidden):
        await world.write(sent, APPROVER, stored, "approval")


@pytest.mark.parametrize(
    "request_",
    [approved(csr(pem(ANN)), "Denied"), approved(csr(pem(ANN), "example.com/mine")), csr(pem(ANN))],
)
async def test_denied_and_foreign_and_pending_requests_are_not_signed(world: World, request_: Object) -> None:
    boss = Identity(ACME, "boss", ("system:masters",))
    assert "certificate" not in (await world.write(request_, boss, request_, "approval"))["status"]


async def test_a_stored_request_that_cannot_be_signed_fails_visibly(world: World) -> None:
    boss = Identity(ACME, "boss", ("system:masters",))
    bad = csr(pem(((O, "tenant:other"), (CN, "ann"))))
    found = await world.write(approved(bad), boss, bad, "approval")
    assert "certificate" not in found["status"]
    assert found["status"]["conditions"][-1] == {
        "type": "Failed",
        "status": "True",
        "reason": "SignerValidationFailure",
        "message": "the request's subject names another tenant than the requester's",
        "lastUpdateTime": "2027-01-15T08:00:00Z",
        "lastTransitionTime": "2027-01-15T08:00:00Z",
    }


async def test_a_request_that_would_not_be_signed_is_refused_when_made(world: World) -> None:
    with pytest.raises(Forbidden, match="names another tenant"):
        await world.write(csr(pem(((O, "tenant:other"), (CN, "ann")))), USER)
    with pytest.raises(Forbidden, match="system:masters"):
        await world.write(
            csr(pem((*ANN, (OU, "system:masters")))), Identity(ACME, "boss", ("system:masters",))
        )
    await world.write(csr(pem(((CN, "anything"),)), "example.com/mine"), USER)


async def test_ring0_asks_in_its_own_tenant_only(world: World) -> None:
    root = Identity(SYSTEM, "root", ("system:masters",))
    with pytest.raises(Forbidden, match="impersonate a user of this one"):
        await world.write(csr(pem(ANN)), root)


async def test_only_signers_write_certificates(world: World) -> None:
    world.give("approver", "sign", "example.com/mine")
    old = csr(pem(ANN), "example.com/mine")
    new = {**old, "status": {"certificate": "x"}}
    await world.write(new, APPROVER, old, "status")
    with pytest.raises(Forbidden, match="not permitted to sign"):
        await world.write(new, USER, old, "status")
    await world.write({**old, "status": {}}, USER, old, "status")


def test_handles_requests_only(world: World) -> None:
    assert not world.plugin.handles(Operation.UPDATE, CERTIFICATE_SIGNING_REQUESTS, "")
    assert not world.plugin.handles(Operation.DELETE, CERTIFICATE_SIGNING_REQUESTS, "")
    assert not world.plugin.handles(Operation.CREATE, GroupResource("", "pods"), "")
