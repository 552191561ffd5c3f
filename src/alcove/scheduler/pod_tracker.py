"""The pod tracker: all pods of all planes that hold resources or are pending.

It parses objects into pods that share shapes and groups. Pods are identified by tenant and uid, independent
of the plane: a tenant that moves between planes is not counted twice.
"""

from __future__ import annotations

from msgspec import Struct

from alcove.api.ids import TenantId
from alcove.api.objects import Object, get, labels
from alcove.client.keys import PlaneId
from alcove.scheduler import podterms
from alcove.scheduler.groups import PodGroup
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.scheduler_cache import SchedulerCache
from alcove.scheduler.shapes import PodShape, read_shape, shape_key

FINISHED = ("Succeeded", "Failed")


class PodPlacement(Struct, frozen=True):
    """The scheduling state in a pod object."""

    node: str
    is_finished: bool
    is_leaving: bool
    is_gated: bool
    nominated: str


def read_placement(pod: Object) -> PodPlacement:
    spec = pod["spec"]
    return PodPlacement(
        node=spec.get("nodeName") or "",
        is_finished=get(pod, "status", "phase") in FINISHED,
        is_leaving=bool(pod["metadata"].get("deletionTimestamp")),
        is_gated=bool(spec.get("schedulingGates")),
        nominated=get(pod, "status", "nominatedNodeName", default=""),
    )


class PodTracker:
    def __init__(self, cache: SchedulerCache) -> None:
        self._cache = cache
        self._shapes: dict[bytes, PodShape] = {}
        self._tenants: dict[str, TenantId] = {}
        self.pods: dict[TenantId, dict[str, SchedulerPod]] = {}
        """Tenant → uid → pod."""

    def read(self, plane: PlaneId, tenant: TenantId, obj: Object) -> SchedulerPod:
        """Parses a pod; it is not tracked yet."""
        metadata, spec = obj["metadata"], obj["spec"]
        # Intern strings that many pods share.
        tenant = self._tenants.setdefault(tenant, tenant)
        pod = SchedulerPod(metadata["uid"], plane, tenant, "", metadata["name"])
        pod.group = self._cache.affinity_index(tenant).group(
            metadata.get("namespace") or "", labels(obj), podterms.controller_uid(obj)
        )
        pod.namespace = pod.group.namespace
        pod.shape = self._shape(tenant, obj)
        pod.priority = spec.get("priority") or 0
        pod.may_preempt = spec.get("preemptionPolicy") != "Never"
        pod.created = metadata.get("creationTimestamp") or ""
        pod.started = get(obj, "status", "startTime", default="")
        pod.is_evicted = _is_evicted(obj)
        return pod

    def release(self, pod: SchedulerPod) -> None:
        """Releases the shape and group of a pod that `read` returned."""
        index = self._cache.affinity_index(pod.tenant)
        index.leave(pod.group)
        shape = pod.shape
        shape.pods -= 1
        if shape.pods == 0:
            index.unlink(shape)
            del self._shapes[shape.key]

    def forget(self, tenant: TenantId) -> None:
        """Forgets a deleted tenant."""
        self.pods.pop(tenant, None)
        self._tenants.pop(tenant, None)

    def adopt(self, pod: SchedulerPod, read: SchedulerPod) -> None:
        """Gives a pod the state of `read`, and releases the old one. The pod must not hold resources."""
        old_shape, old_group = pod.shape, pod.group
        pod.plane, pod.priority, pod.may_preempt = read.plane, read.priority, read.may_preempt
        pod.started, pod.is_evicted = read.started, read.is_evicted
        pod.shape, pod.group = read.shape, read.group
        read.shape, read.group = old_shape, old_group
        self.release(read)

    def _shape(self, tenant: TenantId, obj: Object) -> PodShape:
        try:
            key = shape_key(tenant, obj)
        except (TypeError, ValueError, AttributeError, KeyError):
            # An invalid spec has no comparable key: give it its own shape, whose fault says what is wrong.
            key = f"{tenant}/{obj['metadata']['uid']}".encode()
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = read_shape(key, obj)
            message = self._cache.affinity_index(tenant).link(shape)
            shape.fault = shape.fault or message
        shape.pods += 1
        return shape


def is_same(pod: SchedulerPod, read: SchedulerPod) -> bool:
    """Whether the scheduling-relevant state of both is the same."""
    group: PodGroup = read.group
    return (
        pod.shape is read.shape
        and pod.group is group
        and pod.priority == read.priority
        and pod.may_preempt == read.may_preempt
        and pod.is_evicted == read.is_evicted
    )


def _is_evicted(obj: Object) -> bool:
    return any(
        each.get("type") == "DisruptionTarget"
        and each.get("status") == "True"
        and each.get("reason") == "PreemptionByScheduler"
        for each in get(obj, "status", "conditions", default=())
    )
