"""What extension servers tell of themselves, merged into this server's own documents."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from alcove.api.objects import Object
from alcove.apiserver.aggregation.merging import (
    RESOURCES_MAX,
    add_discovered,
    add_groups,
    merge_v2,
    openapi_paths,
)
from alcove.apiserver.aggregation.registrations import ExtensionServer, Registration

SERVER = ExtensionServer("n", "s", 443, "", False)


def registration(group: str, version: str = "v1", priority: int = 100, **fields: Any) -> Registration:
    values = {"version_priority": 10, "is_available": True, **fields}
    return Registration(
        name=f"{version}.{group}",
        uid="u",
        group=group,
        version=version,
        server=SERVER,
        group_priority=priority,
        **values,
    )


def local_priority(group: str) -> int:
    return {"apps": 17_800, "crd.example.com": 1_000}.get(group, 0)


LOCAL: Object = {
    "kind": "APIGroupList",
    "groups": [
        {"name": name, "versions": [{"groupVersion": f"{name}/v1", "version": "v1"}], "preferredVersion": {}}
        for name in ("apps", "crd.example.com")
    ],
}


def test_groups_are_in_order_of_priority() -> None:
    registered = [registration("low.io", priority=10), registration("high.io", priority=5_000)]
    names = [each["name"] for each in add_groups(LOCAL, registered, local_priority)["groups"]]
    assert names == ["apps", "high.io", "crd.example.com", "low.io"]
    assert len(LOCAL["groups"]) == 2


def test_versions_of_a_group_are_in_order_of_priority_and_after_those_of_this_server() -> None:
    registered = [
        registration("x.io", "v1alpha1"),
        registration("x.io", "v1beta1"),
        registration("x.io", "v0", version_priority=900),
        registration("apps", "v9"),
    ]
    groups = {each["name"]: each for each in add_groups(LOCAL, registered, local_priority)["groups"]}
    assert [each["version"] for each in groups["x.io"]["versions"]] == ["v0", "v1beta1", "v1alpha1"]
    assert groups["x.io"]["preferredVersion"]["version"] == "v0"
    assert [each["version"] for each in groups["apps"]["versions"]] == ["v1", "v9"]


def listed(*resources: Object) -> bytes:
    return orjson.dumps({"kind": "APIResourceList", "resources": resources})


def discovered(body: bytes | None, **fields: Any) -> Object:
    found = add_discovered({"items": []}, [(registration("x.io", **fields), body)], local_priority)
    [group] = found["items"]
    [version] = group["versions"]
    return version  # type: ignore[no-any-return]


def test_subresources_belong_to_their_resource() -> None:
    version = discovered(
        listed(
            {"name": "things/status", "kind": "Thing", "verbs": ["get"], "namespaced": True},
            {"name": "things", "kind": "Thing", "verbs": ["list"], "namespaced": True, "shortNames": ["t"]},
            {"name": "things/scale", "kind": "Scale", "group": "autoscaling", "version": "v1", "verbs": []},
            {"name": "orphans/status", "kind": "Orphan", "verbs": []},
        )
    )
    [thing] = version["resources"]
    assert (version["freshness"], thing["scope"], thing["shortNames"]) == ("Current", "Namespaced", ["t"])
    assert [each["subresource"] for each in thing["subresources"]] == ["status", "scale"]
    assert thing["subresources"][1]["responseKind"] == {
        "group": "autoscaling",
        "version": "v1",
        "kind": "Scale",
    }


@pytest.mark.parametrize(
    "body",
    [
        None,
        b"",
        b"<html>",
        b"[]",
        b'{"resources": 1}',
        b'{"resources": [{"name": 1}]}',
        b'{"resources": [{"name": "a", "kind": "A", "verbs": "get"}]}',
        b"[" * 100_000,
        listed(*({"name": f"r{number}", "kind": "R"} for number in range(RESOURCES_MAX + 1))),
        listed({"name": "a", "kind": "A", "more": [[]] * 50_000}),
    ],
)
def test_a_document_that_is_none_makes_the_group_version_stale(body: bytes | None) -> None:
    assert discovered(body) == {"version": "v1", "freshness": "Stale"}


def test_what_is_not_available_is_stale_whatever_it_told_before() -> None:
    body = listed({"name": "things", "kind": "Thing"})
    assert discovered(body, is_available=False)["freshness"] == "Stale"


def test_the_index_has_the_servers_hash_and_no_other_group() -> None:
    index = {
        "paths": {"apis/x.io/v1": {"serverRelativeURL": "/openapi/v3/apis/x.io/v1?hash=A"}, "api/v1": {}}
    }
    entries = openapi_paths([(registration("x.io"), orjson.dumps(index))], "/tenants/t")
    assert entries == {"apis/x.io/v1": {"serverRelativeURL": "/tenants/t/openapi/v3/apis/x.io/v1?hash=A"}}
    for body in (None, b"{}", b"nothing", b'{"paths": []}'):
        assert openapi_paths([(registration("x.io"), body)], "") == {}


OWN: Object = {"paths": {"/own": {}}, "definitions": {"Shared": {"description": "ours"}}}


def test_definitions_that_paths_refer_to_are_added_and_none_is_replaced() -> None:
    document = {
        "paths": {
            "/apis/x.io/v1/things": {"get": {"schema": {"$ref": "#/definitions/Thing"}}},
            "/apis/x.io/v10/things": {},
            "/own": {"stolen": True},
        },
        "definitions": {
            "Thing": {"properties": {"a": {"$ref": "#/definitions/Part"}}},
            "Part": {"properties": {"again": {"$ref": "#/definitions/Thing"}}},
            "Shared": {"description": "theirs"},
            "Unused": {},
        },
    }
    merged = merge_v2(OWN, [(registration("x.io"), orjson.dumps(document))])
    assert set(merged["paths"]) == {"/own", "/apis/x.io/v1/things"} and merged["paths"]["/own"] == {}
    assert set(merged["definitions"]) == {"Shared", "Thing", "Part"}
    assert merged["definitions"]["Shared"] == {"description": "ours"}


@pytest.mark.parametrize(
    "make",
    [
        lambda: b"",
        lambda: b"1",
        lambda: b'{"paths": 1}',
        lambda: b'{"paths": {}, "definitions": {"a": 1}}',
        lambda: b'{"a":' * 2_000 + b"1" + b"}" * 2_000,
    ],
)
def test_a_document_that_is_no_openapi_adds_nothing(make: Callable[[], bytes]) -> None:
    assert merge_v2(OWN, [(registration("x.io"), make())]) == OWN
