"""The usage of a pod, its scopes, and the resources that it must specify. Pure: no I/O.

A terminated pod (Succeeded, Failed) counts only as an object. A pod that is being deleted counts until it is
deleted: usage changes only with a write, never with time.
"""

from collections.abc import Iterable, Sequence

from alcove.api import objects
from alcove.api.kinds.core.pods import totals
from alcove.api.kinds.core.resources import is_extended, is_huge_page
from alcove.api.objects import Object
from alcove.api.quantity import Quantity
from alcove.apiserver.admission import limitchecks

Amounts = dict[str, Quantity]

ONE = Quantity(10**9)
_NATIVE = ("cpu", "memory", "ephemeral-storage")
_NAMES = frozenset(
    (
        "pods",
        "count/pods",
        *_NATIVE,
        *(f"{side}.{resource}" for side in ("requests", "limits") for resource in _NATIVE),
    )
)
_PREFIXES = ("hugepages-", "requests.hugepages-")
_REQUIRED = ("cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory")
"""Sorted by name: the resources that every container must specify if a quota counts them."""
_TERMINATED = ("Failed", "Succeeded")
_DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"


def counts(name: str) -> bool:
    """Whether pods use the quota resource `name`."""
    if name in _NAMES or name.startswith(_PREFIXES):
        return True
    return name.startswith("requests.") and _is_device(name.removeprefix("requests."))


def _is_device(resource: str) -> bool:
    return is_extended(resource) or resource.startswith(_DEVICE_CLASS)


def determinants(pod: Object) -> object:
    """Everything that a pod's usage and scopes depend on: comparing it is much cheaper than computing the
    usage."""
    status = pod.get("status") or {}
    sizes = [
        (each.get("resources"), each.get("allocatedResources"))
        for field in ("containerStatuses", "initContainerStatuses")
        for each in status.get(field) or ()
    ]
    return (
        status.get("phase") in _TERMINATED,
        pod["spec"],
        sizes,
        status.get("conditions") if any(map(any, sizes)) else None,
    )


def usage(pod: Object) -> Amounts:
    used: Amounts = {"count/pods": ONE}
    if objects.get(pod, "status", "phase") in _TERMINATED:
        return used
    spec = _effective(pod)
    overhead = {"resources": {"requests": spec.get("overhead") or {}}}
    requests, limits = _requests(spec), _limits(spec)
    for resource, amount in limitchecks.amounts(overhead, "requests").items():
        requests[resource] = requests[resource] + amount if resource in requests else amount
        if limits.get(resource):
            limits[resource] = limits[resource] + amount
    used.update(_computed(requests, limits))
    return used


def _requests(spec: Object) -> Amounts:
    pod_resources = limitchecks.amounts(spec, "requests")
    return {**totals.container_requests(spec), **_pod_level(pod_resources)}


def _limits(spec: Object) -> Amounts:
    pod_resources = limitchecks.amounts(spec, "limits")
    return {**totals.container_limits(spec), **_pod_level(pod_resources)}


def _pod_level(pod_resources: Amounts) -> Amounts:
    return {
        name: amount
        for name, amount in pod_resources.items()
        if name in ("cpu", "memory") or is_huge_page(name)
    }


def _computed(requests: Amounts, limits: Amounts) -> Amounts:
    used: Amounts = {"pods": ONE}
    for resource, amount in requests.items():
        if resource in _NATIVE or is_huge_page(resource):
            used[resource] = used[f"requests.{resource}"] = amount
        elif _is_device(resource):
            used[f"requests.{resource}"] = amount
    for resource in _NATIVE:
        if resource in limits:
            used[f"limits.{resource}"] = limits[resource]
    return used


# A pod that is being resized uses the maximum of its requested, allocated and actual resources.


