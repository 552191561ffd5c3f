"""CRDs as kinds, per tenant."""

import copy
from typing import Any

import pytest

from alcove.api import registry
from alcove.api.errors import Forbidden
from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.api.kind import Kind, Scope
from alcove.api.objects import Object
from alcove.api.resources import CRDS
from alcove.apiserver.crds import removal, sharing
from alcove.apiserver.crds.acceptance import is_established
from alcove.apiserver.crds.compiled import preference
from alcove.apiserver.crds.kinds import CustomKinds
from alcove.apiserver.crds.sharing import LABEL
from alcove.testing.memory_reader import MemoryReader

REGISTRY = registry.load()
A, B = TenantId("a"), TenantId("b")
NOW = 1_700_000_000.0
SCHEMA: Object = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "x-kubernetes-validations": [{"rule": "self.size >= oldSelf.size", "message": "never shrink"}],
            "properties": {
                "size": {"type": "integer", "maximum": 10},
                "color": {"type": "string", "default": "red"},
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            },
        },
        "status": {
            "type": "object",
            "properties": {"ready": {"type": "integer"}, "selector": {"type": "string"}},
        },
    },
}


def version(name: str = "v1", *, storage: bool = True, served: bool = True, **more: Any) -> Object:
    return {
        "name": name,
        "served": served,
        "storage": storage,
        "schema": {"openAPIV3Schema": copy.deepcopy(SCHEMA)},
        **more,
    }


def definition(
    *versions: Object, plural: str = "widgets", kind: str = "Widget", scope: str = "Namespaced", **meta: Any
) -> Object:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com", **meta},
        "spec": {
            "group": "example.com",
            "scope": scope,
            "names": {"plural": plural, "kind": kind, "shortNames": ["wd"], "categories": ["all"]},
            "versions": list(versions) or [version()],
        },
    }


class World:
    def __init__(self) -> None:
        self.reader = MemoryReader()
        self.kinds = CustomKinds(REGISTRY, self.reader, lambda: NOW)

    def create(self, tenant: TenantId, crd: Object) -> Object:
        """Writes a CRD as the server does: defaults, fields set by the server, validation, store."""
        kind = self.kinds.find(tenant, "apiextensions.k8s.io", "v1", "customresourcedefinitions")
        assert kind is not None
        crd["metadata"]["tenant"] = tenant
        kind.strategy.default(crd)
        kind.strategy.prepare_create(crd)
        assert [*kind.strategy.validate(crd), *kind.strategy.validate_create(crd)] == []
        return self.reader.put(tenant, CRDS, crd)

    def find(self, tenant: TenantId, version: str = "v1", resource: str = "widgets") -> Kind | None:
        return self.kinds.find(tenant, "example.com", version, resource)

    def widget(self, tenant: TenantId) -> Kind:
        kind = self.find(tenant)
        assert kind is not None
        return kind


@pytest.fixture
def world() -> World:
    return World()


def test_a_crd_is_served_as_soon_as_it_is_stored(world: World) -> None:
    assert world.find(A) is None
    crd = world.create(A, definition())
    assert is_established(crd)
    kind = world.widget(A)
    assert (kind.kind, kind.singular, kind.list_kind, kind.scope) == (
        "Widget",
        "widget",
        "WidgetList",
        Scope.NAMESPACE,
    )
    assert (kind.short_names, kind.categories) == (("wd",), ("all",))
    assert world.kinds.find_kind(A, "example.com", "v1", "Widget") is kind
    assert kind in world.kinds.all(A)
    assert world.kinds.stored(A, GroupResource("example.com", "widgets")) is kind


def test_crds_are_per_tenant(world: World) -> None:
    world.create(A, definition(scope="Cluster"))
    assert world.find(B) is None
    world.create(B, definition(version("v2")))
    assert world.find(A, "v2") is None
    assert world.find(B, "v1") is None
    assert world.widget(A).scope is Scope.TENANT


def test_a_removed_crd_is_no_longer_served(world: World) -> None:
    world.create(A, definition())
    assert world.find(A) is not None
    world.reader.remove(A, CRDS, "", "widgets.example.com")
    assert world.find(A) is None
    assert world.kinds.find_kind(A, "example.com", "v1", "Widget") is None


