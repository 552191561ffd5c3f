"""Laws of server-side apply, over objects of every shape."""

import copy
from typing import Any

import orjson
from hypothesis import assume, given
from hypothesis import strategies as st

from alcove.api.errors import Conflict
from alcove.api.patch import apply as ssa
from alcove.api.patch.apply import FieldSet, shape
from alcove.api.patch.apply.compare import compare
from alcove.api.patch.apply.fieldset import parse
from alcove.api.schema.node import SchemaNode

NOW = "2024-02-01T00:00:00Z"
HEAD = {"apiVersion": "v1", "kind": "Sample", "metadata": {"name": "x"}}

letters = st.sampled_from("abc")
sets = st.lists(letters, max_size=3, unique=True)
pairs = st.fixed_dictionaries(
    {}, optional={"a": letters, "b": letters, "deep": st.fixed_dictionaries({}, optional={"c": letters})}
)
ports = st.lists(
    st.fixed_dictionaries(
        {"port": st.integers(1, 3)}, optional={"protocol": st.sampled_from(["TCP", "UDP"]), "label": letters}
    ),
    max_size=2,
    unique_by=lambda port: (port["port"], port.get("protocol", "TCP")),
)
items = st.lists(
    st.fixed_dictionaries({"name": letters}, optional={"value": letters, "tags": sets, "ports": ports}),
    max_size=3,
    unique_by=lambda item: item["name"],
)
anything = st.recursive(
    letters | st.integers(0, 2) | sets,
    lambda inner: st.dictionaries(letters, inner, max_size=2),
    max_leaves=4,
)
bodies = st.fixed_dictionaries(
    {},
    optional={
        "number": st.integers(0, 2),
        "text": letters,
        "free": st.dictionaries(letters, letters, max_size=3),
        "pair": pairs,
        "pairs": st.dictionaries(letters, pairs, max_size=2),
        "atomicMap": st.dictionaries(letters, letters, max_size=2),
        "atomicList": st.lists(letters, max_size=2),
        "set": sets,
        "items": items,
        "any": anything,
    },
)
histories = st.lists(st.tuples(st.sampled_from("mno"), st.booleans(), bodies), min_size=1, max_size=4)


def apply(node: SchemaNode, live: Any, manager: str, body: Any, force: bool = True) -> Any:
    config = {**HEAD, **body}
    return ssa.apply_configuration(
        live, config, node=node, manager=manager, api_version="v1", now=NOW, force=force
    )


def update(node: SchemaNode, live: Any, manager: str, body: Any) -> Any:
    new = {**copy.deepcopy(HEAD), **copy.deepcopy(body)}
    ssa.update_managed_fields(live, new, node=node, manager=manager, api_version="v1", now=NOW)
    return new


def lived(node: SchemaNode, history: Any) -> Any:
    """An object after applies and updates by several managers."""
    live: Any = None
    for manager, is_apply, body in history:
        live = apply(node, live, manager, body) if is_apply else update(node, live, manager, body)
    return live


def owned(obj: Any, but: str = "") -> FieldSet:
    """What all managers own together, one left out."""
    together = FieldSet()
    for entry in obj["metadata"].get("managedFields", []):
        if entry["manager"] != but:
            together |= FieldSet(entry["fieldsV1"])
    return together


def owned_by(obj: Any, manager: str, operation: str) -> FieldSet:
    for entry in obj["metadata"].get("managedFields", []):
        if (entry["manager"], entry["operation"]) == (manager, operation):
            return FieldSet(entry["fieldsV1"])
    return FieldSet()


def claims(node: SchemaNode, body: Any) -> FieldSet:
    return FieldSet(shape.root(node).applied(body))


def fields(obj: Any) -> Any:
    return {name: value for name, value in obj.items() if name not in HEAD}


@given(histories, bodies)
def test_an_applier_owns_exactly_what_it_applies(sample: SchemaNode, history: Any, body: Any) -> None:
    applied = apply(sample, lived(sample, history), "me", body)
    assert owned_by(applied, "me", "Apply") == claims(sample, body)


@given(histories, bodies)
def test_applying_twice_is_applying_once(sample: SchemaNode, history: Any, body: Any) -> None:
    once = apply(sample, lived(sample, history), "me", body)
    # An object without any owner is taken for one from before the first apply.
    assume(once["metadata"].get("managedFields"))
    assert apply(sample, once, "me", body, force=False) == once


