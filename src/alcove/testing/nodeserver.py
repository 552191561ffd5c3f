"""A node's API server for containers that a test starts, registered with a real API server.

async with ContainerLab(runtime, folder) as lab, NodeRig(server, lab) as rig:
    await rig.pod("acme", "web", [{"name": "main", "command": ["sleep", "1000"]}])
    done = await rig.kubectl(server.as_tenant("acme"), "exec", "web", "--", "true")
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from alcove.agent.podkey import PodKey
from alcove.agent.runtime.base import ContainerId, ContainerRuntime
from alcove.agent.server.callers import AuthorizedCallers
from alcove.agent.server.flow_stream import FollowFlows
from alcove.agent.server.running_containers import ContainerHandle
from alcove.agent.server.server import AgentServer, FindCapture, LookUpName, ReadFlows, TracePacket
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.node_api import NODE_GROUP, NODE_USER_PREFIX
from alcove.api.objects import Object
from alcove.client.keys import HOME, PlaneId
from alcove.dataplane import namespaces
from alcove.testing.containers import ContainerLab
from alcove.testing.server import Caller, LocalServer

IMAGE = "alcove.local/busybox"


class LabPod(Struct):
    """Implements `PodHandle`."""

    key: PodKey
    pod: Object
    runtime: ContainerRuntime
    sandbox: ContainerId
    containers: dict[str, ContainerHandle] = field(default_factory=dict)

    async def dial(self, port: int) -> socket.socket:
        """Connects from inside the pod's network namespace."""
        namespace = os.open(namespaces.path_of(self.sandbox), os.O_RDONLY | os.O_CLOEXEC)
        try:
            with namespaces.inside(namespace):
                made = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        finally:
            os.close(namespace)
        try:
            await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", port))
        except BaseException:
            made.close()
            raise
        return made

    async def reach(self, port: int) -> socket.socket:
        return await self.dial(port)


class LabPods:
    """Implements `Running`."""

    def __init__(self) -> None:
        self._pods: dict[tuple[PlaneId, TenantId, str, str], LabPod] = {}

    def add(self, pod: LabPod) -> None:
        self._pods[pod.key.plane, pod.key.tenant, pod.key.namespace, pod.key.name] = pod

    def find(self, plane: PlaneId, tenant: TenantId, namespace: str, name: str) -> LabPod | None:
        return self._pods.get((plane, tenant, namespace, name))

    def all(self) -> Iterable[LabPod]:
        return list(self._pods.values())


class Done(Struct, frozen=True):
    code: int
    out: str
    errors: str


