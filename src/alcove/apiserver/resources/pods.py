"""Subresources of pods: binding, eviction, ephemeralcontainers, resize."""

from __future__ import annotations

import copy
from functools import partial

from msgspec import structs

from alcove.api import meta, objects, selectors
from alcove.api.encode import encode
from alcove.api.errors import (
    BadRequest,
    Conflict,
    Details,
    Forbidden,
    InternalError,
    NotFound,
    StatusCause,
    TooManyRequests,
)
from alcove.api.ids import SYSTEM, GroupVersionKind, Key
from alcove.api.kinds.core.pods import subresources
from alcove.api.objects import Object
from alcove.api.resources import NODES, POD_DISRUPTION_BUDGETS, PODS, PODS_BINDING, TENANTS
from alcove.apiserver.admission.sleep import check_awake
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.call import ApiCall
from alcove.apiserver.resources import body, deleting, patching, updating, writing
from alcove.apiserver.resources.options import DeleteOptions, delete_options
from alcove.apiserver.responses import json_response
from alcove.apiserver.services import ApiServerServices
from alcove.http.messages import HttpResponse
from alcove.store.base import RevisionMismatch, WriteOp

BINDING = GroupVersionKind("", "v1", "Binding")
EVICTION = GroupVersionKind("policy", "v1", "Eviction")

MAY_BIND = "alcove.io/may-bind"
"""The annotation of a Tenant whose users may bind pods if it is "true"."""
EVICT_AGAIN_SECONDS = 10
"""When clients try an eviction again whose budget is being processed."""
_EVICTED_FREELY = frozenset({"Succeeded", "Failed", "Pending"})
_DISRUPTED = "DisruptionTarget"
_TOPOLOGY_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_SUCCESS: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


async def bind_by_object(services: ApiServerServices, call: ApiCall) -> HttpResponse:
    """POST bindings: the body names the pod."""
    node = services.registry.body(BINDING)
    assert node is not None
    name = objects.name(body.read_as(call, node, BINDING.api_version, BINDING.kind))
    kind = services.registry.find("", "v1", "pods")
    assert kind is not None
    call.kind = kind
    call.target = structs.replace(call.target, resource="pods", name=name, subresource="binding")
    return await bind(services, call)


async def bind(services: ApiServerServices, call: ApiCall) -> HttpResponse:
    """POST pods/NAME/binding."""
    node = services.registry.body(BINDING)
    assert node is not None
    binding = body.read_as(call, node, BINDING.api_version, BINDING.kind)
    name = call.target.name or objects.name(binding)
    _check_may_bind(services, call, name)
    check_awake(services.cache, call.tenant, name)
    if objects.name(binding) not in ("", name):
        raise BadRequest(
            f"the name of the object ({objects.name(binding)}) does not match the name on the URL ({name})"
        )
    errors = subresources.validate_binding(binding)
    if errors:
        raise BadRequest(str(errors[0]))
    uid, revision = (
        objects.get(binding, "metadata", "uid"),
        objects.get(binding, "metadata", "resourceVersion"),
    )
    now = meta.format_time(services.clock())

    async def bound(pod: Object) -> Object:
        pod["metadata"].pop("resourceVersion", None)
        if revision:
            pod["metadata"]["resourceVersion"] = revision
        if uid:
            pod["metadata"]["uid"] = uid
        _add_topology(services, pod, objects.get(binding, "target", "name"))
        return _bound(pod, binding, now)

    await updating.change(services, call, call.kind, bound, manager=writing.field_manager(call))
    return json_response(201, _SUCCESS)


def _check_may_bind(services: ApiServerServices, call: ApiCall, name: str) -> None:
    """Raises Forbidden for callers of a tenant, whatever its roles say: only ring0's scheduler knows which
    nodes are free for whom. Ring0 exempts a tenant by an annotation of its Tenant object."""
    if call.identity.tenant == SYSTEM:
        return
    tenant = services.cache.entry(Key(TENANTS, SYSTEM, "", call.identity.tenant))
    if tenant is None or objects.annotations(tenant.object).get(MAY_BIND) != "true":
        message = f"only the scheduler binds pods, unless the operator sets {MAY_BIND} on the tenant"
        raise Forbidden.of(PODS_BINDING, name, message)