def test_stock_kinds_come_first(world: World) -> None:
    pods = world.kinds.find(A, "", "v1", "pods")
    assert pods is REGISTRY.find("", "v1", "pods")
    assert world.kinds.find_kind(A, "", "v1", "Pod") is pods
    assert world.kinds.stored(A, GroupResource("", "pods")) is pods


def test_nothing_is_made_again_while_nothing_changes(world: World) -> None:
    world.create(A, definition())
    kinds = world.kinds.all(A)
    assert world.kinds.all(A) is kinds
    world.create(B, definition())
    assert world.kinds.all(A) is kinds


def test_tenants_with_equal_crds_share_what_is_compiled(world: World) -> None:
    world.create(A, definition())
    world.create(B, definition())
    assert world.widget(A) is world.widget(B)


def test_tenants_without_crds_share_the_stock_kinds(world: World) -> None:
    assert world.kinds.all(A) is world.kinds.all(B)


def test_versions_are_preferred_as_in_kubernetes(world: World) -> None:
    names = ["v1alpha1", "foo", "v2", "v1beta2", "v10", "v1", "v1beta10"]
    assert sorted(names, key=preference) == ["v10", "v2", "v1", "v1beta10", "v1beta2", "v1alpha1", "foo"]
    world.create(A, definition(version("v1beta1", storage=False), version("v1")))
    served = [kind.version for kind in world.kinds.all(A) if kind.group == "example.com"]
    assert served == ["v1", "v1beta1"]


def test_versions_that_are_not_served_are_not_found_but_may_be_stored(world: World) -> None:
    world.create(A, definition(version("v1", served=False), version("v2", storage=False)))
    assert world.find(A, "v1") is None
    kind = world.find(A, "v2")
    assert kind is not None
    assert kind.storage_version == "v1"
    stored = world.kinds.stored(A, GroupResource("example.com", "widgets"))
    assert stored is not None and stored.version == "v1"
    assert kind.from_storage is not None
    assert kind.from_storage({"apiVersion": "example.com/v1"}) == {"apiVersion": "example.com/v2"}


def test_deprecated_versions_warn(world: World) -> None:
    world.create(
        A,
        definition(
            version("v1"),
            version("v1beta1", storage=False, deprecated=True),
            version("v1alpha1", storage=False, deprecated=True, deprecationWarning="gone soon"),
        ),
    )
    warnings = [
        kind.warning if (kind := world.find(A, name)) else None for name in ("v1", "v1beta1", "v1alpha1")
    ]
    assert warnings == [
        "",
        "example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget",
        "gone soon",
    ]


def test_a_terminating_crd_takes_no_new_objects(world: World) -> None:
    world.create(A, definition(deletionTimestamp="2026-01-01T00:00:00Z"))
    assert "create" not in world.widget(A).verbs
    assert "delete" in world.widget(A).verbs


# Strategy


def widget(size: Any = 1, **spec: Any) -> Object:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": {"size": size, **spec},
    }


def test_defaults_and_checks_of_custom_resources(world: World) -> None:
    world.create(A, definition())
    strategy = world.widget(A).strategy
    obj = widget()
    strategy.default(obj)
    assert obj["spec"] == {"size": 1, "color": "red"}
    assert strategy.validate_create(obj) == []
    assert [str(fault) for fault in strategy.validate_create(widget(11))] == [
        "spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10"
    ]
    assert [str(fault) for fault in strategy.validate_create(widget("x", tags=["a", "a"]))] == [
        'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"',
        'spec.tags[1]: Duplicate value: "a"',
        '<nil>: Invalid value: "null": some validation rules were not checked because the object was invalid; '
        "correct the existing errors to complete validation",
    ]


def test_updates_are_compared_with_what_was_there(world: World) -> None:
    world.create(A, definition())
    strategy = world.widget(A).strategy
    assert [str(fault) for fault in strategy.validate_update(widget(1), widget(2))] == [
        'spec: Invalid value: "object": never shrink'
    ]
    assert strategy.validate_update(widget(3), widget(2)) == []
    assert strategy.validate_update(widget(20, color="blue"), widget(20)) == []
    assert len(strategy.validate_update(widget(21), widget(20))) == 1
    assert strategy.validate_update(widget(3, tags=["a", "a"]), widget(3, tags=["b", "b"])) == []


