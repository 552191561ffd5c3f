"""managedFields: read, checked, written, capped."""

import copy
from typing import Any

import pytest

from alcove.api.patch.apply import managed
from alcove.api.patch.apply.managed import FieldOwner, Managed, ManagedFieldsEntry

NOW = "2024-05-01T10:00:00Z"


def entry(manager: str, fields: Any, **more: Any) -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": NOW,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        **more,
    }


def test_unchanged_entries_are_carried_over_as_they_are() -> None:
    entries = [entry("a", {"f:x": {}}), entry("b", {"f:y": {}}, subresource="status")]
    obj: dict[str, Any] = {}
    managed.write(obj, managed.read(entries))
    assert obj["metadata"]["managedFields"] == entries
    assert all(left is right for left, right in zip(obj["metadata"]["managedFields"], entries, strict=True))


def test_entries_are_written_as_kubernetes_writes_them() -> None:
    obj: dict[str, Any] = {}
    owned: Managed = {
        FieldOwner.updater("u", "v1", "status"): ManagedFieldsEntry("v1", NOW, {"f:x": {}}),
        FieldOwner.applier("a", ""): ManagedFieldsEntry("v2", None, {"f:y": {}}),
        FieldOwner.updater("gone", "v1", ""): ManagedFieldsEntry("v1", NOW, {}),
    }
    managed.write(obj, owned)
    assert obj["metadata"]["managedFields"] == [
        {
            "manager": "a",
            "operation": "Apply",
            "apiVersion": "v2",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:y": {}},
        },
        {
            "manager": "u",
            "operation": "Update",
            "apiVersion": "v1",
            "time": NOW,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:x": {}},
            "subresource": "status",
        },
    ]
    assert list(obj["metadata"]["managedFields"][1]) == list(entry("u", {}, subresource="status"))


def test_order_is_appliers_first_then_by_time_and_name() -> None:
    entries = [
        entry("z", {"f:a": {}}, time="2024-01-01T00:00:00Z"),
        entry("a", {"f:a": {}}, time="2024-01-02T00:00:00Z"),
        entry("a", {"f:a": {}}, time="2024-01-02T00:00:00Z", subresource="status"),
        entry("b", {"f:a": {}}, time="2024-01-02T00:00:00Z"),
    ]
    applied = entry("zz", {"f:a": {}}, operation="Apply")
    obj: dict[str, Any] = {}
    managed.write(obj, managed.read([*reversed(entries), applied]))
    assert obj["metadata"]["managedFields"] == [applied, *entries]


def test_nobody_owning_anything_leaves_no_entries() -> None:
    obj = {"metadata": {"name": "x", "managedFields": [entry("a", {})]}}
    managed.write(obj, managed.read([entry("a", {})]))
    assert obj == {"metadata": {"name": "x"}}


def test_an_applier_is_one_at_every_version_an_updater_is_not() -> None:
    entries = [
        entry("m", {"f:a": {}}, operation=operation, apiVersion=version)
        for operation in ("Apply", "Update")
        for version in ("v1", "v2")
    ]
    assert set(managed.parse(entries)) == {
        FieldOwner("m", "Apply", ""),
        FieldOwner("m", "Update", "v1"),
        FieldOwner("m", "Update", "v2"),
    }


