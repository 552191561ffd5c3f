"""Strategic merge patch: the documented directives on real schemas."""

import copy
from typing import Any

import pytest

from alcove.api.errors import BadRequest, Invalid
from alcove.api.patch import strategic
from alcove.api.schema import kubernetes_schemas
from alcove.api.schema.node import SchemaNode

STOCK = kubernetes_schemas.load()
POD = STOCK.node("io.k8s.api.core.v1.Pod")
DEPLOYMENT = STOCK.node("io.k8s.api.apps.v1.Deployment")
SERVICE = STOCK.node("io.k8s.api.core.v1.Service")
BUDGET = STOCK.node("io.k8s.api.policy.v1.PodDisruptionBudget")


def pod(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}


def patched(node: SchemaNode, obj: Any, patch: Any) -> Any:
    before, patch_before = copy.deepcopy(obj), copy.deepcopy(patch)
    result = strategic.apply(obj, patch, node)
    assert obj == before, "the object was changed"
    assert patch == patch_before, "the patch was changed"
    return result


def names(items: list[dict[str, Any]]) -> list[str]:
    return [item["name"] for item in items]


def test_maps_merge_and_null_deletes() -> None:
    obj = {"metadata": {"labels": {"a": "1", "b": "2"}, "annotations": {"x": "y"}}}
    patch = {"metadata": {"labels": {"a": None, "c": "3"}, "annotations": None}}
    assert patched(POD, obj, patch) == {"metadata": {"labels": {"b": "2", "c": "3"}}}


def test_nulls_in_new_parts_are_dropped() -> None:
    patch = {"metadata": {"labels": {"a": None, "b": "1"}}, "spec": {"nodeName": None}}
    assert patched(POD, {}, patch) == {"metadata": {"labels": {"b": "1"}}, "spec": {}}


def test_a_list_with_a_merge_key_merges_by_it() -> None:
    obj = pod(containers=[{"name": "app", "image": "a:1"}, {"name": "log", "image": "l:1"}])
    result = patched(POD, obj, {"spec": {"containers": [{"name": "app", "image": "a:2"}]}})
    assert result["spec"]["containers"] == [{"name": "app", "image": "a:2"}, {"name": "log", "image": "l:1"}]


def test_new_items_come_first_unless_an_order_is_set() -> None:
    obj = pod(containers=[{"name": "app"}])
    assert names(patched(POD, obj, {"spec": {"containers": [{"name": "log"}]}})["spec"]["containers"]) == [
        "log",
        "app",
    ]
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": "app"}, {"name": "log"}],
            "containers": [{"name": "log"}],
        }
    }
    assert names(patched(POD, obj, patch)["spec"]["containers"]) == ["app", "log"]


def test_ports_merge_by_number_alone() -> None:
    obj = {"spec": {"ports": [{"port": 80, "name": "http"}, {"port": 443, "name": "https"}]}}
    patch = {"spec": {"ports": [{"port": 443, "targetPort": 8443}]}}
    assert patched(SERVICE, obj, patch)["spec"]["ports"] == [
        {"port": 80, "name": "http"},
        {"port": 443, "name": "https", "targetPort": 8443},
    ]


def test_a_list_without_a_strategy_is_replaced() -> None:
    obj = pod(tolerations=[{"key": "a"}], containers=[{"name": "app", "args": ["1", "2"]}])
    patch = {"spec": {"tolerations": [{"key": "b"}], "containers": [{"name": "app", "args": ["3"]}]}}
    result = patched(POD, obj, patch)["spec"]
    assert result["tolerations"] == [{"key": "b"}]
    assert result["containers"] == [{"name": "app", "args": ["3"]}]


def test_delete_of_a_list_item() -> None:
    obj = pod(containers=[{"name": "app"}, {"name": "log"}, {"name": "log"}])
    patch = {
        "spec": {"containers": [{"$patch": "delete", "name": "log"}, {"$patch": "delete", "name": "absent"}]}
    }
    assert names(patched(POD, obj, patch)["spec"]["containers"]) == ["app"]


def test_replace_of_a_whole_list() -> None:
    obj = pod(containers=[{"name": "app", "image": "a"}, {"name": "log"}])
    patch = {"spec": {"containers": [{"name": "app"}, {"$patch": "replace"}]}}
    assert patched(POD, obj, patch)["spec"]["containers"] == [{"name": "app"}]


