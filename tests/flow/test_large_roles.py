"""A tenant with thousands of rules: each request is decided by the roles as they are when it arrives."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from alcove.testing.server import Caller, LocalServer

RBAC = "/apis/rbac.authorization.k8s.io/v1"
READ = "/api/v1/namespaces/default/configmaps"
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    with LocalServer(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def tenant(server: LocalServer) -> str:
    name = f"roles-{next(_NUMBERS)}"
    admin = server.make_tenant(name)
    rules = [
        {"verbs": ["get"], "apiGroups": [""], "resources": [f"resource-{number}"]} for number in range(2_000)
    ]
    role = {"metadata": {"name": "large"}, "rules": [*rules, rule("configmaps", "list")]}
    assert admin.post(f"{RBAC}/clusterroles", role).status == 201
    return name


def rule(resource: str, verb: str) -> dict[str, list[str]]:
    return {"verbs": [verb], "apiGroups": [""], "resources": [resource]}


def bind(admin: Caller, user: str) -> None:
    body = {
        "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "large"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
    assert admin.post(f"{RBAC}/clusterrolebindings", body).status == 201


def itself(server: LocalServer, tenant: str) -> Callable[[], int]:
    caller = server.as_tenant(tenant, "ann")
    return lambda: caller.get(READ).status


def impersonated(server: LocalServer, tenant: str) -> Callable[[], int]:
    caller = server.as_tenant(tenant)
    return lambda: caller.get(READ, **{"Impersonate-User": "ann"}).status


@pytest.mark.parametrize("ask", [itself, impersonated])
def test_every_change_of_large_roles_counts_for_the_next_request(
    server: LocalServer, tenant: str, ask: Callable[[LocalServer, str], Callable[[], int]]
) -> None:
    admin, status = server.as_tenant(tenant), ask(server, tenant)
    for _ in range(3):
        assert status() == 403
        bind(admin, "ann")
        assert status() == 200
        assert admin.delete(f"{RBAC}/clusterrolebindings/ann").status == 200
