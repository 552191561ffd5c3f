"""A foreign plane's API server calls agents as kubelets: it reaches the pods of its own plane, and nothing else."""

from __future__ import annotations

import ssl
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from alcove.agent.podkey import PodKey
from alcove.agent.runtime.base import ContainerId
from alcove.agent.runtime.hollow import HollowRuntime
from alcove.agent.server.callers import AuthorizedCallers
from alcove.agent.server.running_containers import ContainerHandle
from alcove.agent.server.server import AgentServer
from alcove.api.ids import TenantId
from alcove.apiserver.auth import certificates
from alcove.apiserver.auth.certificates import CertificateAuthority
from alcove.client.errors import ClientError
from alcove.client.keys import HOME, PlaneId
from alcove.client.kubeconfig import KubeconfigUser
from alcove.client.pool import HttpPool
from alcove.testing.nodeserver import LabPod, LabPods

CALLER = "kube-apiserver-kubelet-client"
INITECH = PlaneId("initech")


class Node:
    """An agent's server with a pod of the same name on each of three planes, each with a log of its own."""

    def __init__(self, directory: Path) -> None:
        now = time.time()
        self.home, self.initech, self.stranger = (
            CertificateAuthority.open(directory / name, now) for name in ("home", "initech", "stranger")
        )
        serving = self.home.serving(["127.0.0.1"], now)
        pair = directory / "node.pem"
        pair.write_bytes(serving.certificate_pem + serving.key_pem)
        callers = AuthorizedCallers(pair)
        callers.trust(HOME, self.home.certificate_pem)
        callers.trust(INITECH, self.initech.certificate_pem, CALLER)
        pods = LabPods()
        for plane, tenant in ((HOME, "acme"), (INITECH, "initech"), (PlaneId("globex"), "globex")):
            log = directory / f"{tenant}.log"
            log.write_text(f"2026-01-01T00:00:00Z stdout F of {tenant}\n")
            key = PodKey(plane, TenantId(tenant), "default", "web", f"uid-{tenant}")
            handle = ContainerHandle(ContainerId("c"), log)
            pods.add(LabPod(key, {}, HollowRuntime(), ContainerId("s"), {"main": handle}))
        self.server = AgentServer(pods, callers, "127.0.0.1", 0)

    async def get(self, path: str, authority: CertificateAuthority, name: str = CALLER) -> tuple[int, str]:
        """Status and body of the answer to somebody."""
        key = certificates.new_key()
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        profile = certificates.CertificateProfile(usages=[ExtendedKeyUsageOID.CLIENT_AUTH])
        signed = authority.sign(key.public_key(), subject, profile, time.time(), timedelta(days=1))
        user = KubeconfigUser(
            f"https://127.0.0.1:{self.server.port}",
            self.home.certificate_pem,
            certificates.pem(signed),
            certificates.to_pem(key),
        )
        pool = HttpPool(user)
        try:
            answer = await pool.request("GET", path, {})
        finally:
            await pool.close()
        return answer.status, answer.body.decode()


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    made = Node(tmp_path)
    async with made.server:
        yield made


async def test_it_reads_the_logs_of_its_own_pods(node: Node) -> None:
    for path in ("/containerLogs/default/web/main", "/containerLogs/default/web/main?tailLines=1"):
        assert await node.get(path, node.initech) == (200, "of initech\n")


@pytest.mark.parametrize(
    "path",
    [
        "/pods/system/acme/default/web/uid-acme/log?container=main",
        "/pods/globex/globex/default/web/uid-globex/log?container=main",
        "/pods/initech/acme/default/web/uid-acme/log?container=main",
        "/exec/default/web/uid-acme/main?command=id&output=1",
        "/portForward/default/web/uid-globex",
        "/node/pods",
        "/nodeport",
        "/usage",
        "/flows/initech",
        "/networks/initech/initech/default?address=10.0.0.1",
        "/pods",
        "/metrics",
    ],
)
async def test_it_reaches_nothing_else(node: Node, path: str) -> None:
    status, body = await node.get(path, node.initech)
    assert status == 404 and "of " not in body.replace("of the", "")


async def test_other_certificates_of_its_authority_are_refused(node: Node) -> None:
    status, _ = await node.get("/containerLogs/default/web/main", node.initech, "alice")
    assert status == 403
    status, _ = await node.get("/containerLogs/default/web/main", node.home)
    assert status == 403
    with pytest.raises((ClientError, ssl.SSLError)):
        await node.get("/containerLogs/default/web/main", node.stranger)
