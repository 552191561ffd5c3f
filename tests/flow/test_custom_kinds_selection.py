"""Field selectors of a version that a webhook converts to: they name fields that stored objects do not have."""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from alcove.testing.server import Caller, LocalServer, wait_until
from alcove.testing.webhook_server import WebhookServer

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
V1 = "/apis/sea.example/v1/namespaces/default/boats"
V2 = "/apis/sea.example/v2/namespaces/default/boats"


def split(_path: str, review: Any) -> Any:
    """v1, which is stored, has `berth: north:7`; v2 has `harbour: north` and `place: "7"`."""
    request = review["request"]
    wanted = request["desiredAPIVersion"]
    for obj in request["objects"]:
        obj["apiVersion"] = wanted
        if wanted.endswith("v2") and "berth" in obj:
            obj["harbour"], _, obj["place"] = obj.pop("berth").partition(":")
        elif wanted.endswith("v1") and "harbour" in obj:
            obj["berth"] = f"{obj.pop('harbour')}:{obj.pop('place', '')}"
    response = {
        "uid": request["uid"],
        "result": {"status": "Success"},
        "convertedObjects": request["objects"],
    }
    return {"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response}


def version(name: str, *fields: str, storage: bool) -> dict[str, Any]:
    schema = {"type": "object", "properties": {field: {"type": "string"} for field in fields}}
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": schema},
        "selectableFields": [{"jsonPath": f".{field}"} for field in fields],
    }


@pytest.fixture(scope="module")
def acme(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    directory = tmp_path_factory.mktemp("selection")
    with (
        LocalServer(directory, "--webhook-network", "127.0.0.0/8") as server,
        WebhookServer(split) as webhook,
    ):
        caller = server.make_tenant("acme")
        conversion = {"clientConfig": webhook.client("/convert"), "conversionReviewVersions": ["v1"]}
        spec = {
            "group": "sea.example",
            "scope": "Namespaced",
            "names": {"plural": "boats", "singular": "boat", "kind": "Boat"},
            "versions": [
                version("v1", "berth", storage=True),
                version("v2", "harbour", "place", storage=False),
            ],
            "conversion": {"strategy": "Webhook", "webhook": conversion},
        }
        answer = caller.post(CRDS, {"metadata": {"name": "boats.sea.example"}, "spec": spec})
        assert answer.status == 201, answer.body
        yield caller


def names(caller: Caller, path: str, selector: str, more: str = "") -> list[str]:
    answer = caller.get(f"{path}?fieldSelector={selector}{more}")
    assert answer.status == 200, answer.body
    return [each["metadata"]["name"] for each in answer.json["items"]]


def events(caller: Caller, path: str, selector: str, revision: str) -> list[tuple[str, str]]:
    query = f"fieldSelector={selector}&watch=true&timeoutSeconds=1&resourceVersion={revision}"
    lines = [orjson.loads(line) for line in caller.get(f"{path}?{query}").body.splitlines()]
    return [(each["type"], each["object"]["metadata"]["name"]) for each in lines]


def test_objects_are_selected_by_the_fields_of_the_requested_version(acme: Caller) -> None:
    revision = acme.get(V2).json["metadata"]["resourceVersion"]
    for name, place in (("argo", "north:7"), ("beagle", "north:8"), ("calypso", "south:7")):
        harbour, _, number = place.partition(":")
        made = acme.post(V2, {"metadata": {"name": name}, "harbour": harbour, "place": number})
        assert made.status == 201, made.body
    north, one = "harbour%3Dnorth", "harbour%3Dnorth,place%3D7"
    assert names(acme, V2, north) == ["argo", "beagle"] and names(acme, V2, one) == ["argo"]
    assert names(acme, V2, north, "&limit=1") == ["argo"]
    assert names(acme, V1, "berth%3Dnorth:8") == ["beagle"]
    added = [("ADDED", "argo"), ("ADDED", "beagle")]
    wait_until(lambda: events(acme, V2, north, revision) == added)
    assert acme.delete(f"{V2}?fieldSelector={one}").status == 200
    moved = acme.patch(f"{V2}/beagle", {"harbour": "south"})
    assert moved.status == 200, moved.body
    assert names(acme, V2, north) == [] and names(acme, V2, "harbour%3Dsouth") == ["beagle", "calypso"]
    wait_until(
        lambda: events(acme, V2, north, revision) == [*added, ("DELETED", "argo"), ("DELETED", "beagle")]
    )
    assert events(acme, V1, "berth%3Dnorth:7", revision) == [("ADDED", "argo"), ("DELETED", "argo")]
