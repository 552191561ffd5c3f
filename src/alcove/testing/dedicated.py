"""Dedicated planes for tests and benches: those of a real cluster, and an API server without the pod that ring0 runs it
in."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.apiserver.auth.certificates import CertificateAuthority
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
        texts = dict(own_keys or plane_certificates().new_keys(TenantId(tenant)))
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

    def plane_pid(self, name: str) -> int:
        """The API server's process on this machine; 0 if there is none."""
        for each in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = each.read_bytes().split(b"\0")
            except OSError:
                continue
            if b"--tenant" in words and words[words.index(b"--tenant") + 1] == name.encode():
                return int(each.parent.name)
        return 0
