"""Port names on endpoints are read back as they were written."""

from alcove.api.objects import Object
from alcove.network import portnames
from alcove.network.policy import NamedPort


def pod(*containers: list[Object], **more: list[Object]) -> Object:
    return {"spec": {"containers": [{"ports": ports} for ports in containers], **more}}


def endpoint(obj: Object) -> Object:
    return {"metadata": {"annotations": dict(portnames.mark(obj))}}


def test_named_ports_come_back() -> None:
    obj = pod(
        [{"name": "http", "containerPort": 8080}, {"containerPort": 9090}],
        [{"name": "dns", "containerPort": 53, "protocol": "UDP"}],
    )
    assert portnames.read(endpoint(obj)) == (NamedPort("http", "TCP", 8080), NamedPort("dns", "UDP", 53))


def test_pods_without_names_leave_no_mark() -> None:
    assert portnames.mark(pod([{"containerPort": 80}])) == {}
    assert portnames.read({"metadata": {}}) == ()
