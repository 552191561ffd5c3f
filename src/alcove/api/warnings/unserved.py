"""Fields that are stored but that nothing in the cluster acts on: clients are told so, field by field.

A field is named by its path; `[]` stands for each element of a list, and `=VALUE` limits it to that value. `tests/unit/api/test_field_uses.py` checks that every served
field has a reader, is refused, or is in this table.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from alcove.api.objects import Object

_HOST_PORT = "is served for pods of the system tenant only; use a Service of type NodePort"
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
    ("certificates.k8s.io", "podcertificaterequests"): {
        "spec.signerName": "is answered only if a controller of the tenant signs for it: nodes project no certificates of pods",
    },
    ("resource.k8s.io", "devicetaintrules"): {"spec.taint": "has no effect: no devices are allocated"},
    ("storage.k8s.io", "storageclasses"): {"mountOptions": _NO_MOUNT_OPTIONS},
}
"""By group and resource: the text for each path."""


def warnings(resource: tuple[str, str], new: Object, old: Object | None) -> list[str]:
    """The warnings for fields that are set, if they were not set in `old`."""
    messages: list[str] = []
    for path, text in UNSERVED.get(resource, {}).items():
        field, _, only = path.partition("=")
        before = dict(_found(old, field.split("."), "")) if old is not None else {}
        for where, value in _found(new, field.split("."), ""):
            if before.get(where) != value and only in ("", value):
                messages.append(f"{where}: {text}")
    return messages


def _found(value: Any, steps: list[str], path: str) -> Iterator[tuple[str, Any]]:
    """Every non-empty value at the steps, with its path."""
    if not steps:
        if value:
            yield path, value
        return
    name = steps[0].removesuffix("[]")
    inner = value.get(name) if isinstance(value, dict) else None
    where = f"{path}.{name}" if path else name
    if steps[0] == name:
        yield from _found(inner, steps[1:], where)
        return
    for index, element in enumerate(inner or ()):
        yield from _found(element, steps[1:], f"{where}[{index}]")
