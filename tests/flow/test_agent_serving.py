"""A node's certificates: asked of ring0 by the node itself, approved by policy, for nobody else's name."""

from __future__ import annotations

import asyncio
import base64
import ssl
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from alcove.agent import certificates, client_certificate
from alcove.agent.certificates import CLIENT, SERVING, CertificatePurpose
from alcove.agent.client_certificate import ClientCertificate
from alcove.agent.serving_certificate import ServingCertificate
from alcove.api.errors import Forbidden, Unauthorized
from alcove.api.ids import SYSTEM
from alcove.apiserver.auth.certificates import CertificateAuthority, general_name, issued_by
from alcove.apiserver.auth.subjects import Subject
from alcove.cli.kubeconfig import KubeconfigCertificate, render
from alcove.client import kubeconfig
from alcove.client.client import Client
from alcove.client.pool import HttpPool
from alcove.client.resources import CERTIFICATE_SIGNING_REQUESTS, NODES
from alcove.controllers.certificates import CertificateApproval
from alcove.testing.agent import LocalAgent, node_kubeconfig
from alcove.testing.controllers import RunningControllers
from alcove.testing.server import LocalServer, wait_until

LEASE = "/apis/coordination.k8s.io/v1/tenants/system/namespaces/kube-node-lease/leases"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    with (
        LocalServer(tmp_path_factory.mktemp("serving")) as running,
        RunningControllers(running.admin_kubeconfig, (CertificateApproval,)),
    ):
        for name, address in (("n1", "10.0.0.1"), ("n3", "10.0.0.3")):
            register(running, name, address)
        yield running


def register(server: LocalServer, name: str, *addresses: str) -> None:
    """The Node object as its agent writes it."""
    listed = [{"type": "InternalIP", "address": address} for address in addresses]
    listed.append({"type": "Hostname", "address": name})
    node = server.as_node(name)
    assert node.post("/api/v1/nodes", {"metadata": {"name": name}}).status in (201, 409)
    answer = node.patch(f"/api/v1/nodes/{name}/status", {"status": {"addresses": listed}})
    assert answer.status == 200, answer.body


def write_short(server: LocalServer, path: Path, node: str, lifetime: timedelta) -> x509.Certificate:
    """A node's kubeconfig whose certificate ends soon."""
    authority = CertificateAuthority.open(server.directory / "pki", time.time())
    subject = Subject(SYSTEM, f"system:node:{node}", ("system:nodes",))
    issued = authority.client(subject, time.time(), lifetime)
    pair = KubeconfigCertificate(issued.certificate_pem, issued.key_pem)
    admin = kubeconfig.load(server.admin_kubeconfig)
    path.write_text(render(admin.server, admin.ca_pem, "system", subject.user, pair))
    return x509.load_pem_x509_certificate(issued.certificate_pem)


async def test_a_node_gets_its_serving_certificate_and_keeps_it(server: LocalServer, tmp_path: Path) -> None:
    pool = HttpPool(kubeconfig.load(node_kubeconfig(server, "n1")))
    try:
        serving = ServingCertificate(tmp_path, "n1", "10.0.0.1", Client(pool))
        await serving.ready()
        content = serving.path.read_bytes()
        found = x509.load_pem_x509_certificate(content)
        assert "system:node:n1" in found.subject.rfc4514_string()
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName) == ["n1"]
        assert serving.path.stat().st_mode & 0o777 == 0o600
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(serving.path)
        await serving.ready()
        assert serving.path.read_bytes() == content, "it is good for a while"
        for other in (("n2", "10.0.0.1"), ("n1", "10.0.0.2")):
            due = ServingCertificate(tmp_path, *other, Client(pool))._due()
            assert due == 0.0, "one for another node, or for other addresses, is of no use"
    finally:
        await pool.close()


async def test_a_serving_certificate_is_renewed_in_time(server: LocalServer, tmp_path: Path) -> None:
    pool = HttpPool(kubeconfig.load(node_kubeconfig(server, "n1")))
    now = [time.time()]
    try:
        serving = ServingCertificate(tmp_path, "n1", "10.0.0.1", Client(pool), lambda: now[0])
        await serving.ready()
        content, renewed = serving.path.read_bytes(), asyncio.Event()
        keeping = asyncio.create_task(serving.keep(renewed.set))
        await asyncio.sleep(0.2)
        assert not renewed.is_set()
        keeping.cancel()
        now[0] += 0.91 * 365 * 86400
        keeping = asyncio.create_task(serving.keep(renewed.set))
        async with asyncio.timeout(60):
            await renewed.wait()
        assert serving.path.read_bytes() != content
        keeping.cancel()
    finally:
        await pool.close()


def general(*names: str) -> list[x509.GeneralName]:
    return [general_name(name) for name in names]


@pytest.mark.parametrize(("purpose", "names"), [(CLIENT, ()), (SERVING, ("n3", "10.0.0.3"))])
async def test_a_node_gets_none_for_another(
    server: LocalServer, purpose: CertificatePurpose, names: Sequence[str]
) -> None:
    pool = HttpPool(kubeconfig.load(node_kubeconfig(server, "n3")))
    try:
        with pytest.raises(Forbidden, match="in its own name"):
            await certificates.ask(Client(pool), "n1", purpose, general(*names))
        assert (await certificates.ask(Client(pool), "n3", purpose, general(*names))).certificate_pem
    finally:
        await pool.close()


