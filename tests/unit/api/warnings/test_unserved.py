"""Fields that nothing acts on are told to who sets them."""

from typing import Any

import pytest

from alcove.api import registry, warnings
from alcove.api.objects import Object
from alcove.api.warnings.unserved import UNSERVED

KINDS = registry.load()


def made(path: str, value: Any) -> Object:
    """An object that has only this field."""
    for step in reversed(path.split(".")):
        value = {step.removesuffix("[]"): [value]} if step.endswith("[]") else {step: value}
    return dict(value)


def told(group: str, resource: str, new: Object, old: Object | None = None) -> list[str]:
    kind = next(each for each in KINDS if (each.group, each.resource) == (group, resource))
    new = {"metadata": {"name": "a"}, **new}
    return [each for each in warnings.of(kind, new, old) if any(text in each for text in TEXTS)]


TEXTS = {text for texts in UNSERVED.values() for text in texts.values()}


@pytest.mark.parametrize(
    ("group", "resource", "path", "text"),
    [(*kind, path, text) for kind, texts in UNSERVED.items() for path, text in texts.items()],
)
def test_each_field_is_warned_of_when_it_is_set_and_not_again(
    group: str, resource: str, path: str, text: str
) -> None:
    path, _, only = path.partition("=")
    value: Any = ["10.0.0.1"] if path.endswith("IPs") else only or {"x": "y"}
    new = made(path, value)
    assert told(group, resource, new) == [f"{path.replace('[]', '[0]')}: {text}"]
    assert told(group, resource, new, {"metadata": {"name": "a"}, **new}) == []
    assert told(group, resource, made(path, None)) == []


def test_other_values_of_a_field_may_have_an_effect() -> None:
    assert told("", "services", made("spec.trafficDistribution", "PreferSameNode")) == []


def test_only_the_elements_that_have_the_field_are_named() -> None:
    ports = [{"containerPort": 1}, {"containerPort": 2, "hostPort": 2}]
    spec = {"containers": [{"name": "a"}, {"name": "b", "ports": ports}]}
    [message] = told("", "pods", {"spec": spec})
    assert message.startswith("spec.containers[1].ports[1].hostPort: ")