def test_what_clients_write_is_put_in_order() -> None:
    given = [entry("m", {"f:b": {".": {}}, "f:a": {'k:{"y":1, "x":2}': {}}})]
    (parsed,) = managed.parse(given).values()
    assert parsed.trie == {"f:a": {'k:{"x":2,"y":1}': {}}, "f:b": {}}
    assert list(parsed.trie) == ["f:a", "f:b"]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([entry("m", {}, operation="Delete")], "operation must be `Apply` or `Update`"),
        ([entry("m", {}, operation="")], "operation must be `Apply` or `Update`"),
        ([{}, {}], "operation must be `Apply` or `Update`"),
        ([entry("m", {}, apiVersion="")], "apiVersion must not be empty"),
        ([entry("m", {}), entry("n", {}, fieldsType="")], "missing fieldsType in managed fields entry 1"),
        ([entry("m", {}, fieldsType="FieldsV2")], 'invalid fieldsType "FieldsV2" in managed fields entry 0'),
        ([entry("m", {"spec": {}})], "missing colon: spec"),
        ([entry("m", [1])], "fieldsV1 must be an object"),
        (["x"], "entry 0 is malformed"),
        ([entry("m", {}, subresource={"a": 1})], "entry 0 is malformed"),
        ({}, "must be a list"),
    ],
)
def test_what_is_not_taken_from_clients(given: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        managed.parse(given)


def test_resets() -> None:
    assert managed.is_reset([{}])
    assert managed.is_reset([])
    assert not managed.is_reset(None)
    assert not managed.is_reset([{}, {}])
    assert not managed.is_reset([entry("m", {})])


def updaters(count: int, **more: Any) -> list[dict[str, Any]]:
    return [
        entry(f"m{number:02}", {f"f:{number:02}": {}}, time=f"2024-01-{number + 1:02}T00:00:00Z", **more)
        for number in range(count)
    ]


def test_ten_updaters_are_the_most() -> None:
    owned = managed.read([*updaters(10), entry("a", {"f:x": {}}, operation="Apply")])
    assert managed.limit(owned) is owned


def test_the_oldest_updaters_become_one() -> None:
    owned = managed.read([*updaters(12), entry("a", {"f:x": {}}, operation="Apply")])
    before = copy.deepcopy(owned)
    limited = managed.limit(owned)
    assert owned == before
    assert [owner.manager for owner in limited if owner.operation == "Update"] == [
        *(f"m{number:02}" for number in range(3, 12)),
        "ancient-changes",
    ]
    ancient = limited[FieldOwner("ancient-changes", "Update", "v1")]
    assert ancient.trie == {"f:00": {}, "f:01": {}, "f:02": {}}
    assert ancient.time == "2024-01-03T00:00:00Z"


def test_the_next_joins_them() -> None:
    limited = managed.limit(managed.read(updaters(11)))
    limited[FieldOwner.updater("new", "v1", "")] = ManagedFieldsEntry(
        "v1", "2024-02-01T00:00:00Z", {"f:new": {}}
    )
    again = managed.limit(limited)
    assert len(again) == 10
    assert again[FieldOwner("ancient-changes", "Update", "v1")].trie == {"f:00": {}, "f:01": {}, "f:02": {}}


def test_only_updaters_of_one_version_are_joined() -> None:
    owned = managed.read([*updaters(6), *updaters(5, apiVersion="v2")])
    limited = managed.limit(owned)
    assert len(limited) == 10
    # The two oldest are one of each version; the next oldest of v1 joins the first of them.
    assert limited[FieldOwner("ancient-changes", "Update", "v1")].trie == {"f:00": {}, "f:01": {}}


def test_times_alone_are_no_change() -> None:
    live: Any = {"metadata": {"name": "x", "managedFields": [entry("a", {"f:x": {}})]}, "x": 1}
    new = copy.deepcopy(live)
    new["metadata"]["managedFields"][0]["time"] = "2025-01-01T00:00:00Z"
    managed.restore_times(live, new)
    assert new == live


@pytest.mark.parametrize("change", ["fields", "object", "more", "none"])
def test_times_stay_with_a_change(change: str) -> None:
    live: dict[str, Any] = {"metadata": {"name": "x", "managedFields": [entry("a", {"f:x": {}})]}, "x": 1}
    new = copy.deepcopy(live)
    new["metadata"]["managedFields"][0]["time"] = "2025-01-01T00:00:00Z"
    match change:
        case "fields":
            new["metadata"]["managedFields"][0]["fieldsV1"] = {"f:y": {}}
        case "object":
            new["x"] = 2
        case "more":
            new["metadata"]["managedFields"].append(entry("b", {"f:y": {}}))
        case _:
            live["metadata"].pop("managedFields")
    before = copy.deepcopy(new)
    managed.restore_times(live, new)
    assert new == before


def test_validation_has_the_messages_of_kubernetes() -> None:
    errors = managed.validate(
        [
            {"fieldsType": "FieldsV1"},
            entry("m", {}, operation="RandomOperation", fieldsType="RandomFieldsType"),
            entry("x" * 129, {}, subresource="s" * 257),
            entry("a\x07", {}),
            entry("m", {}),
        ]
    )
    assert [str(error) for error in errors] == [
        "metadata.managedFields[0].operation: Required value: must not be empty",
        'metadata.managedFields[1].operation: Unsupported value: "RandomOperation": supported values: "Apply", "Update"',
        'metadata.managedFields[1].fieldsType: Invalid value: "RandomFieldsType": must be `FieldsV1`',
        "metadata.managedFields[2].manager: Too long: may not be more than 128 bytes",
        "metadata.managedFields[2].subresource: Too long: may not be more than 256 bytes",
        'metadata.managedFields[3].manager: Invalid value: "a\\u0007": invalid character U+0007 (at position 1)',
    ]
    assert managed.validate(None) == []
