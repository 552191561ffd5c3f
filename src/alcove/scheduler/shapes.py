"""The shape of a pod: the scheduling-relevant parts of its spec, parsed once and shared by equal pods.

Pods of one controller have one shape, so masks and scores computed for one of them serve all. A pod with an
invalid spec has a shape too, with a `fault` that says what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from alcove.api.errors import BadRequest
from alcove.api.objects import Object, get, labels
from alcove.api.quantity import QuantityError
from alcove.api.tolerations import Toleration, read_tolerations
from alcove.scheduler import nodeselectors, podterms, requests, volumesources
from alcove.scheduler.bounds import (
    HOST_PORTS_MAX,
    NODE_REQUIREMENTS_MAX,
    NODE_TERMS_MAX,
    TOLERATIONS_MAX,
    VOLUMES_MAX,
    bound,
)
from alcove.scheduler.hostports import HostPort
from alcove.scheduler.nodeselectors import NodeSelector, Term
from alcove.scheduler.podterms import PodAffinityTerms, SpreadConstraint
from alcove.scheduler.requests import Requests
from alcove.scheduler.resource_amounts import PODS
from alcove.scheduler.snapshot import Demand
from alcove.scheduler.volumesources import ClaimUse, SharedDisk

DEFAULT_PROFILE = "default-scheduler"
_NOTHING = Requests({PODS: 1}, 0, 0)
_INVALID = (
    BadRequest,
    QuantityError,
    TypeError,
    ValueError,
    AttributeError,
    KeyError,
    ArithmeticError,
)


class PodShape:
    """Parsed fields never change; `pods`, `links` and `demand` belong to the tracker and the cache."""

    __slots__ = (
        "affinity",
        "claims",
        "containers",
        "demand",
        "demand_rows",
        "disks",
        "fault",
        "images",
        "is_spread_by_default",
        "key",
        "links",
        "nodes",
        "pods",
        "ports",
        "preferred_nodes",
        "profile",
        "requests",
        "runtime_class",
        "spread_hard",
        "spread_soft",
        "tolerations",
    )

    def __init__(self, key: bytes, profile: str) -> None:
        self.key = key
        self.profile = profile
        self.fault = ""
        self.requests = _NOTHING
        self.ports: tuple[HostPort, ...] = ()
        self.nodes: NodeSelector | None = None
        self.preferred_nodes: tuple[tuple[int, Term], ...] = ()
        self.tolerations: tuple[Toleration, ...] = ()
        self.runtime_class = ""
        self.images: tuple[str, ...] = ()
        self.containers = 0
        """Number of containers, including init containers."""
        self.affinity: PodAffinityTerms = podterms.NO_TERMS
        self.spread_hard: tuple[SpreadConstraint, ...] = ()
        self.spread_soft: tuple[SpreadConstraint, ...] = ()
        self.is_spread_by_default = False
        self.claims: tuple[ClaimUse, ...] = ()
        self.disks: tuple[SharedDisk, ...] = ()
        self.pods = 0
        """Number of pods with this shape."""
        self.links: Any = None
        self.demand: Demand | None = None
        self.demand_rows = 0


def shape_key(tenant: str, pod: Object) -> bytes:
    """Equal for pods that scheduling cannot tell apart by their spec."""
    spec = pod["spec"]
    affinity = spec.get("affinity")
    spreads = spec.get("topologySpreadConstraints")
    volumes = volumesources.schedulable(spec)
    owner = "" if spreads else podterms.controller_uid(pod)
    parts: list[Any] = [
        spec.get("schedulerName"),
        [_container(each) for each in spec.get("containers") or ()],
        [_container(each) for each in spec.get("initContainers") or ()],
        spec.get("resources"),
        spec.get("overhead"),
        spec.get("nodeSelector"),
        affinity,
        spec.get("tolerations"),
        spreads,
        spec.get("runtimeClassName"),
        volumes,
        owner,
        bool(spec.get("resourceClaims")),
        _mounted_images(spec),
    ]
    if spec.get("nodeName") and (resized := requests.read_resized(pod)):
        parts.append([resized.containers, resized.whole])
    if affinity or spreads or owner or volumes or spec.get("runtimeClassName"):
        # These depend on other objects of the tenant or namespace, or on the pod's own labels.
        parts += [tenant, pod["metadata"].get("namespace"), labels(pod)]
    if any(each.get("ephemeral") for each in volumes):
        parts.append(pod["metadata"]["name"])
    return orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)


def _container(container: Object) -> list[Any]:
    requested = get(container, "resources", "requests") or None
    found = [container.get("image"), container.get("restartPolicy"), requested]
    for port in container.get("ports") or ():
        if port.get("hostPort"):
            found.append([port["hostPort"], port.get("hostIP"), port.get("protocol")])
    return found


def read_shape(key: bytes, pod: Object) -> PodShape:
    """Never raises: an invalid spec sets the shape's fault."""
    spec = pod["spec"]
    shape = PodShape(key, spec.get("schedulerName") or DEFAULT_PROFILE)
    try:
        _read(shape, pod, spec)
    except _INVALID as error:
        shape.fault = f"parsing pod: {error}" if str(error) else f"parsing pod: {type(error).__name__}"
    return shape


