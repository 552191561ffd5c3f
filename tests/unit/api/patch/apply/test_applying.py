"""Server-side apply as the documentation and structured-merge-diff define it, by scenarios."""

import copy
from typing import Any

import pytest

from alcove.api.errors import BadRequest, Conflict
from alcove.api.patch import apply as ssa
from alcove.api.patch.apply import FieldSet, elements
from alcove.api.schema.node import SchemaNode

NOW = "2024-02-01T00:00:00Z"
HEAD: dict[str, Any] = {"apiVersion": "v1", "kind": "Sample", "metadata": {"name": "x"}}


class Scenario:
    """One object and what is done to it. Nothing that is handed in may be changed."""

    def __init__(self, node: SchemaNode, head: Any = None) -> None:
        self.node = node
        self.head = head or HEAD
        self.live: Any = None

    def apply(self, manager: str, config: Any, force: bool = False, now: str = NOW, **more: Any) -> Any:
        config = {**self.head, **config}
        before = copy.deepcopy((self.live, config))
        try:
            self.live = ssa.apply_configuration(
                self.live,
                config,
                node=self.node,
                manager=manager,
                api_version=self.head["apiVersion"],
                now=now,
                force=force,
                **more,
            )
        except Conflict as error:
            assert (self.live, config) == before
            assert error.details is not None
            return [f"{cause.message}: {cause.field}" for cause in error.details.causes]
        return self.fields

    def update(self, manager: str, fields: Any, now: str = NOW) -> Any:
        new = {**copy.deepcopy(self.head), **copy.deepcopy(fields)}
        ssa.update_managed_fields(
            self.live, new, node=self.node, manager=manager, api_version=self.head["apiVersion"], now=now
        )
        self.live = new
        return self.fields

    @property
    def fields(self) -> Any:
        return {name: value for name, value in self.live.items() if name not in HEAD}

    @property
    def owners(self) -> dict[str, list[str]]:
        """Paths by manager, in the form of messages."""
        return {
            entry["manager"]: sorted(elements.shown(path) for path in FieldSet(entry["fieldsV1"]))
            for entry in self.live["metadata"].get("managedFields", [])
        }

    @property
    def times(self) -> dict[str, str]:
        return {entry["manager"]: entry["time"] for entry in self.live["metadata"]["managedFields"]}


@pytest.fixture
def scenario(sample: SchemaNode) -> Scenario:
    return Scenario(sample)


def test_the_first_apply_creates_and_owns(scenario: Scenario) -> None:
    assert scenario.apply("a", {"text": "x", "free": {"k": "v"}}) == {"text": "x", "free": {"k": "v"}}
    assert scenario.owners == {"a": [".free.k", ".text"]}
    (entry,) = scenario.live["metadata"]["managedFields"]
    assert (entry["operation"], entry["apiVersion"], entry["time"]) == ("Apply", "v1", NOW)


def test_the_same_value_is_shared(scenario: Scenario) -> None:
    scenario.apply("a", {"text": "x"})
    scenario.apply("b", {"text": "x"})
    assert scenario.owners == {"a": [".text"], "b": [".text"]}


def test_another_value_conflicts_until_forced(scenario: Scenario) -> None:
    scenario.apply("a", {"text": "x", "number": 1})
    assert scenario.apply("b", {"text": "y"}) == ['conflict with "a": .text']
    assert scenario.fields == {"text": "x", "number": 1}
    assert scenario.apply("b", {"text": "y"}, force=True) == {"text": "y", "number": 1}
    assert scenario.owners == {"a": [".number"], "b": [".text"]}


def test_giving_up_a_shared_field_leaves_it_to_the_other(scenario: Scenario) -> None:
    scenario.apply("a", {"text": "x", "number": 1})
    scenario.apply("b", {"text": "x"})
    assert scenario.apply("a", {"number": 1}) == {"text": "x", "number": 1}
    assert scenario.owners == {"a": [".number"], "b": [".text"]}
    assert scenario.apply("b", {"text": "y"}) == {"text": "y", "number": 1}


def test_a_field_no_longer_applied_goes_with_its_only_owner(scenario: Scenario) -> None:
    scenario.apply("a", {"text": "x", "number": 1})
    assert scenario.apply("a", {"number": 1}) == {"number": 1}


