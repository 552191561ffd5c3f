"""Environment variables for services."""

from alcove.agent.network.environment import environment, service_variables
from alcove.api.objects import Object


def service(name: str, namespace: str = "default", network: str = "blue", host: str = "10.96.0.9") -> Object:
    ports = [{"name": "http", "port": 80}, {"name": "dns-udp", "port": 53, "protocol": "UDP"}]
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterIP": host, "ports": ports, "network": network},
    }


def test_variables_are_those_of_services_in_the_pods_namespace_and_network() -> None:
    pod: Object = {"metadata": {"namespace": "default"}, "spec": {"network": "blue"}}
    others = [service("far", "other"), service("strange", network="red"), service("headless", host="None")]
    variables = environment(pod, [service("my-web"), *others])
    assert variables["MY_WEB_SERVICE_HOST"] == "10.96.0.9"
    assert variables["MY_WEB_SERVICE_PORT"] == variables["MY_WEB_SERVICE_PORT_HTTP"] == "80"
    assert variables["MY_WEB_SERVICE_PORT_DNS_UDP"] == "53"
    assert variables["MY_WEB_PORT"] == variables["MY_WEB_PORT_80_TCP"] == "tcp://10.96.0.9:80"
    assert variables["MY_WEB_PORT_53_UDP_PROTO"] == "udp"
    assert not any(name.startswith(("FAR", "STRANGE", "HEADLESS")) for name in variables)
    assert variables["KUBERNETES_SERVICE_HOST"] == "kubernetes.default.svc"
    assert variables["KUBERNETES_SERVICE_PORT_HTTPS"] == "443"
    pod["spec"]["enableServiceLinks"] = False
    quiet = environment(pod, [service("my-web")])
    assert quiet["KUBERNETES_PORT_443_TCP_ADDR"] == "kubernetes.default.svc"
    assert not any(name.startswith("MY_WEB") for name in quiet)


def test_an_address_with_colons_is_in_brackets() -> None:
    variables = service_variables(service("six", host="fd96::9"))
    assert variables["SIX_PORT_80_TCP"] == "tcp://[fd96::9]:80"
    assert variables["SIX_PORT_80_TCP_ADDR"] == "fd96::9"
