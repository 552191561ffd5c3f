"""A node's serving certificate: asked of ring0 by the node itself, approved by policy, for nobody else's name."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from alcove.agent.serving import ServingCertificate
from alcove.api.ids import SYSTEM
from alcove.client import kubeconfig
from alcove.client.client import Client
from alcove.client.pool import HttpPool
from alcove.client.resources import CERTIFICATE_SIGNING_REQUESTS
from alcove.controllers.certificates import CertificateApproval
from alcove.testing.agent import node_kubeconfig
from alcove.testing.controllers import RunningControllers
from alcove.testing.server import LocalServer

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    with (
        LocalServer(tmp_path_factory.mktemp("serving")) as running,
        RunningControllers(running.admin_kubeconfig, (CertificateApproval,)),
    ):
        yield running


async def test_a_node_gets_its_certificate_and_keeps_it(server: LocalServer, tmp_path: Path) -> None:
    pool = HttpPool(kubeconfig.load(node_kubeconfig(server, "n1")))
    try:
        serving = ServingCertificate(tmp_path, "n1", "10.0.0.1", Client(pool))
        await serving.ready()
        found = x509.load_pem_x509_certificate(serving.certificate.read_bytes())
        assert "system:node:n1" in found.subject.rfc4514_string()
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName) == ["n1"]
        assert serving.key.stat().st_mode & 0o777 == 0o600
        before = serving.certificate.read_bytes()
        await serving.ready()
        assert serving.certificate.read_bytes() == before, "it is good for a while"
        other = ServingCertificate(tmp_path, "n2", "10.0.0.2", Client(pool))
        assert other._is_due(), "another node's is of no use"
    finally:
        await pool.close()


async def test_a_node_gets_none_for_another(server: LocalServer, tmp_path: Path) -> None:
    pool = HttpPool(kubeconfig.load(node_kubeconfig(server, "n3")))
    try:
        wrong = ServingCertificate(tmp_path, "n1", "10.0.0.1", Client(pool))
        request = base64.b64encode(wrong._request(ec.generate_private_key(ec.SECP256R1()))).decode()
        spec = {
            "signerName": "kubernetes.io/kubelet-serving",
            "usages": ["digital signature", "server auth"],
            "request": request,
        }
        client = Client(pool)
        made = {"metadata": {"name": "wrong"}, "spec": spec}
        await client.create(SYSTEM, CERTIFICATE_SIGNING_REQUESTS, made)
        # Another that is right is settled after it: the wrong one was looked at, and left to a person.
        await ServingCertificate(tmp_path, "n3", "10.0.0.3", client).ready()
        assert "certificate" not in (server.system.get(f"{REQUESTS}/wrong").json.get("status") or {})
    finally:
        await pool.close()
