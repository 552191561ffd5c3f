"""Host names between tenants, on a real API server: who was granted one, who was not, and what nodes serve."""

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
from alcove.network.ingress.domains import DomainGrants
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


def make_tenant(server: LocalServer, *domains: str) -> tuple[str, Caller]:
    name = f"shop-{next(_NUMBERS)}"
    tenant = {"metadata": {"name": name}, "spec": {"domains": list(domains)}}
    assert server.system.post("/api/v1/tenants", tenant).status == 201
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


def messages(caller: Caller, reason: str = "HostNotGranted") -> set[str]:
    events = caller.get("/api/v1/namespaces/default/events").json["items"]
    return {each["message"] for each in events if each["reason"] == reason}


def grant(server: LocalServer, tenant: str, *domains: str) -> None:
    patch = {"spec": {"domains": list(domains)}}
    assert server.system.patch(f"/api/v1/tenants/{tenant}", patch).status == 200


def test_a_host_is_served_once_ring0_grants_it_and_no_longer_than_that(server: LocalServer) -> None:
    tenant, caller = make_tenant(server)
    place_pod(server, tenant, "web", "n1")
    assert caller.post(INGRESSES, ingress("wish.example")).status == 201
    wait_until(lambda: messages(caller))
    [message] = messages(caller)
    assert message == (
        'host "wish.example" is not served: ask the cluster\'s administrator to add it to spec.domains of '
        f'tenant "{tenant}"'
    )
    assert addresses(caller) == []
    grant(server, tenant, "wish.example")
    wait_until(lambda: addresses(caller) == ["192.0.2.1"])
    grant(server, tenant)
    wait_until(lambda: addresses(caller) == [])


def test_who_asks_first_gets_nothing_by_it(server: LocalServer) -> None:
    """A squatter has every name before its owner has; what it is told does not depend on the owner."""
    (squatter, squats), (owner, owns) = make_tenant(server), make_tenant(server)
    for tenant in (squatter, owner):
        place_pod(server, tenant, "web", "n1")
    assert squats.post(INGRESSES, ingress("bank.example", "*.example", "*.com")).status == 201
    wait_until(lambda: len(messages(squats)) == 3)
    told = messages(squats)
    grant(server, owner, "bank.example")
    assert owns.post(INGRESSES, ingress("bank.example")).status == 201
    wait_until(lambda: addresses(owns) == ["192.0.2.1"])
    assert addresses(squats) == []
    assert messages(squats) == told
    assert not messages(owns)


def test_a_tenant_cannot_grant_itself_a_host(server: LocalServer) -> None:
    tenant, caller = make_tenant(server)
    for path in (f"/api/v1/tenants/{tenant}", "/api/v1/tenants/system"):
        assert caller.patch(path, {"spec": {"domains": ["bank.example"]}}).status == 403


def test_a_wildcard_is_granted_except_for_names_that_another_was_granted(server: LocalServer) -> None:
    blue, blues = make_tenant(server, "*.stars.example")
    red, reds = make_tenant(server, "a.stars.example")
    for tenant in (blue, red):
        place_pod(server, tenant, "web", "n1")
    assert blues.post(INGRESSES, ingress("*.stars.example", "b.stars.example")).status == 201
    assert blues.post(INGRESSES, ingress("a.stars.example", name="taken")).status == 201
    assert reds.post(INGRESSES, ingress("a.stars.example")).status == 201
    wait_until(lambda: addresses(blues) == ["192.0.2.1"] and addresses(reds) == ["192.0.2.1"])
    wait_until(lambda: messages(blues))
    assert addresses(blues, "taken") == []
    grant(server, red)
    wait_until(lambda: addresses(blues, "taken") == ["192.0.2.1"] and addresses(reds) == [])


