"""Content deletion of a terminating namespace or tenant: what to delete now, and what to wait for.

Pure plans; the namespace and tenant controllers execute them. The objects of one stage are deleted
concurrently; a stage begins when no object of the earlier stages is left:

    admission   webhooks and policies of the tenant, which could reject every later deletion
    content     everything else
    rights      roles, bindings, CRDs, API services: external programs may need them to finish the content;
                addresses that no service holds

A finalizer holds an object until the controller that added it removes it. In a terminating tenant that
controller may no longer exist. Finalizers that ring0's processes remove (`is_ours`) are always waited for. Any
other finalizer is removed once the tenant has no pods left, so that none of the tenant's programs is running in
the cluster, and `FOREIGN_SECONDS` have passed since the object was deleted, which leaves time for programs
that run elsewhere. A namespace that is deleted alone waits for all finalizers, as in Kubernetes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from alcove.api import local_volumes, meta
from alcove.api.ids import GroupResource
from alcove.api.resources import API_SERVICES, CRDS, IP_ADDRESSES
from alcove.client.resources import NETWORKS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, Resource
from alcove.controllers.aggregated_content import AggregatedContent
from alcove.controllers.conditions import Condition
from alcove.controllers.metadata_cache import ObjectMetadata

FOREIGN_SECONDS = 30.0
DELETED_AT_ONCE_MAX = 500

_FROM_ANY_KIND = frozenset({"foregroundDeletion", "orphan"})
"""Finalizers that the garbage collector removes."""
_FROM_ONE_KIND = {
    "kubernetes.io/pvc-protection": PERSISTENT_VOLUME_CLAIMS.group_resource,
    "kubernetes.io/pv-protection": PERSISTENT_VOLUMES.group_resource,
    "batch.kubernetes.io/job-tracking": PODS.group_resource,
    "customresourcecleanup.apiextensions.k8s.io": CRDS,
    "arktos.futurewei.com/network": NETWORKS.group_resource,
    local_volumes.FINALIZER: PERSISTENT_VOLUMES.group_resource,
}
"""Finalizers that other controllers, the API server and nodes remove, by the kind that they watch for it. A
controller that sets a finalizer on tenants' objects adds it here. On objects of another kind, where a tenant
can write the same name, nobody removes it."""

_ADMISSION, _CONTENT, _RIGHTS = range(3)
_STAGES = {
    GroupResource("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): _ADMISSION,
    GroupResource("admissionregistration.k8s.io", "validatingwebhookconfigurations"): _ADMISSION,
    GroupResource("admissionregistration.k8s.io", "validatingadmissionpolicies"): _ADMISSION,
    GroupResource("admissionregistration.k8s.io", "validatingadmissionpolicybindings"): _ADMISSION,
    # The address of a service is released with the service, in a namespace.
    IP_ADDRESSES: _RIGHTS,
    GroupResource("rbac.authorization.k8s.io", "clusterroles"): _RIGHTS,
    GroupResource("rbac.authorization.k8s.io", "clusterrolebindings"): _RIGHTS,
    CRDS: _RIGHTS,
    API_SERVICES: _RIGHTS,
}


class ContentDeletionPlan(Struct, frozen=True):
    deletes: list[ObjectMetadata]
    releases: list[ObjectMetadata]
    """Objects whose foreign finalizers are to be removed."""
    waits_for: Sequence[ObjectMetadata]
    """All existing objects, including those in `deletes` and `releases`."""

    @property
    def is_empty(self) -> bool:
        return not self.waits_for

    @property
    def is_partial(self) -> bool:
        """Whether more objects may have to be deleted than the plan contains."""
        return len(self.deletes) == DELETED_AT_ONCE_MAX


def plan_for_namespace(content: Sequence[ObjectMetadata]) -> ContentDeletionPlan:
    """Pods are deleted first, as in Kubernetes: other objects stay while pods that may use them are
    running."""
    pods = [each for each in content if each.resource == PODS]
    return ContentDeletionPlan(_except_terminating(pods or content), [], content)


def plan_for_tenant(content: Sequence[ObjectMetadata], now: float) -> ContentDeletionPlan:
    """Plans cluster-scoped objects only; the namespace controller deletes the content of each namespace."""
    if not content:
        return ContentDeletionPlan([], [], content)
    stages = {id(each): _stage(each.resource) for each in content}
    stage = min(stages.values())
    current = [each for each in content if stages[id(each)] == stage and not each.resource.namespaced]
    has_pods = any(each.resource == PODS for each in content)
    releases = [] if has_pods else [each for each in content if _is_abandoned(each, now)]
    return ContentDeletionPlan(_except_terminating(current), releases, content)


def ends_stage(resource: Resource, remaining: Iterable[Resource]) -> bool:
    """Whether a tenant's next stage begins when it has lost its last object of this resource, and has cluster-scoped objects of
    these left. Namespaces are among them: what is in them ends no stage before they are gone."""
    return all(_stage(each) > _stage(resource) for each in remaining)


def _stage(resource: Resource) -> int:
    return _STAGES.get(resource.group_resource, _CONTENT)


def _except_terminating(content: Iterable[ObjectMetadata]) -> list[ObjectMetadata]:
    return [each for each in content if not each.is_terminating][:DELETED_AT_ONCE_MAX]


def _is_abandoned(obj: ObjectMetadata, now: float) -> bool:
    if not obj.is_terminating or not has_foreign(obj):
        return False
    return now - meta.parse_time(obj.metadata["deletionTimestamp"]) >= FOREIGN_SECONDS


def is_ours(obj: ObjectMetadata, finalizer: str) -> bool:
    """Whether one of ring0's processes removes this finalizer from this object."""
    return finalizer in _FROM_ANY_KIND or _FROM_ONE_KIND.get(finalizer) == obj.resource.group_resource


