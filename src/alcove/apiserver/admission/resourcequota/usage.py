"""The usage of an object, by the names of quota resources. Pure: no I/O."""

from collections.abc import Callable, Sequence
from functools import lru_cache

from msgspec import Struct

from alcove.api.ids import GroupResource
from alcove.api.objects import Object
from alcove.api.quantity import ONE as UNIT
from alcove.api.quantity import ZERO, Quantity
from alcove.api.resources import EVENTS, PERSISTENT_VOLUME_CLAIMS, PODS, RESOURCE_CLAIMS, SERVICES
from alcove.apiserver.admission.resourcequota import claims, pods
from alcove.apiserver.admission.resourcequota.pods import ONE, Amounts

UNCOUNTED = frozenset((EVENTS, GroupResource("events.k8s.io", "events")))

_ALIASES = frozenset(("configmaps", "replicationcontrollers", "resourcequotas", "secrets"))
"""Core resources that are also counted under their plain name."""
_SERVICE_NAMES = frozenset(("services", "services.loadbalancers", "services.nodeports", "count/services"))


def _no_scope(_scope: str, _operator: str, _values: Sequence[str], _obj: Object) -> bool:
    return False


class UsageMeasure(Struct, frozen=True):
    """How the usage of one resource's objects is computed."""

    resource: GroupResource
    counts: Callable[[str], bool]
    """Whether they use the quota resource of this name."""
    usage: Callable[[Object], Amounts] | None
    """None if each object counts as one."""
    in_scope: Callable[[str, str, Sequence[str], Object], bool] = _no_scope
    """(scope, operator, values, object)"""
    determinants: Callable[[Object], object] = lambda _obj: None
    """Everything that the usage and scopes of an object depend on; objects equal in it have equal usage."""


def _spec(obj: Object) -> object:
    return obj.get("spec")


def _service_usage(service: Object) -> Amounts:
    spec = service.get("spec") or {}
    ports = spec.get("ports") or ()
    node_ports, balancers = 0, ZERO
    if spec.get("type") == "NodePort":
        node_ports = len(ports)
    elif spec.get("type") == "LoadBalancer":
        balancers = ONE
        is_allocated = spec.get("allocateLoadBalancerNodePorts", True)
        node_ports = len(ports) if is_allocated else sum(1 for port in ports if port.get("nodePort"))
    return {
        "count/services": ONE,
        "services": ONE,
        "services.loadbalancers": balancers,
        "services.nodeports": Quantity(node_ports * UNIT),
    }


_LARGE = {
    PODS: UsageMeasure(PODS, pods.counts, pods.usage, pods.matches, pods.determinants),
    SERVICES: UsageMeasure(SERVICES, _SERVICE_NAMES.__contains__, _service_usage, determinants=_spec),
    PERSISTENT_VOLUME_CLAIMS: UsageMeasure(
        PERSISTENT_VOLUME_CLAIMS,
        claims.counts_volumes,
        claims.volume_usage,
        claims.in_scope,
        lambda claim: claim,
    ),
    RESOURCE_CLAIMS: UsageMeasure(
        RESOURCE_CLAIMS, claims.counts_devices, claims.device_usage, determinants=_spec
    ),
}


def plain_names(resource: GroupResource) -> frozenset[str]:
    """The quota resources that count objects of the resource."""
    is_aliased = not resource.group and resource.resource in _ALIASES
    return frozenset((f"count/{resource}", *((resource.resource,) if is_aliased else ())))


@lru_cache(maxsize=1024)
def measure(resource: GroupResource) -> UsageMeasure:
    if resource in _LARGE:
        return _LARGE[resource]
    return UsageMeasure(resource, plain_names(resource).__contains__, None)


@lru_cache(maxsize=1024)
def measured_by(name: str) -> tuple[UsageMeasure, ...]:
    """The measures of the resources whose objects use the quota resource `name`."""
    if name.startswith("count/"):
        resource, _, group = name.removeprefix("count/").partition(".")
        return (measure(GroupResource(group, resource)),)
    if name in _ALIASES:
        return (measure(GroupResource("", name)),)
    return tuple(each for each in _LARGE.values() if each.counts(name))


def of(resource: GroupResource, obj: Object) -> Amounts:
    measured = measure(resource)
    if measured.usage is None:
        return dict.fromkeys(plain_names(resource), ONE)
    return measured.usage(obj)
