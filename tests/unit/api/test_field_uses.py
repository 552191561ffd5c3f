"""Nothing is ignored silently: every field of every served kind is read, refused, warned of, or kept for clients."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import alcove
from alcove.api import registry
from alcove.api.field_uses import ROWS, FieldUse, Row, use_of
from alcove.api.schema import kubernetes_schemas
from alcove.api.warnings.unserved import UNSERVED

SOURCE = Path(alcove.__file__).parent
PREFIX = re.compile(
    r"io\.k8s\.(api\.|apimachinery\.pkg\.apis\.|apiextensions-apiserver\.pkg\.apis\.|kube-aggregator\.pkg\.apis\.)?"
)
NOT_READERS = ("api/field_uses.py", "api/warnings/unserved.py", "api/schema/kubernetes_schemas.py")


def references(schema: Any) -> Iterator[str]:
    """The definitions that a schema refers to."""
    if isinstance(schema, dict):
        if isinstance(reference := schema.get("$ref"), str):
            yield reference.rpartition("/")[2]
        schema = list(schema.values())
    for part in schema if isinstance(schema, list) else ():
        yield from references(part)


@cache
def served_fields() -> tuple[str, ...]:
    """`DEFINITION.FIELD` of all definitions that served kinds have."""
    documents = kubernetes_schemas.documents()
    waiting = [kind.definition for kind in registry.load() if kind.definition]
    reached: dict[str, None] = {}
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached[name] = None
            waiting += references(documents[name])
    return tuple(
        f"{PREFIX.sub('', name, count=1)}.{field}"
        for name in sorted(reached)
        for field in documents[name].get("properties", ())
    )


@cache
def words() -> dict[str, frozenset[str]]:
    """The words of all string literals, by module."""
    found: dict[str, frozenset[str]] = {}
    for path in SOURCE.rglob("*.py"):
        literals = (
            node.value
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        )
        module = str(path.relative_to(SOURCE))
        if module not in NOT_READERS:
            found[module] = frozenset(word for text in literals for word in re.findall(r"[$\w-]+", text))
    return found


def holds(row: Row, field: str) -> bool:
    """Whether what the row says of the field is so."""
    name = field.rpartition(".")[2]
    match row.use:
        case FieldUse.READ:
            readers = tuple(row.reason.split())
            return any(name in found for module, found in words().items() if module.startswith(readers))
        case FieldUse.WARNED:
            return any(row.reason in paths for paths in UNSERVED.values())
        case FieldUse.REFUSED | FieldUse.STORED:
            return True


def test_no_field_of_a_served_kind_is_ignored_silently() -> None:
    ignored = [field for field in served_fields() if (row := use_of(field)) is None or not holds(row, field)]
    assert ignored == [], "honour, refuse or warn of them, then say so in api/field_uses.py"


def test_no_row_is_about_fields_that_are_not_served() -> None:
    patterns = [pattern for row in ROWS for pattern in row.patterns.split()]
    empty = [
        each
        for each in patterns
        if not any(Row(each, FieldUse.STORED, "").matches(f) for f in served_fields())
    ]
    assert empty == []


def test_readers_exist() -> None:
    paths = {path for row in ROWS if row.use is FieldUse.READ for path in row.reason.split()}
    assert [path for path in sorted(paths) if not (SOURCE / path).exists()] == []


def test_fields_that_are_warned_of_are_served() -> None:
    """By the name of the last part of their path."""
    names = {field.rpartition(".")[2] for field in served_fields()}
    paths = {path.partition("=")[0] for texts in UNSERVED.values() for path in texts}
    assert [path for path in sorted(paths) if path.rpartition(".")[2] not in names] == []


def test_a_field_that_nobody_knows_is_found() -> None:
    """The test itself can fail: a name that no module has is not read."""
    row = use_of("core.v1.HTTPGetAction.noSuchField")
    assert row is not None and not holds(row, "core.v1.HTTPGetAction.noSuchField")
