"""How a node on another machine joins: a join token, a CertificateSigningRequest, a client certificate.

The token is text to copy to the other machine. It holds the API server's URL, the cluster's CA
certificate (the joining node trusts no other server), and a bearer token of ring0's
service account `kube-system/node-bootstrapper`, which may only request node certificates.
The node's key is generated on the node and never sent.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import shutil
import socket
import subprocess
import zlib
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import orjson
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from msgspec import Struct

from alcove.api import objects
from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.cli.connection import CliConnection, KubeconfigUser
from alcove.cli.errors import CliError, ExitCode
from alcove.cli.kubeconfig import KubeconfigCertificate, render
from alcove.cli.session import CliSession, wait_for
from alcove.client.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
)

ACCOUNT = "node-bootstrapper"
NAMESPACE = "kube-system"
SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
PREFIX = "alcove1."
"""Lets users and secret scanners recognize a join token."""
JOINED = "joined.json"
ROLES = (
    "system:node-bootstrapper",
    "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
)


class JoinToken(Struct, frozen=True):
    server: str
    ca_pem: str
    bearer: str

    def encode(self) -> str:
        output = orjson.dumps([self.server, self.ca_pem, self.bearer])
        return PREFIX + base64.urlsafe_b64encode(zlib.compress(output, 9)).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> JoinToken:
        """Raises CliError."""
        text = text.strip()
        if not text.startswith(PREFIX):
            raise CliError(
                f"invalid join token: it must begin with {PREFIX}; `alcove node token` creates one"
            )
        encoded = text.removeprefix(PREFIX)
        try:
            output = zlib.decompress(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
            server, ca_pem, bearer = orjson.loads(output)
            return cls(str(server), str(ca_pem), str(bearer))
        except (ValueError, zlib.error) as error:
            raise CliError(
                "invalid join token: it is damaged or incomplete; copy all of it, or create another"
            ) from error

    @property
    def ca_hash(self) -> str:
        """Hash of the CA's public key in kubeadm's form, for users to compare."""
        key = x509.load_pem_x509_certificate(self.ca_pem.encode()).public_key()
        der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        return f"sha256:{hashlib.sha256(der).hexdigest()}"


def make_token(session: CliSession, server: str, seconds: int) -> JoinToken:
    """A token with which nodes can join for `seconds`."""
    session.ensure(SERVICE_ACCOUNTS, {"metadata": {"name": ACCOUNT}}, namespace=NAMESPACE)
    for role in ROLES:
        session.ensure(CLUSTER_ROLE_BINDINGS, _binding(role))
    token_request = {"metadata": {"name": ACCOUNT}, "spec": {"expirationSeconds": seconds}}
    response = session.create(SERVICE_ACCOUNTS, token_request, namespace=NAMESPACE, subresource="token")
    ca_pem = session.connection.ca_pem.decode()
    return JoinToken(server or session.connection.server, ca_pem, response["status"]["token"])


def revoke_tokens(session: CliSession) -> None:
    """Revokes all tokens by deleting the service account: each token is bound to its uid."""
    if session.find(SERVICE_ACCOUNTS, ACCOUNT, namespace=NAMESPACE) is not None:
        session.delete(SERVICE_ACCOUNTS, ACCOUNT, namespace=NAMESPACE)


def _binding(role: str) -> Object:
    return {
        "metadata": {"name": f"alcove:{ACCOUNT}:{role.rpartition(':')[2]}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
    }


def enrol(token: JoinToken, node: str, seconds_max: float) -> str:
    """The node's kubeconfig, with a certificate signed for it. Raises CliError, ApiError,
    ConnectionFailed."""
    connection = CliConnection(KubeconfigUser(token.server, token.ca_pem.encode(), token=token.bearer))
    key = ec.generate_private_key(ec.SECP256R1())
    path = "/apis/certificates.k8s.io/v1/tenants/system/certificatesigningrequests"
    created = connection.request("POST", path, _signing_request(key, node))
    name = created["metadata"]["name"]

    def signed() -> bytes | None:
        found = connection.request("GET", f"{path}/{name}")
        for condition in objects.get(found, "status", "conditions", default=[]):
            if condition["type"] in ("Denied", "Failed"):
                raise CliError(
                    f"certificate request {name} was not signed ({condition['type']}): {condition.get('message', '')}"
                )
        certificate = objects.get(found, "status", "certificate")
        return base64.b64decode(certificate) if certificate else None

    certificate = wait_for(f"certificate request {name} to be signed", signed, seconds_max)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    user = f"system:node:{node}"
    return render(token.server, token.ca_pem.encode(), SYSTEM, user, KubeconfigCertificate(certificate, pem))


def _signing_request(key: ec.EllipticCurvePrivateKey, node: str) -> Object:
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, f"tenant:{SYSTEM}"),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "system:nodes"),
            x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{node}"),
        ]
    )
    csr = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    pem = csr.public_bytes(serialization.Encoding.PEM)
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": CERTIFICATE_SIGNING_REQUESTS.kind,
        "metadata": {"name": f"node-{node}-{secrets.token_hex(4)}"},
        "spec": {
            "signerName": SIGNER,
            "usages": ["client auth", "digital signature"],
            "request": base64.b64encode(pem).decode(),
        },
    }


def write_kubeconfig(path: Path, text: str) -> None:
    """Writes the file with mode 0600 from the start."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.touch(mode=0o600)
    path.write_text(text)


class JoinedNode(Struct, frozen=True):
    """Record of a joined node on its machine, read by `alcove node leave`."""

    name: str
    server: str
    underlay: str = ""
    """Network device. Empty for a hollow node."""

    def save(self, data: Path) -> None:
        (data / JOINED).write_bytes(msgspec.json.encode(self))

    @classmethod
    def load(cls, data: Path) -> JoinedNode:
        """Raises CliError if the directory has no joined node's state."""
        try:
            return msgspec.json.decode((data / JOINED).read_bytes(), type=cls)
        except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError) as error:
            message = f"no joined node found in {data}"
            raise CliError(message, ExitCode.NOT_FOUND) from error


def towards(server: str) -> str:
    """The source address of packets to the server. No packet is sent: connecting UDP only looks up the
    route."""
    url = urlsplit(server)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((url.hostname or "", url.port or 443))
            return str(probe.getsockname()[0])
    except OSError as error:
        raise CliError(f"no route to {server}: {error.strerror or error}; set --address") from error


def device_of(address: str) -> str:
    """The network device that has the address."""
    program = shutil.which("ip")
    if program is None:
        raise CliError("`ip` is not installed (package iproute2); set --underlay")
    output = subprocess.run([program, "-o", "address"], capture_output=True, text=True, check=False).stdout
    for line in output.splitlines():
        fields = line.split()
        if len(fields) > 3 and fields[3].partition("/")[0] == address:
            return fields[1].partition("@")[0]
    raise CliError(f"no network device has the address {address}; set --underlay")
