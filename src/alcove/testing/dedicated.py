"""Dedicated planes for tests and benches: those of a real cluster, and an API server without the pod that ring0 runs it
in."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from alcove.agent.images import installation
from alcove.agent.images.references import full
from alcove.agent.images.store import Catalogue
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.apiserver.auth.certificates import CertificateAuthority
from alcove.cli.kubeconfig import KubeconfigCertificate, render
from alcove.client.kubeconfig import load
from alcove.controllers.planes import manifests
from alcove.processes.plane_certificates import plane_certificates
from alcove.testing.claims import free_port
from alcove.testing.cluster import RealCluster, condition
from alcove.testing.server import Caller, LocalServer, wait_until

READY_SECONDS_MAX = 180.0
RING0 = "/api/v1/namespaces/kube-system"


class DedicatedServer(LocalServer):
    """`alcove apiserver --tenant T`, which trusts the ring0 of `home`."""

    def __init__(
        self,
        directory: Path,
        home: LocalServer,
        tenant: str,
        own_keys: Mapping[str, str] | None = None,
        *options: str,
        port: int = 0,
    ) -> None:
        """`own_keys` are those that controllers have made for the plane; None for new ones."""
        keys = directory / "keys"
        keys.mkdir(parents=True)
        ring0 = CertificateAuthority.open(home.directory / "pki", time.time())
        texts = dict(own_keys or plane_certificates().own_keys(TenantId(tenant), {}, False))
        texts["ring0-ca.crt"] = ring0.certificate_pem.decode()
        texts["node-ca.crt"] = ring0.for_nodes(time.time()).certificate_pem.decode()
        for name, text in texts.items():
            (keys / name).write_text(text)
        self.authority = CertificateAuthority.open(keys, time.time())
        self._tenant = tenant
        super().__init__(directory / "data", "--tenant", tenant, "--keys", str(keys), *options, port=port)

    def admin(self) -> Caller:
        """The tenant's administrator; pods need the account that controllers would make."""
        self.make_namespace(self._tenant, "default")
        return self.as_tenant(self._tenant)

    @property
    def url(self) -> str:
        host, port = self.address
        return f"https://{host}:{port}"


class HollowPlanes:
    """Runs the API servers that a cluster with hollow nodes only reports as running."""

    def __init__(self, home: LocalServer, directory: Path) -> None:
        self._home = home
        self._directory = directory
        self._count = 0

    def start(self, tenant: str) -> DedicatedServer:
        """Starts the API server that ring0's StatefulSet describes, on an empty store."""
        system = self._home.system
        path = f"/apis/apps/v1/namespaces/kube-system/statefulsets/plane-{tenant}"
        wait_until(lambda: system.get(path).status == 200, READY_SECONDS_MAX)
        # Not the one that ring0 has chosen: it is free on a node, and here other tests have it too.
        port, at = free_port(), "/spec/template/spec/containers/0/ports/0"
        change = [
            {"op": "replace", "path": f"{at}/{each}", "value": port} for each in ("containerPort", "hostPort")
        ]
        assert system.patch(path, change, "json-patch+json").status == 200
        [container] = system.get(path).json["spec"]["template"]["spec"]["containers"]
        encoded = system.get(f"{RING0}/secrets/plane-{tenant}").json["data"]
        keys = {name: base64.b64decode(text).decode() for name, text in encoded.items()}
        self._count += 1
        server = DedicatedServer(
            self._directory / f"plane-{tenant}-{self._count}",
            self._home,
            tenant,
            keys,
            *(each for each in container["args"] if each == "--closed"),
            port=port,
        )
        server.start()
        return server


