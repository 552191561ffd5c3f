"""Executes decisions through the API of the pod's plane, and returns their outcome.

The ledger distinguishes three outcomes: done, definitely refused, and unknown (the server may have done it).
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
    """Definitely not done; a retry would be refused too."""
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
        # Fenced off: another process leads, or the fence must be taken again.
        is_unknown = error.code in NOT_DONE_OR_UNKNOWN or is_fenced_off(error)
        return BindOutcome.UNKNOWN if is_unknown else BindOutcome.REFUSED
    except ClientError:
        return BindOutcome.UNKNOWN
    return BindOutcome.DONE


async def get_pod(client: Client, pod: ScheduledPodRef) -> Object | None:
    """The current pod. None if it was deleted, or replaced by another of its name. Raises ApiError and
    ClientError."""
    try:
        current = await client.get(pod.tenant, PODS, pod.name, namespace=pod.namespace)
    except NotFound:
        return None
    return current if objects.get(current, "metadata", "uid") == pod.uid else None


async def report_unschedulable(client: Client, decision: Unschedulable, clock: Callable[[], float]) -> None:
    """Sets the pod's condition PodScheduled to False with the reason."""
    status: Object = {"conditions": [_unschedulable_condition(decision.text, clock())]}
    if decision.is_denominated:
        status["nominatedNodeName"] = None
    await _patch_status(client, decision.pod, status)


async def nominate(client: Client, decision: Preempt, clock: Callable[[], float]) -> None:
    conditions = [_unschedulable_condition(decision.text, clock())]
    await _patch_status(client, decision.pod, {"conditions": conditions, "nominatedNodeName": decision.node})


def _unschedulable_condition(text: str, now: float) -> Object:
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": text,
        "lastProbeTime": None,
        "lastTransitionTime": meta.format_time(now),
    }


async def _patch_status(client: Client, pod: ScheduledPodRef, status: Object) -> None:
    # The uid is a precondition: never patch another pod of the same name.
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
    """Sets DisruptionTarget on the victim and deletes it. False if that failed."""
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
    """Binds volumes to claims, and requests provisioning of new ones. False if that failed."""
    try:
        for volume, claim in decision.plan.binds:
            await _bind_volume(client, decision.pod, volume, claim)
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


async def _bind_volume(client: Client, pod: ScheduledPodRef, volume: str, claim: ClaimKey) -> None:
    """Raises ApiError if the volume is no longer free."""
    namespace, name = claim
    claim_object = await client.get(pod.tenant, PERSISTENT_VOLUME_CLAIMS, name, namespace=namespace)
    current = await client.get(pod.tenant, PERSISTENT_VOLUMES, volume)
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": namespace,
        "name": name,
        "uid": objects.get(claim_object, "metadata", "uid"),
        "resourceVersion": objects.get(claim_object, "metadata", "resourceVersion"),
    }
    if objects.get(current, "spec", "claimRef", "uid") == reference["uid"]:
        return
    patch = {
        "metadata": {
            "resourceVersion": objects.get(current, "metadata", "resourceVersion"),
            "annotations": {BOUND_BY_CONTROLLER: "yes"},
        },
        "spec": {"claimRef": reference},
    }
    await client.patch(pod.tenant, PERSISTENT_VOLUMES, volume, patch)