def test_a_field_that_an_updater_changed_is_no_longer_the_appliers(scenario: Scenario) -> None:
    scenario.apply("a", {"text": "x"})
    scenario.update("u", {"text": "y"})
    assert scenario.owners == {"u": [".text"]}
    assert scenario.apply("a", {"text": "x"}) == ['conflict with "u" using v1: .text']
    # Taking it out of the configuration gives it away for good, as the documentation advises.
    assert scenario.apply("a", {"number": 1}) == {"text": "y", "number": 1}
    assert scenario.apply("a", {}) == {"text": "y"}


def test_an_update_that_keeps_the_value_keeps_the_owner(scenario: Scenario) -> None:
    scenario.apply("a", {"text": "x"})
    scenario.update("u", {"text": "x", "number": 1})
    assert scenario.owners == {"a": [".text"], "u": [".number"]}


def test_applying_the_same_again_changes_nothing(scenario: Scenario) -> None:
    config = {"text": "x", "items": [{"name": "i", "ports": [{"port": 1}]}], "set": ["a"], "pair": {}}
    scenario.apply("a", config)
    before = copy.deepcopy(scenario.live)
    scenario.apply("a", config, now="2030-01-01T00:00:00Z")
    assert scenario.live == before


def test_times_follow_what_changes(scenario: Scenario) -> None:
    scenario.apply("a", {"text": "x"}, now="t1")
    scenario.apply("b", {"text": "x"}, now="t2")
    assert scenario.times == {"a": "t1", "b": "t2"}
    scenario.apply("b", {"text": "x", "number": 1}, now="t3")
    assert scenario.times == {"a": "t1", "b": "t3"}
    scenario.apply("a", {"text": "x"}, now="t4")
    assert scenario.times == {"a": "t1", "b": "t3"}


# Lists.


def test_items_of_a_keyed_list_belong_to_who_applies_them(scenario: Scenario) -> None:
    scenario.apply("a", {"items": [{"name": "x"}, {"name": "y"}, {"name": "z"}]})
    scenario.apply("b", {"items": [{"name": "z"}, {"name": "w"}]})
    assert scenario.apply("a", {"items": [{"name": "x"}]}) == {
        "items": [{"name": "x"}, {"name": "z"}, {"name": "w"}]
    }
    assert scenario.owners == {
        "a": ['.items[name="x"]', '.items[name="x"].name'],
        "b": ['.items[name="w"]', '.items[name="w"].name', '.items[name="z"]', '.items[name="z"].name'],
    }


def test_a_changed_key_is_another_item(scenario: Scenario) -> None:
    scenario.apply("a", {"items": [{"name": "x", "tags": ["1", "2"]}]})
    assert scenario.apply("a", {"items": [{"name": "y", "tags": ["0", "2"]}]}) == {
        "items": [{"name": "y", "tags": ["0", "2"]}]
    }


def test_two_appliers_share_an_item_and_each_owns_its_part(scenario: Scenario) -> None:
    scenario.apply("a", {"items": [{"name": "x"}, {"name": "y", "tags": ["1"]}]})
    scenario.apply("b", {"items": [{"name": "y", "tags": ["2"]}]})
    assert scenario.apply("a", {"items": [{"name": "x"}]}) == {
        "items": [{"name": "x"}, {"name": "y", "tags": ["2"]}]
    }


def test_an_item_that_others_put_something_into_stays_with_it(scenario: Scenario) -> None:
    scenario.apply("a", {"items": [{"name": "x"}, {"name": "y", "tags": ["1"]}]})
    scenario.apply("b", {"items": [{"name": "y", "tags": ["2"]}]})
    scenario.update("u", {"items": [{"name": "x"}, {"name": "y", "tags": ["1", "2", "3"]}]})
    assert scenario.apply("a", {"items": [{"name": "x"}]}) == {
        "items": [{"name": "x"}, {"name": "y", "tags": ["2", "3"]}]
    }


def test_an_item_that_its_applier_drops_goes_with_what_updaters_put_into_it(scenario: Scenario) -> None:
    scenario.apply("a", {"items": [{"name": "x"}, {"name": "y", "tags": ["1"]}]})
    scenario.update("u", {"items": [{"name": "x"}, {"name": "y", "tags": ["1", "2"]}]})
    assert scenario.apply("a", {"items": [{"name": "x"}]}) == {"items": [{"name": "x"}]}
    assert list(scenario.owners) == ["a"]


