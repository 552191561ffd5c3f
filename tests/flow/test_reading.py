"""get, list and watch through a real server: pages, revisions, selectors, forms, events."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from alcove.testing.server import Caller, LocalServer

MAPS = "/api/v1/namespaces/default/configmaps"


def make(caller: Caller, name: str, **labels: str) -> dict[str, Any]:
    answer = caller.post(MAPS, {"metadata": {"name": name, "labels": labels}, "data": {"n": name}})
    assert answer.status == 201, answer.body
    made: dict[str, Any] = answer.json
    return made


def names(answer_json: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in answer_json["items"]]


def events(body: bytes) -> list[tuple[str, str]]:
    found = [json.loads(line) for line in body.splitlines() if line.strip()]
    return [(event["type"], event["object"].get("metadata", {}).get("name", "")) for event in found]


@pytest.fixture
def ten(tenant: Caller) -> Iterator[Caller]:
    for number in range(10):
        make(tenant, f"m{number}", parity="even" if number % 2 == 0 else "odd")
    yield tenant


# list


def test_a_list_is_in_order_and_has_a_revision(ten: Caller) -> None:
    body = ten.get(MAPS).json
    assert names(body) == [f"m{number}" for number in range(10)]
    assert body["kind"] == "ConfigMapList" and int(body["metadata"]["resourceVersion"]) > 0


def test_label_and_field_selectors(ten: Caller) -> None:
    assert len(names(ten.get(f"{MAPS}?labelSelector=parity%3Deven").json)) == 5
    assert names(
        ten.get(
            f"{MAPS}?labelSelector=parity%20in%20(odd),parity!%3Deven&fieldSelector=metadata.name%3Dm3"
        ).json
    ) == ["m3"]
    assert len(names(ten.get(f"{MAPS}?fieldSelector=metadata.name!%3Dm3").json)) == 9
    assert names(ten.get(f"{MAPS}?labelSelector=!parity").json) == []


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("labelSelector=a%3D%3D%3Db", "unable to parse requirement"),
        ("fieldSelector=data.n%3Dx", "field label not supported: data.n"),
        ("resourceVersion=abc", "invalid resource version"),
        ("limit=abc", "limit must be a whole number"),
        ("continue=%21%21", "continue key is not valid"),
    ],
)
def test_bad_list_options_say_what_is_wrong(tenant: Caller, query: str, message: str) -> None:
    answer = tenant.get(f"{MAPS}?{query}")
    assert answer.status == 400 and message in answer.json["message"], answer.body


def test_pages_show_one_moment_whatever_is_written_in_between(ten: Caller) -> None:
    page = ten.get(f"{MAPS}?limit=4").json
    assert names(page) == ["m0", "m1", "m2", "m3"] and page["metadata"]["remainingItemCount"] == 6
    assert ten.delete(f"{MAPS}/m5").status == 200
    make(ten, "m55")
    ten.patch(f"{MAPS}/m6", {"data": {"n": "changed"}})
    seen = names(page)
    second = ten.get(f"{MAPS}?limit=4&continue={page['metadata']['continue']}").json
    third = ten.get(f"{MAPS}?limit=4&continue={second['metadata']['continue']}").json
    seen += names(second) + names(third)
    assert seen == [f"m{number}" for number in range(10)]
    assert {part["metadata"]["resourceVersion"] for part in (page, second, third)} == {
        page["metadata"]["resourceVersion"]
    }
    assert "continue" not in third["metadata"]
    assert [item["data"]["n"] for item in second["items"]] == ["m4", "m5", "m6", "m7"]


def test_pages_go_across_namespaces(server: LocalServer, tenant: Caller) -> None:
    name = tenant.get("/api/v1/namespaces/default").json["metadata"]["tenant"]
    server.make_namespace(name, "other")
    for namespace in ("default", "other"):
        for number in range(3):
            tenant.post(f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": f"s{number}"}})
    seen: list[str] = []
    token = ""
    for _ in range(10):
        page = tenant.get(f"/api/v1/secrets?limit=2&continue={token}").json
        seen += [f"{item['metadata']['namespace']}/{item['metadata']['name']}" for item in page["items"]]
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert seen == [f"{namespace}/s{number}" for namespace in ("default", "other") for number in range(3)]


def test_resource_version_match(ten: Caller) -> None:
    before = ten.get(MAPS).json["metadata"]["resourceVersion"]
    make(ten, "late")
    exact = ten.get(f"{MAPS}?resourceVersion={before}&resourceVersionMatch=Exact").json
    assert "late" not in names(exact) and exact["metadata"]["resourceVersion"] == before
    newer = ten.get(f"{MAPS}?resourceVersion={before}&resourceVersionMatch=NotOlderThan").json
    assert "late" in names(newer)
    assert "late" in names(ten.get(f"{MAPS}?resourceVersion=0").json)
    assert ten.get(f"{MAPS}?resourceVersionMatch=Exact").status == 422
    assert ten.get(f"{MAPS}?resourceVersion=0&resourceVersionMatch=Exact").status == 422
    assert ten.get(f"{MAPS}?resourceVersion={before}&resourceVersionMatch=Nonsense").status == 422
    future = ten.get(f"{MAPS}?resourceVersion=999999999")
    assert future.status == 504 and future.json["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


# forms


def test_reviews_are_no_tables(server: LocalServer) -> None:
    attributes = {"nonResourceAttributes": {"path": "/", "verb": "get"}}
    answer = server.make_tenant("ten-reviews").request(
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        {"spec": attributes},
        accept="application/json;as=Table;v=v1;g=meta.k8s.io",
    )
    assert answer.status == 406 and answer.json["reason"] == "NotAcceptable"


def test_table_metadata_and_yaml(ten: Caller) -> None:
    table = ten.get(MAPS, accept="application/json;as=Table;v=v1;g=meta.k8s.io,application/json").json
    assert table["kind"] == "Table"
    assert [column["name"] for column in table["columnDefinitions"]][:2] == ["Name", "Data"]
    assert table["rows"][0]["cells"][:2] == ["m0", 1]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    partial = ten.get(MAPS, accept="application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io").json
    assert partial["kind"] == "PartialObjectMetadataList" and "data" not in partial["items"][0]
    one = ten.get(f"{MAPS}/m0", accept="application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io").json
    assert one["kind"] == "PartialObjectMetadata" and one["metadata"]["name"] == "m0"
    assert b"kind: ConfigMap\n" in ten.get(f"{MAPS}/m0", accept="application/yaml").body
    assert ten.get(MAPS, accept="image/png").status == 406
    bare = ten.get(f"{MAPS}?includeObject=None", accept="application/json;as=Table;v=v1;g=meta.k8s.io").json
    assert "object" not in bare["rows"][0]


# watch


def test_watch_from_a_revision_reports_everything_since(ten: Caller) -> None:
    since = ten.get(MAPS).json["metadata"]["resourceVersion"]
    make(ten, "x")
    ten.patch(f"{MAPS}/x", {"data": {"n": "2"}})
    ten.delete(f"{MAPS}/x")
    answer = ten.get(f"{MAPS}?watch=true&resourceVersion={since}&timeoutSeconds=1")
    assert events(answer.body) == [("ADDED", "x"), ("MODIFIED", "x"), ("DELETED", "x")]
    revisions = [
        int(json.loads(line)["object"]["metadata"]["resourceVersion"]) for line in answer.body.splitlines()
    ]
    assert revisions == sorted(set(revisions)) and revisions[0] > int(since)


def test_watch_without_a_revision_begins_with_what_is_there(ten: Caller) -> None:
    found = events(ten.get(f"{MAPS}?watch=true&timeoutSeconds=1").body)
    assert found == [("ADDED", f"m{number}") for number in range(10)]


def test_initial_events_end_with_a_bookmark(ten: Caller) -> None:
    query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"
    lines = [json.loads(line) for line in ten.get(f"{MAPS}?{query}").body.splitlines()]
    assert [line["type"] for line in lines[:11]] == ["ADDED"] * 10 + ["BOOKMARK"]
    assert lines[10]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert lines[-1]["type"] == "BOOKMARK"
    assert ten.get(f"{MAPS}?watch=true&sendInitialEvents=true&timeoutSeconds=1").status == 422


def test_an_object_that_stops_matching_is_deleted_for_that_watcher(ten: Caller) -> None:
    since = ten.get(MAPS).json["metadata"]["resourceVersion"]
    ten.patch(f"{MAPS}/m0", {"metadata": {"labels": {"parity": "odd"}}})
    ten.patch(f"{MAPS}/m0", {"metadata": {"labels": {"parity": "even"}}})
    ten.patch(f"{MAPS}/m1", {"data": {"n": "unseen"}})
    query = f"watch=true&resourceVersion={since}&timeoutSeconds=1&labelSelector=parity%3Deven"
    assert events(ten.get(f"{MAPS}?{query}").body) == [("DELETED", "m0"), ("ADDED", "m0")]


def test_watch_of_one_name(ten: Caller) -> None:
    since = ten.get(MAPS).json["metadata"]["resourceVersion"]
    ten.patch(f"{MAPS}/m0", {"data": {"n": "1"}})
    ten.patch(f"{MAPS}/m1", {"data": {"n": "1"}})
    for path in (f"{MAPS}?fieldSelector=metadata.name%3Dm1&", f"{MAPS}/m1?"):
        assert events(ten.get(f"{path}watch=true&resourceVersion={since}&timeoutSeconds=1").body) == [
            ("MODIFIED", "m1")
        ]


def test_watch_in_table_form(ten: Caller) -> None:
    answer = ten.get(
        f"{MAPS}?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3Dm1",
        accept="application/json;as=Table;v=v1;g=meta.k8s.io",
    )
    first = json.loads(answer.body.splitlines()[0])
    assert first["type"] == "ADDED" and first["object"]["rows"][0]["cells"][0] == "m1"


def test_ring0_watches_all_tenants(server: LocalServer, tenant: Caller) -> None:
    since = server.system.get("/api/v1/tenants/all/configmaps").json["metadata"]["resourceVersion"]
    made = make(tenant, "seen-from-ring0")
    answer = server.system.get(
        f"/tenants/all/api/v1/configmaps?watch=true&resourceVersion={since}&timeoutSeconds=1"
    )
    found = [json.loads(line)["object"]["metadata"] for line in answer.body.splitlines()]
    assert ("seen-from-ring0", made["metadata"]["tenant"]) in [
        (each["name"], each["tenant"]) for each in found
    ]
    assert server.system.post("/api/v1/tenants/all/namespaces/default/configmaps", {}).status == 405


def test_a_token_of_a_page_is_no_way_into_other_tenants(server: LocalServer, ten: Caller) -> None:
    token = ten.get(f"{MAPS}?limit=1").json["metadata"]["continue"]
    raw = json.loads(base64.urlsafe_b64decode(token + "=="))
    raw["start"] = ["", "", ""]
    forged = base64.urlsafe_b64encode(json.dumps(raw).encode()).decode().rstrip("=")
    found = ten.get(f"{MAPS}?continue={forged}").json
    own = ten.get("/api/v1/namespaces/default").json["metadata"]["tenant"]
    assert {item["metadata"]["tenant"] for item in found["items"]} == {own}


def test_nothing_is_below_a_subresource(tenant: Caller) -> None:
    answer = tenant.get("/apis/apps/v1/namespaces/default/deployments/web/scale/more")
    assert (answer.status, answer.json["message"]) == (
        404,
        "the server could not find the requested resource",
    )
    assert tenant.get("/api/v1/namespaces/default/status/more").status == 404
