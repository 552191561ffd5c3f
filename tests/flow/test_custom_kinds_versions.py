"""Custom resources of several versions, through a real server: each is checked as what the client sent."""

import copy
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from alcove.testing.server import Caller, LocalServer
from alcove.testing.webhook_server import WebhookServer, allowed

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
V1 = "/apis/sea.example/v1/namespaces/default/boats"
V2 = "/apis/sea.example/v2/namespaces/default/boats"
_NUMBERS = count(1)


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """One that lets tenants' webhooks be on loopback, where the tests' are."""
    directory: Path = tmp_path_factory.mktemp("versions")
    with LocalServer(directory, "--webhook-network", "127.0.0.0/8") as running:
        yield running


@pytest.fixture
def acme(own_server: LocalServer) -> Caller:
    return own_server.make_tenant(f"v{next(_NUMBERS)}")


def version(
    name: str, fields: dict[str, Any], *, storage: bool = False, replicas: str = "", rule: str = ""
) -> dict[str, Any]:
    spec: dict[str, Any] = {"type": "object", "properties": fields}
    if rule:
        spec["x-kubernetes-validations"] = [{"rule": rule, "message": f"a rule of {name}"}]
    made: dict[str, Any] = {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    }
    if replicas:
        made["subresources"] = {
            "scale": {"specReplicasPath": replicas, "statusReplicasPath": ".status.replicas"}
        }
    return made


def crd(*versions: dict[str, Any], **spec: Any) -> dict[str, Any]:
    names = {"plural": "boats", "singular": "boat", "kind": "Boat"}
    return {
        "metadata": {"name": "boats.sea.example"},
        "spec": {
            "group": "sea.example",
            "scope": "Namespaced",
            "names": names,
            "versions": list(versions),
            **spec,
        },
    }


def boat(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "argo"}, "spec": spec}


ONE = version(
    "v1",
    {
        "size": {"type": "integer", "maximum": 10, "default": 3},
        "wood": {"type": "string"},
    },
    rule="!has(self.wood) || self.wood != 'balsa'",
)
TWO = version(
    "v2",
    {
        "size": {"type": "integer", "maximum": 100, "default": 30},
        "wood": {"type": "string", "maxLength": 20},
        "rig": {"type": "string", "default": "sloop"},
    },
    rule="!has(self.wood) || self.wood != 'ebony'",
    storage=True,
)


@pytest.fixture
def sea(acme: Caller) -> Caller:
    answer = acme.post(CRDS, crd(ONE, TWO))
    assert answer.status == 201, answer.body
    return acme


# Versions that differ by name and schema only


@pytest.mark.parametrize(
    ("path", "spec", "message"),
    [
        (V1, {"size": 50}, "less than or equal to 10"),
        (V2, {"size": 101}, "less than or equal to 100"),
        (V1, {"wood": "balsa"}, "a rule of v1"),
        (V2, {"wood": "ebony"}, "a rule of v2"),
        (V2, {"wood": "w" * 21}, "may not be more than 20 bytes"),
    ],
)
def test_an_object_is_checked_at_the_requests_version(
    sea: Caller, path: str, spec: dict[str, Any], message: str
) -> None:
    answer = sea.post(path, boat(**spec))
    assert answer.status == 422 and message in answer.json["message"], answer.body


@pytest.mark.parametrize(
    ("path", "spec"),
    [(V2, {"size": 50}), (V2, {"wood": "balsa"}), (V1, {"wood": "ebony"}), (V1, {"wood": "w" * 21})],
)
def test_what_only_another_version_refuses_is_taken(sea: Caller, path: str, spec: dict[str, Any]) -> None:
    answer = sea.post(path, boat(**spec))
    assert answer.status == 201, answer.body


def test_defaults_are_the_requests_versions(sea: Caller) -> None:
    made = sea.post(V1, boat()).json
    assert made["apiVersion"] == "sea.example/v1" and made["spec"] == {"size": 3}
    # What only the stored version knows is filled in by that one.
    assert sea.get(f"{V2}/argo").json["spec"] == {"size": 3, "rig": "sloop"}