@given(histories, bodies)
def test_what_is_applied_is_there(sample: SchemaNode, history: Any, body: Any) -> None:
    applied = apply(sample, lived(sample, history), "me", body)
    # Applying it changes nothing more, so every value is as the configuration has it.
    found = compare(
        fields(apply(sample, applied, "other", body, force=False)), fields(applied), shape.root(sample)
    )
    assert (found.changed, found.removed) == ({}, {})


@given(histories, bodies)
def test_neither_the_object_nor_the_configuration_is_changed(
    sample: SchemaNode, history: Any, body: Any
) -> None:
    live = lived(sample, history)
    before = orjson.dumps([live, body])
    applied = apply(sample, live, "m", body)
    assert orjson.dumps([live, body]) == before
    for value in applied.values():
        if type(value) in (dict, list):
            value.clear()
    assert orjson.dumps([live, body]) == before


@given(histories, bodies)
def test_conflicts_are_what_others_own_of_what_changes(sample: SchemaNode, history: Any, body: Any) -> None:
    live = lived(sample, history)
    assume(live["metadata"].get("managedFields"))
    forced = apply(sample, live, "me", body)
    changed = FieldSet(compare(live, forced, shape.root(sample)).changed)
    expected = bool(changed & owned(live))
    try:
        assert apply(sample, live, "me", body, force=False) == forced
        assert not expected
    except Conflict as error:
        assert expected
        assert error.details is not None
        assert {cause.reason for cause in error.details.causes} == {"FieldManagerConflict"}


@given(bodies, bodies)
def test_disjoint_appliers_commute(sample: SchemaNode, left: Any, right: Any) -> None:
    right = {name: value for name, value in right.items() if name not in left}
    # Somebody owns something from the start: else what the first applies without claiming it (an empty
    # list) has an owner made up for it when the second comes.
    base = update(sample, None, "base", {"status": {"a": "1"}})
    one = apply(sample, apply(sample, base, "l", left, force=False), "r", right, force=False)
    other = apply(sample, apply(sample, base, "r", right, force=False), "l", left, force=False)
    assert one == other


@given(bodies, bodies)
def test_leaving_everything_out_removes_what_nobody_else_owns(
    sample: SchemaNode, mine: Any, others: Any
) -> None:
    base = update(sample, None, "base", {"status": {"a": "1"}})
    alone = apply(sample, base, "other", others)
    both = apply(sample, alone, "me", mine)
    after = apply(sample, both, "me", {})
    left = claims(sample, fields(after))
    for path in claims(sample, mine):
        if path not in owned(after) and path not in claims(sample, others):
            assert path not in left
    there = FieldSet(shape.root(sample).created(after))
    assert all(path in there for path in owned(both, but="me"))
    assert owned_by(after, "me", "Apply") == FieldSet()


@given(histories, bodies)
def test_an_updater_owns_what_it_changed_and_nobody_else_does(
    sample: SchemaNode, history: Any, body: Any
) -> None:
    live = lived(sample, history)
    assume(live["metadata"].get("managedFields"))
    new = update(sample, live, "me", body)
    found = compare(live, new, shape.root(sample))
    changed, removed = FieldSet(found.changed), FieldSet(found.removed)
    assert owned_by(new, "me", "Update") == changed
    assert not owned(new, but="me") & changed
    assert not owned(new) & (removed - changed)
    # Nothing else changes hands.
    assert owned(new, but="me") == owned(live) - changed - removed


@given(histories, bodies)
def test_a_write_of_the_same_object_changes_no_owner(sample: SchemaNode, history: Any, body: Any) -> None:
    live = lived(sample, history)
    assert update(sample, live, "somebody", fields(live)) == live
    created = update(sample, None, "me", body)
    assert update(sample, created, "me", body) == created


@given(histories, bodies)
def test_entries_are_canonical(sample: SchemaNode, history: Any, body: Any) -> None:
    live = lived(sample, history)
    for obj in (live, update(sample, live, "u", body), apply(sample, live, "a", body)):
        for entry in obj["metadata"].get("managedFields", []):
            trie = entry["fieldsV1"]
            assert trie, "an entry without fields"
            assert orjson.dumps(trie) == orjson.dumps(FieldSet(parse(trie)).to_json())
