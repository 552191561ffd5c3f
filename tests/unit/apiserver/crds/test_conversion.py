"""Conversion by webhook: the request, accepted responses, and the errors for others."""

import copy
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from alcove.api import registry
from alcove.api.errors import InternalError, TooManyRequests
from alcove.api.objects import Object
from alcove.api.schema.structural import compile_schema
from alcove.apiserver.crds.conversion import (
    TIMEOUT_SECONDS,
    ConversionParts,
    Converter,
    WebhookError,
    relabel,
)
from alcove.apiserver.outbound.errors import TooManyCalls

CRD: Object = {
    "spec": {
        "conversion": {
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": {"url": "https://x/convert"},
                "conversionReviewVersions": ["v9", "v1"],
            },
        }
    }
}
OBJECT: Object = {
    "apiVersion": "example.com/v1",
    "kind": "Widget",
    "metadata": {"name": "w", "namespace": "n", "uid": "u", "labels": {"a": "b"}, "resourceVersion": "7"},
    "spec": {"size": 1},
}


def schema(field: str) -> Object:
    spec = {"type": "object", "properties": {field: {"type": "integer"}}}
    return {"type": "object", "properties": {"spec": spec}}


METADATA = registry.load().object_meta
NODES = {
    f"example.com/{version}": compile_schema(schema(field), "Widget", METADATA)
    for version, field in (("v1", "size"), ("v2", "width"))
}


class Webhook:
    """Responds as configured and records the requests."""

    def __init__(self, answer: Callable[[Object], Any]) -> None:
        self._answer = answer
        self.reviews: list[Object] = []

    @asynccontextmanager
    async def __call__(self, client: Object, body: bytes, *, timeout_seconds: float) -> AsyncIterator[bytes]:
        assert client == {"url": "https://x/convert"}
        assert timeout_seconds == TIMEOUT_SECONDS
        review = orjson.loads(body)
        self.reviews.append(review)
        answer = self._answer(review["request"])
        yield answer if isinstance(answer, bytes) else orjson.dumps(answer)


async def compute(_size: int, function: Callable[[], Any]) -> Any:
    return function()


def converter(webhook: Webhook) -> Converter:
    return Converter(CRD, NODES, ConversionParts(webhook, compute))


def review(request: Object, objects: Any, **response: Any) -> Object:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "response": {
            "uid": request["uid"],
            "result": {"status": "Success"},
            "convertedObjects": objects,
            **response,
        },
    }


def convert(request: Object) -> Object:
    objects = copy.deepcopy(request["objects"])
    for obj in objects:
        obj["apiVersion"] = request["desiredAPIVersion"]
        obj["spec"] = {"width": obj["spec"]["size"]}
        obj["metadata"]["labels"] = {"converted": "yes"}
        obj["metadata"]["resourceVersion"] = "999"
    return review(request, objects)


async def test_all_objects_are_converted_at_once() -> None:
    webhook = Webhook(convert)
    there = {**OBJECT, "apiVersion": "example.com/v2", "spec": {"width": 9}}
    found = await converter(webhook).convert([OBJECT, there, OBJECT], "example.com/v2")
    assert [obj["apiVersion"] for obj in found] == ["example.com/v2"] * 3
    assert [obj["spec"]["width"] for obj in found] == [1, 9, 1]
    (reviews,) = webhook.reviews
    assert reviews["apiVersion"] == "apiextensions.k8s.io/v1"
    assert len(reviews["request"]["objects"]) == 2


async def test_only_labels_and_annotations_of_metadata_may_change() -> None:
    (found,) = await converter(Webhook(convert)).convert([OBJECT], "example.com/v2")
    assert found["metadata"] == {**OBJECT["metadata"], "labels": {"converted": "yes"}}


async def test_nothing_is_asked_where_nothing_has_to_change() -> None:
    webhook = Webhook(convert)
    assert await converter(webhook).convert([OBJECT], "example.com/v1") == [OBJECT]
    assert webhook.reviews == []


async def test_a_tenant_with_too_many_calls_is_told_to_try_again() -> None:
    def refuse(_request: Object) -> Object:
        raise TooManyCalls

    with pytest.raises(TooManyRequests, match="too many concurrent webhook calls of this tenant; try again"):
        await converter(Webhook(refuse)).convert([OBJECT], "example.com/v2")


