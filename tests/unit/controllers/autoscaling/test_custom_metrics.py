"""Custom and external metrics: what is asked for, and what answers are worth."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import orjson
import pytest

from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.client import Client
from alcove.client.keys import HOME, ObjectKey
from alcove.client.transport import Stream
from alcove.controllers.autoscaling import custom_metrics
from alcove.controllers.autoscaling.samples import MetricsUnavailable
from alcove.http.client import ReceivedResponse

KEY = ObjectKey(HOME, TenantId("acme"), "shop", "web")
ROOT = "/tenants/acme/apis"
TIME = "2026-01-01T00:00:00Z"


class Answers:
    """Implements `client.transport.Transport`."""

    def __init__(self, *versions: str, items: Any = ()) -> None:
        self.paths: list[str] = []
        self._versions = versions
        self._items = items

    async def request(
        self, _method: str, path: str, _headers: Mapping[str, str], body: bytes = b""
    ) -> ReceivedResponse:
        self.paths.append(path)
        if path in (f"{ROOT}/custom.metrics.k8s.io", f"{ROOT}/external.metrics.k8s.io"):
            if not self._versions:
                return ReceivedResponse(
                    404, {}, orjson.dumps({"kind": "Status", "code": 404, "reason": "NotFound"})
                )
            return _json({"versions": [{"version": each} for each in self._versions]})
        if path == "/tenants/acme/api/v1":
            return _json({"resources": [{"name": "services", "kind": "Service", "namespaced": True}]})
        if self._items == "hangs":
            await asyncio.sleep(60)
        return self._items if isinstance(self._items, ReceivedResponse) else _json({"items": self._items})

    def stream(self, path: str, headers: Mapping[str, str]) -> AbstractAsyncContextManager[Stream]:
        raise AssertionError("nothing is streamed")

    async def close(self) -> None:
        pass


def _json(value: object) -> ReceivedResponse:
    return ReceivedResponse(200, {}, orjson.dumps(value))


def value(number: str, name: str = "p0", **fields: Any) -> Object:
    return {"describedObject": {"kind": "Pod", "name": name}, "timestamp": TIME, "value": number, **fields}


METRIC = {"metric": {"name": "queue length", "selector": {"matchLabels": {"q": "in"}}}}


async def test_pods_metrics_are_asked_for_by_both_selectors() -> None:
    answers = Answers(
        "v1beta1", "v1beta2", items=[value("1500m", windowSeconds=30), value("2", "p1", window="1m")]
    )
    found = await custom_metrics.of_pods(Client(answers), KEY, METRIC, "app=web,tier in (a,b)")
    assert answers.paths[-1] == (
        f"{ROOT}/custom.metrics.k8s.io/v1beta2/namespaces/shop/pods/*/queue%20length"
        "?labelSelector=app%3Dweb%2Ctier+in+%28a%2Cb%29&metricLabelSelector=q%3Din"
    )
    assert {name: (each.milli, each.window_seconds) for name, each in found.items()} == {
        "p0": (1_500, 30.0),
        "p1": (2_000, 60.0),
    }


@pytest.mark.parametrize(
    ("reference", "path"),
    [
        ({"kind": "Service", "name": "s", "apiVersion": "v1"}, "namespaces/shop/services/s/m"),
        (
            {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
            "namespaces/shop/deployments.apps/d/m",
        ),
        ({"kind": "Namespace", "name": "shop", "apiVersion": "v1"}, "namespaces/shop/metrics/m"),
    ],
)
async def test_an_objects_metric_is_asked_for_by_its_resource(reference: Object, path: str) -> None:
    answers = Answers("v1beta1", items=[value("3")])
    source = {"describedObject": reference, "metric": {"name": "m"}}
    assert await custom_metrics.of_object(Client(answers), KEY, source) == 3_000
    assert answers.paths[-1] == f"{ROOT}/custom.metrics.k8s.io/v1beta1/{path}"


async def test_external_values_are_added() -> None:
    answers = Answers("v1beta1", items=[value("3"), value("500m")])
    assert await custom_metrics.external(Client(answers), KEY, METRIC) == 3_500
    path = f"{ROOT}/external.metrics.k8s.io/v1beta1/namespaces/shop/queue%20length?labelSelector=q%3Din"
    assert answers.paths[-1] == path


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (Answers(), "no custom metrics API (custom.metrics.k8s.io) registered"),
        (Answers("v9"), "no custom metrics API (custom.metrics.k8s.io) registered"),
        (Answers("v1beta2"), "no metrics returned from custom metrics API"),
        (Answers("v1beta2", items={"a": 1}), "no metrics returned from custom metrics API"),
        (Answers("v1beta2", items=[value("many")]), "a value is not valid"),
        (Answers("v1beta2", items=[{"value": "1", "timestamp": TIME}]), "a value is not valid"),
        (Answers("v1beta2", items=[1, "x", None]), "a value is not valid"),
        (Answers("v1beta2", items=[value("1", timestamp="today")]), "a value is not valid"),
        (Answers("v1beta2", items=[value("1")] * (custom_metrics.VALUES_MAX + 1)), "more than 10000 values"),
        (Answers("v1beta2", items=ReceivedResponse(200, {}, b"<html>")), "the server's answer is not valid"),
        (
            Answers(
                "v1beta2", items=ReceivedResponse(403, {}, b'{"kind":"Status","message":"no","code":403}')
            ),
            "no",
        ),
        (Answers("v1beta2", items="hangs"), "context deadline exceeded"),
    ],
)
async def test_an_answer_that_is_none_makes_the_metric_unavailable(
    answers: Answers, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(custom_metrics, "SECONDS_MAX", 1.0)
    with pytest.raises(MetricsUnavailable) as unavailable:
        await custom_metrics.of_pods(Client(answers), KEY, METRIC, "app=web")
    assert str(unavailable.value).endswith(message)
