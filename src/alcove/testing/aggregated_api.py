"""A tenant with an aggregated API, whose extension server is on this machine, behind a real node's server.

async with LoopbackRig(server, ContainerLab(HollowRuntime(), folder), "worker") as rig:
    api = AggregatedApi(server, rig)
    with api.extension() as extension:
        await api.ready(extension)
        await api.get(THINGS)
"""

from __future__ import annotations

import asyncio
import base64
from itertools import count
from typing import Any

from alcove.api.objects import Object
from alcove.testing.extension_server import ExtensionServer
from alcove.testing.loopback_pods import LoopbackRig
from alcove.testing.server import Caller, LocalServer, ServerResponse, wait_until
from alcove.testing.webhook_server import issue

REGISTRATIONS = "/apis/apiregistration.k8s.io/v1/apiservices"
TRUST = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
BINDING: Object = {
    "metadata": {"name": "things-reads-trust"},
    "roleRef": {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "Role",
        "name": "extension-apiserver-authentication-reader",
    },
    "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
}
"""What every extension server's chart has."""
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
GROUP = "things.example.com"
ROOT = f"/apis/{GROUP}/v1"
THINGS = f"{ROOT}/namespaces/default/things"
NAME = f"v1.{GROUP}"
_NUMBERS = count()


class AggregatedApi:
    """A tenant with a node on this machine, and a service `things` whose pod is on it."""

    def __init__(self, server: LocalServer, rig: LoopbackRig) -> None:
        self.tenant = f"aggregated{next(_NUMBERS)}"
        self.caller: Caller = server.make_tenant(self.tenant)
        self.server = server
        self.rig = rig
        # A tenant has it once an extension server may read it.
        assert self.caller.get(TRUST).status == 404
        self.post(f"{RBAC}/namespaces/kube-system/rolebindings", BINDING)
        self.authority = self.caller.get(TRUST).json["data"]["requestheader-client-ca-file"].encode()
        self.certificate, self.key = issue(("things.default.svc",))

    def extension(self, group: str = GROUP) -> ExtensionServer:
        return ExtensionServer(group, self.certificate, self.key, self.authority)

    def serve(self, port: int, address: str = "10.0.0.5") -> None:
        """The service and its EndpointSlice as controllers would make it."""
        self.rig.place(self.tenant, "p0", [], address)
        spec = {"ports": [{"name": "https", "port": 443, "targetPort": port}], "selector": {"app": "things"}}
        self.post("/api/v1/namespaces/default/services", {"metadata": {"name": "things"}, "spec": spec})
        reference = {"kind": "Pod", "namespace": "default", "name": "p0"}
        slice_ = {
            "metadata": {"name": "things-1", "labels": {"kubernetes.io/service-name": "things"}},
            "addressType": "IPv4",
            "ports": [{"name": "https", "port": port}],
            "endpoints": [{"addresses": [address], "targetRef": reference}],
        }
        self.post(SLICES, slice_)

    def register(self, group: str = GROUP, version: str = "v1", **spec: Any) -> None:
        whole = {
            "group": group,
            "version": version,
            "groupPriorityMinimum": 500,
            "versionPriority": 10,
            "service": {"namespace": "default", "name": "things"},
            "caBundle": base64.b64encode(self.certificate).decode(),
            **spec,
        }
        self.post(REGISTRATIONS, {"metadata": {"name": f"{version}.{group}"}, "spec": whole})

    def post(self, path: str, body: Object) -> Object:
        answer = self.caller.post(path, body)
        assert answer.status == 201, answer.body
        return answer.json  # type: ignore[no-any-return]

    def condition(self, name: str = NAME) -> tuple[str, str]:
        status = self.caller.get(f"{REGISTRATIONS}/{name}").json["status"]
        [found] = [each for each in status["conditions"] if each["type"] == "Available"]
        return found["status"], found["reason"]

    def await_condition(self, *wanted: str) -> None:
        wait_until(lambda: self.condition() == wanted, 60)

    async def get(self, path: str, **headers: str) -> ServerResponse:
        return await asyncio.to_thread(self.caller.get, path, **headers)

    async def post_later(self, path: str, body: Any, **headers: str) -> ServerResponse:
        return await asyncio.to_thread(self.caller.request, "POST", path, body, **headers)

    async def ready(self, extension: ExtensionServer) -> None:
        self.serve(extension.port)
        self.register(extension.group)
        await asyncio.to_thread(wait_until, lambda: self.condition(f"v1.{extension.group}")[0] == "True", 60)

    def unregister(self) -> None:
        for each in self.caller.get(REGISTRATIONS).json["items"]:
            if each["spec"].get("service"):
                self.caller.delete(f"{REGISTRATIONS}/{each['metadata']['name']}")