def test_keys_count_by_their_defaults(scenario: Scenario) -> None:
    scenario.apply("a", {"items": [{"name": "x", "ports": [{"port": 80}]}]})
    # The server filled in the default.
    scenario.live["items"][0]["ports"][0]["protocol"] = "TCP"
    assert scenario.apply(
        "b", {"items": [{"name": "x", "ports": [{"port": 80, "protocol": "TCP", "label": "l"}]}]}
    ) == {"items": [{"name": "x", "ports": [{"port": 80, "protocol": "TCP", "label": "l"}]}]}
    assert scenario.apply("a", {"items": [{"name": "x", "ports": [{"port": 80, "protocol": "UDP"}]}]}) == {
        "items": [
            {
                "name": "x",
                "ports": [{"port": 80, "protocol": "TCP", "label": "l"}, {"port": 80, "protocol": "UDP"}],
            }
        ]
    }


def test_sets(scenario: Scenario) -> None:
    scenario.apply("a", {"set": ["1", "3"]})
    assert scenario.apply("b", {"set": ["2", "3"]}) == {"set": ["1", "2", "3"]}
    assert scenario.apply("a", {"set": ["1"]}) == {"set": ["1", "2", "3"]}
    assert scenario.apply("b", {"set": []}) == {"set": ["1"]}
    assert scenario.owners == {"a": ['.set[="1"]']}


def test_atomic_values_are_owned_whole(scenario: Scenario) -> None:
    scenario.apply("a", {"atomicList": ["1"], "atomicMap": {"k": "1"}})
    assert scenario.apply("b", {"atomicList": ["1", "2"]}) == ['conflict with "a": .atomicList']
    assert scenario.apply("b", {"atomicMap": {"l": "1"}}, force=True) == {
        "atomicList": ["1"],
        "atomicMap": {"l": "1"},
    }
    assert scenario.owners == {"a": [".atomicList"], "b": [".atomicMap"]}


def test_duplicates_in_the_object_are_replaced_by_an_applied_item(scenario: Scenario) -> None:
    scenario.update("u", {"items": [{"name": "x", "value": "1"}, {"name": "x", "value": "2"}, {"name": "y"}]})
    config = {"items": [{"name": "x", "value": "3"}]}
    assert scenario.apply("a", config) == ['conflict with "u" using v1: .items[name="x"]']
    assert scenario.apply("a", config, force=True) == {"items": [{"name": "x", "value": "3"}, {"name": "y"}]}


def test_duplicates_that_nobody_applies_are_left_alone(scenario: Scenario) -> None:
    scenario.update("u", {"items": [{"name": "x"}, {"name": "x"}], "set": ["1", "1"]})
    assert scenario.apply("a", {"text": "t"}) == {
        "text": "t",
        "items": [{"name": "x"}, {"name": "x"}],
        "set": ["1", "1"],
    }


# Empty, null, and changing types.


def test_an_applied_empty_object_survives_its_contents(scenario: Scenario) -> None:
    """`emptyDir: {medium: Memory}`, then `emptyDir: {}`: it must not vanish."""
    scenario.apply("a", {"pair": {"a": "1"}})
    assert scenario.apply("a", {"pair": {}}) == {"pair": {}}
    assert scenario.apply("a", {}) == {}


def test_an_object_that_is_emptied_goes_if_nobody_owns_it(scenario: Scenario) -> None:
    scenario.apply("a", {"pair": {"a": "1", "deep": {"c": "2"}}, "text": "x"})
    assert scenario.apply("a", {"text": "x"}) == {"text": "x"}


def test_what_others_have_in_an_object_survives_its_applier(scenario: Scenario) -> None:
    lefts: list[Any] = [{}, {"pair": {}}, {"pair": None}]
    for left in lefts:
        scenario.live = None
        scenario.apply("a", {"pair": {"a": "1"}})
        scenario.update("u", {"pair": {"a": "1", "b": "2"}})
        assert scenario.apply("a", left) == {"pair": {"b": "2"}}


def test_null_claims_a_field(scenario: Scenario) -> None:
    scenario.apply("a", {"text": None})
    assert scenario.fields == {"text": None}
    assert scenario.apply("b", {"text": "x"}) == ['conflict with "a": .text']


