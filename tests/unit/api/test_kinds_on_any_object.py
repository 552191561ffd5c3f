"""Laws that every strategy keeps on every object that its schema lets through, sensible or not.

Nothing but an API error is ever raised; defaults are filled in once and stay; checking changes
nothing; an object that does not change may be written.
"""

import copy
import random
from typing import Any

import pytest

from alcove.api import registry
from alcove.api.errors import ApiError
from alcove.api.fields import FieldError
from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.api.schema.decode import decode
from alcove.api.schema.node import SchemaNode, SchemaType

KINDS = {f"{kind.group}/{kind.version}/{kind.resource}": kind for kind in registry.load()}
OBJECTS_PER_KIND = 60
VALUES_PER_OBJECT_MAX = 250

TEXTS = (
    "", "a", "a.b", "a/b", "A b", "x" * 300, "é", "1", "0", "-1", "25%", "0%", "101%", "*", "*/*", "v1", "apps/v1", "a/b/c",
    "web", "10.0.0.1", "10.0.0.0/8", "10.0.0.5/8", "2001:db8::1", "2001:db8::/64", "127.0.0.1", "0.0.0.0", "nonsense",
    "True", "False", "Always", "Never", "OnFailure", "RollingUpdate", "OnDelete", "Recreate", "Indexed", "NonIndexed",
    "In", "NotIn", "Exists", "DoesNotExist", "Equal", "Resource", "Pods", "External", "Object", "Utilization", "TCP", "UDP",
    "IPv4", "IPv6", "FQDN", "Prefix", "Exact", "Webhook", "None", "Fail", "CREATE", "JSONPatch", "0-3,5", "3-1", "* * * * *",
    "@every 1h", "Europe/Berlin", "https://example.com/x", "http://[::1", "example.com/signer", ".spec.replicas", ".status.x",
    "client auth", "spec", "Namespaced", "Cluster", "flat", "vpc", "Init", "1.2.3", "system-node-critical", "Immediate",
    "02:42:0a:00:00:01", "ClusterRole", "User", "ServiceAccount", "rbac.authorization.k8s.io", "Complete", "Failed", "Approved",
)  # fmt: skip
NUMBERS = (-1, 0, 1, 2, 3, 10, 80, 443, 600, 65536, 100_001, 2**31 - 1, -(2**31))
AMOUNTS = ("0", "1", "-1", "100m", "1Gi", "0.5", "1e3", 2)
TIMES = ("2024-05-01T10:00:00Z", "2020-01-01T00:00:00Z")
BYTES = ("", "QUJD", "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==")


class Maker:
    """Objects made of a schema, by chance that a seed fixes."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.fullness = self.chance.choice((0.2, 0.5, 0.9))
        self.values_left = VALUES_PER_OBJECT_MAX

    def value(self, node: SchemaNode, depth: int = 0) -> Any:
        self.values_left -= 1
        match node.type:
            case SchemaType.OBJECT:
                return self._object(node, depth)
            case SchemaType.MAP:
                assert node.values is not None
                return {
                    self._text(): self.value(node.values, depth + 1) for _ in range(self.chance.randint(0, 2))
                }
            case SchemaType.LIST:
                assert node.items is not None
                count = self.chance.randint(0, 3) if self.values_left > 0 else 0
                return [self.value(node.items, depth + 1) for _ in range(count)]
            case SchemaType.STRING:
                return self._string(node)
            case SchemaType.INTEGER:
                return self.chance.choice(NUMBERS)
            case SchemaType.NUMBER:
                return self.chance.choice((0, 1.5, -1))
            case SchemaType.BOOLEAN:
                return self.chance.random() < 0.5
            case SchemaType.INT_OR_STRING:
                return self.chance.choice((*NUMBERS, "25%", "http", "16", ""))
            case SchemaType.QUANTITY:
                return self.chance.choice(AMOUNTS)
            case SchemaType.ANY:
                return self.chance.choice(({}, {"a": 1}, [], "x", 1))

    def _object(self, node: SchemaNode, depth: int) -> Object:
        made: Object = {}
        parts = list(node.properties.items())
        self.chance.shuffle(parts)
        for field, part in parts:
            wanted = depth == 0 or (self.values_left > 0 and self.chance.random() < self.fullness)
            if wanted:
                made[field] = self.value(part, depth + 1)
        return made

    def _string(self, node: SchemaNode) -> str:
        if node.format == "byte":
            return self.chance.choice(BYTES)
        if node.format == "date-time" or node.name in ("Time", "MicroTime"):
            return self.chance.choice(TIMES)
        return self._text()

    def _text(self) -> str:
        return self.chance.choice(TEXTS)


def made(kind: Kind, seed: int) -> Object:
    obj = Maker(seed).value(kind.schema)
    meta = {"name": "x", "namespace": "n", "uid": "u-1", "labels": {"a": "b"}, "annotations": {}}
    obj = decode(kind.schema, {**obj, "apiVersion": kind.api_version, "kind": kind.kind})
    return {
        **obj,
        "metadata": {**meta, **{key: obj.get("metadata", {}).get(key, meta[key]) for key in ("labels",)}},
    }


def attempted(function: Any, *objects: Object) -> list[FieldError] | ApiError:
    """Return the errors of a check, and assert that it does not change the objects."""
    before = copy.deepcopy(objects)
    try:
        errors = list(function(*objects))
    except ApiError as error:
        return error
    finally:
        assert objects == before, f"{function} changed what it checked"
    for each in errors:
        assert isinstance(each, FieldError)
        assert str(each)
    return errors


@pytest.mark.parametrize("name", KINDS)
def test_strategy_keeps_the_laws(name: str) -> None:
    kind = KINDS[name]
    strategy = kind.strategy
    stored: Object | None = None
    for seed in range(OBJECTS_PER_KIND):
        obj = made(kind, seed)
        strategy.default(obj)
        once = copy.deepcopy(obj)
        strategy.default(obj)
        assert obj == once, "defaults filled in twice differ"
        strategy.prepare_create(obj)
        attempted(strategy.validate, obj)
        attempted(strategy.validate_create, obj)
        assert not attempted(strategy.validate_update, obj, obj), "what does not change was refused"
        attempted(strategy.validate_status, obj, obj)
        for field in strategy.fields.values():
            assert isinstance(field(obj), str)
        if stored is not None:
            kept = copy.deepcopy(stored)
            strategy.prepare_update(obj, stored)
            assert stored == kept, "the stored object was changed"
            attempted(strategy.validate, obj)
            for check in (
                strategy.validate_update,
                strategy.validate_status,
                *strategy.validate_subresource.values(),
            ):
                attempted(check, obj, stored)
        stored = obj


@pytest.mark.parametrize("name", KINDS)
def test_an_empty_object_is_refused_or_taken(name: str) -> None:
    strategy = KINDS[name].strategy
    obj: Object = {"apiVersion": KINDS[name].api_version, "metadata": {"name": "x"}}
    attempted(strategy.validate, obj)
    strategy.default(obj)
    strategy.prepare_create(obj)
    attempted(strategy.validate, obj)
    attempted(strategy.validate_create, obj)
    attempted(strategy.validate_update, obj, {"metadata": {}})
    attempted(strategy.validate_status, obj, {"metadata": {}})