def test_of_two_tenants_with_one_grant_the_older_has_it_and_ring0_is_told(server: LocalServer) -> None:
    (old, olds), (young, youngs) = make_tenant(server, "twice.example"), make_tenant(server)
    for tenant in (old, young):
        place_pod(server, tenant, "web", "n1")
    assert olds.post(INGRESSES, ingress("twice.example")).status == 201
    assert youngs.post(INGRESSES, ingress("twice.example")).status == 201
    grant(server, young, "twice.example")
    wait_until(
        lambda: any(young in each or old in each for each in messages(server.system, "DomainShadowed"))
    )
    wait_until(lambda: addresses(olds) == ["192.0.2.1"] and messages(youngs))
    assert addresses(youngs) == []
    grant(server, old)
    wait_until(lambda: addresses(youngs) == ["192.0.2.1"])


def test_ring0_needs_no_grant(server: LocalServer) -> None:
    place_pod(server, "system", "web", "n2")
    assert server.system.post(INGRESSES, ingress("ring0.example", name="ring0")).status == 201
    wait_until(lambda: addresses(server.system, "ring0") == ["192.0.2.2"])


def test_status_follows_the_network_over_nodes(server: LocalServer) -> None:
    tenant, caller = make_tenant(server, "follows.example")
    assert caller.post(INGRESSES, ingress("follows.example")).status == 201
    place_pod(server, tenant, "a", "n2")
    wait_until(lambda: addresses(caller) == ["192.0.2.2"])
    place_pod(server, tenant, "b", "n1")
    wait_until(lambda: addresses(caller) == ["192.0.2.1", "192.0.2.2"])
    assert caller.delete(f"{PODS}/a?gracePeriodSeconds=0").status == 200
    wait_until(lambda: addresses(caller) == ["192.0.2.1"])


def test_other_classes_are_others(server: LocalServer) -> None:
    tenant, caller = make_tenant(server, "nginx.example", "ours.example")
    place_pod(server, tenant, "web", "n1")
    assert caller.post(INGRESSES, ingress("nginx.example", class_name="nginx")).status == 201
    assert caller.post(INGRESSES, ingress("ours.example", name="ours")).status == 201
    wait_until(lambda: addresses(caller, "ours") == ["192.0.2.1"])
    assert addresses(caller) == []
    made = {"metadata": {"name": "nginx"}, "spec": {"controller": "alcove.io/ingress"}}
    assert caller.post("/apis/networking.k8s.io/v1/ingressclasses", made).status == 201
    wait_until(lambda: addresses(caller) == ["192.0.2.1"])


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
    tenant, caller = await asyncio.to_thread(make_tenant, server, "node.example")
    chain, key = (base64.b64encode(part).decode() for part in self_signed("node.example"))
    secret = {
        "metadata": {"name": "cert"},
        "type": "kubernetes.io/tls",
        "data": {"tls.crt": chain, "tls.key": key},
    }
    assert caller.post("/api/v1/namespaces/default/secrets", secret).status == 201
    assert caller.post(INGRESSES, ingress("node.example", "other.example", secret="cert")).status == 201
    tenant_key = TenantKey(HOME, TenantId(tenant))
    service = {"metadata": {"name": "web"}, "spec": {"clusterIP": "10.96.0.9", "ports": [{"port": 80}]}}
    transport = HttpPool(kubeconfig.load(server.admin_kubeconfig))

    async def nobody(_space: TenantKey, _network: str, _address: str, _port: int) -> socket.socket:
        raise ConnectionRefusedError

    grants = DomainGrants()
    proxy, certificates = IngressServer(nobody), IngressCertificates(grants)
    try:
        async with Planes() as planes:
            planes.join(HOME, transport)
            serving = IngressReconciler(
                planes, proxy, certificates, grants, lambda: {tenant_key: Shop(tenant_key, service)}
            )
            running = asyncio.create_task(serving.run())
            target = await asyncio.to_thread(wait_until, lambda: proxy.table.find("node.example", "/"))
            assert (target.tenant_key, target.addresses) == (tenant_key, (("10.96.0.9", 80),))
            assert proxy.table.find("other.example", "/") is None, "it was not granted"
            await asyncio.to_thread(wait_until, lambda: certificates.find("node.example"))
            assert certificates.find("other.example") is None
            running.cancel()
            await asyncio.wait([running])
    finally:
        await transport.close()
