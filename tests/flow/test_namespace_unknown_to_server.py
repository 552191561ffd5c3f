"""A server that has not received a namespace yet refuses a create there: controllers try again, and complete it."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from alcove.client.resources import CONFIG_MAPS, ENDPOINTS, PODS, SERVICE_ACCOUNTS, Resource
from alcove.controllers.controller import Controller
from alcove.controllers.endpoints.legacy import EndpointsController
from alcove.controllers.replicasets.controller import ReplicaSetController
from alcove.controllers.rootca import RootCaController
from alcove.controllers.serviceaccounts import ServiceAccountController
from alcove.testing.controllers import RunningControllers
from alcove.testing.faults import CALM, FaultyTransport, Odds
from alcove.testing.server import Caller, LocalServer, wait_until

CONTROLLERS: tuple[type[Controller], ...] = (
    ServiceAccountController,
    RootCaController,
    EndpointsController,
    ReplicaSetController,
)
NEW = "/api/v1/namespaces/new"
UNKNOWN = Odds(unknown_place=1.0)
MADE = (
    (SERVICE_ACCOUNTS, f"{NEW}/serviceaccounts"),
    (CONFIG_MAPS, f"{NEW}/configmaps"),
    (ENDPOINTS, f"{NEW}/endpoints"),
    (PODS, f"{NEW}/pods"),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """One without the tenants of other tests, which the controllers would complete first."""
    with LocalServer(tmp_path_factory.mktemp("unknown")) as running:
        yield running


@pytest.fixture
def faulty(server: LocalServer) -> Iterator[FaultyTransport]:
    transports: list[FaultyTransport] = []

    def through(inner: Any) -> FaultyTransport:
        transports.append(FaultyTransport(inner, random.Random(1)))
        return transports[0]

    with RunningControllers(server.admin_kubeconfig, CONTROLLERS, through=through):
        yield transports[0]


def tries(faulty: FaultyTransport, resource: Resource) -> int:
    """How often something of this kind was to be made in the new namespace."""
    end = f"/namespaces/new/{resource.resource}"
    return sum(each.startswith("POST ") and each.partition("?")[0].endswith(end) for each in faulty.requests)


def test_everything_is_made_once_the_server_knows_it(tenant: Caller, faulty: FaultyTransport) -> None:
    faulty.odds = UNKNOWN
    assert tenant.post("/api/v1/namespaces", {"metadata": {"name": "new"}}).status == 201
    labels = {"app": "web"}
    service = {"metadata": {"name": "web"}, "spec": {"selector": labels, "ports": [{"port": 80}]}}
    assert tenant.post(f"{NEW}/services", service).status == 201
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    sets = "/apis/apps/v1/namespaces/new/replicasets"
    assert tenant.post(sets, {"metadata": {"name": "web"}, "spec": spec}).status == 201
    for resource, _ in MADE:
        wait_until(lambda resource=resource: tries(faulty, resource) >= 2)
    faulty.odds = CALM
    for _, path in MADE:
        wait_until(lambda path=path: tenant.get(path).json["items"])
    events = tenant.get(f"{NEW}/events").json["items"]
    assert not [each for each in events if each["type"] == "Warning" and "not found" in each["message"]]