def test_a_version_shows_only_what_it_knows(sea: Caller) -> None:
    sea.post(V2, boat(rig="ketch"))
    assert sea.get(f"{V1}/argo").json["spec"] == {"size": 30}
    assert [each["spec"] for each in sea.get(V1).json["items"]] == [{"size": 30}]
    assert sea.get(f"{V2}/argo").json["spec"]["rig"] == "ketch"


def test_a_version_adds_no_defaults_to_what_another_version_stored(acme: Caller) -> None:
    one = version("v1", {"size": {"type": "integer", "default": 3}})
    two = version("v2", {"size": {"type": "integer"}, "rig": {"type": "string"}}, storage=True)
    assert acme.post(CRDS, crd(one, two)).status == 201
    acme.post(V2, boat(rig="ketch"))
    assert acme.get(f"{V1}/argo").json["spec"] == {}
    two["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]["default"] = 8
    assert acme.patch(f"{CRDS}/boats.sea.example", {"spec": {"versions": [one, two]}}).status == 200
    assert acme.get(f"{V1}/argo").json["spec"] == {"size": 8}
    assert acme.get(f"{V2}/argo").json["spec"] == {"size": 8, "rig": "ketch"}


@pytest.mark.parametrize("kind", ["merge-patch+json", "apply-patch+yaml"])
def test_patches_are_checked_at_the_requests_version(sea: Caller, kind: str) -> None:
    query = "?fieldManager=me&force=true"

    def patch(path: str, version: str, **spec: Any) -> Any:
        body = {"apiVersion": f"sea.example/{version}", "kind": "Boat", "spec": spec}
        return sea.patch(f"{path}/argo{query if kind.startswith('apply') else ''}", body, kind)

    sea.post(V1, boat())
    refused = patch(V1, "v1", size=11)
    assert refused.status == 422 and "less than or equal to 10" in refused.json["message"]
    assert patch(V1, "v1", size=10).status == 200
    assert patch(V2, "v2", size=90).status == 200
    assert sea.get(f"{V1}/argo").json["spec"]["size"] == 90
    # Values that were too large before may stay so.
    assert sea.patch(f"{V1}/argo", {"metadata": {"labels": {"a": "b"}}}).status == 200


def test_a_replacement_is_checked_at_the_requests_version(sea: Caller) -> None:
    found = sea.post(V1, boat()).json
    refused = sea.put(f"{V1}/argo", {**found, "spec": {"size": 11}})
    assert refused.status == 422 and "less than or equal to 10" in refused.json["message"]
    found["apiVersion"] = "sea.example/v2"
    assert sea.put(f"{V2}/argo", {**found, "spec": {"size": 11}}).status == 200


def test_fields_are_owned_at_the_version_that_wrote_them(sea: Caller) -> None:
    made = sea.post(f"{V1}?fieldManager=me", boat(size=1)).json
    assert [each["apiVersion"] for each in made["metadata"]["managedFields"]] == ["sea.example/v1"]
    changed = sea.patch(f"{V2}/argo?fieldManager=you", {"spec": {"rig": "ketch"}}).json
    owners = {each["manager"]: each["apiVersion"] for each in changed["metadata"]["managedFields"]}
    assert owners == {"me": "sea.example/v1", "you": "sea.example/v2"}


def test_a_write_that_changes_nothing_brings_an_object_to_the_new_storage_version(acme: Caller) -> None:
    only = {**ONE, "storage": True}
    found = acme.post(CRDS, crd(only)).json
    made = acme.post(V1, boat(size=1)).json
    found["spec"]["versions"] = [ONE, TWO]
    assert acme.put(f"{CRDS}/boats.sea.example", found).status == 200
    moved = acme.patch(f"{V1}/argo", {}).json
    assert moved["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
    assert moved["metadata"]["generation"] == 1
    again = acme.patch(f"{V1}/argo", {}).json
    assert again["metadata"]["resourceVersion"] == moved["metadata"]["resourceVersion"]


# Versions a webhook apart


def renamed(_path: str, review: Any) -> Any:
    """v1 has spec.size, v2 spec.width; both come with a field that no version knows."""
    request = copy.deepcopy(review["request"])
    if review["kind"] == "AdmissionReview":
        return allowed(review)
    wanted = request["desiredAPIVersion"]
    old, new = ("size", "width") if wanted.endswith("v2") else ("width", "size")
    for obj in request["objects"]:
        obj["apiVersion"] = wanted
        spec = obj["spec"]
        if old in spec:
            spec[new] = spec.pop(old)
        spec["foam"] = True
    response = {
        "uid": request["uid"],
        "result": {"status": "Success"},
        "convertedObjects": request["objects"],
    }
    return {"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response}


def converted(webhook: WebhookServer, **client: Any) -> dict[str, Any]:
    conversion = {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {**webhook.client("/convert"), **client},
            "conversionReviewVersions": ["v1"],
        },
    }
    size = version("v1", {"size": {"type": "integer", "maximum": 10, "default": 3}}, replicas=".spec.size")
    width = version("v2", {"width": {"type": "integer", "maximum": 5}}, storage=True, replicas=".spec.width")
    return crd(size, width, conversion=conversion)


@pytest.fixture
def webhook() -> Iterator[WebhookServer]:
    with WebhookServer(renamed) as running:
        yield running


@pytest.fixture
def port(acme: Caller, webhook: WebhookServer) -> Caller:
    answer = acme.post(CRDS, converted(webhook))
    assert answer.status == 201, answer.body
    return acme


def test_an_object_is_converted_after_it_is_checked(port: Caller, webhook: WebhookServer) -> None:
    refused = port.post(V1, boat(size=11))
    assert refused.status == 422 and "spec.size" in refused.json["message"], refused.body
    assert webhook.seen == []
    # Not checked again at the stored version, which would refuse it.
    made = port.post(V1, boat(size=9))
    assert made.status == 201 and made.json["spec"] == {"size": 9}, made.body
    assert [each["request"]["desiredAPIVersion"] for each in webhook.seen] == [
        "sea.example/v2",
        "sea.example/v1",
    ]
    assert port.get(f"{V2}/argo").json["spec"] == {"width": 9}


def test_a_webhooks_object_comes_with_the_requests_defaults(port: Caller, webhook: WebhookServer) -> None:
    assert port.post(V1, boat()).json["spec"] == {"size": 3}
    [sent] = webhook.seen[0]["request"]["objects"]
    assert sent["apiVersion"] == "sea.example/v1" and sent["spec"] == {"size": 3}


def test_what_was_stored_without_a_default_is_completed_before_it_is_converted(
    acme: Caller, webhook: WebhookServer
) -> None:
    made = converted(webhook)
    assert acme.post(CRDS, made).status == 201
    acme.post(V2, boat())
    assert acme.get(f"{V1}/argo").json["spec"] == {}
    width = made["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"][
        "width"
    ]
    width["default"] = 4
    assert acme.patch(f"{CRDS}/boats.sea.example", {"spec": made["spec"]}).status == 200
    assert acme.get(f"{V1}/argo").json["spec"] == {"size": 4}
    assert [each["spec"] for each in acme.get(V1).json["items"]] == [{"size": 4}]


def test_what_no_version_knows_is_pruned_after_conversion(port: Caller) -> None:
    assert "foam" not in port.post(V1, boat()).json["spec"]
    assert "foam" not in port.get(f"{V1}/argo").json["spec"]
    assert "foam" not in port.get(f"{V2}/argo").json["spec"]


def test_updates_see_both_states_at_the_requests_version(port: Caller, webhook: WebhookServer) -> None:
    port.post(V2, boat(width=2))
    assert webhook.seen == []
    answer = port.patch(f"{V1}/argo", {"spec": {"size": 4}})
    assert answer.status == 200 and answer.json["spec"] == {"size": 4}, answer.body
    # The old one there, the new one back, the answer there.
    assert len(webhook.seen) == 3
    assert port.get(f"{V2}/argo").json["spec"] == {"width": 4}
    refused = port.patch(f"{V1}/argo", {"spec": {"size": 44}})
    assert refused.status == 422 and "spec.size" in refused.json["message"]


def test_a_scale_is_read_and_set_at_the_requests_version(port: Caller) -> None:
    port.post(V2, boat(width=2))
    assert port.get(f"{V1}/argo/scale").json["spec"] == {"replicas": 2}
    changed = port.patch(f"{V1}/argo/scale", {"spec": {"replicas": 4}})
    assert changed.status == 200 and changed.json["spec"] == {"replicas": 4}, changed.body
    assert port.get(f"{V2}/argo").json["spec"] == {"width": 4}
    assert port.get(f"{V2}/argo/scale").json["spec"] == {"replicas": 4}


def test_admission_webhooks_are_shown_the_version_they_ask_for(port: Caller, webhook: WebhookServer) -> None:
    for version in ("v1", "v2"):
        rule = {
            "apiGroups": ["sea.example"],
            "apiVersions": [version],
            "operations": ["*"],
            "resources": ["boats"],
        }
        hook = {
            "name": f"{version}.example.com",
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": webhook.client("/admit"),
        }
        configuration = {"metadata": {"name": version}, "webhooks": [hook]}
        kind = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        assert port.post(kind, configuration).status == 201
    assert port.post(V1, boat(size=1)).status == 201
    assert port.patch(f"{V1}/argo", {"spec": {"size": 2}}).status == 200
    assert port.delete(f"{V1}/argo").status == 200
    seen: dict[str, list[Any]] = {"v1": [], "v2": []}
    for review in webhook.seen:
        if review["kind"] == "AdmissionReview":
            request = review["request"]
            specs = [(request[each] or {}).get("spec") for each in ("object", "oldObject")]
            seen[request["kind"]["version"]].append(specs)
    assert seen["v1"] == [[{"size": 1}, None], [{"size": 2}, {"size": 1}], [None, {"size": 2}]]
    assert seen["v2"] == [[{"width": 1}, None], [{"width": 2}, {"width": 1}], [None, {"width": 2}]]


def test_a_list_that_is_larger_than_a_webhooks_response_may_be_is_converted(
    port: Caller, webhook: WebhookServer
) -> None:
    for number in range(9):
        large = {"metadata": {"name": f"large-{number}", "annotations": {"a": "x" * 200_000}}}
        assert port.post(V1, {**large, "spec": {"size": 1}}).status == 201
    before = len(webhook.seen)
    found = port.get(V1).json["items"]
    assert [each["apiVersion"] for each in found] == ["sea.example/v1"] * 9
    sent = [len(each["request"]["objects"]) for each in webhook.seen[before:]]
    assert sum(sent) == 9 and max(sent) == 2


def test_what_a_delete_leaves_is_converted(port: Caller) -> None:
    made = boat(size=3)
    made["metadata"]["finalizers"] = ["example.com/held"]
    assert port.post(V1, made).status == 201
    wanted = port.get(f"{V1}/argo").json["spec"]
    assert port.delete(f"{V1}/argo").json["spec"] == wanted
    [left] = port.delete(V1).json["items"]
    assert (left["apiVersion"], left["spec"]) == ("sea.example/v1", wanted)


def test_a_dry_run_is_answered_as_it_would_be_stored(port: Caller) -> None:
    made = port.post(f"{V1}?dryRun=All", boat(size=7))
    assert made.status == 201 and made.json["spec"] == {"size": 7}
    assert port.get(f"{V1}/argo").status == 404


def test_a_namespace_that_ends_while_an_object_is_converted_takes_nothing_more(acme: Caller) -> None:
    def respond(path: str, review: Any) -> Any:
        if review["request"]["desiredAPIVersion"].endswith("v2"):
            other = Caller(acme.kubeconfig)
            assert other.delete("/api/v1/namespaces/brief").status == 200
            other.close()
        return renamed(path, review)

    assert acme.post("/api/v1/namespaces", {"metadata": {"name": "brief"}}).status == 201
    with WebhookServer(respond) as slow:
        assert acme.post(CRDS, converted(slow)).status == 201
        answer = acme.post(V1.replace("/default/", "/brief/"), boat())
    assert answer.status == 403 and "because it is being terminated" in answer.json["message"], answer.body
    assert acme.get(V2.replace("/default/", "/brief/")).json["items"] == []


def test_without_its_webhook_the_stored_version_still_works(acme: Caller, webhook: WebhookServer) -> None:
    assert acme.post(CRDS, converted(webhook, url="https://127.0.0.1:1/")).status == 201
    failed = acme.post(V1, boat())
    assert (
        failed.status == 500
        and "conversion webhook for sea.example/v1, Kind=Boat failed" in (failed.json["message"])
    )
    assert acme.post(V2, boat(width=1)).status == 201
    assert acme.get(f"{V1}/argo").status == 500
    assert acme.delete(f"{V2}/argo").status == 200
