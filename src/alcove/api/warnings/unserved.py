"""Fields that are stored but that nothing in the cluster acts on: clients are told so, field by field.

A field is named by its path; `[]` stands for each element of a list, and `=VALUE` limits it to that value. `tests/unit/api/test_field_uses.py` checks that every served
field has a reader, is refused, or is in this table.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from alcove.api.objects import Object

_HOST_PORT = "is served only for pods of ring0 and of tenants that it trusts; use a Service of type NodePort"
_NO_SELINUX = "has no effect: nodes do not use SELinux"
_NO_MOUNT_OPTIONS = "has no effect: volumes are directories of the node"

_POD: Mapping[str, str] = {
    "spec.containers[].ports[].hostPort": _HOST_PORT,
    "spec.initContainers[].ports[].hostPort": _HOST_PORT,
    "spec.securityContext.seLinuxOptions": _NO_SELINUX,
    "spec.securityContext.seLinuxChangePolicy": _NO_SELINUX,
    "spec.containers[].securityContext.seLinuxOptions": _NO_SELINUX,
    "spec.initContainers[].securityContext.seLinuxOptions": _NO_SELINUX,
}
_TEMPLATES: Mapping[tuple[str, str], str] = {
    ("", "pods"): "",
    ("", "podtemplates"): "template.",
    ("", "replicationcontrollers"): "spec.template.",
    ("apps", "daemonsets"): "spec.template.",
    ("apps", "deployments"): "spec.template.",
    ("apps", "replicasets"): "spec.template.",
    ("apps", "statefulsets"): "spec.template.",
    ("batch", "cronjobs"): "spec.jobTemplate.spec.template.",
    ("batch", "jobs"): "spec.template.",
}
_NO_ZONES = "zones are not preferred: all endpoints are used alike"
_BACKEND = "is not served: requests get 503; use a service"

UNSERVED: Mapping[tuple[str, str], Mapping[str, str]] = {
    **{kind: {f"{prefix}{path}": text for path, text in _POD.items()} for kind, prefix in _TEMPLATES.items()},
    ("", "persistentvolumeclaims"): {
        "spec.volumeAttributesClassName": "has no effect: no volume can be modified by a class",
    },
    ("", "persistentvolumes"): {"spec.mountOptions": _NO_MOUNT_OPTIONS},
    ("", "services"): {
        "spec.externalIPs": "addresses lead to the service only where the cluster's operator has granted them",
        "spec.trafficDistribution=PreferClose": _NO_ZONES,
        "spec.trafficDistribution=PreferSameZone": _NO_ZONES,
    },
    ("networking.k8s.io", "ingresses"): {
        "spec.defaultBackend.resource": _BACKEND,
        "spec.rules[].http.paths[].backend.resource": _BACKEND,
    },
    ("resource.k8s.io", "devicetaintrules"): {"spec.taint": "has no effect: no devices are allocated"},
    ("storage.k8s.io", "storageclasses"): {"mountOptions": _NO_MOUNT_OPTIONS},
}
"""By group and resource: the text for each path."""


class _Field(Struct, frozen=True):
    steps: tuple[str, ...]
    only: str
    """The value that it is about; empty for all."""
    text: str


def _field(path: str, text: str) -> _Field:
    name, _, only = path.partition("=")
    return _Field(tuple(name.split(".")), only, text)


_FIELDS = {
    resource: [_field(path, text) for path, text in fields.items()] for resource, fields in UNSERVED.items()
}


class _Step(Struct, frozen=True):
    """A step of the paths of several fields."""

    name: str
    is_list: bool
    below: "tuple[_Step, ...]"
    """Empty: the field itself."""


def _tree(paths: Sequence[Sequence[str]]) -> tuple[_Step, ...]:
    firsts = dict.fromkeys(path[0] for path in paths if path)
    return tuple(
        _Step(
            first.removesuffix("[]"),
            first.endswith("[]"),
            _tree([path[1:] for path in paths if path and path[0] == first]),
        )
        for first in firsts
    )


_TREES = {resource: _tree([field.steps for field in fields]) for resource, fields in _FIELDS.items()}


def warnings(resource: tuple[str, str], new: Object, old: Object | None) -> list[str]:
    """The warnings for fields that are set, if they were not set in `old`."""
    messages: list[str] = []
    tree = _TREES.get(resource)
    if tree is None or not _has_any(new, tree):
        return messages
    for field in _FIELDS[resource]:
        for where, value in _found(new, field.steps):
            if field.only in ("", value) and (
                old is None or dict(_found(old, field.steps)).get(where) != value
            ):
                messages.append(f"{where}: {field.text}")
    return messages


def _has_any(value: Any, tree: tuple[_Step, ...]) -> bool:
    """Whether any of the fields is set: hardly any object has one."""
    if not isinstance(value, dict):
        return False
    for step in tree:
        part = value.get(step.name)
        if not part:
            continue
        below = step.below
        if not below:
            return True
        if any(_has_any(element, below) for element in part) if step.is_list else _has_any(part, below):
            return True
    return False


def _found(value: Any, steps: Sequence[str], path: str = "") -> Sequence[tuple[str, Any]]:
    """Every non-empty value at the steps, with its path."""
    for index, step in enumerate(steps):
        name = step.removesuffix("[]")
        value = value.get(name) if isinstance(value, dict) else None
        if not value:
            return ()
        path = f"{path}.{name}" if path else name
        if step != name:
            rest = steps[index + 1 :]
            return [
                found
                for number, element in enumerate(value)
                for found in _found(element, rest, f"{path}[{number}]")
            ]
    return [(path, value)] if value else ()