def test_replace_delete_and_merge_of_a_map() -> None:
    obj = {
        "metadata": {"labels": {"a": "1"}, "annotations": {"b": "2"}},
        "spec": {"nodeSelector": {"c": "3"}},
    }
    patch = {
        "metadata": {"labels": {"$patch": "replace", "x": "y"}, "annotations": {"$patch": "delete"}},
        "spec": {"nodeSelector": {"$patch": "merge", "d": "4"}},
    }
    assert patched(POD, obj, patch) == {
        "metadata": {"labels": {"x": "y"}, "annotations": {}},
        "spec": {"nodeSelector": {"c": "3", "d": "4"}},
    }


def test_directives_on_what_is_not_there_leave_no_trace() -> None:
    patch = {
        "metadata": {"labels": {"$patch": "delete"}, "annotations": {"$patch": "replace", "a": "1"}},
        "spec": {
            "$retainKeys": ["containers", "volumes"],
            "containers": [{"name": "app", "$setElementOrder/env": [{"name": "A"}], "env": [{"name": "A"}]}],
            "volumes": [{"$patch": "delete", "name": "gone"}, {"name": "v", "emptyDir": {}}],
        },
    }
    assert patched(POD, {}, patch) == {
        "metadata": {"annotations": {"a": "1"}},
        "spec": {
            "containers": [{"name": "app", "env": [{"name": "A"}]}],
            "volumes": [{"name": "v", "emptyDir": {}}],
        },
    }


def test_retain_keys_drops_the_other_members_of_a_union() -> None:
    obj = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert patched(DEPLOYMENT, obj, patch)["spec"]["strategy"] == {"type": "Recreate"}


def test_retain_keys_inside_a_merged_list() -> None:
    obj = pod(volumes=[{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}])
    patch = {
        "spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}
    }
    assert patched(POD, obj, patch)["spec"]["volumes"] == [
        {"name": "v", "hostPath": {"path": "/x"}},
        {"name": "w", "emptyDir": {}},
    ]


def test_a_map_whose_strategy_is_replace_is_replaced() -> None:
    obj = {"spec": {"selector": {"matchLabels": {"a": "1"}}}}
    patch: Any = {"spec": {"selector": {"matchExpressions": []}}}
    assert patched(BUDGET, obj, patch)["spec"]["selector"] == {"matchExpressions": []}


def test_a_list_of_primitives_is_a_set_that_merges() -> None:
    obj = {"metadata": {"finalizers": ["a", "b"]}}
    assert patched(POD, obj, {"metadata": {"finalizers": ["c", "a"]}})["metadata"]["finalizers"] == [
        "c",
        "a",
        "b",
    ]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "z"]}}
    assert patched(POD, obj, patch)["metadata"]["finalizers"] == ["b"]
    both = {
        "metadata": {
            "$deleteFromPrimitiveList/finalizers": ["a"],
            "$setElementOrder/finalizers": ["b", "c"],
            "finalizers": ["c"],
        }
    }
    assert patched(POD, obj, both)["metadata"]["finalizers"] == ["b", "c"]
    assert patched(POD, {"metadata": {}}, patch) == {"metadata": {}}


@pytest.mark.parametrize(
    ("server", "order", "patch", "expected"),
    [
        # An order alone moves what is there; what only the server has stays among its neighbours.
        (["a", "b", "c"], ["c", "a"], [], ["b", "c", "a"]),
        (["a", "b", "c", "d"], ["d", "b"], [], ["a", "c", "d", "b"]),
        (["a", "b"], ["b", "a"], [], ["b", "a"]),
        (["a", "b"], ["a", "x", "b"], ["x"], ["a", "x", "b"]),
        (["a", "b", "z"], ["x", "a", "y"], ["x", "y"], ["x", "a", "y", "b", "z"]),
        ([], ["x", "y"], ["x", "y"], ["x", "y"]),
        (["a"], ["absent"], [], ["a"]),
    ],
)
def test_set_element_order(
    server: list[str], order: list[str], patch: list[str], expected: list[str]
) -> None:
    obj = pod(containers=[{"name": name} for name in server])
    change: dict[str, Any] = {"$setElementOrder/containers": [{"name": name} for name in order]}
    if patch:
        change["containers"] = [{"name": name} for name in patch]
    assert names(patched(POD, obj, {"spec": change})["spec"]["containers"]) == expected
    primitives = {"metadata": {"finalizers": server}}
    change = {"$setElementOrder/finalizers": order, **({"finalizers": patch} if patch else {})}
    assert patched(POD, primitives, {"metadata": change})["metadata"]["finalizers"] == expected