def has_foreign(obj: ObjectMetadata) -> bool:
    return not all(is_ours(obj, each) for each in obj.finalizers)


def next_check_seconds(plan: ContentDeletionPlan, now: float) -> float:
    """Seconds until the first abandoned finalizer may be removed, at most a minute."""
    soonest = 60.0
    for each in plan.waits_for:
        if each.is_terminating and has_foreign(each):
            waited = now - meta.parse_time(each.metadata["deletionTimestamp"])
            soonest = min(soonest, max(FOREIGN_SECONDS - waited, 1.0))
    return soonest


def conditions(
    kind: str,
    content: Sequence[ObjectMetadata],
    failures: Sequence[str],
    *,
    is_known: bool,
    aggregated: AggregatedContent | None = None,
) -> list[Condition]:
    """The deletion conditions of a namespace or tenant; `kind` is Namespace or Tenant."""
    scope = kind.lower()
    counts = Counter(_plural(each) for each in content)
    if aggregated is not None:
        counts += aggregated.remaining
        failures = [*failures, *aggregated.failures]
    finalizers = Counter(name for each in content if each.is_terminating for name in each.finalizers)
    discovered = Condition(
        f"{kind}DeletionDiscoveryFailure",
        False,
        "ResourcesDiscovered",
        "All resources successfully discovered",
    )
    if not is_known:
        message = f"Not all resources of the {scope} have been discovered yet"
        discovered = Condition(f"{kind}DeletionDiscoveryFailure", True, "DiscoveryFailed", message)
    elif aggregated is not None and aggregated.undiscovered:
        message = (
            f"Discovery failed for some groups, {len(aggregated.undiscovered)} failing: unable to retrieve the "
            f"complete list of server APIs: {', '.join(sorted(aggregated.undiscovered))}"
        )
        discovered = Condition(f"{kind}DeletionDiscoveryFailure", True, "DiscoveryFailed", message)
    deleted = Condition(
        f"{kind}DeletionContentFailure",
        bool(failures),
        "ContentDeletionFailed" if failures else "ContentDeleted",
        f"Failed to delete all content: {'; '.join(failures)}"
        if failures
        else "All content successfully deleted, may be waiting on finalization",
    )
    remaining = Condition(
        f"{kind}ContentRemaining",
        bool(counts),
        "SomeResourcesRemain" if counts else "ContentRemoved",
        _listed("Some resources are remaining: ", counts, "{} has {} resource instances")
        or "All content successfully removed",
    )
    held = Condition(
        f"{kind}FinalizersRemaining",
        bool(finalizers),
        "SomeFinalizersRemain" if finalizers else "ContentHasNoFinalizers",
        _listed(
            f"Some content in the {scope} has finalizers remaining: ",
            finalizers,
            "{} in {} resource instances",
        )
        or "All content-preserving finalizers finished",
    )
    return [discovered, deleted, remaining, held]


def _plural(obj: ObjectMetadata) -> str:
    return f"{obj.resource.resource}.{obj.resource.group}"


def _listed(intro: str, counts: Counter[str], form: str) -> str:
    return intro + ", ".join(form.format(*each) for each in sorted(counts.items())) if counts else ""