class DedicatedTenants:
    """Tenants of a real cluster whose API servers are pods of ring0."""

    def __init__(self, cluster: RealCluster, directory: Path) -> None:
        """Kubeconfigs are written to `directory`."""
        self.cluster = cluster
        self.system = cluster.server.system
        self._directory = directory

    def create(self, name: str, **control_plane: Any) -> Caller:
        """Returns its administrator, at the plane's own address, once the plane is joined."""
        self.request(name, **control_plane)
        return self.admin(name)

    def request(self, name: str, **control_plane: Any) -> None:
        """Creates the Tenant."""
        spec: Object = {"controlPlane": {"mode": "Dedicated", "storage": {"size": "128Mi"}, **control_plane}}
        if not self.cluster.runs_gvisor:
            spec["podSecurity"] = "privileged"  # Its pods run in plain containers then.
        answer = self.system.post("/api/v1/tenants", {"metadata": {"name": name}, "spec": spec})
        assert answer.status == 201, answer.body

    def tenant(self, name: str) -> Object:
        found: Object = self.system.get(f"/api/v1/tenants/{name}").json
        return found

    def admin(self, name: str) -> Caller:
        """Waits until the plane is joined and pods can be created there."""
        caller = self.first_caller(name)
        wait_until(lambda: condition(self.tenant(name), "Joined") == "True", READY_SECONDS_MAX)
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        wait_until(lambda: caller.get(account).status == 200, READY_SECONDS_MAX)
        return caller

    def first_caller(self, name: str) -> Caller:
        """The administrator, as soon as ring0 has issued the kubeconfig."""
        path = f"{RING0}/secrets/plane-{name}.admin"
        try:
            wait_until(lambda: self.system.get(path).status == 200, READY_SECONDS_MAX)
        except AssertionError as error:
            raise AssertionError(self.tenant(name).get("status")) from error
        kubeconfig = self._directory / f"{name}-admin.kubeconfig"
        kubeconfig.write_bytes(base64.b64decode(self.system.get(path).json["data"]["kubeconfig"]))
        return Caller(kubeconfig)

    def at_home(self, name: str) -> Caller:
        """The administrator at the home plane's address, with the certificate of the plane's authority."""
        home = load(self.cluster.server.admin_kubeconfig)
        return self._elsewhere(name, home.server, home.ca_pem, "home")

    def at(self, name: str, url: str) -> Caller:
        """The administrator at the address of one of several API servers."""
        authority = self.tenant(name)["status"]["controlPlane"]["certificateAuthority"].encode()
        return self._elsewhere(name, url, authority, url.rpartition(":")[2])

    def _elsewhere(self, name: str, server: str, authority: bytes, what: str) -> Caller:
        path = self._directory / f"{name}-{what}.kubeconfig"
        own = load(self.first_caller(name).kubeconfig)
        path.write_text(
            render(server, authority, name, "admin", KubeconfigCertificate(own.certificate_pem, own.key_pem))
        )
        return Caller(path)

    def add_version(self, version: str) -> None:
        """Gives the image of the installation another version, too, on all nodes."""
        for node in self.cluster.nodes:
            with Catalogue(node.data / "images").edit() as names:
                of_ring0 = names.setdefault(SYSTEM, {})
                of_ring0[full(f"{installation.REPOSITORY}:{version}")] = of_ring0[full(installation.NAME)]

    def plane_pid(self, name: str) -> int:
        """The process of an API server on this machine; 0 if there is none."""
        return _pid(
            lambda words: b"--tenant" in words and words[words.index(b"--tenant") + 1] == name.encode()
        )

    def etcd_pid(self, name: str) -> int:
        """The process of the plane's etcd; 0 if there is none."""
        path = f"/apis/apps/v1/namespaces/kube-system/statefulsets/planestore-{name}"
        answer = self.system.get(path)
        if answer.status != 200:
            return 0
        port = manifests.port_of(answer.json)
        url = f"--listen-client-urls=https://{self.cluster.nodes[0].address}:{port}".encode()
        return _pid(lambda words: url in words)


def _pid(matches: Callable[[list[bytes]], bool]) -> int:
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = each.read_bytes().split(b"\0")
        except OSError:
            continue
        if matches(words):
            return int(each.parent.name)
    return 0
