"""The node agent as a process, for tests with a `LocalServer`."""

from __future__ import annotations

import base64
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from alcove.cli.connection import CliConnection, load
from alcove.cli.kubeconfig import KubeconfigCertificate, render
from alcove.testing.local import LocalProcess
from alcove.testing.server import LocalServer

_REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


def node_kubeconfig(server: LocalServer, name: str) -> Path:
    """A node's kubeconfig, with a certificate approved by ring0's administrator."""
    path = server.directory / f"node-{name}.kubeconfig"
    if path.exists():
        return path
    key = ec.generate_private_key(ec.SECP256R1())
    request = server.system.post(_REQUESTS, _request(key, name)).json
    request["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "Test"}]}
    response = server.system.put(f"{_REQUESTS}/{request['metadata']['name']}/approval", request)
    assert response.status in (200, 409), response.body  # A controller may have been faster.
    signed = server.system.get(f"{_REQUESTS}/{request['metadata']['name']}").json
    certificate = base64.b64decode(signed["status"]["certificate"])
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    admin = CliConnection(load(server.admin_kubeconfig))
    user = f"system:node:{name}"
    path.write_text(
        render(admin.server, admin.ca_pem, "system", user, KubeconfigCertificate(certificate, pem))
    )
    return path


def _request(key: ec.EllipticCurvePrivateKey, node: str) -> dict[str, object]:
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "tenant:system"),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "system:nodes"),
            x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{node}"),
        ]
    )
    csr = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return {
        "metadata": {"name": f"node-{node}"},
        "spec": {
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["client auth", "digital signature"],
            "request": base64.b64encode(csr.public_bytes(serialization.Encoding.PEM)).decode(),
        },
    }


class LocalAgent(LocalProcess):
    """`with LocalAgent(kubeconfig, directory, "n1", "--hollow"): …`"""

    ready = "ready"

    def __init__(self, kubeconfig: Path, directory: Path, name: str, *options: str) -> None:
        self.directory = directory
        arguments = ("--kubeconfig", str(kubeconfig), "--name", name, "--data", str(directory), *options)
        super().__init__("agent", directory / "agent.log", *arguments)
