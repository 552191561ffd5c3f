"""The pod and port that a proxied request selects."""

from __future__ import annotations

from typing import Any

import pytest

from alcove.api.errors import ApiError, BadRequest, NotFound, ServiceUnavailable
from alcove.api.objects import Object
from alcove.apiserver.streams.proxy_targets import ProxyName, ProxyPath, backend_of, path_of, pod_port, split


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        ("/api/v1/nodes/n1/proxy", ProxyPath("/api/v1/nodes/n1/proxy", "")),
        ("/api/v1/nodes/n1/proxy/", ProxyPath("/api/v1/nodes/n1/proxy", "/")),
        (
            "/tenants/t/api/v1/namespaces/a/pods/p:80/proxy/x//y/",
            ProxyPath("/tenants/t/api/v1/namespaces/a/pods/p:80/proxy", "/x//y/"),
        ),
        (
            "/api/v1/tenants/t/namespaces/proxy/services/proxy/proxy/proxy",
            ProxyPath("/api/v1/tenants/t/namespaces/proxy/services/proxy/proxy", "/proxy"),
        ),
        ("/api/v1/namespaces/a/pods/p/proxyx", None),
        ("/api/v1/namespaces/a/configmaps/p/proxy", None),
        ("/api/v1/namespaces/proxy/pods/proxy", None),
        ("/api/v1/namespaces/a/nodes/p/proxy", None),
        ("/api/v1/pods/p/proxy", None),
        ("/apis/x/v1/namespaces/a/pods/p/proxy", None),
    ],
)
def test_paths(raw: str, found: ProxyPath | None) -> None:
    assert path_of(raw) == found


@pytest.mark.parametrize(
    ("text", "proxy_name"),
    [
        ("p", ProxyName("http", "p", "")),
        ("p:80", ProxyName("http", "p", "80")),
        ("https:p:web", ProxyName("https", "p", "web")),
        (":p:", ProxyName("http", "p", "")),
        ("ftp:p:80", None),
        (":80", None),
        ("", None),
        ("http:p:80:", None),
    ],
)
def test_names(text: str, proxy_name: ProxyName | None) -> None:
    if proxy_name is not None:
        assert split(text, "pod") == proxy_name
        return
    with pytest.raises(BadRequest, match="invalid pod request"):
        split(text, "pod")


POD: Object = {
    "spec": {"containers": [{}, {"ports": [{"containerPort": 81}, {"containerPort": 82, "name": "b"}]}]}
}


@pytest.mark.parametrize(
    ("pod", "proxy_name", "port"),
    [
        (POD, ProxyName("http", "p", ""), 81),
        (POD, ProxyName("http", "p", "b"), 82),
        (POD, ProxyName("http", "p", "9"), 9),
        ({"spec": {"containers": [{}]}}, ProxyName("http", "p", ""), 80),
        ({"spec": {"containers": [{}]}}, ProxyName("https", "p", ""), 443),
        (POD, ProxyName("http", "p", "c"), None),
        (POD, ProxyName("http", "p", "65536"), None),
        (POD, ProxyName("http", "p", "²"), None),
    ],
)
def test_ports(pod: Object, proxy_name: ProxyName, port: int | None) -> None:
    if port is not None:
        assert pod_port(pod, proxy_name) == port
        return
    with pytest.raises(ServiceUnavailable, match="error trying to reach service"):
        pod_port(pod, proxy_name)


SERVICE: Object = {"spec": {"ports": [{"port": 80}, {"port": 443, "name": "tls"}]}}
BACK: Object = {
    "metadata": {"name": "p", "uid": "u"},
    "status": {"podIP": "1", "podIPs": [{"ip": "1"}, {"ip": "2"}]},
}


def endpoints(ip: str = "1", **ref: Any) -> Object:
    target = {"kind": "Pod", "name": "p", "uid": "u", "namespace": "a", **ref}
    subset = {
        "addresses": [{"ip": ip, "targetRef": target}],
        "ports": [{"port": 8080}, {"port": 8443, "name": "tls"}],
    }
    return {"metadata": {"namespace": "a"}, "subsets": [subset]}


def named(name: str, uid: str) -> Object | None:
    return BACK if (name, uid) == ("p", "u") else None


@pytest.mark.parametrize(
    ("port", "service", "found", "answer"),
    [
        ("", SERVICE, endpoints(), 8080),
        ("80", SERVICE, endpoints(), 8080),
        ("443", SERVICE, endpoints(ip="2"), 8443),
        ("tls", SERVICE, endpoints(), 8443),
        ("8080", SERVICE, endpoints(), ServiceUnavailable),
        ("other", SERVICE, endpoints(), ServiceUnavailable),
        ("80", None, None, NotFound),
        ("", None, None, NotFound),
        ("", SERVICE, None, NotFound),
        ("", SERVICE, {"metadata": {"namespace": "a"}}, ServiceUnavailable),
        ("", SERVICE, endpoints(ip="3"), ServiceUnavailable),
        ("", SERVICE, endpoints(uid="other"), ServiceUnavailable),
        ("", SERVICE, endpoints(namespace="b"), ServiceUnavailable),
        ("", SERVICE, endpoints(kind="Node"), ServiceUnavailable),
    ],
)
def test_backends(
    port: str, service: Object | None, found: Object | None, answer: int | type[ApiError]
) -> None:
    proxy_name = ProxyName("http", "s", port)
    if isinstance(answer, int):
        assert backend_of(proxy_name, service, found, named).port == answer
        return
    with pytest.raises(answer):
        backend_of(proxy_name, service, found, named)