def _add_topology(services: ApiServerServices, pod: Object, node: str) -> None:
    """Gives the pod the labels of its node's zone and region, for the downward API."""
    entry = services.cache.entry(Key(NODES, SYSTEM, "", node))
    node_labels = objects.labels(entry.object) if entry is not None else {}
    if copied := {label: node_labels[label] for label in _TOPOLOGY_LABELS if label in node_labels}:
        pod["metadata"].setdefault("labels", {}).update(copied)


def _bound(pod: Object, binding: Object, now: str) -> Object:
    name, target = pod["metadata"]["name"], binding["target"]["name"]
    spec = pod["spec"]
    if pod["metadata"].get("deletionTimestamp"):
        raise Conflict.of(
            PODS_BINDING,
            name,
            f"pod {name} is being deleted, cannot be assigned to a host",
        )
    if spec.get("nodeName"):
        message = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
        raise Conflict.of(PODS_BINDING, name, message)
    if spec.get("schedulingGates"):
        message = f"pod {name} has non-empty .spec.schedulingGates"
        raise Conflict.of(PODS_BINDING, name, message)
    spec["nodeName"] = target
    for field in ("annotations", "labels"):
        if values := objects.get(binding, "metadata", field):
            pod["metadata"].setdefault(field, {}).update(values)
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    conditions[:] = [each for each in conditions if each.get("type") != "PodScheduled"]
    conditions.append(
        {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    )
    return pod


async def evict(services: ApiServerServices, call: ApiCall) -> HttpResponse:
    node = services.registry.body(EVICTION)
    assert node is not None
    eviction = body.read_as(call, node, EVICTION.api_version, EVICTION.kind)
    if objects.name(eviction) not in ("", call.target.name):
        raise BadRequest(f"name in URL does not match name in Eviction object: {objects.name(eviction)}")
    options = delete_options(call, eviction.get("deleteOptions") or {})
    for _ in range(writing.ATTEMPTS_MAX):
        entry = services.cache.entry(call.key)
        if entry is None:
            raise NotFound.of(PODS, call.target.name)
        budget = _budget(services, entry)
        also = [] if budget is None else [_reduce_budget(services, budget, entry)]
        if await _try_evict(services, call, options, also):
            return json_response(201, _SUCCESS)
    raise _too_many(
        "the pod's disruption budget is changing too fast; try again", retry_after_seconds=EVICT_AGAIN_SECONDS
    )


async def _try_evict(
    services: ApiServerServices, call: ApiCall, options: DeleteOptions, also: list[WriteOp]
) -> bool:
    """Returns False if the budget changed in the meantime."""
    try:
        mark = partial(_mark_disrupted, now=meta.format_time(services.clock()))
        await deleting.delete_object(services, call, call.key, options, also=also, change=mark)
    except RevisionMismatch:
        await services.catch_up()
        return False
    return True


def _mark_disrupted(pod: Object, now: str) -> None:
    """Says why the pod ends, for controllers such as Job."""
    status = pod.setdefault("status", {})
    conditions = status.setdefault("conditions", [])
    is_known = any(each["type"] == _DISRUPTED and each["status"] == "True" for each in conditions)
    if is_known or status.get("phase") in ("Succeeded", "Failed") or "deletionTimestamp" in pod["metadata"]:
        return
    condition = {
        "type": _DISRUPTED,
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastProbeTime": None,
        "lastTransitionTime": now,
    }
    conditions[:] = [*(each for each in conditions if each["type"] != _DISRUPTED), condition]


def _budget(services: ApiServerServices, entry: CacheEntry) -> CacheEntry | None:
    """The PodDisruptionBudget that the pod's eviction counts against; None if there is none."""
    pod = entry.object
    if objects.get(pod, "status", "phase") in _EVICTED_FREELY or pod["metadata"].get("deletionTimestamp"):
        return None
    budgets = [
        budget
        for budget in services.cache.entries(entry.key.tenant, POD_DISRUPTION_BUDGETS, entry.key.namespace)
        if selectors.from_object(objects.get(budget.object, "spec", "selector")).matches(entry.labels)
    ]
    if len(budgets) > 1:
        raise InternalError(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    if not budgets:
        return None
    if _is_unhealthy_and_free(budgets[0].object, pod):
        return None
    return budgets[0]


def _is_unhealthy_and_free(budget: Object, pod: Object) -> bool:
    """Whether a pod that is not ready may be evicted: if the policy allows it, or the budget is met without
    it."""
    conditions = objects.get(pod, "status", "conditions", default=[])
    ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
    if ready:
        return False
    if objects.get(budget, "spec", "unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    return bool(status.get("desiredHealthy")) and status.get("currentHealthy", 0) >= status["desiredHealthy"]


def _reduce_budget(services: ApiServerServices, budget: CacheEntry, pod: CacheEntry) -> WriteOp:
    """The budget with one disruption less, to be written with the deletion."""
    obj = copy.deepcopy(budget.object)
    status = obj.setdefault("status", {})
    generation = obj["metadata"].get("generation", 0)
    if status.get("observedGeneration", 0) < generation:
        raise _too_many(
            "Cannot evict pod as it would violate the pod's disruption budget.",
            f"The disruption budget {budget.key.name} is still being processed by the server.",
            EVICT_AGAIN_SECONDS,
        )
    if status.get("disruptionsAllowed", 0) < 1:
        # Without Retry-After, as in Kubernetes: clients would wait and try again by themselves, for minutes, instead of
        # telling their users.
        raise _too_many(
            "Cannot evict pod as it would violate the pod's disruption budget.",
            f"The disruption budget {budget.key.name} needs {status.get('desiredHealthy', 0)} healthy pods "
            f"and has {status.get('currentHealthy', 0)} currently",
        )
    status["disruptionsAllowed"] -= 1
    status.setdefault("disruptedPods", {})[pod.key.name] = meta.format_time(services.clock())
    return WriteOp(
        Key(POD_DISRUPTION_BUDGETS, budget.key.tenant, budget.key.namespace, budget.key.name),
        encode(obj),
        budget.revision,
    )


def _too_many(message: str, cause: str = "", retry_after_seconds: int = 0) -> TooManyRequests:
    causes = (StatusCause("DisruptionBudget", cause),) if cause else ()
    return TooManyRequests(message, Details(causes=causes, retry_after_seconds=retry_after_seconds))


_PREPARE = {
    "ephemeralcontainers": (
        subresources.prepare_ephemeral_containers,
        subresources.validate_ephemeral_containers,
    ),
    "resize": (subresources.prepare_resize, subresources.validate_resize),
}


async def change_spec(services: ApiServerServices, call: ApiCall) -> HttpResponse:
    """PUT and PATCH of ephemeralcontainers and resize: only the subresource's fields change."""
    prepare, validate = _PREPARE[call.target.subresource]
    if call.verb == "patch":
        requested_change = await patching.change_of(services, call, call.kind)
    else:
        requested_change = _change_by_put(await body.read(services, call))

    async def changed(old: Object) -> Object:
        before = copy.deepcopy(old)
        new = await requested_change(old)

        def prepared() -> Object:
            prepare(new, before)
            call.kind.strategy.default(new)
            writing.refuse(call.kind, new, validate(new, before))
            return new

        return await writing.computed(services, call, prepared)

    entry = await updating.change(services, call, call.kind, changed, manager=writing.field_manager(call))
    return await writing.answer(services, call, 200, entry)


def _change_by_put(obj: Object) -> updating.Change:
    async def replaced(_old: Object) -> Object:
        return copy.deepcopy(obj)

    return replaced
