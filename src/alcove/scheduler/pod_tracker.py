"""The roster: every pod of every plane that takes something or wants a place.

It reads objects into pods and shares shapes and groups among them. A tenant's uid is one pod, whichever
plane tells of it: a tenant that moves between planes is not counted twice.
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
    """What an object says of where its pod stands."""

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
        """A pod as the object describes it; not yet on the roster."""
        metadata, spec = obj["metadata"], obj["spec"]
        # The texts that many pods share are kept once.
        tenant = self._tenants.setdefault(tenant, tenant)
        pod = SchedulerPod(metadata["uid"], plane, tenant, "", metadata["name"])
        pod.group = self._cache.book(tenant).group(
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
        """Nobody keeps what `read` returned any more."""
        index = self._cache.book(pod.tenant)
        index.leave(pod.group)
        shape = pod.shape
        shape.pods -= 1
        if shape.pods == 0:
            index.unlink(shape)
            del self._shapes[shape.key]

    def forget(self, tenant: TenantId) -> None:
        """The tenant is gone, with all its pods."""
        self.pods.pop(tenant, None)
        self._tenants.pop(tenant, None)

    def adopt(self, pod: SchedulerPod, read: SchedulerPod) -> None:
        """A pod that takes nothing just now becomes as it was read anew."""
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
            # What cannot even be compared with others is nobody's equal; reading it tells what is wrong.
            key = f"{tenant}/{obj['metadata']['uid']}".encode()
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = read_shape(key, obj)
            message = self._cache.book(tenant).link(shape)
            shape.fault = shape.fault or message
        shape.pods += 1
        return shape


def is_same(pod: SchedulerPod, read: SchedulerPod) -> bool:
    """Whether scheduling sees no difference between a pod as it is known and as it was read anew."""
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