def test_an_order_for_an_absent_list_makes_none() -> None:
    patch = {"spec": {"$setElementOrder/containers": [{"name": "a"}]}}
    assert patched(POD, {"spec": {}}, patch) == {"spec": {}}


def test_a_value_of_another_type_replaces() -> None:
    assert patched(POD, {"metadata": {"labels": {"a": "1"}}}, {"metadata": {"labels": "x"}}) == {
        "metadata": {"labels": "x"}
    }
    assert patched(POD, {"metadata": "x"}, {"metadata": {"labels": {"a": None}}}) == {
        "metadata": {"labels": {}}
    }


def test_unknown_fields_merge_as_plain_maps() -> None:
    obj = {"spec": {"novel": {"a": 1, "list": [1]}}}
    assert patched(POD, obj, {"spec": {"novel": {"b": 2, "list": [2]}}}) == {
        "spec": {"novel": {"a": 1, "b": 2, "list": [2]}}
    }


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ([], "a strategic merge patch must be an object, got array"),
        (None, "a strategic merge patch must be an object, got null"),
        ({"spec": {"containers": [{"image": "x"}]}}, "does not contain declared merge key: name"),
        ({"spec": {"containers": [{"$patch": "delete"}]}}, "does not contain declared merge key: name"),
        ({"spec": {"containers": [{"name": {"a": 1}}]}}, "a list is merged by plain values"),
        ({"spec": {"containers": ["x"]}}, "list element types are not identical"),
        (
            {"spec": {"containers": [{"name": "a", "$patch": "merge"}]}},
            "merging lists cannot yet be specified",
        ),
        ({"spec": {"containers": [{"name": "a", "$patch": "bend"}]}}, "unknown patch type: bend in map"),
        ({"spec": {"$patch": "bend"}}, "unknown patch type: bend in map"),
        ({"spec": {"$retainKeys": "x"}}, "invalid patch format of retainKeys"),
        ({"spec": {"$retainKeys": ["volumes"], "containers": []}}, "invalid patch format of retainKeys"),
        ({"spec": {"$setElementOrder/containers": {}}}, "invalid patch format of setElementOrder list"),
        ({"spec": {"$setElementOrder/containers": [{}]}}, "does not contain declared merge key: name"),
        (
            {
                "spec": {
                    "$setElementOrder/containers": [{"name": "a"}, {"name": "b"}],
                    "containers": [{"name": "b"}, {"name": "a"}],
                }
            },
            "doesn't match $setElementOrder list",
        ),
        (
            {"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b"}]}},
            "doesn't match $setElementOrder list",
        ),
        (
            {"metadata": {"$deleteFromPrimitiveList/finalizers": "a"}},
            "invalid patch format of primitive list",
        ),
        ({"metadata": {"$setElementOrder/name": ["a"]}}, "expected name to be an array, but it is string"),
    ],
)
def test_malformed_patches_are_bad_requests(patch: Any, why: str) -> None:
    obj = pod(containers=[{"name": "a"}])
    with pytest.raises(BadRequest) as raised:
        patched(POD, obj, patch)
    assert why in raised.value.message


def test_lists_of_lists_are_not_supported() -> None:
    with pytest.raises(Invalid, match="lists of lists are not supported"):
        patched(POD, {"metadata": {"finalizers": ["a"]}}, {"metadata": {"finalizers": [["b"]]}})


def test_deep_nesting_is_refused_not_a_crash() -> None:
    deep: Any = {}
    for _ in range(240):
        deep = {"a": deep}
    assert strategic.apply({}, {"spec": deep}, POD) == {"spec": deep}
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(BadRequest, match="nested too deeply"):
        strategic.apply({}, {"spec": deep}, POD)
