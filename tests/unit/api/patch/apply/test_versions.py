"""Owners at several API versions: fields are renamed between them."""

import itertools
from typing import Any

import msgspec
import pytest

from alcove.api import registry
from alcove.api.errors import Conflict
from alcove.api.kind import Kind
from alcove.api.patch import apply as ssa
from alcove.api.patch.apply import Convert
from alcove.api.schema.definitions import Definitions, Schema
from alcove.api.schema.node import SchemaNode

NOW = "2024-02-01T00:00:00Z"
VERSIONS = ("v1", "v2", "v3")


def schema(version: str) -> SchemaNode:
    text = {"type": "string"}
    inner = {"type": "object", "properties": {"name": text}}
    struct = {
        "type": "object",
        "properties": {"name": text, f"scalar{version}": text, f"complex{version}": inner},
    }
    meta = {"type": "object", "properties": {"name": text}}
    whole = {
        "type": "object",
        "properties": {"apiVersion": text, "kind": text, "metadata": meta, "struct": struct},
    }
    node = Definitions({"Sample": msgspec.convert(whole, Schema)}, {}).node("Sample")
    node.name = ""
    return node


NODES = {version: schema(version) for version in VERSIONS}


def renamed(value: Any, old: str, new: str) -> Any:
    if type(value) is not dict:
        return value
    return {
        name.removesuffix(old) + new if name.endswith(old) else name: renamed(part, old, new)
        for name, part in value.items()
    }


def convert(obj: Any, version: str) -> tuple[Any, SchemaNode] | None:
    if version not in NODES:
        return None
    return {**renamed(obj, obj["apiVersion"], version), "apiVersion": version}, NODES[version]


class Scenario:
    """An object, written at any version."""

    def __init__(self, convert: Convert = convert) -> None:
        self.live: Any = None
        self.convert = convert

    def at(self, version: str) -> Any:
        found = convert(self.live, version)
        assert found is not None
        return found[0]

    def obj(self, version: str, struct: Any) -> Any:
        fields = {"struct": renamed(struct, "X", version)} if struct is not None else {}
        return {"apiVersion": version, "kind": "Sample", "metadata": {"name": "x"}, **fields}

    def apply(self, manager: str, version: str, struct: Any, force: bool = False) -> None:
        live = None if self.live is None else self.at(version)
        self.live = ssa.apply_configuration(
            live,
            self.obj(version, struct),
            node=NODES[version],
            manager=manager,
            api_version=version,
            now=NOW,
            force=force,
            convert=self.convert,
        )

    def update(self, manager: str, version: str, struct: Any) -> None:
        live = None if self.live is None else self.at(version)
        new = self.obj(version, struct)
        ssa.update_managed_fields(
            live,
            new,
            node=NODES[version],
            manager=manager,
            api_version=version,
            now=NOW,
            convert=self.convert,
        )
        self.live = new

    def owners(self) -> dict[str, Any]:
        entries = self.live["metadata"].get("managedFields", [])
        return {entry["manager"]: (entry["apiVersion"], entry["fieldsV1"]) for entry in entries}


combinations = pytest.mark.parametrize(("one", "two", "three"), list(itertools.product(VERSIONS, repeat=3)))


@combinations
def test_a_field_only_its_applier_owned_goes(one: str, two: str, three: str) -> None:
    scenario = Scenario()
    scenario.apply("a", one, {"name": "n", "scalarX": "s", "complexX": {"name": "c"}})
    scenario.apply("a", two, {"name": "n"})
    assert scenario.at(three)["struct"] == {"name": "n"}
    assert scenario.owners() == {"a": (two, {"f:struct": {"f:name": {}}})}


@combinations
def test_a_field_that_another_applier_owns_stays(one: str, two: str, three: str) -> None:
    scenario = Scenario()
    scenario.apply("a", one, {"name": "n", "scalarX": "s", "complexX": {"name": "c"}})
    scenario.apply("b", two, {"scalarX": "s", "complexX": {"name": "c"}})
    scenario.apply("a", three, {"name": "n"})
    assert scenario.at(three)["struct"] == {
        "name": "n",
        f"scalar{three}": "s",
        f"complex{three}": {"name": "c"},
    }
    assert scenario.owners() == {
        "a": (three, {"f:struct": {"f:name": {}}}),
        "b": (two, {"f:struct": {f"f:complex{two}": {"f:name": {}}, f"f:scalar{two}": {}}}),
    }


@combinations
def test_a_field_that_an_updater_owns_stays(one: str, two: str, three: str) -> None:
    scenario = Scenario()
    scenario.update("u", one, {"name": "n", "scalarX": "s"})
    scenario.apply("a", two, {"name": "n", "scalarX": "s"})
    scenario.apply("a", three, {"name": "n"})
    assert scenario.at(three)["struct"] == {"name": "n", f"scalar{three}": "s"}


