"""Host names between tenants, on a real API server: who has one, who waits, and what nodes serve."""

import asyncio
import base64
import socket
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from alcove.agent.ingress.certificates import IngressCertificates
from alcove.agent.ingress.reconciler import IngressReconciler
from alcove.agent.ingress.server import IngressServer
from alcove.agent.ingress.targets import ServiceId
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client import kubeconfig
from alcove.client.keys import HOME, TenantKey
from alcove.client.planes import Planes
from alcove.client.pool import HttpPool
from alcove.controllers.ingress import IngressController
from alcove.controllers.tenants import TenantController
from alcove.testing.certificates import self_signed
from alcove.testing.controllers import RunningControllers
from alcove.testing.server import Caller, LocalServer, wait_until

INGRESSES = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
PODS = "/api/v1/namespaces/default/pods"
_NUMBERS = count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    directory: Path = tmp_path_factory.mktemp("ingress")
    with (
        LocalServer(directory) as made,
        RunningControllers(made.admin_kubeconfig, (TenantController, IngressController)),
    ):
        for number in (1, 2):
            node = {"metadata": {"name": f"n{number}"}}
            assert made.system.post("/api/v1/nodes", node).status == 201
            patch = {"status": {"addresses": [{"type": "InternalIP", "address": f"192.0.2.{number}"}]}}
            assert made.system.patch(f"/api/v1/nodes/n{number}/status", patch).status == 200
        yield made


def make_tenant(server: LocalServer) -> tuple[str, Caller]:
    name = f"shop-{next(_NUMBERS)}"
    assert server.system.post("/api/v1/tenants", {"metadata": {"name": name}}).status == 201
    role = f"/apis/rbac.authorization.k8s.io/v1/tenants/{name}/clusterrolebindings/admin-role-binding"
    wait_until(lambda: server.system.get(role).status == 200)
    wait_until(lambda: server.system.get(f"/api/v1/tenants/{name}/namespaces/default").status == 200)
    return name, server.as_tenant(name)


def ingress(*hosts: str, name: str = "web", class_name: str = "alcove", secret: str = "") -> Object:
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    paths = {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}
    tls = [{"hosts": list(hosts), "secretName": secret}] if secret else []
    rules = [{"host": host, "http": paths} for host in hosts]
    return {"metadata": {"name": name}, "spec": {"ingressClassName": class_name, "rules": rules, "tls": tls}}


def place_pod(server: LocalServer, tenant: str, name: str, node: str) -> None:
    pod = {
        "metadata": {"name": name},
        "spec": {
            "containers": [{"name": "c", "image": "i"}], "nodeName": node, "serviceAccountName": "default",
            "automountServiceAccountToken": False,
        },
    }  # fmt: skip
    account = {"metadata": {"name": "default"}}
    base = f"/api/v1/tenants/{tenant}/namespaces/default"
    server.system.post(f"{base}/serviceaccounts", account)
    answer = server.system.post(f"{base}/pods", pod)
    assert answer.status == 201, answer.body


def addresses(caller: Caller, name: str = "web") -> list[str]:
    found = caller.get(f"{INGRESSES}/{name}").json
    return [each["ip"] for each in found.get("status", {}).get("loadBalancer", {}).get("ingress") or ()]


def reasons(caller: Caller) -> set[str]:
    return {each["reason"] for each in caller.get("/api/v1/namespaces/default/events").json["items"]}


def hosts_of(server: LocalServer, tenant: str) -> str:
    metadata = server.system.get(f"/api/v1/tenants/{tenant}").json["metadata"]
    return str(metadata.get("annotations", {}).get("ingress.alcove.io/hosts", ""))


def test_a_host_is_of_who_asked_first_until_he_lets_go(server: LocalServer) -> None:
    (blue, blues), (red, reds) = make_tenant(server), make_tenant(server)
    for tenant in (blue, red):
        place_pod(server, tenant, "web", "n1")
    assert blues.post(INGRESSES, ingress("first.example")).status == 201
    wait_until(lambda: hosts_of(server, blue) == "first.example")
    assert reds.post(INGRESSES, ingress("first.example", "own.example")).status == 201
    wait_until(lambda: hosts_of(server, red) == "own.example")
    wait_until(lambda: "HostTaken" in reasons(reds))
    wait_until(lambda: addresses(blues) == ["192.0.2.1"] and addresses(reds) == ["192.0.2.1"])
    assert "HostTaken" not in reasons(blues)
    assert blues.delete(f"{INGRESSES}/web").status == 200
    wait_until(lambda: hosts_of(server, red) == "first.example own.example")
    assert hosts_of(server, blue) == ""


def test_a_tenant_cannot_write_itself_a_host(server: LocalServer) -> None:
    _, caller = make_tenant(server)
    mark = {"metadata": {"annotations": {"ingress.alcove.io/hosts": "bank.example"}}}
    assert caller.patch("/api/v1/tenants/system", mark).status == 403