def test_status_and_scale_subresources(world: World) -> None:
    scale = {
        "specReplicasPath": ".spec.size",
        "statusReplicasPath": ".status.ready",
        "labelSelectorPath": ".status.selector",
    }
    world.create(A, definition(version(subresources={"status": {}, "scale": scale})))
    kind = world.widget(A)
    assert [each.name for each in kind.subresources] == ["status", "scale"]
    assert kind.strategy.has_status
    assert kind.scale_paths == (("spec", "size"), ("status", "ready"), ("status", "selector"))
    faults = kind.strategy.validate_status({**widget(), "status": {"ready": "x"}}, widget())
    assert str(faults[0]) == (
        'status.ready: Invalid value: "string": ready in body must be of type integer: "string"'
    )
    assert [str(fault) for fault in kind.strategy.validate_create(widget(-1))] == [
        ".spec.size: Invalid value: -1: should be a non-negative integer"
    ]


def test_columns(world: World) -> None:
    conditions = ".status.conditions[?(@.type=='Ready')].status"
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1},
        {"name": "Ready", "type": "string", "jsonPath": conditions, "description": "is it?"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Tags", "type": "string", "jsonPath": ".spec.tags"},
        {"name": "Wrong", "type": "boolean", "jsonPath": ".spec.size"},
        {"name": "Bad", "type": "string", "jsonPath": ".a["},
    ]
    world.create(A, definition(version(additionalPrinterColumns=columns)))
    kind = world.widget(A)
    obj = widget(3, tags=["a"])
    obj["metadata"]["creationTimestamp"] = "2023-11-14T22:12:20Z"
    obj["status"] = {
        "conditions": [{"type": "Synced", "status": "False"}, {"type": "Ready", "status": "True"}]
    }
    assert [column.name for column in kind.columns] == [
        "Name",
        "Size",
        "Ready",
        "Age",
        "Tags",
        "Wrong",
        "Bad",
    ]
    assert [column.value(obj, NOW) for column in kind.columns] == ["w", 3, "True", "60s", '["a"]', None, None]
    assert (kind.columns[1].priority, kind.columns[2].description) == (1, "is it?")


def test_a_crd_without_columns_shows_name_and_age(world: World) -> None:
    world.create(A, definition())
    assert [column.name for column in world.widget(A).columns] == ["Name", "Age"]


def test_selectable_fields(world: World) -> None:
    world.create(
        A, definition(version(selectableFields=[{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}]))
    )
    fields = world.widget(A).strategy.fields
    assert {name: read(widget(color="blue")) for name, read in fields.items()} == {
        "spec.color": "blue",
        "spec.size": "1",
    }
    assert fields["spec.color"](widget()) == ""


def test_a_crd_with_a_bad_schema_is_refused_and_an_old_bad_one_may_stay(world: World) -> None:
    kind = world.kinds.find(A, "apiextensions.k8s.io", "v1", "customresourcedefinitions")
    assert kind is not None
    bad = version(schema={"openAPIV3Schema": {"type": "object", "properties": {"a": {}}}})
    crd = definition(bad)
    assert [str(fault) for fault in kind.strategy.validate_create(crd)] == [
        "spec.versions[0].schema.openAPIV3Schema.properties[a].type: Required value: "
        "must not be empty for specified object fields"
    ]
    changed = copy.deepcopy(crd)
    changed["metadata"]["labels"] = {"a": "b"}
    assert kind.strategy.validate_update(changed, crd) == []


# Sharing


def forced(**names: Any) -> Object:
    return definition(labels={LABEL: "forced"}, **names)


def test_a_shared_crd_appears_in_every_tenant(world: World) -> None:
    world.create(SYSTEM, forced())
    assert world.find(A) is world.find(SYSTEM)
    assert [crd["metadata"]["name"] for crd in sharing.served(world.reader, A)] == ["widgets.example.com"]
    world.reader.remove(SYSTEM, CRDS, "", "widgets.example.com")
    assert world.find(A) is None


