"""Defaults of pods and pod templates.

Templates (of deployments, jobs, …) get the defaults of a pod spec; a pod gets a few more, which depend on
fields that are still open in a template.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from alcove.api.kinds.core.claims import default_claim_spec
from alcove.api.kinds.core.pods.totals import container_limits, container_requests
from alcove.api.kinds.core.resources import allows_overcommit, default_resource_list, is_huge_page
from alcove.api.objects import Object

TERMINATION_GRACE_SECONDS = 30
DEFAULT_SCHEDULER = "default-scheduler"
_FILE_MODE = 0o644
_TOKEN_SECONDS = 3600
_VOLUME_MODES = ("secret", "configMap", "downwardAPI", "projected")
_DOMAIN_LABEL = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = rf"(?:{_DOMAIN_LABEL}(?:\.{_DOMAIN_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE_REFERENCE = re.compile(
    rf"(?:{_DOMAIN}/)?(?P<path>{_COMPONENT}(?:/{_COMPONENT})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?"
    r"(?P<digest>@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?",
    re.ASCII,
).fullmatch
_IMAGE_REFERENCE_LENGTH_MAX = 1024
_IMAGE_PATH_LENGTH_MAX = 255
_IMAGE_ID = re.compile("[a-f0-9]{64}").fullmatch


def default_pod(pod: Object) -> None:
    """Set the defaults of a Pod: those of its spec and those that templates do not get."""
    spec = pod.setdefault("spec", {})
    default_pod_spec(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for container in spec.get("containers", ()):
        _request_what_is_limited(container["resources"])
    for container in spec.get("initContainers", ()):
        _request_what_is_limited(container["resources"])
    if "resources" in spec:
        _default_pod_resources(spec)
    if status := pod.get("status"):
        _pair_ips(status)
    spec.setdefault("enableServiceLinks", True)
    if spec.get("hostNetwork"):
        for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
            for port in container.get("ports", ()):
                if not port.get("hostPort") and "containerPort" in port:
                    port["hostPort"] = port["containerPort"]


def _pair_ips(status: Object) -> None:
    """Pair `podIP`, the older field, with the first of `podIPs`. If they differ, `podIP` wins."""
    first, addresses = status.get("podIP"), status.get("podIPs")
    if first and (not addresses or addresses[0].get("ip") != first):
        status["podIPs"] = [{"ip": first}]
    elif addresses and not first:
        status["podIP"] = addresses[0].get("ip", "")


def default_pod_template(template: Object) -> None:
    """Set the defaults of a PodTemplateSpec."""
    default_pod_spec(template.setdefault("spec", {}))


def default_pod_spec(spec: Object) -> None:
    if not spec.get("restartPolicy"):
        spec["restartPolicy"] = "Always"
    if not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirst"
    if "terminationGracePeriodSeconds" not in spec:
        spec["terminationGracePeriodSeconds"] = TERMINATION_GRACE_SECONDS
    if not spec.get("schedulerName"):
        spec["schedulerName"] = DEFAULT_SCHEDULER
    if "securityContext" not in spec:
        spec["securityContext"] = {}
    fill_service_account_alias(spec)
    for container in spec.get("containers", ()):
        _default_container(container)
    for field in ("initContainers", "ephemeralContainers"):
        for container in spec.get(field, ()):
            _default_container(container)
    for volume in spec.get("volumes", ()):
        _default_volume(volume)
    if overhead := spec.get("overhead"):
        default_resource_list(overhead)
    if resources := spec.get("resources"):
        _default_resources(resources)


def fill_service_account_alias(spec: Object) -> None:
    """Set `serviceAccount`, the old name of `serviceAccountName`; objects have both."""
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def _default_container(container: Object) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = default_pull_policy(container.get("image", ""))
    if not container.get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not container.get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    for port in container.get("ports", ()):
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    resources = container.get("resources")
    if resources is None:
        container["resources"] = {}
    elif resources:
        _default_resources(resources)
    for variable in container.get("env", ()):
        if source := variable.get("valueFrom"):
            _default_field_sources((source,))
    for field in ("livenessProbe", "readinessProbe", "startupProbe"):
        if field in container:
            _default_probe(container[field])
    if lifecycle := container.get("lifecycle"):
        for field in ("postStart", "preStop"):
            if "httpGet" in lifecycle.get(field, ()):
                _default_http_get(lifecycle[field]["httpGet"])


def _default_resources(resources: Object) -> None:
    if limits := resources.get("limits"):
        default_resource_list(limits)
    if requests := resources.get("requests"):
        default_resource_list(requests)


def _request_what_is_limited(resources: Object) -> None:
    if limits := resources.get("limits"):
        resources["requests"] = {**limits, **resources.get("requests", {})}


def _default_pod_resources(spec: Object) -> None:
    """Set pod-level amounts that follow from the containers', if the pod has pod-level resources."""
    resources = spec["resources"]
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    if not limits and not requests:
        return
    for resource, amount in container_limits(spec).items():
        if is_huge_page(resource) and resource not in requests:
            limits.setdefault(resource, str(amount))
    if not limits:
        return
    resources["limits"] = limits
    for resource, amount in container_requests(spec).items():
        if _is_pod_level(resource) and allows_overcommit(resource):
            requests.setdefault(resource, str(amount))
    for resource, limit in limits.items():
        if _is_pod_level(resource):
            requests.setdefault(resource, limit)
    if requests:
        resources["requests"] = requests


