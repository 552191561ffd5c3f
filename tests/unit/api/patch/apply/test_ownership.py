"""Ownership after creates, updates and patches."""

import copy
from typing import Any

import pytest

from alcove.api.patch import apply as ssa
from alcove.api.patch.apply import FieldSet
from alcove.api.schema.node import SchemaNode

THEN, NOW, LATER = "2024-01-01T00:00:00Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z"
STATUS = FieldSet.of(("status",))
BUT_STATUS = FieldSet.of(("spec",), ("metadata", "labels"))


def obj(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Sample", "metadata": {"name": "x"}, **fields}


def updated(node: SchemaNode, live: Any, new: Any, manager: str = "m", now: str = NOW, **more: Any) -> Any:
    """`new` after an update; neither `live` nor anything shared with it may change."""
    before = copy.deepcopy(live)
    new = copy.deepcopy(new)
    ssa.update_managed_fields(live, new, node=node, manager=manager, api_version="v1", now=now, **more)
    assert live == before
    return new


def owners(of: Any) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in of["metadata"].get("managedFields", [])}


def times(of: Any) -> dict[str, str]:
    return {entry["manager"]: entry["time"] for entry in of["metadata"].get("managedFields", [])}


def test_the_creator_owns_all_it_set(sample: SchemaNode) -> None:
    created = updated(sample, None, obj(text="a", free={"x": "1"}))
    assert created["metadata"]["managedFields"] == [
        {
            "manager": "m",
            "operation": "Update",
            "apiVersion": "v1",
            "time": NOW,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:free": {".": {}, "f:x": {}}, "f:text": {}},
        }
    ]


def test_an_object_without_fields_has_no_owners(sample: SchemaNode) -> None:
    assert updated(sample, None, obj()) == obj()


def test_a_writer_without_a_name_is_unknown(sample: SchemaNode) -> None:
    assert list(owners(updated(sample, None, obj(text="a"), manager=""))) == ["unknown"]


def test_a_change_moves_the_field_to_who_made_it(sample: SchemaNode) -> None:
    live = updated(sample, None, obj(text="a", number=1), "creator", THEN)
    new = updated(sample, live, {**live, "text": "b"}, "editor")
    assert owners(new) == {"creator": {"f:number": {}}, "editor": {"f:text": {}}}
    assert times(new) == {"creator": THEN, "editor": NOW}


def test_the_same_writer_keeps_one_entry(sample: SchemaNode) -> None:
    live = updated(sample, None, obj(text="a"), "m", THEN)
    new = updated(sample, live, {**live, "number": 1, "text": "b"}, "m")
    assert owners(new) == {"m": {"f:number": {}, "f:text": {}}}
    assert times(new) == {"m": NOW}


def test_a_removal_takes_the_field_from_everybody_and_gives_it_to_nobody(sample: SchemaNode) -> None:
    live = updated(sample, None, obj(text="a", number=1), "creator", THEN)
    without = {name: value for name, value in live.items() if name != "text"}
    new = updated(sample, live, without, "remover")
    assert owners(new) == {"creator": {"f:number": {}}}
    assert times(new) == {"creator": THEN}


def test_who_owns_nothing_more_is_dropped(sample: SchemaNode) -> None:
    live = updated(sample, None, obj(text="a"), "creator")
    assert list(owners(updated(sample, live, {**live, "text": "b"}, "editor"))) == ["editor"]


def test_a_write_that_changes_nothing_changes_nothing(sample: SchemaNode) -> None:
    live = updated(sample, None, obj(text="a", items=[{"name": "x"}]), "creator", THEN)
    assert updated(sample, live, live, "other") == live
    assert updated(sample, live, obj(text="a", items=[{"name": "x"}]), "creator") == live


def test_clients_that_leave_the_entries_out_do_not_delete_them(sample: SchemaNode) -> None:
    live = updated(sample, None, obj(text="a"), "creator", THEN)
    assert owners(updated(sample, live, obj(text="a", number=1), "editor")) == {
        "creator": {"f:text": {}},
        "editor": {"f:number": {}},
    }


@pytest.mark.parametrize("reset", [[], [{}]])
def test_a_reset_forgets_everybody_and_tracks_no_more(sample: SchemaNode, reset: Any) -> None:
    live = updated(sample, None, obj(text="a"), "creator")
    new = copy.deepcopy(live)
    new["metadata"]["managedFields"] = reset
    forgotten = updated(sample, live, new)
    assert forgotten == obj(text="a")
    assert updated(sample, forgotten, obj(text="b")) == obj(text="b")


def test_a_create_starts_from_the_entries_it_brings(sample: SchemaNode) -> None:
    given = updated(sample, None, obj(text="a", number=1), "elsewhere", THEN)
    created = updated(sample, None, given, "restorer")
    assert owners(created) == {"restorer": {"f:number": {}, "f:text": {}}}


def test_entries_that_a_client_edits_count(sample: SchemaNode) -> None:
    live = updated(sample, None, obj(text="a"), "creator")
    new = copy.deepcopy(live)
    new["metadata"]["managedFields"][0]["manager"] = "renamed"
    assert owners(updated(sample, live, new)) == {"renamed": {"f:text": {}}}


