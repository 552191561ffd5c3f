"""What is deleted when, what is waited for, and which finalizers are taken away."""

from typing import Any

import pytest

from alcove.api import meta
from alcove.api.ids import TenantId
from alcove.client.keys import HOME, ObjectKey
from alcove.client.resources import (
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    NETWORKS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    SERVICES,
    Resource,
)
from alcove.controllers.content_deletion import (
    DELETED_AT_ONCE_MAX,
    FOREIGN_SECONDS,
    conditions,
    ends_stage,
    has_foreign,
    next_check_seconds,
    plan_for_namespace,
    plan_for_tenant,
)
from alcove.controllers.metadata_cache import ObjectMetadata

NOW = 1_700_000_000.0
WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    False,
)


def known(
    resource: Resource, name: str = "x", *finalizers: str, ending_for: float | None = None
) -> ObjectMetadata:
    metadata: dict[str, Any] = {"uid": name, "name": name, "finalizers": list(finalizers)}
    if ending_for is not None:
        metadata["deletionTimestamp"] = meta.format_time(NOW - ending_for)
    namespace = "default" if resource.namespaced else ""
    return ObjectMetadata(resource, ObjectKey(HOME, TenantId("a"), namespace, name), metadata)


def test_a_namespace_deletes_everything_at_once_but_not_twice() -> None:
    there, going = known(CONFIG_MAPS, "there"), known(CONFIG_MAPS, "going", ending_for=3)
    plan = plan_for_namespace([there, going])
    assert plan.deletes == [there] and list(plan.waits_for) == [there, going]
    assert plan_for_namespace([]).is_empty


def test_a_namespace_keeps_the_rest_until_its_pods_are_gone() -> None:
    pod, going, rest = known(PODS, "p"), known(PODS, "going", ending_for=3), known(CONFIG_MAPS, "rest")
    assert plan_for_namespace([rest, pod, going]).deletes == [pod]
    assert plan_for_namespace([rest, going]).deletes == []


def test_a_namespace_waits_for_foreign_finalizers_as_long_as_it_takes() -> None:
    held = known(CONFIG_MAPS, "held", "example.com/held", ending_for=1_000_000)
    assert plan_for_namespace([held]).releases == []


@pytest.mark.parametrize(
    ("content", "deleted"),
    [
        ([WEBHOOKS, NETWORKS, NAMESPACES, CLUSTER_ROLES], [WEBHOOKS]),
        ([NETWORKS, NAMESPACES, CLUSTER_ROLES], [NETWORKS, NAMESPACES]),
        ([CONFIG_MAPS, CLUSTER_ROLES], []),  # What is in namespaces goes with them.
        ([CLUSTER_ROLES], [CLUSTER_ROLES]),
    ],
)
def test_a_tenant_is_emptied_in_stages(content: list[Resource], deleted: list[Resource]) -> None:
    plan = plan_for_tenant([known(resource) for resource in content], NOW)
    assert [each.resource for each in plan.deletes] == deleted


def test_many_are_deleted_in_several_turns() -> None:
    plan = plan_for_namespace([known(CONFIG_MAPS, str(number)) for number in range(DELETED_AT_ONCE_MAX + 1)])
    assert len(plan.deletes) == DELETED_AT_ONCE_MAX and plan.is_partial


FOREIGN, OURS = "example.com/held", "foregroundDeletion"


@pytest.mark.parametrize(
    ("finalizers", "ending_for", "released"),
    [
        ((FOREIGN,), FOREIGN_SECONDS, True),
        ((FOREIGN, OURS), FOREIGN_SECONDS, True),
        ((FOREIGN,), FOREIGN_SECONDS - 1, False),
        ((OURS,), 1_000_000, False),
        ((FOREIGN,), None, False),
    ],
)
def test_only_abandoned_finalizers_are_taken_away(
    finalizers: tuple[str, ...], ending_for: float | None, released: bool
) -> None:
    held = known(CONFIG_MAPS, "held", *finalizers, ending_for=ending_for)
    assert (plan_for_tenant([held], NOW).releases == [held]) is released


