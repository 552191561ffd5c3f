"""Types from compiled schemas: what is known, what is left open, and recursion."""

import pytest

from alcove.api import registry
from alcove.api.cel.environment import CelEnvironment
from alcove.api.cel.errors import CompileError
from alcove.api.cel.node_types import NodeTypes
from alcove.api.cel.types import DYN

KINDS = registry.load()


def result(resource: str, expression: str, group: str = "") -> str:
    kind = KINDS.find(group, "v1", resource)
    assert kind is not None
    return str(CelEnvironment({"self": NodeTypes().of(kind.schema)}).compile(expression).result)


@pytest.mark.parametrize(
    ("resource", "expression", "wanted"),
    [
        ("pods", "self.spec.hostNetwork", "bool"),
        ("pods", "self.spec.priority", "int"),
        ("pods", "self.spec.nodeName", "string"),
        ("pods", "self.spec.nodeSelector", "map(string, string)"),
        ("pods", "self.metadata.creationTimestamp", "timestamp"),
        ("pods", "self.spec.containers[0].command", "list(string)"),
        ("pods", "self.spec.containers[0].resources.limits", "map(string, dyn)"),
        ("pods", "self.spec.containers[0].livenessProbe.httpGet.port", "dyn"),
        ("secrets", "self.data", "map(string, bytes)"),
    ],
)
def test_types_of_fields(resource: str, expression: str, wanted: str) -> None:
    assert result(resource, expression) == wanted


def test_a_schema_that_holds_itself() -> None:
    path = "self.spec.versions[0].schema.openAPIV3Schema"
    deep = path + ".not" * 20 + ".title"
    assert result("customresourcedefinitions", deep, "apiextensions.k8s.io") == "string"


def test_names_of_the_language_are_read_escaped_or_not() -> None:
    assert result("pods", "self.metadata.namespace") == "string"
    assert result("pods", "self.metadata.__namespace__") == "string"


def test_one_node_is_one_type() -> None:
    assert result("pods", "self.spec.containers + self.spec.initContainers") == "list(Container)"
    kind = KINDS.find("", "v1", "pods")
    assert kind is not None
    types = NodeTypes()
    assert types.of(kind.schema) is types.of(kind.schema) is not DYN


def test_what_is_not_there_does_not_compile() -> None:
    with pytest.raises(CompileError, match="undefined field 'nodeNames'"):
        result("pods", "self.spec.nodeNames")