def test_without_a_schema_types_may_change(scenario: Scenario) -> None:
    scenario.apply("a", {"any": {"x": {"y": 1}}})
    assert scenario.apply("b", {"any": {"x": "scalar"}}, force=True) == {"any": {"x": "scalar"}}
    assert scenario.owners == {"b": [".any.x"]}
    assert scenario.apply("a", {"any": {"x": [1]}}, force=True) == {"any": {"x": [1]}}


def test_map_keys_with_objects_below(scenario: Scenario) -> None:
    scenario.apply("a", {"pairs": {"k": {"a": "1"}}, "lists": {"l": ["1", "2"]}})
    assert scenario.owners == {
        "a": [".lists.l", '.lists.l[="1"]', '.lists.l[="2"]', ".pairs.k", ".pairs.k.a"],
    }
    assert scenario.apply("a", {"pairs": {"m": {"a": "1"}}, "lists": {"l": ["2", "3"]}}) == {
        "pairs": {"m": {"a": "1"}},
        "lists": {"l": ["2", "3"]},
    }


# Objects that were there before.


def test_what_was_there_before_the_first_apply_has_an_owner(scenario: Scenario) -> None:
    scenario.live = {**copy.deepcopy(HEAD), "text": "x", "number": 1}
    assert scenario.apply("a", {"text": "y"}) == ['conflict with "before-first-apply" using v1: .text']
    scenario.apply("a", {"text": "y"}, force=True)
    assert scenario.owners == {"a": [".text"], "before-first-apply": [".number"]}


def test_a_schema_that_made_a_map_atomic(scenario: Scenario) -> None:
    scenario.update("u", {"atomicMap": {"k": "1"}})
    scenario.live["metadata"]["managedFields"][0]["fieldsV1"] = {"f:atomicMap": {".": {}, "f:k": {}}}
    assert scenario.apply("a", {"atomicMap": {"k": "2"}}) == ['conflict with "u" using v1: .atomicMap']


def test_metadata(scenario: Scenario) -> None:
    scenario.apply("a", {"metadata": {"name": "x", "labels": {"l": "1"}, "resourceVersion": "5", "uid": "u"}})
    assert scenario.owners == {"a": [".metadata.labels.l"]}
    assert scenario.live["metadata"]["resourceVersion"] == "5", "the caller checks it against the stored one"
    scenario.apply("b", {"metadata": {"name": "x", "labels": {"m": "2"}}})
    scenario.apply("a", {"metadata": {"name": "x"}})
    assert scenario.live["metadata"]["labels"] == {"m": "2"}


def test_fields_that_a_write_cannot_set(scenario: Scenario) -> None:
    status = FieldSet.of(("status",))
    scenario.apply("a", {"text": "x", "status": {"a": "1"}}, reset=status)
    assert scenario.owners == {"a": [".text"]}
    scenario.apply("b", {"status": {"a": "2"}}, subresource="status")
    assert scenario.apply("a", {"text": "x", "status": {"a": "3"}}, reset=status)["status"] == {"a": "3"}
    assert scenario.owners == {"a": [".text"], "b": [".status.a"]}


def test_an_applier_through_a_subresource_is_another_one(scenario: Scenario) -> None:
    scenario.apply("a", {"text": "x"})
    scenario.apply("a", {"status": {"a": "1"}}, subresource="status")
    assert [
        (entry["manager"], entry.get("subresource")) for entry in scenario.live["metadata"]["managedFields"]
    ] == [
        ("a", None),
        ("a", "status"),
    ]
    assert scenario.fields == {"text": "x", "status": {"a": "1"}}
    assert scenario.apply("b", {"status": {"a": "2"}}) == [
        'conflict with "a" with subresource "status": .status.a'
    ]


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (
            {"apiVersion": "v2"},
            "Incorrect version specified in apply patch. Specified patch version: v2, expected: v1",
        ),
        ({"metadata": {"managedFields": []}}, "metadata.managedFields must be nil"),
        (
            {"unheard": 1},
            "failed to create typed patch object (/x; v1, Kind=Sample): .unheard: field not declared in schema",
        ),
        (
            {"text": 1, "set": ["a", "a"]},
            "failed to create typed patch object (/x; v1, Kind=Sample): errors:\n"
            "  .text: expected string, got number\n"
            '  .set: duplicate entries for key [="a"]',
        ),
    ],
)
def test_what_cannot_be_applied(scenario: Scenario, config: Any, why: str) -> None:
    with pytest.raises(BadRequest) as raised:
        scenario.apply("a", config)
    assert raised.value.message == why


