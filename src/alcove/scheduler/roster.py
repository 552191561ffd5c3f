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
from alcove.scheduler.groups import Group
from alcove.scheduler.pods import Pod
from alcove.scheduler.shapes import Shape, read_shape, shape_key
from alcove.scheduler.world import World

FINISHED = ("Succeeded", "Failed")


class Told(Struct, frozen=True):
    """What an object says of where its pod stands."""

    node: str
    is_finished: bool
    is_leaving: bool
    is_gated: bool
    nominated: str


def read_told(pod: Object) -> Told:
    spec = pod["spec"]
    return Told(
        node=spec.get("nodeName") or "",
        is_finished=get(pod, "status", "phase") in FINISHED,
        is_leaving=bool(pod["metadata"].get("deletionTimestamp")),
        is_gated=bool(spec.get("schedulingGates")),
        nominated=get(pod, "status", "nominatedNodeName", default=""),
    )


class Roster:
    def __init__(self, world: World) -> None:
        self._world = world
        self._shapes: dict[bytes, Shape] = {}
        self._tenants: dict[str, TenantId] = {}
        self.pods: dict[TenantId, dict[str, Pod]] = {}
        """Tenant → uid → pod."""

    def read(self, plane: PlaneId, tenant: TenantId, obj: Object) -> Pod:
        """A pod as the object describes it; not yet on the roster."""
        metadata, spec = obj["metadata"], obj["spec"]
        # The texts that many pods share are kept once.
        tenant = self._tenants.setdefault(tenant, tenant)
        pod = Pod(metadata["uid"], plane, tenant, "", metadata["name"])
        pod.group = self._world.book(tenant).group(
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

    def release(self, pod: Pod) -> None:
        """Nobody keeps what `read` returned any more."""
        book = self._world.book(pod.tenant)
        book.leave(pod.group)
        shape = pod.shape
        shape.pods -= 1
        if shape.pods == 0:
            book.unlink(shape)
            del self._shapes[shape.key]

    def forget(self, tenant: TenantId) -> None:
        """The tenant is gone, with all its pods."""
        self.pods.pop(tenant, None)
        self._tenants.pop(tenant, None)

    def adopt(self, pod: Pod, read: Pod) -> None:
        """A pod that takes nothing just now becomes as it was read anew."""
        old_shape, old_group = pod.shape, pod.group
        pod.plane, pod.priority, pod.may_preempt = read.plane, read.priority, read.may_preempt
        pod.started, pod.is_evicted = read.started, read.is_evicted
        pod.shape, pod.group = read.shape, read.group
        read.shape, read.group = old_shape, old_group
        self.release(read)

    def _shape(self, tenant: TenantId, obj: Object) -> Shape:
        try:
            key = shape_key(tenant, obj)
        except (TypeError, ValueError, AttributeError, KeyError):
            # What cannot even be compared with others is nobody's equal; reading it tells what is wrong.
            key = f"{tenant}/{obj['metadata']['uid']}".encode()
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = read_shape(key, obj)
            told = self._world.book(tenant).link(shape)
            shape.fault = shape.fault or told
        shape.pods += 1
        return shape


def is_same(pod: Pod, read: Pod) -> bool:
    """Whether scheduling sees no difference between a pod as it is known and as it was read anew."""
    group: Group = read.group
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