def test_a_crd_of_ring0_without_the_label_is_ring0s_own(world: World) -> None:
    world.create(SYSTEM, definition())
    assert world.find(SYSTEM) is not None
    assert world.find(A) is None
    assert list(sharing.served(world.reader, A)) == []


def test_a_shared_crd_hides_a_tenants_own(world: World) -> None:
    world.create(A, definition(version("v9"), scope="Cluster"))
    assert world.find(A, "v9") is not None
    world.create(SYSTEM, forced())
    assert world.find(A, "v9") is None
    assert world.widget(A).scope is Scope.NAMESPACE
    assert len(list(sharing.served(world.reader, A))) == 1


@pytest.mark.parametrize("verb", ["create", "update", "patch"])
def test_only_ring0_changes_a_shared_crd(world: World, verb: str) -> None:
    world.create(SYSTEM, forced())
    with pytest.raises(Forbidden) as caught:
        sharing.check_write(world.reader, A, verb, "widgets.example.com")
    assert caught.value.message == "widgets.example.com is a system CRD, you cannot overwrite it"
    sharing.check_write(world.reader, SYSTEM, verb, "widgets.example.com")
    sharing.check_write(world.reader, A, verb, "others.example.com")


def test_only_ring0_deletes_a_shared_crd(world: World) -> None:
    world.create(SYSTEM, forced())
    with pytest.raises(Forbidden) as caught:
        sharing.check_write(world.reader, A, "delete", "widgets.example.com")
    assert caught.value.message == (
        "Forbidden: widgets.example.com is a system CRD, it can only be deleted by a cluster admin."
    )


def test_names_of_shared_crds_are_taken_in_every_tenant(world: World) -> None:
    world.create(SYSTEM, forced())
    assert not is_established(world.create(A, definition(plural="gadgets")))


# Removal


def test_removal_waits_for_the_objects(world: World) -> None:
    crd = copy.deepcopy(world.create(A, definition()))
    removal.begin(crd, "2026-01-01T00:00:00Z")
    assert crd["metadata"]["finalizers"] == [removal.FINALIZER]
    assert list(removal.belongings(A, crd, [A, B])) == [
        removal.CrdInstances(A, GroupResource("example.com", "widgets"))
    ]
    assert not removal.finish(crd, 2, "2026-01-01T00:00:01Z")
    assert crd["status"]["conditions"][-1]["reason"] == "InstanceDeletionCheck"
    assert removal.finish(crd, 0, "2026-01-01T00:00:02Z")
    assert crd["metadata"]["finalizers"] == []
    assert crd["status"]["conditions"][-1] == {
        "lastTransitionTime": "2026-01-01T00:00:02Z",
        "type": "Terminating",
        "status": "False",
        "reason": "InstanceDeletionCompleted",
        "message": "removed all instances",
    }


def test_a_shared_crd_takes_every_tenants_objects_along(world: World) -> None:
    crd = world.create(SYSTEM, forced())
    owners = [each.tenant for each in removal.belongings(SYSTEM, crd, [B, A])]
    assert owners == [A, B, SYSTEM]


def test_a_crd_that_was_never_established_has_no_objects(world: World) -> None:
    world.create(A, definition())
    crd = copy.deepcopy(world.create(A, definition(plural="gadgets")))
    assert list(removal.belongings(A, crd, [])) == []
    removal.begin(crd, "2026-01-01T00:00:00Z")
    assert removal.finish(crd, 0, "2026-01-01T00:00:00Z")
    assert crd["status"]["conditions"][-1]["reason"] == "NeverEstablished"


def test_freed_names_go_to_who_waits_for_them(world: World) -> None:
    first = world.create(A, definition())
    second = world.create(A, definition(plural="gadgets"))
    assert not is_established(second)
    ((waiting, status),) = removal.freed(world.reader, A, first, REGISTRY.all(), "2026-01-01T00:00:00Z")
    assert waiting["metadata"]["name"] == second["metadata"]["name"]
    assert is_established({"status": status})
