"""Which paths a value has: by schema, as set and as applied, and what whole objects leave out."""

import copy
from typing import Any

import pytest

from alcove.api.errors import BadRequest
from alcove.api.patch.apply import elements, shape
from alcove.api.patch.apply.fieldset import LEAF, Trie
from alcove.api.schema.node import ListType, SchemaNode, SchemaType


def a(trie: Trie | None) -> Any:
    """The trie, checked to be in canonical order all the way down."""
    for node in (trie or {}).values():
        a(node)
    assert list(trie or {}) == sorted(trie or {}, key=elements.order)
    return trie


@pytest.mark.parametrize(
    ("value", "added", "applied"),
    [
        ({"number": 1, "text": "x"}, {"f:number": {}, "f:text": {}}, {"f:number": {}, "f:text": {}}),
        ({"text": None}, {"f:text": {}}, {"f:text": {}}),
        # Maps: the map itself comes into being, but an applier claims its keys only.
        (
            {"free": {"y": "1", "x": "2"}},
            {"f:free": {".": {}, "f:x": {}, "f:y": {}}},
            {"f:free": {"f:x": {}, "f:y": {}}},
        ),
        ({"free": {}}, {"f:free": {}}, {"f:free": {}}),
        ({"free": None}, {"f:free": {}}, {"f:free": {}}),
        # Objects likewise.
        ({"pair": {"a": "1"}}, {"f:pair": {".": {}, "f:a": {}}}, {"f:pair": {"f:a": {}}}),
        ({"pair": {}}, {"f:pair": {}}, {"f:pair": {}}),
        # The keys of a free map are claimed with what is in them.
        (
            {"pairs": {"k": {"a": "1"}, "empty": {}}},
            {"f:pairs": {".": {}, "f:empty": {}, "f:k": {".": {}, "f:a": {}}}},
            {"f:pairs": {"f:empty": {}, "f:k": {".": {}, "f:a": {}}}},
        ),
        # Atomic ones are one value, whatever is in them.
        (
            {"atomicMap": {"x": "1"}, "atomicList": ["a"]},
            {"f:atomicList": {}, "f:atomicMap": {}},
            {"f:atomicList": {}, "f:atomicMap": {}},
        ),
        # Sets by value.
        (
            {"set": ["b", "a"]},
            {"f:set": {".": {}, 'v:"a"': {}, 'v:"b"': {}}},
            {"f:set": {'v:"a"': {}, 'v:"b"': {}}},
        ),
        # An empty list has no items to claim.
        ({"set": []}, {"f:set": {}}, None),
        ({"set": None}, {"f:set": {}}, {"f:set": {}}),
        (
            {"pair": {"deep": {}}, "items": []},
            {"f:items": {}, "f:pair": {".": {}, "f:deep": {}}},
            {"f:pair": {"f:deep": {}}},
        ),
        # Lists by key, items included; a key left out counts by its default.
        (
            {"items": [{"name": "x", "ports": [{"port": 80}, {"port": 9, "protocol": "UDP"}]}]},
            {
                "f:items": {
                    ".": {},
                    'k:{"name":"x"}': {
                        ".": {},
                        "f:name": {},
                        "f:ports": {
                            ".": {},
                            'k:{"port":9,"protocol":"UDP"}': {".": {}, "f:port": {}, "f:protocol": {}},
                            'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}},
                        },
                    },
                }
            },
            {
                "f:items": {
                    'k:{"name":"x"}': {
                        ".": {},
                        "f:name": {},
                        "f:ports": {
                            'k:{"port":9,"protocol":"UDP"}': {".": {}, "f:port": {}, "f:protocol": {}},
                            'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}},
                        },
                    }
                }
            },
        ),
        # Duplicates are one value.
        (
            {"items": [{"name": "x"}, {"name": "x", "value": "1"}], "set": ["a", "a"]},
            {"f:items": {".": {}, 'k:{"name":"x"}': {}}, "f:set": {".": {}, 'v:"a"': {}}},
            {"f:items": {'k:{"name":"x"}': {}}, "f:set": {'v:"a"': {}}},
        ),
        # Without a schema objects divide, lists do not.
        (
            {"any": {"o": {"l": [1]}, "s": 1}},
            {"f:any": {".": {}, "f:o": {".": {}, "f:l": {}}, "f:s": {}}},
            {"f:any": {"f:o": {".": {}, "f:l": {}}, "f:s": {}}},
        ),
        ({"any": [1, 2]}, {"f:any": {}}, {"f:any": {}}),
    ],
)
def test_paths_of_a_value(sample: SchemaNode, value: Any, added: Any, applied: Any) -> None:
    whole = shape.root(sample)
    before = copy.deepcopy(value)
    assert a(whole.created(value)) == added
    assert a(whole.applied(value)) == applied
    assert value == before


