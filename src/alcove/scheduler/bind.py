"""Carrying out decisions through the API of the pod's plane, and saying what came of them.

What a server definitely refused, what it may or may not have done, and what was done are three different
things to the ledger; here they are told apart.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from alcove.api import meta, objects
from alcove.api.errors import ApiError, NotFound
from alcove.api.objects import Object
from alcove.client.client import Client, Patch
from alcove.client.errors import ClientError
from alcove.client.fencing import is_fenced_off
from alcove.client.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from alcove.scheduler.decisions import BindPod, Preempt, Prepare, ScheduledPodRef, Unschedulable
from alcove.scheduler.storage import SELECTED_NODE, ClaimKey

BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
NOT_DONE_OR_UNKNOWN = (429, 500, 503, 504)


class BindOutcome(Enum):
    DONE = auto()
    REFUSED = auto()
    """Definitely not done, and asking again is no use."""
    UNKNOWN = auto()


async def bind(client: Client, decision: BindPod) -> BindOutcome:
    pod = decision.pod
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": decision.node},
    }
    try:
        await client.create(
            pod.tenant, PODS, binding, namespace=pod.namespace, name=pod.name, subresource="binding"
        )
    except ApiError as error:
        # Fenced off: either another leads, or the fence is to be taken again.
        is_open = error.code in NOT_DONE_OR_UNKNOWN or is_fenced_off(error)
        return BindOutcome.UNKNOWN if is_open else BindOutcome.REFUSED
    except ClientError:
        return BindOutcome.UNKNOWN
    return BindOutcome.DONE


async def look(client: Client, pod: ScheduledPodRef) -> Object | None:
    """The pod as it is; None: it is gone (another of its name is not it). Raises what the client raises."""
    try:
        found = await client.get(pod.tenant, PODS, pod.name, namespace=pod.namespace)
    except NotFound:
        return None
    return found if found["metadata"]["uid"] == pod.uid else None


async def report_unschedulable(client: Client, decision: Unschedulable, clock: Callable[[], float]) -> None:
    """Set the pod's condition, so that whoever looks at it knows why it waits."""
    status: Object = {"conditions": [_unscheduled(decision.text, clock())]}
    if decision.is_denominated:
        status["nominatedNodeName"] = None
    await _patch_status(client, decision.pod, status)


async def nominate(client: Client, decision: Preempt, clock: Callable[[], float]) -> None:
    conditions = [_unscheduled(decision.text, clock())]
    await _patch_status(client, decision.pod, {"conditions": conditions, "nominatedNodeName": decision.node})


def _unscheduled(text: str, now: float) -> Object:
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": text,
        "lastProbeTime": None,
        "lastTransitionTime": meta.format_time(now),
    }


async def _patch_status(client: Client, pod: ScheduledPodRef, status: Object) -> None:
    # The uid makes it this pod's status and no other's of the same name.
    patch = {"metadata": {"uid": pod.uid}, "status": status}
    await client.patch(
        pod.tenant,
        PODS,
        pod.name,
        patch,
        namespace=pod.namespace,
        kind=Patch.STRATEGIC,
        subresource="status",
    )


async def evict(client: Client, victim: ScheduledPodRef, clock: Callable[[], float]) -> bool:
    """Delete a victim, after noting on it why. False: it stays."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "default-scheduler: preempting to accommodate a higher priority pod",
        "lastTransitionTime": meta.format_time(clock()),
    }
    try:
        await _patch_status(client, victim, {"conditions": [condition]})
        await client.delete(victim.tenant, PODS, victim.name, namespace=victim.namespace, uid=victim.uid)
    except NotFound:
        return True
    except (ApiError, ClientError):
        return False
    return True


async def prepare(client: Client, decision: Prepare) -> bool:
    """Promise volumes to claims, and ask for those that are to be made. False: it did not work out."""
    try:
        for volume, claim in decision.plan.binds:
            await _promise(client, decision.pod, volume, claim)
        for _, name in decision.plan.provisions:
            await client.patch(
                decision.pod.tenant,
                PERSISTENT_VOLUME_CLAIMS,
                name,
                {"metadata": {"annotations": {SELECTED_NODE: decision.node}}},
                namespace=decision.pod.namespace,
            )
    except (ApiError, ClientError):
        return False
    return True


async def _promise(client: Client, pod: ScheduledPodRef, volume: str, claim: ClaimKey) -> None:
    """Raises ApiError if the volume is no longer free."""
    namespace, name = claim
    desired = await client.get(pod.tenant, PERSISTENT_VOLUME_CLAIMS, name, namespace=namespace)
    found = await client.get(pod.tenant, PERSISTENT_VOLUMES, volume)
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": namespace,
        "name": name,
        "uid": desired["metadata"]["uid"],
        "resourceVersion": desired["metadata"]["resourceVersion"],
    }
    taken = objects.get(found, "spec", "claimRef", default={})
    if taken.get("uid") == reference["uid"]:
        return
    patch = {
        "metadata": {
            "resourceVersion": found["metadata"]["resourceVersion"],
            "annotations": {BOUND_BY_CONTROLLER: "yes"},
        },
        "spec": {"claimRef": reference},
    }
    await client.patch(pod.tenant, PERSISTENT_VOLUMES, volume, patch)