def _is_pod_level(resource: str) -> bool:
    return resource in ("cpu", "memory") or is_huge_page(resource)


def _default_probe(probe: Object) -> None:
    if not probe.get("timeoutSeconds"):
        probe["timeoutSeconds"] = 1
    if not probe.get("periodSeconds"):
        probe["periodSeconds"] = 10
    if not probe.get("successThreshold"):
        probe["successThreshold"] = 1
    if not probe.get("failureThreshold"):
        probe["failureThreshold"] = 3
    if "httpGet" in probe:
        _default_http_get(probe["httpGet"])
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _default_http_get(action: Object) -> None:
    if not action.get("path"):
        action["path"] = "/"
    if not action.get("scheme"):
        action["scheme"] = "HTTP"


def _default_field_sources(sources: Iterable[Object]) -> None:
    for source in sources:
        reference = source.get("fieldRef")
        if reference is not None and not reference.get("apiVersion"):
            reference["apiVersion"] = "v1"
        reference = source.get("resourceFieldRef")
        if reference is not None and "divisor" not in reference:
            reference["divisor"] = "0"
        reference = source.get("fileKeyRef")
        if reference is not None:
            reference.setdefault("optional", False)


def _default_volume(volume: Object) -> None:
    if len(volume) == ("name" in volume):
        volume["emptyDir"] = {}
        return
    for field in _VOLUME_MODES:
        source = volume.get(field)
        if source is not None and "defaultMode" not in source:
            source["defaultMode"] = _FILE_MODE
    if "downwardAPI" in volume:
        _default_field_sources(volume["downwardAPI"].get("items", ()))
    elif "projected" in volume:
        _default_projections(volume["projected"].get("sources", ()))
    elif "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    elif "image" in volume:
        source = volume["image"]
        if not source.get("pullPolicy"):
            source["pullPolicy"] = default_pull_policy(source.get("reference", ""))
    elif "ephemeral" in volume:
        default_claim_spec(volume["ephemeral"].get("volumeClaimTemplate", {}).setdefault("spec", {}))
    else:
        _default_attached_volume(volume)


def _default_projections(sources: Sequence[Object]) -> None:
    for source in sources:
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", _TOKEN_SECONDS)
        elif "downwardAPI" in source:
            _default_field_sources(source["downwardAPI"].get("items", ()))


_ATTACHED: dict[str, dict[str, Any]] = {
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
    "azureDisk": {"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": False},
}

_TELLS_EMPTY = ("azureDisk",)
"""Sources with pointer fields: an empty value differs from an absent one, and fails validation."""


def _default_attached_volume(volume: Object) -> None:
    for field, defaults in _ATTACHED.items():
        if field in volume:
            absent = (None,) if field in _TELLS_EMPTY else (None, "")
            for name, value in defaults.items():
                if volume[field].get(name) in absent:
                    volume[field][name] = value


default_attached_volume = _default_attached_volume
"""Persistent volumes have the same sources."""


@lru_cache(maxsize=4096)
def _image_tag(image: str) -> str:
    reference = _IMAGE_REFERENCE(image)
    if reference is None or _IMAGE_ID(image) or len(reference["path"]) > _IMAGE_PATH_LENGTH_MAX:
        return ""
    if reference["tag"]:
        return str(reference["tag"])
    return "" if reference["digest"] else "latest"


def image_tag(image: str) -> str:
    """Return the tag of an image: `latest` if none is named, empty for a digest or an invalid reference."""
    return _image_tag(image) if len(image) <= _IMAGE_REFERENCE_LENGTH_MAX else ""


def default_pull_policy(image: str) -> str:
    """`latest` can change, so it is always pulled; other images only if they are absent."""
    return "Always" if image_tag(image) == "latest" else "IfNotPresent"
