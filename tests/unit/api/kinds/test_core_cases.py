"""What Kubernetes 1.36 says about a thousand objects, each changed in one place from a good one.

A case is [base, operation, path, value, faults]: the value is put at the path of the base (null: what is
there is removed) and the faults, by their numbers in `messages`, are what must be told, in any order.
Bases named `…@stored` are objects as the server keeps them; `update`, `status` and `resize` replace them.
Of faults that show a difference only the first line counts.
"""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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
        for number, (base, operation, path, value, faults) in enumerate(table["cases"]):
            told = [table["messages"][index] for index in faults]
            yield pytest.param(
                table["bases"][base], operation, path, value, told, id=f"{name}-{number}-{base}-{operation}"
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


def faults_of(kind: Kind, operation: str, new: Object, old: Object) -> list[FieldError]:
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


@pytest.mark.parametrize(("base", "operation", "path", "value", "told"), list(cases()))
def test_faults_are_those_that_kubernetes_tells(
    base: Object, operation: str, path: list[Any], value: Any, told: list[str]
) -> None:
    found = [
        str(fault).split("\n")[0]
        for fault in faults_of(kind_of(base), operation, changed(base, path, value), base)
    ]
    if operation == "create":
        assert sorted(found) == sorted(told)
    else:
        # Kubernetes checks some objects twice on update, and tells twice what it finds.
        assert set(found) == set(told)


def without_empty(value: Any) -> Any:
    """Go's encoder leaves out most of what is empty or zero, so those cannot be compared."""
    if isinstance(value, list):
        return [without_empty(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {field: without_empty(inner) for field, inner in value.items()}
    return {field: inner for field, inner in kept.items() if inner not in (None, [], {}, "", False, 0)}


def test_defaults_are_those_that_kubernetes_fills_in() -> None:
    for name, given, defaulted, prepared in json.loads((FOLDER / "defaults.json").read_text()):
        kind = kind_of(given)
        obj = decode(kind.schema, copy.deepcopy(given))
        kind.strategy.default(obj)
        assert without_empty(obj) == defaulted, name
        kind.strategy.prepare_create(obj)
        assert without_empty(obj) == prepared, name
