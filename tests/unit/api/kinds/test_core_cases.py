"""Errors of Kubernetes 1.36 for a thousand objects, each changed in one place from a valid one.

A case is [base, operation, path, value, errors]: the value is put at the path of the base (null: what is
there is removed), and the errors, by their numbers in `messages`, are those expected, in any order.
Bases named `…@stored` are objects as the server keeps them; `update`, `status` and `resize` replace them.
Of errors that show a difference only the first line counts.
"""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alcove.api.errors import BadRequest
from alcove.api.fields import FieldError
from alcove.api.kind import Kind, Scope
from alcove.api.kinds.core.pods.subresources import prepare_resize, validate_resize
from alcove.api.kinds.metadata import validate_metadata
from alcove.api.objects import Object
from alcove.api.registry import load
from alcove.api.schema.decode import decode

FOLDER = Path(__file__).parent / "core_cases"
REGISTRY = load()


def cases() -> Iterator[Any]:
    for name in ("pods", "services", "storage", "rest"):
        table = json.loads((FOLDER / f"{name}.json").read_text())
        for number, (base, operation, path, value, errors) in enumerate(table["cases"]):
            messages = [table["messages"][index] for index in errors]
            yield pytest.param(
                table["bases"][base],
                operation,
                path,
                value,
                messages,
                id=f"{name}-{number}-{base}-{operation}",
            )


def changed(base: Object, path: list[Any], value: Any) -> Object:
    obj = copy.deepcopy(base)
    if not path:
        return obj
    place: Any = obj
    for step in path[:-1]:
        place = place[step]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = copy.deepcopy(value)
    return obj


def kind_of(obj: Object) -> Kind:
    kind = REGISTRY.find_kind("", "v1", obj["kind"])
    assert kind is not None
    return kind


def errors_of(kind: Kind, operation: str, new: Object, old: Object) -> list[FieldError]:
    strategy = kind.strategy
    new = decode(kind.schema, new)
    strategy.default(new)
    if operation == "create":
        if strategy.has_status and not strategy.keeps_new_status:
            new.pop("status", None)
        strategy.prepare_create(new)
        checked = validate_metadata(new["metadata"], kind.scope is Scope.NAMESPACE, strategy.validate_name)
        return [*checked, *strategy.validate(new), *strategy.validate_create(new)]
    if operation == "resize":
        prepare_resize(new, old)
        return validate_resize(new, old)
    if operation == "status":
        new = {**copy.deepcopy(old), "status": new.get("status", {})}
        strategy.prepare_status(new, old)
        return list(strategy.validate_status(new, old))
    if strategy.has_status:
        new["status"] = copy.deepcopy(old.get("status", {}))
    strategy.prepare_update(new, old)
    return [*strategy.validate(new), *strategy.validate_update(new, old)]


@pytest.mark.parametrize(("base", "operation", "path", "value", "messages"), list(cases()))
def test_errors_are_those_of_kubernetes(
    base: Object, operation: str, path: list[Any], value: Any, messages: list[str]
) -> None:
    found = [
        str(error).split("\n")[0]
        for error in errors_of(kind_of(base), operation, changed(base, path, value), base)
    ]
    if operation == "create":
        assert sorted(found) == sorted(messages)
    else:
        # Kubernetes checks some objects twice on update, and reports an error twice.
        assert set(found) == set(messages)


def without_empty(value: Any) -> Any:
    """Go's encoder leaves out most of what is empty or zero, so those cannot be compared."""
    if isinstance(value, list):
        return [without_empty(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {field: without_empty(inner) for field, inner in value.items()}
    return {field: inner for field, inner in kept.items() if inner not in (None, [], {}, "", False, 0)}


def test_defaults_are_those_that_kubernetes_fills_in() -> None:
    for name, written, defaulted, prepared in json.loads((FOLDER / "defaults.json").read_text()):
        kind = kind_of(written)
        obj = decode(kind.schema, copy.deepcopy(written))
        kind.strategy.default(obj)
        assert without_empty(obj) == defaulted, name
        kind.strategy.prepare_create(obj)
        assert without_empty(obj) == prepared, name


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of everything inside a value."""
    inside: Any = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for step, inner in inside:
        yield (*path, step)
        yield from places(inner, (*path, step))


def broken(rng: Random, obj: Object) -> Object:
    """The object with a few values removed, emptied, repeated or replaced, all of the right type."""
    obj = copy.deepcopy(obj)
    for _ in range(rng.randint(1, 6)):
        reachable = [path for path in places(obj) if path[0] not in ("apiVersion", "kind", "metadata")]
        if not reachable:
            break
        path = rng.choice(reachable)
        holder: Any = obj
        for step in path[:-1]:
            holder = holder[step]
        value = holder[path[-1]]
        if isinstance(holder, dict) and rng.random() < 0.3:
            del holder[path[-1]]
        elif isinstance(value, bool):
            holder[path[-1]] = not value
        elif isinstance(value, int):
            holder[path[-1]] = rng.choice((0, -1, 2**31))
        elif isinstance(value, str):
            holder[path[-1]] = rng.choice(("", "a", "..", "a/b/c", "Always", "x" * 300, "1Gi", "-5", "::1"))
        elif isinstance(value, list):
            holder[path[-1]] = rng.choice(([], value + copy.deepcopy(value[:1])))
        else:
            holder[path[-1]] = {}
    return obj


BASES = [
    base
    for name in ("pods", "services", "storage", "rest")
    for base in json.loads((FOLDER / f"{name}.json").read_text())["bases"].values()
]


@settings(max_examples=15 * settings().max_examples, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(BASES))
def test_no_object_of_the_right_types_breaks_a_check(rng: Random, base: Object) -> None:
    kind, stored = kind_of(base), copy.deepcopy(base)
    kind.strategy.default(stored)
    for operation in ("create", "update", "status", *(("resize",) if kind.kind == "Pod" else ())):
        try:
            errors = errors_of(kind, operation, broken(rng, base), stored)
        except BadRequest:
            continue  # The type was wrong after all: a text in place of a quantity or time.
        assert all(error.body for error in errors)
        for read in kind.strategy.fields.values():
            assert isinstance(read(base), str)