@pytest.mark.parametrize(
    "broken", [[{"manager": "x"}], [{"manager": "x", "operation": "Update", "apiVersion": "v1"}], ["x"], "x"]
)
def test_malformed_entries_are_ignored(sample: SchemaNode, broken: Any) -> None:
    live = updated(sample, None, obj(text="a"), "creator")
    new = copy.deepcopy(live)
    new["metadata"]["managedFields"] = broken
    assert owners(updated(sample, live, new)) == {"creator": {"f:text": {}}}


def test_a_subresource_cannot_edit_entries(sample: SchemaNode) -> None:
    live = updated(sample, None, obj(text="a"), "creator")
    new = copy.deepcopy(live)
    new["metadata"]["managedFields"] = [{}]
    assert updated(sample, live, new, subresource="status") == live


def test_fields_that_a_write_cannot_set_are_not_owned(sample: SchemaNode) -> None:
    created = updated(sample, None, obj(text="a", status={"a": "1"}), reset=STATUS)
    assert owners(created) == {"m": {"f:text": {}}}
    live = updated(sample, None, obj(text="a"), reset=STATUS)
    assert owners(updated(sample, live, {**live, "text": "b", "status": {"a": "2"}}, reset=STATUS)) == {
        "m": {"f:text": {}}
    }


def test_the_status_subresource_is_an_owner_of_its_own(sample: SchemaNode) -> None:
    live = updated(sample, None, obj(text="a"), reset=STATUS)
    live["metadata"]["labels"] = {"l": "1"}
    new = copy.deepcopy(live)
    new["status"] = {"a": "1"}
    new["metadata"]["labels"] = {"l": "2"}
    after = updated(sample, live, new, now=LATER, subresource="status", reset=BUT_STATUS)
    assert after["metadata"]["managedFields"] == [
        live["metadata"]["managedFields"][0],
        {
            "manager": "m",
            "operation": "Update",
            "apiVersion": "v1",
            "time": LATER,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:status": {".": {}, "f:a": {}}},
            "subresource": "status",
        },
    ]


def test_a_resource_with_fields_reset_deep_inside(sample: SchemaNode) -> None:
    deep = FieldSet.of(("pair", "deep"))
    created = updated(sample, None, obj(pair={"a": "1", "deep": {"c": "2"}}), reset=deep)
    assert owners(created) == {"m": {"f:pair": {".": {}, "f:a": {}}}}


def test_the_eleventh_updater_merges_the_first_two(sample: SchemaNode) -> None:
    live = updated(sample, None, obj(free={"0": "x"}), "m0", f"{THEN[:-1]}Z")
    for number in range(1, 11):
        new = copy.deepcopy(live)
        new["free"][str(number)] = "x"
        live = updated(sample, live, new, f"m{number}", f"2024-01-{number + 1:02}T00:00:00Z")
    assert owners(live)["ancient-changes"] == {"f:free": {".": {}, "f:0": {}, "f:1": {}}}
    assert len(owners(live)) == 10


def test_lists_without_keys_keep_the_entries_there_were(sample: SchemaNode) -> None:
    live = updated(sample, None, obj(text="a"), "creator")
    assert updated(sample, live, {**live, "items": ["not an object"]})["metadata"] == live["metadata"]
    assert "managedFields" not in updated(sample, None, obj(items=["not an object"]))["metadata"]


def test_what_becomes_atomic_and_changes_is_lost_whole(sample: SchemaNode) -> None:
    live = updated(sample, None, obj(atomicMap={"a": "1"}), "creator")
    # Written when the map was not atomic yet.
    live["metadata"]["managedFields"][0]["fieldsV1"] = {"f:atomicMap": {".": {}, "f:a": {}}, "f:text": {}}
    new = {**live, "atomicMap": {"a": "2"}}
    assert owners(updated(sample, live, new, "editor")) == {
        "creator": {"f:text": {}},
        "editor": {"f:atomicMap": {}},
    }


def test_entries_of_a_pod_through_its_life(pod_node: SchemaNode) -> None:
    status_reset = FieldSet.of(("spec",), ("metadata", "ownerReferences"))
    spec = {"containers": [{"name": "app", "image": "a:1"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    live = updated(pod_node, None, pod, "kubectl-create", THEN, reset=STATUS)
    new = copy.deepcopy(live)
    new["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}
    live = updated(pod_node, live, new, "kubelet", NOW, subresource="status", reset=status_reset)
    new = copy.deepcopy(live)
    new["status"]["conditions"][0]["status"] = "True"
    live = updated(pod_node, live, new, "kubelet", LATER, subresource="status", reset=status_reset)
    assert owners(live) == {
        "kubectl-create": {
            "f:spec": {"f:containers": {'k:{"name":"app"}': {".": {}, "f:image": {}, "f:name": {}}}}
        },
        "kubelet": {
            "f:status": {
                "f:conditions": {".": {}, 'k:{"type":"Ready"}': {".": {}, "f:status": {}, "f:type": {}}},
                "f:phase": {},
            }
        },
    }
    assert times(live) == {"kubectl-create": THEN, "kubelet": LATER}
