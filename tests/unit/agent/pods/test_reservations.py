"""Pods of a dedicated plane are started only as far as ring0 has reserved the node for the plane."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

import orjson
import pytest

from alcove.agent.podkey import PodKey
from alcove.agent.pods.admission import NodeAdmission, ResizeRefused
from alcove.agent.pods.executor import PodSetupError
from alcove.agent.pods.reservations import READ_SECONDS_MIN, NodeReservations
from alcove.api.errors import NotFound, status
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.client import Client
from alcove.client.keys import HOME, PlaneId
from alcove.client.transport import Stream
from alcove.http.client import ReceivedResponse

NODE = {"cpu": "8", "memory": "8Gi", "pods": "10"}
PLANE = PlaneId("big")


def _serving(tenant: TenantId) -> PlaneId:
    return PlaneId(tenant) if tenant == "big" else HOME


class Ring0:
    """Has the record of the node `n1`."""

    def __init__(self) -> None:
        self.data: dict[str, str] | None = None
        self.reads = 0
        self.now = 0.0

    async def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> ReceivedResponse:
        assert (method, path) == ("GET", "/api/v1/tenants/system/namespaces/alcove-escrow/configmaps/n1")
        self.reads += 1
        if self.data is None:
            return ReceivedResponse(404, {}, orjson.dumps(status(NotFound("none"))))
        metadata = {"name": "n1", "namespace": "alcove-escrow", "tenant": "system", "uid": "u"}
        return ReceivedResponse(200, {}, orjson.dumps({"metadata": metadata, "data": self.data}))

    def stream(self, path: str, headers: Mapping[str, str]) -> AbstractAsyncContextManager[Stream]:
        raise NotImplementedError

    async def close(self) -> None:
        pass


@pytest.fixture
def ring0() -> Ring0:
    return Ring0()


@pytest.fixture
def admission(ring0: Ring0) -> NodeAdmission:
    reservations = NodeReservations(Client(ring0), "n1", _serving, lambda: ring0.now)
    return NodeAdmission(NODE, None, reservations)


def key(name: str, tenant: str = "big") -> PodKey:
    return PodKey(_serving(TenantId(tenant)), TenantId(tenant), "default", name, f"uid-of-{name}")


def pod(cpu: str) -> Object:
    return {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}}


async def test_a_pod_that_nobody_scheduled_waits(ring0: Ring0, admission: NodeAdmission) -> None:
    with pytest.raises(PodSetupError, match="reserved nothing"):
        await admission.admit(key("a"), pod("1"))
    await admission.admit(key("at-home", "acme"), pod("1"))
    ring0.data = {"big": '{"cpu": 1000, "pods": 1}'}
    ring0.now += READ_SECONDS_MIN
    await admission.admit(key("a"), pod("1"))
    with pytest.raises(PodSetupError):
        await admission.admit(key("b"), pod("1m"))


async def test_one_planes_reservation_is_not_anothers(ring0: Ring0, admission: NodeAdmission) -> None:
    ring0.data = {"other": '{"cpu": 8000, "pods": 10}', "big": "nonsense"}
    with pytest.raises(PodSetupError):
        await admission.admit(key("a"), pod("1m"))


async def test_many_waiting_pods_read_it_once(ring0: Ring0, admission: NodeAdmission) -> None:
    for number in range(100):
        with pytest.raises(PodSetupError):
            await admission.admit(key(f"p{number}"), pod("1"))
    assert ring0.reads == 1


async def test_a_pod_grows_no_further_than_reserved(ring0: Ring0, admission: NodeAdmission) -> None:
    ring0.data = {"big": '{"cpu": 2000, "pods": 3}'}
    await admission.admit(key("a"), pod("1"))
    admission.resize(key("a"), pod("2"))
    with pytest.raises(ResizeRefused):
        admission.resize(key("a"), pod("3"))
    admission.resize(key("a"), pod("1"))