@pytest.mark.parametrize(
    ("finalizer", "resource"),
    [
        ("kubernetes.io/pvc-protection", PERSISTENT_VOLUME_CLAIMS),
        ("kubernetes.io/pv-protection", PERSISTENT_VOLUMES),
        ("batch.kubernetes.io/job-tracking", PODS),
        ("arktos.futurewei.com/network", NETWORKS),
        ("alcove.io/local-volume", PERSISTENT_VOLUMES),
        ("customresourcecleanup.apiextensions.k8s.io", CUSTOM_RESOURCE_DEFINITIONS),
    ],
)
def test_a_tenant_cannot_stay_by_one_of_our_finalizers_on_a_kind_that_nobody_removes_it_from(
    finalizer: str, resource: Resource
) -> None:
    ours, theirs = known(resource, "ours", finalizer), known(CONFIG_MAPS, "theirs", finalizer)
    assert not has_foreign(ours) and has_foreign(theirs)


@pytest.mark.parametrize("finalizer", ["kubernetes", "arktos", "service.kubernetes.io/load-balancer-cleanup"])
def test_a_finalizer_that_no_process_of_ring0_removes_from_metadata_is_foreign(finalizer: str) -> None:
    assert has_foreign(known(SERVICES, "held", finalizer)) and has_foreign(known(NAMESPACES, "n", finalizer))


def test_as_long_as_pods_run_a_finalizers_owner_may_be_among_them() -> None:
    held = known(CONFIG_MAPS, "held", FOREIGN, ending_for=1_000_000)
    assert plan_for_tenant([held, known(PODS, ending_for=1)], NOW).releases == []


def test_the_next_look_is_when_the_first_finalizer_may_go() -> None:
    held = known(CONFIG_MAPS, "held", FOREIGN, ending_for=FOREIGN_SECONDS - 7)
    assert next_check_seconds(plan_for_tenant([held], NOW), NOW) == pytest.approx(7)
    assert next_check_seconds(plan_for_tenant([known(PODS)], NOW), NOW) == 60


def test_conditions_count_what_remains() -> None:
    content = [known(PODS, "a"), known(PODS, "b"), known(CONFIG_MAPS, "c", FOREIGN, ending_for=3)]
    found_conditions = {each.type: each for each in conditions("Namespace", content, ["no"], is_known=True)}
    assert found_conditions["NamespaceContentRemaining"].message == (
        "Some resources are remaining: configmaps. has 1 resource instances, pods. has 2 resource instances"
    )
    assert (
        "example.com/held in 1 resource instances" in found_conditions["NamespaceFinalizersRemaining"].message
    )
    assert found_conditions["NamespaceDeletionContentFailure"].status
    assert not found_conditions["NamespaceDeletionDiscoveryFailure"].status


def test_conditions_of_an_empty_space_are_all_false() -> None:
    assert not any(each.status for each in conditions("Tenant", [], [], is_known=True))
    assert conditions("Tenant", [], [], is_known=False)[0].status


@pytest.mark.parametrize(
    ("deleted", "remaining", "ends"),
    [
        (WEBHOOKS, (NAMESPACES, CLUSTER_ROLES), True),
        (NETWORKS, (NAMESPACES, CLUSTER_ROLES), False),
        (CONFIG_MAPS, (NAMESPACES, CLUSTER_ROLES), False),
        (NAMESPACES, (CLUSTER_ROLES,), True),
        (CONFIG_MAPS, (CLUSTER_ROLES,), True),
        (CLUSTER_ROLES, (CUSTOM_RESOURCE_DEFINITIONS,), False),
        (CLUSTER_ROLES, (), True),
    ],
)
def test_a_stage_ends_with_the_last_of_its_kinds(
    deleted: Resource, remaining: tuple[Resource, ...], ends: bool
) -> None:
    assert ends_stage(deleted, remaining) == ends
