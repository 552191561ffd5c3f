"""A service's family, before and after it has an address."""

from alcove.api.kinds.core.services import STRATEGY
from alcove.api.objects import Object


def service(**spec: object) -> Object:
    body: Object = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], **spec}}
    STRATEGY.default(body)
    STRATEGY.prepare_create(body)
    return body


def messages(new: Object, old: Object) -> list[str]:
    return [str(error) for error in STRATEGY.validate_update(new, old)]


def test_the_network_decides_the_family_with_the_address() -> None:
    old = service()
    new = service(clusterIP="fd96::5", clusterIPs=["fd96::5"], ipFamilies=["IPv6"])
    assert "ipFamilies" not in old["spec"] and not messages(new, old)


def test_a_service_with_an_address_keeps_its_family() -> None:
    old = service(clusterIP="10.96.0.5", clusterIPs=["10.96.0.5"])
    new = service(clusterIP="10.96.0.5", clusterIPs=["10.96.0.5"], ipFamilies=["IPv6"])
    assert any("may not change once set" in each for each in messages(new, old))