@combinations
def test_an_update_at_one_version_takes_the_field_from_its_owner_at_another(
    one: str, two: str, three: str
) -> None:
    scenario = Scenario()
    scenario.apply("a", one, {"name": "n", "scalarX": "s"})
    live = scenario.at(two)
    new = {**live, "struct": renamed({"name": "n", "scalarX": "changed"}, "X", two)}
    ssa.update_managed_fields(
        live, new, node=NODES[two], manager="u", api_version=two, now=NOW, convert=convert
    )
    scenario.live = new
    assert scenario.owners() == {
        "a": (one, {"f:struct": {"f:name": {}}}),
        "u": (two, {"f:struct": {f"f:scalar{two}": {}}}),
    }
    assert scenario.at(three)["struct"][f"scalar{three}"] == "changed"


@combinations
def test_a_conflict_names_the_path_at_the_owners_version(one: str, two: str, three: str) -> None:
    scenario = Scenario()
    scenario.apply("a", one, {"scalarX": "s"})
    with pytest.raises(
        Conflict, match=rf"Apply failed with 1 conflict: conflict with \"a\": .struct.scalar{one}"
    ):
        scenario.apply("b", two, {"scalarX": "t"})
    scenario.apply("b", three, {"scalarX": "t"}, force=True)
    assert scenario.owners() == {"b": (three, {"f:struct": {f"f:scalar{three}": {}}})}


def test_what_is_owned_at_a_version_that_is_gone_is_forgotten() -> None:
    scenario = Scenario(lambda obj, version: None if version == "v1" else convert(obj, version))
    scenario.apply("old", "v1", {"scalarX": "s"})
    scenario.apply("new", "v2", {"scalarX": "t"})
    assert scenario.owners() == {"new": ("v2", {"f:struct": {"f:scalarv2": {}}})}
    scenario.apply("old", "v3", {"name": "n"})
    assert scenario.at("v3")["struct"] == {"name": "n", "scalarv3": "t"}


def test_an_update_forgets_them_too() -> None:
    scenario = Scenario(lambda obj, version: None if version == "v1" else convert(obj, version))
    scenario.apply("old", "v1", {"scalarX": "s"})
    live = scenario.at("v2")
    new = {**live, "struct": {**live["struct"], "name": "n"}}
    ssa.update_managed_fields(
        live, new, node=NODES["v2"], manager="u", api_version="v2", now=NOW, convert=scenario.convert
    )
    scenario.live = new
    assert scenario.owners() == {"u": ("v2", {"f:struct": {"f:name": {}}})}


def test_without_a_converter_all_versions_have_the_same_fields() -> None:
    live: Any = None
    for version in ("v1", "v2"):
        config = {
            "apiVersion": version,
            "kind": "Sample",
            "metadata": {"name": "x"},
            "struct": {"name": version},
        }
        if live is not None:
            live["apiVersion"] = version
        manager = f"at-{version}"
        live = ssa.apply_configuration(
            live, config, node=NODES["v1"], manager=manager, api_version=version, now=NOW, force=True
        )
    assert [entry["manager"] for entry in live["metadata"]["managedFields"]] == ["at-v2"]
    config = {"apiVersion": "v3", "kind": "Sample", "metadata": {"name": "x"}}
    live["apiVersion"] = "v3"
    bare = ssa.apply_configuration(live, config, node=NODES["v1"], manager="at-v2", api_version="v3", now=NOW)
    assert bare == config


# A stock resource of two versions.


@pytest.fixture(scope="module")
def autoscalers() -> dict[str, Kind]:
    kinds = registry.load()
    return {kind.api_version: kind for kind in kinds if kind.resource == "horizontalpodautoscalers"}


def scaled(version: str, **spec: Any) -> Any:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {
        "apiVersion": version,
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {"maxReplicas": 5, "scaleTargetRef": target, **spec},
    }


def test_an_autoscaler_applied_at_both_versions(autoscalers: dict[str, Kind]) -> None:
    way = ssa.between(autoscalers.values())
    assert way is not None
    one, two = "autoscaling/v1", "autoscaling/v2"

    def apply(live: Any, config: Any, manager: str) -> Any:
        version = config["apiVersion"]
        if live is not None:
            found = way(live, version)
            assert found is not None
            live = found[0]
        node = autoscalers[version].schema
        return ssa.apply_configuration(
            live, config, node=node, manager=manager, api_version=version, now=NOW, convert=way
        )

    live = apply(None, scaled(one, targetCPUUtilizationPercentage=50), "a")
    live = apply(live, scaled(two, minReplicas=2), "b")
    # The CPU target is a's alone, though its path is another at b's version.
    assert live["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 50
    live = apply(live, scaled(two, minReplicas=2), "a")
    assert "metrics" not in live["spec"]
    with pytest.raises(Conflict, match=r'conflict with "b": .spec.minReplicas'):
        apply(live, scaled(one, minReplicas=3), "a")


def test_resources_of_one_form_need_no_way(autoscalers: dict[str, Kind]) -> None:
    assert ssa.between([autoscalers["autoscaling/v2"]]) is None


def test_no_way_to_a_version_that_is_not_served(autoscalers: dict[str, Kind]) -> None:
    way = ssa.between(autoscalers.values())
    assert way is not None
    assert way(scaled("autoscaling/v1"), "autoscaling/v2beta1") is None