def changed(**fields: Any) -> Callable[[Object], Object]:
    return lambda request: review(request, [{**OBJECT, "apiVersion": "example.com/v2", **fields}])


PREFIX = "conversion webhook for example.com/v1, Kind=Widget"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda request: b"no json", f"{PREFIX} failed: the response is not JSON"),
        (
            lambda request: {"kind": "Pod", "apiVersion": "v1"},
            f"{PREFIX} failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /v1, Kind=Pod",
        ),
        (lambda request: {**review(request, []), "response": None}, f"{PREFIX} failed: no response provided"),
        (lambda request: review(request, [], uid="other"), f"{PREFIX} failed: expected response.uid="),
        (
            lambda request: review(request, [], result={"status": "Failure", "message": "cannot"}),
            f"{PREFIX} failed: cannot",
        ),
        (
            lambda request: review(request, [], result={"status": "Failure"}),
            f"{PREFIX} failed: response.result.status was 'Failure', not 'Success'",
        ),
        (
            lambda request: {**review(request, []), "more": [[]] * 100_000},
            f"{PREFIX} failed: the response has more than 100000 values",
        ),
        (lambda request: review(request, []), f"{PREFIX} returned 0 objects, expected 1"),
        (
            changed(apiVersion="example.com/v3"),
            f"{PREFIX} returned invalid converted object at index 0: invalid groupVersion (expected example.com/v2, received example.com/v3)",
        ),
        (
            changed(kind="Other"),
            f"{PREFIX} returned invalid converted object at index 0: invalid kind (expected Widget, received Other)",
        ),
        (
            changed(metadata={**OBJECT["metadata"], "name": "x"}),
            f"{PREFIX} returned invalid converted object at index 0: must have the same name: w != x",
        ),
        (
            changed(metadata={**OBJECT["metadata"], "uid": "x"}),
            f"{PREFIX} returned invalid converted object at index 0: must have the same UID: u != x",
        ),
        (
            changed(metadata=None),
            f"{PREFIX} returned invalid converted object at index 0: missing metadata in converted object",
        ),
        (
            changed(metadata={**OBJECT["metadata"], "labels": {"a": 1}}),
            f"{PREFIX} returned invalid converted object at index 0: invalid metadata.labels",
        ),
        (
            changed(metadata={**OBJECT["metadata"], "labels": {"a": "!"}}),
            f"{PREFIX} returned invalid converted object at index 0: metadata.labels",
        ),
        (
            lambda request: review(request, [5]),
            f"{PREFIX} returned invalid converted object at index 0: must be an object",
        ),
    ],
)
async def test_invalid_responses_are_rejected(answer: Callable[[Object], Any], message: str) -> None:
    with pytest.raises(InternalError) as caught:
        await converter(Webhook(answer)).convert([OBJECT], "example.com/v2")
    assert caught.value.message.startswith(message)


async def test_an_unreachable_webhook() -> None:
    def refuse(_request: Object) -> Any:
        raise WebhookError('Post "https://x/convert": connection refused')

    with pytest.raises(InternalError) as caught:
        await converter(Webhook(refuse)).convert([OBJECT], "example.com/v2")
    assert caught.value.message == f'{PREFIX} failed: Post "https://x/convert": connection refused'


def test_conversion_by_name_drops_what_the_version_does_not_know() -> None:
    to_v1, to_v2 = (relabel(api_version, node) for api_version, node in NODES.items())
    assert to_v1(copy.deepcopy(OBJECT)) == OBJECT
    assert to_v2(copy.deepcopy(OBJECT)) == {**OBJECT, "apiVersion": "example.com/v2", "spec": {}}


async def test_what_a_webhook_adds_is_pruned() -> None:
    def more(request: Object) -> Object:
        answer = convert(request)
        answer["response"]["convertedObjects"][0]["spec"]["more"] = 1
        return answer

    (found,) = await converter(Webhook(more)).convert([OBJECT], "example.com/v2")
    assert found["spec"] == {"width": 1}