def _effective(pod: Object) -> Object:
    """The pod's spec, with the containers' resources replaced by those that count now, according to its
    status."""
    status, spec = pod.get("status") or {}, pod["spec"]
    statuses = {
        each["name"]: each
        for field in ("containerStatuses", "initContainerStatuses")
        for each in status.get(field) or ()
        if each.get("resources") is not None
    }
    if not statuses:
        return spec  # type: ignore[no-any-return]
    infeasible = any(
        each.get("type") == "PodResizePending" and each.get("reason") == "Infeasible"
        for each in status.get("conditions") or ()
    )
    initial = [
        _resized(each, statuses, infeasible) if totals.is_sidecar(each) else each
        for each in spec.get("initContainers") or ()
    ]
    running = [_resized(each, statuses, infeasible) for each in spec.get("containers") or ()]
    return {**spec, "containers": running, "initContainers": initial}


def _resized(container: Object, statuses: dict[str, Object], infeasible: bool) -> Object:
    status = statuses.get(container["name"])
    if status is None:
        return container
    requested = [] if infeasible else [container.get("resources") or {}]
    actual = status["resources"]
    allocated = {"requests": status.get("allocatedResources") or {}}
    resources = {
        "requests": _maximum((*requested, actual, allocated), "requests"),
        "limits": _maximum((*requested, actual), "limits"),
    }
    return {**container, "resources": resources}


def _maximum(sources: Iterable[Object], side: str) -> dict[str, str]:
    maximum: Amounts = {}
    for source in sources:
        for resource, amount in limitchecks.amounts({"resources": source}, side).items():
            if resource not in maximum or amount > maximum[resource]:
                maximum[resource] = amount
    return {resource: str(amount) for resource, amount in maximum.items()}


# Scopes


def matches(scope: str, operator: str, values: Sequence[str], pod: Object) -> bool:
    """Whether the pod is in a scope of a quota."""
    spec = pod["spec"]
    match scope:
        case "Terminating":
            return _is_terminating(spec)
        case "NotTerminating":
            return not _is_terminating(spec)
        case "BestEffort":
            return totals.qos_class(spec) == "BestEffort"
        case "NotBestEffort":
            return totals.qos_class(spec) != "BestEffort"
        case "PriorityClass":
            return named(spec.get("priorityClassName") or "", operator, values)
        case "CrossNamespacePodAffinity":
            return _has_cross_namespace_affinity(spec)
    return False


def named(name: str, operator: str, values: Sequence[str]) -> bool:
    """Whether a class's name (empty if there is none) matches a scope's operator, as in a label selector."""
    match operator:
        case "In":
            return name in values
        case "NotIn":
            return name not in values
        case "DoesNotExist":
            return not name
    return bool(name)


def _is_terminating(spec: Object) -> bool:
    """Whether the pod has a deadline."""
    return int(spec.get("activeDeadlineSeconds", -1)) >= 0


def _has_cross_namespace_affinity(spec: Object) -> bool:
    affinity = spec.get("affinity") or {}
    for field in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(field) or {}
        all_terms = list(terms.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        for weighted in terms.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            all_terms.append(weighted.get("podAffinityTerm") or {})
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in all_terms):
            return True
    return False


def unsaid(pod: Object, names: Iterable[str]) -> str:
    """The error message for resources that containers do not specify although a quota counts them; empty if
    none."""
    required = [name for name in _REQUIRED if name in names]
    spec = pod["spec"]
    pod_resources = spec.get("resources") or {}
    if not required or any(_pod_level(limitchecks.amounts(spec, side)) for side in pod_resources):
        return ""
    missing: dict[str, set[str]] = {}
    for field in ("containers", "initContainers"):
        for container in spec.get(field) or ():
            requests, limits = (limitchecks.amounts(container, side) for side in ("requests", "limits"))
            specified = _computed(requests, limits)
            for name in required:
                if name not in specified:
                    missing.setdefault(name, set()).add(container["name"])
    messages = [f"{name} for: {','.join(sorted(missing[name]))}" for name in required if name in missing]
    return f"must specify {'; '.join(messages)}" if messages else ""