class NodeRig:
    def __init__(self, server: LocalServer, lab: ContainerLab, name: str = "worker") -> None:
        self.server = server
        self.lab = lab
        self.name = name
        self.pods = LabPods()
        self.agent: AgentServer | None = None
        self.flows: ReadFlows | None = None
        """What the node's networks have seen; set it before the start, as `trace`."""
        self.follow_flows: FollowFlows | None = None
        self.trace: TracePacket | None = None
        self.look_up: LookUpName | None = None
        self.find_capture: FindCapture | None = None

    async def __aenter__(self) -> NodeRig:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self, certificate_of: str = "") -> None:
        """`certificate_of`: use another node's certificate, for tests of authentication."""
        pki = self.server.directory / "pki"
        pair = serving_certificate(pki, certificate_of or self.name, self.lab.folder)
        callers = AuthorizedCallers(pair)
        callers.trust(HOME, (pki / "ca.crt").read_bytes())
        self.agent = AgentServer(
            self.pods,
            callers,
            "127.0.0.1",
            0,
            flows=self.flows,
            follow_flows=self.follow_flows,
            trace=self.trace,
            look_up=self.look_up,
            find_capture=self.find_capture,
        )
        await self.agent.__aenter__()
        self._register(self.agent.port)

    async def stop(self) -> None:
        if self.agent is not None:
            await self.agent.__aexit__(None, None, None)
            self.agent = None

    def _register(self, port: int) -> None:
        system = self.server.system
        system.post("/api/v1/nodes", {"metadata": {"name": self.name}})
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
        answer = system.patch(f"/api/v1/nodes/{self.name}/status", {"status": status})
        assert answer.status == 200, answer.body

    async def pod(
        self, tenant: str, name: str, containers: Sequence[Object], labels: dict[str, str] | None = None
    ) -> LabPod:
        """Runs a pod in the lab, and creates its object in the tenant's namespace `default`."""
        spec = {
            "nodeName": self.name,
            "containers": [
                {"image": IMAGE, **each, "command": each.get("command", ["sleep", "1000"])}
                for each in containers
            ],
        }
        path = f"/api/v1/tenants/{tenant}/namespaces/default/pods"
        body = {"metadata": {"name": name, "labels": labels or {}}, "spec": spec}
        answer = self.server.system.post(path, body)
        assert answer.status == 201, answer.body
        key = PodKey(HOME, TenantId(tenant), "default", name, answer.json["metadata"]["uid"])
        made = LabPod(key, answer.json, self.lab.runtime, await self.lab.sandbox())
        for each in containers:
            await self.start_container(made, each)
        self.pods.add(made)
        states = [_status(each["name"]) for each in containers]
        running = {"phase": "Running", "containerStatuses": states}
        answer = self.server.system.patch(f"{path}/{name}/status", {"status": running})
        assert answer.status == 200, answer.body
        return made

    def has_pod(self, pod: Object) -> None:
        """As if the pod ran here; it has no containers."""
        metadata = pod["metadata"]
        key = PodKey(
            HOME, TenantId(metadata["tenant"]), metadata["namespace"], metadata["name"], metadata["uid"]
        )
        self.pods.add(LabPod(key, pod, self.lab.runtime, ContainerId("none")))

    async def start_container(self, pod: LabPod, container: Object) -> ContainerId:
        """Starts the container's next attempt."""
        wanted = {"command": ["sleep", "1000"], **container}
        before = pod.containers.get(container["name"])
        id = await self.lab.container(pod.sandbox, wanted)
        handle = ContainerHandle(id, self.lab.log(id))
        if before is not None:
            handle = replace(handle, attempt=before.attempt + 1, previous_log_path=before.log_path)
        pod.containers[container["name"]] = handle
        return id

    def forget_pods(self) -> None:
        """Deletes the pods' objects; the lab stops their containers."""
        for pod in self.pods.all():
            key = pod.key
            path = f"/api/v1/tenants/{key.tenant}/namespaces/{key.namespace}/pods/{key.name}"
            self.server.system.delete(path, {"gracePeriodSeconds": 0})

    async def kubectl(
        self,
        caller: Caller,
        *arguments: str,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Done:
        """Runs the installed kubectl as `caller`."""
        process = await self.begin(caller, *arguments, env=env)
        async with asyncio.timeout(120):
            out, errors = await process.communicate(stdin or b"")
        assert process.returncode is not None
        return Done(process.returncode, out.decode(errors="replace"), errors.decode(errors="replace"))

    async def begin(
        self, caller: Caller, *arguments: str, env: Mapping[str, str] | None = None
    ) -> asyncio.subprocess.Process:
        """The same in the background."""
        return await asyncio.create_subprocess_exec(
            *("kubectl", "--kubeconfig", str(caller.kubeconfig)),
            *("--cache-dir", str(caller.kubeconfig.with_suffix(".cache")), *arguments),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **(env or {})}, limit=1 << 20,
        )  # fmt: skip


def serving_certificate(pki: Path, name: str, folder: Path) -> Path:
    """The path of a new certificate and key of a node, signed by the cluster's authority."""
    # Only tests use the CA's key directly; an agent requests its certificate.
    from cryptography.x509.oid import ExtendedKeyUsageOID

    from alcove.apiserver.auth import certificates, subjects
    from alcove.apiserver.auth.certificates import CertificateAuthority, CertificateProfile

    now = os.stat(pki / "ca.key").st_mtime  # noqa: PTH116
    authority = CertificateAuthority.open(pki, now)
    key = certificates.new_key()
    subject = subjects.Subject(SYSTEM, NODE_USER_PREFIX + name, (NODE_GROUP,))
    profile = CertificateProfile([ExtendedKeyUsageOID.SERVER_AUTH], [certificates.general_name("127.0.0.1")])
    made = authority.sign(
        key.public_key(), subjects.to_name(subject), profile, now, certificates.SERVING_LIFETIME
    )
    path = folder / f"{name}.pem"
    path.write_bytes(certificates.pem(made) + certificates.to_pem(key))
    return path


def _status(name: str) -> Object:
    return {
        "name": name, "image": IMAGE, "imageID": IMAGE, "ready": True, "restartCount": 0, "started": True,
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
    }  # fmt: skip