@pytest.mark.parametrize("config", [[], None, "x"])
def test_only_objects_can_be_applied(sample: SchemaNode, config: Any) -> None:
    with pytest.raises(BadRequest, match="must be an object"):
        ssa.apply_configuration(None, config, node=sample, manager="a", api_version="v1", now=NOW)


def test_an_object_with_items_without_keys_cannot_be_applied_to(scenario: Scenario) -> None:
    scenario.live = {**copy.deepcopy(HEAD), "items": ["x"]}
    with pytest.raises(BadRequest, match="must be objects"):
        scenario.apply("a", {"items": [{"name": "x"}]})


def test_deep_nesting_is_refused_not_a_crash(sample: SchemaNode) -> None:
    deep: Any = {}
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(BadRequest, match="nested too deeply"):
        ssa.apply_configuration(
            None, {**HEAD, "any": deep}, node=sample, manager="a", api_version="v1", now=NOW
        )


# The documentation's own example, on a real kind.


@pytest.fixture
def web(deployment_node: SchemaNode) -> Scenario:
    return Scenario(
        deployment_node, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    )


def deployment(replicas: int | None, image: str = "nginx:1.14.2") -> Any:
    template = {
        "metadata": {"labels": {"app": "nginx"}},
        "spec": {"containers": [{"name": "nginx", "image": image, "ports": [{"containerPort": 80}]}]},
    }
    spec: Any = {"selector": {"matchLabels": {"app": "nginx"}}, "template": template}
    return {"spec": spec if replicas is None else {"replicas": replicas, **spec}}


def test_handing_replicas_over_to_an_autoscaler(web: Scenario) -> None:
    web.apply("kubectl", deployment(3))
    # The autoscaler takes the field by an update; the user then leaves it out.
    web.update("hpa", {**web.fields, **deployment(5)})
    assert web.owners["hpa"] == [".spec.replicas"]
    assert web.apply("kubectl", deployment(3)) == ['conflict with "hpa" using apps/v1: .spec.replicas']
    assert web.apply("kubectl", deployment(None))["spec"]["replicas"] == 5
    assert web.owners["kubectl"] == [
        ".spec.selector",
        ".spec.template.metadata.labels.app",
        '.spec.template.spec.containers[name="nginx"]',
        '.spec.template.spec.containers[name="nginx"].image',
        '.spec.template.spec.containers[name="nginx"].name',
        '.spec.template.spec.containers[name="nginx"].ports[containerPort=80,protocol="TCP"]',
        '.spec.template.spec.containers[name="nginx"].ports[containerPort=80,protocol="TCP"].containerPort',
    ]


def test_leaving_a_field_out_before_the_new_owner_has_it_removes_it(web: Scenario) -> None:
    web.apply("kubectl", deployment(3))
    assert "replicas" not in web.apply("kubectl", deployment(None))["spec"]


def test_a_sidecar_applied_by_another(web: Scenario) -> None:
    web.apply("kubectl", deployment(1))
    sidecar = {"spec": {"template": {"spec": {"containers": [{"name": "mesh", "image": "m:1"}]}}}}
    web.apply("mesh", sidecar)
    web.apply("kubectl", deployment(1, "nginx:2"))
    containers = web.fields["spec"]["template"]["spec"]["containers"]
    assert [(container["name"], container["image"]) for container in containers] == [
        ("nginx", "nginx:2"),
        ("mesh", "m:1"),
    ]
    web.apply("mesh", {})
    assert [container["name"] for container in web.fields["spec"]["template"]["spec"]["containers"]] == [
        "nginx"
    ]


def test_dropping_the_last_applied_label_keeps_the_name(sample: SchemaNode) -> None:
    scenario = Scenario(sample)
    scenario.apply("ci", {"metadata": {"name": "x", "labels": {"tier": "web"}}, "text": "a"})
    scenario.live["metadata"]["uid"] = "1"
    scenario.apply("ci", {"text": "a"})
    assert {**scenario.live["metadata"], "managedFields": []} == {
        "name": "x",
        "uid": "1",
        "managedFields": [],
    }
    assert scenario.owners == {"ci": [".text"]}