def test_what_nobody_owns(sample: SchemaNode) -> None:
    obj = {
        "apiVersion": "v1",
        "kind": "Sample",
        "metadata": {
            "name": "x",
            "namespace": "d",
            "tenant": "t",
            "uid": "u",
            "resourceVersion": "1",
            "generation": 1,
            "creationTimestamp": "now",
            "selfLink": "/",
            "managedFields": [{}],
            "labels": {"a": "b"},
            "finalizers": ["f"],
        },
    }
    whole = shape.root(sample)
    owned: Trie = {"f:metadata": {"f:finalizers": {}, "f:labels": {".": {}, "f:a": {}}}}
    assert whole.created(obj) == owned
    assert whole.applied(obj) == {"f:metadata": {"f:finalizers": {}, "f:labels": {"f:a": {}}}}


def test_a_template_has_names_of_its_own(deployment_node: SchemaNode) -> None:
    template = {"metadata": {"name": "t", "labels": {"a": "b"}}}
    created = shape.root(deployment_node).created({"metadata": {"name": "x"}, "spec": {"template": template}})
    assert created == {
        "f:spec": {"f:template": {"f:metadata": {"f:labels": {".": {}, "f:a": {}}, "f:name": {}}}}
    }


def test_a_new_pod_as_kubernetes_records_it(pod_node: SchemaNode) -> None:
    pod = {
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "containers": [
                {
                    "name": "web",
                    "image": "nginx",
                    "resources": {},
                    "ports": [
                        {"containerPort": 443, "protocol": "TCP"},
                        {"containerPort": 80, "protocol": "TCP"},
                    ],
                    "command": ["run"],
                    "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
                }
            ],
            "securityContext": {},
            "restartPolicy": "Always",
            "tolerations": [{"key": "k"}],
        },
    }
    assert a(shape.root(pod_node).created(pod)) == {
        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
        "f:spec": {
            "f:containers": {
                'k:{"name":"web"}': {
                    ".": {},
                    "f:command": {},
                    "f:env": {
                        ".": {},
                        'k:{"name":"A"}': {".": {}, "f:name": {}, "f:valueFrom": {".": {}, "f:fieldRef": {}}},
                    },
                    "f:image": {},
                    "f:name": {},
                    "f:ports": {
                        ".": {},
                        'k:{"containerPort":80,"protocol":"TCP"}': {
                            ".": {},
                            "f:containerPort": {},
                            "f:protocol": {},
                        },
                        'k:{"containerPort":443,"protocol":"TCP"}': {
                            ".": {},
                            "f:containerPort": {},
                            "f:protocol": {},
                        },
                    },
                    "f:resources": {},
                }
            },
            "f:restartPolicy": {},
            "f:securityContext": {},
            "f:tolerations": {},
        },
    }


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"items": ["x"]}, "must be objects"),
        ({"items": [None]}, "must be objects"),
        ({"items": [{"value": "x"}]}, 'omits all key fields \\["name"\\]'),
        ({"set": [{}]}, "must be strings, numbers or booleans"),
        ({"set": [None]}, "must be strings, numbers or booleans"),
    ],
)
def test_items_with_equal_keys(sample: SchemaNode, value: Any, why: str) -> None:
    for paths in (shape.root(sample).created, shape.root(sample).applied):
        with pytest.raises(BadRequest, match=why):
            paths(value)


def test_keys_of_several_types_are_ordered_too(sample: SchemaNode) -> None:
    assert a(shape.root(sample).applied({"set": ["b", 3, True, "a", 10]})) == {
        "f:set": {"v:3": {}, "v:10": {}, 'v:"a"': {}, 'v:"b"': {}, "v:true": {}}
    }


def test_a_recursive_schema_compiles() -> None:
    node = SchemaNode(SchemaType.OBJECT)
    node.properties = {"child": node, "name": SchemaNode(SchemaType.STRING)}
    assert shape.root(node).applied({"child": {"child": {"name": "x"}}}) == {
        "f:child": {"f:child": {"f:name": {}}}
    }


def test_a_copied_node_gets_a_shape_of_its_own() -> None:
    node = SchemaNode(SchemaType.LIST)
    node.items = SchemaNode(SchemaType.STRING)
    node.list_type = ListType.SET
    assert isinstance(shape.of(node), shape.SetListShape)
    other = copy.copy(node)
    other.list_type = ListType.ATOMIC
    assert shape.of(other) is shape.ATOMIC
    assert isinstance(shape.of(node), shape.SetListShape)


def test_a_raw_extension_is_one_value(definitions: Any) -> None:
    node = definitions.node("io.k8s.api.apps.v1.ControllerRevision")
    assert shape.root(node).applied({"data": {"spec": {"a": 1}}}) == {"f:data": {}}


def test_leaves_are_shared(pod_node: SchemaNode) -> None:
    trie = shape.root(pod_node).created({"metadata": {"labels": {"a": "b"}}, "spec": {"nodeName": "n"}})
    assert trie["f:spec"]["f:nodeName"] is LEAF
    assert trie["f:metadata"]["f:labels"]["f:a"] is LEAF