@pytest.mark.parametrize(
    "names",
    [
        ("n1",),
        ("10.0.0.1",),
        ("n3", "10.0.0.3", "10.0.0.1"),
        ("n3", "api.example.com"),
        ("kubernetes.default.svc",),
        ("127.0.0.1",),
        ("*",),
        ("10.0.0.3.example.com",),
    ],
)
async def test_a_stolen_node_credential_gets_no_serving_certificate_for_others_names(
    server: LocalServer, names: Sequence[str]
) -> None:
    pool = HttpPool(kubeconfig.load(node_kubeconfig(server, "n3")))
    try:
        with pytest.raises(Forbidden, match='neither the name nor an address of the node "n3"'):
            await certificates.ask(Client(pool), "n3", SERVING, general(*names))
    finally:
        await pool.close()


async def test_a_node_that_claims_anothers_address_gets_no_certificate_for_it(server: LocalServer) -> None:
    register(server, "n4", "10.0.0.4", "10.0.0.1")
    pool = HttpPool(kubeconfig.load(node_kubeconfig(server, "n4")))
    try:
        with pytest.raises(Forbidden, match="an address of another node too"):
            await certificates.ask(Client(pool), "n4", SERVING, general("n4", "10.0.0.1"))
        assert (await certificates.ask(Client(pool), "n4", SERVING, general("10.0.0.4"))).certificate_pem
    finally:
        await pool.close()
        server.system.delete("/api/v1/nodes/n4")


async def test_a_nodes_certificate_is_not_trusted_as_an_api_servers(server: LocalServer) -> None:
    """Even one for the API server's own address, which a node could claim to have."""
    register(server, "n5", "127.0.0.1")
    pool = HttpPool(kubeconfig.load(node_kubeconfig(server, "n5")))
    try:
        pair = await certificates.ask(Client(pool), "n5", SERVING, general("127.0.0.1"))
    finally:
        await pool.close()
        server.system.delete("/api/v1/nodes/n5")
    found = x509.load_pem_x509_certificate(pair.certificate_pem)
    authority = CertificateAuthority.open(server.directory / "pki", time.time())
    assert not issued_by(found, authority.certificate)
    assert issued_by(found, authority.for_nodes(time.time()).certificate)


async def test_a_node_gets_no_certificate_of_anything_but_a_node(server: LocalServer) -> None:
    pool = HttpPool(kubeconfig.load(node_kubeconfig(server, "n3")))
    request = certificates.signing_request(ec.generate_private_key(ec.SECP256R1()), "n3", ())
    spec = {
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"],
        "request": base64.b64encode(request).decode(),
    }
    try:
        with pytest.raises(Forbidden, match="only node certificates in its own name"):
            made = {"metadata": {"name": "wrong"}, "spec": spec}
            await Client(pool).create(SYSTEM, CERTIFICATE_SIGNING_REQUESTS, made)
    finally:
        await pool.close()


async def test_a_client_certificate_is_renewed_before_it_ends(server: LocalServer, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    first = write_short(server, path, "n5", timedelta(hours=1))
    pool, before, now = HttpPool(kubeconfig.load(path)), path.read_bytes(), [time.time()]
    own = ClientCertificate(path, "n5", Client(pool), lambda: now[0], lambda: 0.0)
    keeping = asyncio.create_task(own.keep())
    try:
        await asyncio.sleep(0.2)
        assert path.read_bytes() == before, "it is good for a while"
        keeping.cancel()
        now[0] += 0.75 * 3_600
        keeping = asyncio.create_task(own.keep())
        await asyncio.to_thread(wait_until, lambda: path.read_bytes() != before)
        second = client_certificate.read_client_certificate(path, "n5")
        assert second is not None
        assert second.not_valid_after_utc > first.not_valid_after_utc
        key = serialization.load_pem_private_key(kubeconfig.load(path).key_pem, None)
        assert key.public_key() == second.public_key() != first.public_key(), "the key is a new one too"
        assert path.stat().st_mode & 0o777 == 0o600
    finally:
        keeping.cancel()
        await pool.close()


async def test_a_credential_of_somebody_else_is_left_alone(server: LocalServer, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    write_short(server, path, "other", timedelta(seconds=10))
    content = path.read_bytes()
    pool = HttpPool(kubeconfig.load(path))
    own = ClientCertificate(path, "n6", Client(pool))
    keeping = asyncio.create_task(own.keep())
    await asyncio.sleep(0.5)
    keeping.cancel()
    assert path.read_bytes() == content
    assert own.ends == 0.0
    await pool.close()


@pytest.mark.slow
def test_an_agent_outlives_its_first_certificate(server: LocalServer, tmp_path: Path) -> None:
    """Most of it is waiting: that certificates are renewed in time, and that agents use the new ones, is tested above and
    in `test_agent_hollow`."""
    path = tmp_path / "kubeconfig"
    first = write_short(server, path, "n7", timedelta(seconds=60))
    begun, ends = path.read_bytes(), first.not_valid_after_utc.timestamp()
    old = tmp_path / "old"
    old.write_bytes(begun)
    with LocalAgent(path, tmp_path / "agent", "n7", "--hollow") as agent:
        wait_until(lambda: path.read_bytes() != begun)

        def renewed_at() -> str:
            return str(server.system.get(f"{LEASE}/n7").json["spec"]["renewTime"])

        wait_until(lambda: time.time() > ends + 1)
        last = renewed_at()
        wait_until(lambda: renewed_at() > last)
        assert "Unauthorized" not in agent.log, "not one request was made with the old one after its end"
    with pytest.raises(Unauthorized, match="expired"):
        asyncio.run(_look(old))
    asyncio.run(_look(path))


async def _look(path: Path) -> None:
    pool = HttpPool(kubeconfig.load(path))
    try:
        await Client(pool).get(SYSTEM, NODES, "n7")
    finally:
        await pool.close()
