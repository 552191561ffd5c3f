"""The targets of an Ingress backend."""

import time
from typing import Any

from alcove.agent.ingress.targets import ServiceId, targets
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.keys import HOME, TenantKey
from alcove.network.ingress.ingress_spec import DesiredIngress, IngressBackend, IngressRule, PathType

SPACE = TenantKey(HOME, TenantId("blue"))


class Services:
    tenant_key = SPACE

    def __init__(self, service: Object, *slices: Object) -> None:
        self._service = service
        self._slices = list(slices)

    def service(self, service: ServiceId) -> Object | None:
        return self._service if service == ("default", "web") else None

    def slices_of(self, service: ServiceId) -> list[Object]:
        return self._slices if service == ("default", "web") else []


def service(**spec: Any) -> Object:
    ports = [{"name": "http", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}]
    return {"metadata": {"name": "web", "namespace": "default"}, "spec": {"ports": ports, **spec}}


def slice_(*addresses: str, ready: bool = True, name: str = "http") -> Object:
    conditions = {"ready": ready}
    return {
        "ports": [{"name": name, "port": 8080}],
        "endpoints": [{"addresses": [address], "conditions": conditions} for address in addresses],
    }


def found(services: Services, port: int | str = 80, network: str = "default", name: str = "web") -> object:
    backend = IngressBackend(name, port)
    rule = IngressRule("a.example", "/", PathType.PREFIX, backend)
    wanted = DesiredIngress("2026", "u", "default", "i", network, (rule,), None, ())
    [target] = targets(services, [wanted]).values()
    assert (target.tenant_key, target.network) == (SPACE, network)
    return target.addresses


def test_a_service_is_its_virtual_address() -> None:
    services = Services(service(clusterIP="10.96.0.9"), slice_("10.0.1.2"))
    assert found(services) == (("10.96.0.9", 80),)
    assert found(services, "http") == (("10.96.0.9", 80),)


def test_without_anybody_behind_it_there_is_none() -> None:
    for services in (
        Services(service(clusterIP="10.96.0.9")),
        Services(service(clusterIP="10.96.0.9"), slice_("10.0.1.2", ready=False)),
        Services(service(clusterIP="10.96.0.9"), slice_("10.0.1.2", name="other")),
    ):
        assert found(services) == ()


def test_without_an_address_it_is_the_pods() -> None:
    services = Services(
        service(clusterIP="None"), slice_("10.0.1.2", "10.0.1.3"), slice_("10.0.1.4", ready=False)
    )
    assert found(services) == (("10.0.1.2", 8080), ("10.0.1.3", 8080))


def test_what_is_not_there_or_not_its_own_leads_nowhere() -> None:
    services = Services(service(clusterIP="10.96.0.9"), slice_("10.0.1.2"))
    assert found(services, 81) == ()
    assert found(services, "dns") == (), "not TCP"
    assert found(services, name="other") == ()
    assert found(services, network="another") == (), "a service of another network"
    assert found(Services(service(type="ExternalName", externalName="evil.example"))) == ()


def test_many_backends_of_a_service_with_many_endpoints_are_read_together() -> None:
    """Ports times endpoints would take the agent seconds, at each change of a pod."""
    ports = [{"name": f"p{number}", "port": 1 + number} for number in range(2_000)]
    endpoints = [{"addresses": [f"10.0.{n}.{m}" for m in range(100)]} for n in range(500)]
    services = Services(service(clusterIP="10.96.0.9", ports=ports), {"ports": ports, "endpoints": endpoints})
    rules = tuple(
        IngressRule("a.example", f"/{number}", PathType.PREFIX, IngressBackend("web", 1 + number))
        for number in range(2_000)
    )
    wanted = DesiredIngress("2026", "u", "default", "i", "default", rules, None, ())
    began = time.process_time()
    found = targets(services, [wanted])
    assert time.process_time() - began < 1.0
    assert [each.addresses for each in found.values()] == [
        (("10.96.0.9", 1 + number),) for number in range(2_000)
    ]