def test_names_under_anothers_star_wait(server: LocalServer) -> None:
    (blue, blues), (red, reds) = make_tenant(server), make_tenant(server)
    assert blues.post(INGRESSES, ingress("*.stars.example")).status == 201
    wait_until(lambda: hosts_of(server, blue) == "*.stars.example")
    assert reds.post(INGRESSES, ingress("a.stars.example")).status == 201
    wait_until(lambda: "HostTaken" in reasons(reds))
    assert hosts_of(server, red) == ""
    assert blues.delete(f"{INGRESSES}/web").status == 200
    wait_until(lambda: hosts_of(server, red) == "a.stars.example")


def test_status_follows_the_network_over_nodes(server: LocalServer) -> None:
    tenant, caller = make_tenant(server)
    assert caller.post(INGRESSES, ingress("follows.example")).status == 201
    wait_until(lambda: hosts_of(server, tenant) == "follows.example")
    assert addresses(caller) == []
    place_pod(server, tenant, "a", "n2")
    wait_until(lambda: addresses(caller) == ["192.0.2.2"])
    place_pod(server, tenant, "b", "n1")
    wait_until(lambda: addresses(caller) == ["192.0.2.1", "192.0.2.2"])
    assert caller.delete(f"{PODS}/a?gracePeriodSeconds=0").status == 200
    wait_until(lambda: addresses(caller) == ["192.0.2.1"])


def test_other_classes_are_others(server: LocalServer) -> None:
    tenant, caller = make_tenant(server)
    place_pod(server, tenant, "web", "n1")
    assert caller.post(INGRESSES, ingress("nginx.example", class_name="nginx")).status == 201
    assert caller.post(INGRESSES, ingress("ours.example", name="ours")).status == 201
    wait_until(lambda: addresses(caller, "ours") == ["192.0.2.1"])
    assert hosts_of(server, tenant) == "ours.example"
    assert addresses(caller) == []
    made = {"metadata": {"name": "nginx"}, "spec": {"controller": "alcove.io/ingress"}}
    assert caller.post("/apis/networking.k8s.io/v1/ingressclasses", made).status == 201
    wait_until(lambda: hosts_of(server, tenant) == "nginx.example ours.example")


def test_a_tenant_that_goes_leaves_its_names(server: LocalServer) -> None:
    (blue, blues), (red, reds) = make_tenant(server), make_tenant(server)
    assert blues.post(INGRESSES, ingress("inherit.example")).status == 201
    wait_until(lambda: hosts_of(server, blue) == "inherit.example")
    assert reds.post(INGRESSES, ingress("inherit.example")).status == 201
    wait_until(lambda: "HostTaken" in reasons(reds))
    assert blues.delete(f"{INGRESSES}/web").status == 200
    server.system.delete(f"/api/v1/tenants/{blue}")
    wait_until(lambda: hosts_of(server, red) == "inherit.example")


class Shop:
    """A tenant's services, read when asked for."""

    def __init__(self, tenant_key: TenantKey, service: Object) -> None:
        self.tenant_key = tenant_key
        self._service = service

    def service(self, service: ServiceId) -> Object | None:
        return self._service if service == ("default", "web") else None

    def slices_of(self, _service: ServiceId) -> list[Object]:
        return [{"ports": [{"port": 8080}], "endpoints": [{"addresses": ["10.0.1.2"]}]}]


async def test_a_node_serves_what_ring0_says(server: LocalServer) -> None:
    tenant, caller = await asyncio.to_thread(make_tenant, server)
    chain, key = (base64.b64encode(part).decode() for part in self_signed("node.example"))
    secret = {
        "metadata": {"name": "cert"},
        "type": "kubernetes.io/tls",
        "data": {"tls.crt": chain, "tls.key": key},
    }
    assert caller.post("/api/v1/namespaces/default/secrets", secret).status == 201
    assert caller.post(INGRESSES, ingress("node.example", "first.example", secret="cert")).status == 201
    tenant_key = TenantKey(HOME, TenantId(tenant))
    service = {"metadata": {"name": "web"}, "spec": {"clusterIP": "10.96.0.9", "ports": [{"port": 80}]}}
    transport = HttpPool(kubeconfig.load(server.admin_kubeconfig))

    async def nobody(_space: TenantKey, _network: str, _address: str, _port: int) -> socket.socket:
        raise ConnectionRefusedError

    proxy, certificates = IngressServer(nobody), IngressCertificates()
    try:
        async with Planes() as planes:
            planes.join(HOME, transport)
            serving = IngressReconciler(
                planes, proxy, certificates, lambda: {tenant_key: Shop(tenant_key, service)}
            )
            running = asyncio.create_task(serving.run())
            target = await asyncio.to_thread(wait_until, lambda: proxy.table.find("node.example", "/"))
            assert (target.tenant_key, target.addresses) == (tenant_key, (("10.96.0.9", 80),))
            assert proxy.table.find("first.example", "/") is None, "another tenant has it"
            await asyncio.to_thread(wait_until, lambda: certificates.find("node.example"))
            assert certificates.find("first.example") is None
            running.cancel()
            await asyncio.wait([running])
    finally:
        await transport.close()
