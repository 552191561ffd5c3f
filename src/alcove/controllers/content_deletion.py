"""Emptying a space (a namespace or a tenant) before it goes: what to delete now, and what is waited for.

Pure plans; the namespace and the tenant controller carry them out. Everything of a stage is deleted at
once; a stage begins when nothing of those before it is left:

    admission   webhooks and policies of the tenant, which could refuse every deletion that follows
    content     everything else, in parallel
    rights      roles, bindings, CRDs, API services: programs outside may need them to finish the content

A finalizer holds an object until whoever put it there takes it away. In a tenant that goes, nobody may
be left to do that. The rule: ring0's own finalizers (`OURS`) are always waited for, ring0 is there to
serve them. Any other is taken away once the tenant has no pods left, so that none of its own programs
runs any more, and the object has been waiting for `FOREIGN_SECONDS` on top, the time of programs that
run elsewhere. Namespaces alone are emptied as in Kubernetes: they wait for all finalizers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from alcove.api import local_volumes, meta
from alcove.api.ids import GroupResource
from alcove.client.resources import PODS
from alcove.controllers.conditions import Condition
from alcove.controllers.metadata_cache import ObjectMetadata

FOREIGN_SECONDS = 30.0
DELETED_AT_ONCE_MAX = 500

OURS = frozenset(
    {
        "foregroundDeletion",
        "orphan",
        "kubernetes",
        "arktos",
        "kubernetes.io/pvc-protection",
        "kubernetes.io/pv-protection",
        "batch.kubernetes.io/job-tracking",
        "service.kubernetes.io/load-balancer-cleanup",
        "customresourcecleanup.apiextensions.k8s.io",
        "arktos.futurewei.com/network",
        local_volumes.FINALIZER,
    }
)
"""Finalizers that ring0's own processes serve. A controller that puts one on tenants' objects adds it."""

_ADMISSION, _CONTENT, _RIGHTS = range(3)
_STAGES = {
    GroupResource("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): _ADMISSION,
    GroupResource("admissionregistration.k8s.io", "validatingwebhookconfigurations"): _ADMISSION,
    GroupResource("admissionregistration.k8s.io", "validatingadmissionpolicies"): _ADMISSION,
    GroupResource("admissionregistration.k8s.io", "validatingadmissionpolicybindings"): _ADMISSION,
    GroupResource("rbac.authorization.k8s.io", "clusterroles"): _RIGHTS,
    GroupResource("rbac.authorization.k8s.io", "clusterrolebindings"): _RIGHTS,
    GroupResource("apiextensions.k8s.io", "customresourcedefinitions"): _RIGHTS,
    GroupResource("apiregistration.k8s.io", "apiservices"): _RIGHTS,
}


class ContentDeletionPlan(Struct, frozen=True):
    deletes: list[ObjectMetadata]
    releases: list[ObjectMetadata]
    """Their foreign finalizers are taken away."""
    waits_for: Sequence[ObjectMetadata]
    """Everything that is still there, those above included."""

    @property
    def is_empty(self) -> bool:
        return not self.waits_for

    @property
    def is_partial(self) -> bool:
        """There is more to delete than was taken at once."""
        return len(self.deletes) == DELETED_AT_ONCE_MAX


def of_namespace(content: Sequence[ObjectMetadata]) -> ContentDeletionPlan:
    """Pods go first, as in Kubernetes: while they run, nothing that protects or feeds them goes."""
    pods = [each for each in content if each.resource == PODS]
    return ContentDeletionPlan(_not_ending(pods or content), [], content)


def of_tenant(content: Sequence[ObjectMetadata], now: float) -> ContentDeletionPlan:
    """What is in namespaces goes with them; the namespace controller empties each."""
    if not content:
        return ContentDeletionPlan([], [], content)
    stages = {id(each): _STAGES.get(each.resource.group_resource, _CONTENT) for each in content}
    stage = min(stages.values())
    current = [each for each in content if stages[id(each)] == stage and not each.resource.namespaced]
    has_pods = any(each.resource == PODS for each in content)
    releases = [] if has_pods else [each for each in content if _is_abandoned(each, now)]
    return ContentDeletionPlan(_not_ending(current), releases, content)


def _not_ending(content: Iterable[ObjectMetadata]) -> list[ObjectMetadata]:
    return [each for each in content if not each.is_ending][:DELETED_AT_ONCE_MAX]


def _is_abandoned(known: ObjectMetadata, now: float) -> bool:
    if not known.is_ending or not foreign(known.finalizers):
        return False
    return now - meta.parse_time(known.metadata["deletionTimestamp"]) >= FOREIGN_SECONDS


def foreign(finalizers: Iterable[str]) -> list[str]:
    return [each for each in finalizers if each not in OURS]


def next_look_seconds(plan: ContentDeletionPlan, now: float) -> float:
    """When an abandoned finalizer may be taken away, if nothing happens before; at most a minute."""
    soonest = 60.0
    for each in plan.waits_for:
        if each.is_ending and foreign(each.finalizers):
            waited = now - meta.parse_time(each.metadata["deletionTimestamp"])
            soonest = min(soonest, max(FOREIGN_SECONDS - waited, 1.0))
    return soonest


def conditions(
    what: str, content: Sequence[ObjectMetadata], failures: Sequence[str], *, is_known: bool
) -> list[Condition]:
    """What a space's status says of its emptying; `what` is Namespace or Tenant."""
    space = what.lower()
    counts = Counter(_plural(each) for each in content)
    finalizers = Counter(name for each in content if each.is_ending for name in each.finalizers)
    found = Condition(
        f"{what}DeletionDiscoveryFailure",
        False,
        "ResourcesDiscovered",
        "All resources successfully discovered",
    )
    if not is_known:
        message = f"Not all resources of the {space} are known yet"
        found = Condition(f"{what}DeletionDiscoveryFailure", True, "DiscoveryFailed", message)
    deleted = Condition(
        f"{what}DeletionContentFailure",
        bool(failures),
        "ContentDeletionFailed" if failures else "ContentDeleted",
        f"Failed to delete all content: {'; '.join(failures)}"
        if failures
        else "All content successfully deleted, may be waiting on finalization",
    )
    remaining = Condition(
        f"{what}ContentRemaining",
        bool(counts),
        "SomeResourcesRemain" if counts else "ContentRemoved",
        _listed("Some resources are remaining: ", counts, "{} has {} resource instances")
        or "All content successfully removed",
    )
    held = Condition(
        f"{what}FinalizersRemaining",
        bool(finalizers),
        "SomeFinalizersRemain" if finalizers else "ContentHasNoFinalizers",
        _listed(
            f"Some content in the {space} has finalizers remaining: ",
            finalizers,
            "{} in {} resource instances",
        )
        or "All content-preserving finalizers finished",
    )
    return [found, deleted, remaining, held]


def _plural(known: ObjectMetadata) -> str:
    return f"{known.resource.resource}.{known.resource.group}"


def _listed(intro: str, counts: Counter[str], form: str) -> str:
    return intro + ", ".join(form.format(*each) for each in sorted(counts.items())) if counts else ""