def _read(shape: PodShape, pod: Object, spec: Object) -> None:
    namespace, pod_labels = pod["metadata"].get("namespace") or "", labels(pod)
    resized = requests.read_resized(pod) if spec.get("nodeName") else requests.NOT_RESIZED
    shape.requests = requests.read_requests(spec, resized)
    shape.ports = requests.read_ports(spec)
    shape.tolerations = read_tolerations(spec.get("tolerations") or ())
    shape.runtime_class = spec.get("runtimeClassName") or ""
    shape.containers = len(spec.get("initContainers") or ()) + len(spec.get("containers") or ())
    shape.images = _images(spec)
    shape.claims = volumesources.read_claims(pod)
    shape.disks = volumesources.read_disks(spec)
    # Resources are parsed before limits are checked: a running pod is counted even if it exceeds them.
    bound("pod has {} host ports", len(shape.ports), HOST_PORTS_MAX)
    bound("pod has {} tolerations", len(shape.tolerations), TOLERATIONS_MAX)
    bound("pod has {} claims and disks", len(shape.claims) + len(shape.disks), VOLUMES_MAX)
    affinity = spec.get("affinity") or {}
    _read_node_affinity(shape, spec.get("nodeSelector") or {}, affinity.get("nodeAffinity") or {})
    shape.affinity = podterms.read_affinity(affinity, namespace, pod_labels)
    _read_spreads(shape, pod, namespace, pod_labels)
    if spec.get("resourceClaims"):
        shape.fault = "spec.resourceClaims is not supported"


def _read_node_affinity(shape: PodShape, selector: Mapping[str, str], affinity: Object) -> None:
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    count = len((required or {}).get("nodeSelectorTerms") or ()) + len(preferred)
    bound("node affinity has {} terms", count, NODE_TERMS_MAX)
    shape.nodes = nodeselectors.read_selector(selector, required)
    shape.preferred_nodes = tuple(
        (each.get("weight") or 0, nodeselectors.read_term(each.get("preference") or {})) for each in preferred
    )
    terms = [
        *((shape.nodes.terms if shape.nodes else ()) or ()),
        *(term for _, term in shape.preferred_nodes),
    ]
    requirements = len(selector) + sum(len(term.requirements) for term in terms)
    bound("node affinity has {} requirements", requirements, NODE_REQUIREMENTS_MAX)
    if shape.nodes is not None and shape.nodes.fault:
        raise ValueError(shape.nodes.fault)


def _read_spreads(shape: PodShape, pod: Object, namespace: str, pod_labels: Mapping[str, str]) -> None:
    constraints = pod["spec"].get("topologySpreadConstraints") or ()
    shape.spread_hard, shape.spread_soft = podterms.read_spreads(constraints, namespace, pod_labels)
    owner = podterms.controller_uid(pod)
    if not constraints and owner:
        shape.spread_soft = podterms.spread_of_controller(namespace, owner)
        shape.is_spread_by_default = True


def _images(spec: Object) -> tuple[str, ...]:
    """All images of the pod, by the names that nodes report."""
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    names = [*(each.get("image") or "" for each in containers), *_mounted_images(spec)]
    return tuple(_with_tag(name) for name in names)


def _mounted_images(spec: Object) -> list[str]:
    return [each["image"].get("reference") or "" for each in spec.get("volumes") or () if each.get("image")]


def _with_tag(image: str) -> str:
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
