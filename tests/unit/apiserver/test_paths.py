"""The three path forms are equivalent; all other paths are rejected."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api.errors import BadRequest
from alcove.apiserver.paths import RequestTarget, parse


def fields(target: RequestTarget) -> tuple[str, ...]:
    return (target.group, target.version, target.resource, target.namespace, target.name, target.subresource)


@pytest.mark.parametrize(
    ("below", "expected"),
    [
        ("/api/v1/pods", ("", "v1", "pods", "", "", "")),
        ("/api/v1/namespaces/n/pods/p", ("", "v1", "pods", "n", "p", "")),
        ("/api/v1/namespaces/n/pods/p/status", ("", "v1", "pods", "n", "p", "status")),
        ("/api/v1/namespaces/n", ("", "v1", "namespaces", "n", "n", "")),
        ("/api/v1/namespaces/n/status", ("", "v1", "namespaces", "n", "n", "status")),
        ("/api/v1/namespaces/n/finalize", ("", "v1", "namespaces", "n", "n", "finalize")),
        ("/apis/apps/v1/namespaces/n/deployments", ("apps", "v1", "deployments", "n", "", "")),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/r",
            ("rbac.authorization.k8s.io", "v1", "clusterroles", "", "r", ""),
        ),
    ],
)
def test_three_forms(below: str, expected: tuple[str, ...]) -> None:
    head, version, rest = below.partition("/v1")
    full = f"{head}{version}/tenants/t{rest}"
    assert fields(parse(below)) == fields(parse(f"/tenants/t{below}")) == fields(parse(full)) == expected
    assert parse(below).tenant is None
    assert parse(f"/tenants/t{below}").tenant == parse(full).tenant == "t"


@pytest.mark.parametrize("tenant", ["", "/tenants/t"])
@pytest.mark.parametrize(
    ("below", "rest"), [("", ""), ("/", ""), ("/a/b", "a/b"), ("/a%2Fb/../c//%00", "a%2Fb/../c//%00")]
)
def test_the_path_after_proxy_is_not_interpreted(tenant: str, below: str, rest: str) -> None:
    for path, expected in (
        ("/namespaces/n/pods/p:80", ("", "v1", "pods", "n", "p:80", "proxy")),
        ("/namespaces/n/services/s", ("", "v1", "services", "n", "s", "proxy")),
        ("/nodes/n", ("", "v1", "nodes", "", "n", "proxy")),
    ):
        target = parse(f"{tenant}/api/v1{path}/proxy{below}")
        assert (fields(target), target.rest) == (expected, rest)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/v1/namespaces/proxy/pods/p", ("", "v1", "pods", "proxy", "p", "")),
        ("/api/v1/namespaces/pods/services/proxy/status", ("", "v1", "services", "pods", "proxy", "status")),
    ],
)
def test_proxy_is_a_name_like_any_other(path: str, expected: tuple[str, ...]) -> None:
    assert fields(parse(path)) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/v1/tenants", ("", "v1", "tenants", "", "", "")),
        ("/api/v1/tenants/t", ("", "v1", "tenants", "", "t", "")),
        ("/api/v1/tenants/t/status", ("", "v1", "tenants", "", "t", "status")),
        ("/api/v1/tenants/t/finalize", ("", "v1", "tenants", "", "t", "finalize")),
    ],
)
def test_the_tenant_object_itself(path: str, expected: tuple[str, ...]) -> None:
    assert fields(parse(path)) == expected and parse(path).tenant is None


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/version", "/openapi/v3/api/v1"]
)
def test_paths_that_are_no_resources_keep_their_own_name(path: str) -> None:
    for target in (parse(path), parse(f"/tenants/t{path}")):
        assert (not target.is_resource and target.path == path.rstrip("/")) or "/"


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/../pods",
        "/api/v1/namespaces/%2e%2e/pods",
        "/api/v1/pods/a%2fb",
        "/api/v1/pods/a%00",
        "/tenants/a/api/v1/tenants/b/pods",
    ],
)
def test_invalid_paths_are_rejected(path: str) -> None:
    with pytest.raises(BadRequest):
        parse(path)


@given(st.text(max_size=80))
def test_arbitrary_paths_are_parsed_or_rejected(path: str) -> None:
    try:
        target = parse("/" + path)
    except BadRequest:
        return
    assert ".." not in (target.namespace, target.name, target.tenant)


@pytest.mark.parametrize("rest", ["", "/", "/a/proxy/b"])
def test_a_namespace_may_be_called_proxy(rest: str) -> None:
    """Such a path was taken apart again and again, before anybody was authenticated."""
    target = parse(f"/api/v1/namespaces/proxy/pods/proxy/proxy{rest}")
    assert (target.namespace, target.name, target.subresource) == ("proxy", "proxy", "proxy")
    assert target.rest == rest.removeprefix("/")
