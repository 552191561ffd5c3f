"""Deleted objects leave nothing behind, in any order of events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.client.keys import PlaneId
from alcove.scheduler.decisions import BindPod
from alcove.scheduler.events import ObjectKind, SchedulerEvent
from alcove.testing.scheduling import Desk, node, pod


def _sizes(desk: Desk) -> dict[str, int]:
    core = desk.core
    observer = core._observer
    return {
        "accounts": len(core.fairness.accounts),
        "lines": len(core.queue._queues),
        "numbers": len(core.queue.blocked._numbers),
        "books": len(core.cache.affinity_indexes),
        "storages": len(core.cache.storages),
        "handlers": len(core.cache.handlers),
        "pods": len(core.tracker.pods),
        "budgets": len(observer._budgets),
        "victims": len(observer._victims),
        "placed": len(observer.preemption._placed),
    }


def _tenant(name: str) -> Object:
    return {"metadata": {"name": name}, "spec": {"weight": 2, "quota": {"min": {"cpu": "1"}}}}


def _live(desk: Desk, tenant: TenantId) -> list[Object]:
    """Something of every kind. Returns the pods: one is placed, one fits nowhere."""
    desk.see(ObjectKind.TENANT, _tenant(tenant), SYSTEM)
    desk.see(ObjectKind.RUNTIME_CLASS, {"metadata": {"name": "r"}, "handler": "h"}, tenant)
    desk.see(ObjectKind.CLAIM, {"metadata": {"name": "c", "namespace": "default"}, "spec": {}}, tenant)
    desk.see(ObjectKind.BUDGET, {"metadata": {"name": "b"}, "spec": {}}, tenant)
    pods = [desk.pod("fits", tenant, cpu="1"), desk.pod("huge", tenant, cpu="99")]
    for decision in desk.decide():
        if isinstance(decision, BindPod):
            desk.core.bound(decision.pod)
    return pods


@pytest.mark.parametrize("is_tenant_last", [True, False])
def test_nothing_is_kept_of_tenants_that_are_gone(is_tenant_last: bool) -> None:
    desk = Desk(node("n"))
    before = _sizes(desk)
    for number in range(3):
        tenant = TenantId(f"t{number}")
        endings = [(ObjectKind.POD, each, tenant) for each in _live(desk, tenant)]
        endings.insert(len(endings) if is_tenant_last else 0, (ObjectKind.TENANT, _tenant(tenant), SYSTEM))
        for kind, obj, whose in endings:
            desk.see(kind, obj, whose, gone=True)
        # Last news of what it had.
        desk.see(
            ObjectKind.CLAIM,
            {"metadata": {"name": "c", "namespace": "default"}, "spec": {}},
            tenant,
            gone=True,
        )
        desk.see(ObjectKind.NAMESPACE, {"metadata": {"name": "default"}}, tenant, gone=True)
        desk.see(ObjectKind.POD, pod("p"), tenant, gone=True)
    desk.decide()
    assert _sizes(desk) == before
    assert not any(desk.core.fairness._reserved.values())


def test_a_tenant_that_comes_again_begins_anew() -> None:
    desk = Desk(node("n"))
    tenant = TenantId("again")
    for _ in range(3):
        for each in _live(desk, tenant):
            desk.see(ObjectKind.POD, each, tenant, gone=True)
        desk.see(ObjectKind.TENANT, _tenant(tenant), SYSTEM, gone=True)
    _live(desk, tenant)
    assert desk.core.fairness.account(tenant).used == {"cpu": 1000, "pods": 1}


class _NotRead(dict[Any, Any]):
    """Fails when its elements are read one by one."""

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError("another tenant's pods were read")

    def values(self) -> Any:
        return iter(self)


class _NotReadSet(set[TenantId]):
    def __iter__(self) -> Iterator[TenantId]:
        raise AssertionError("all deleted tenants were read")


def test_the_end_of_one_tenants_plane_reads_no_other_tenants_pods() -> None:
    desk = Desk(node("n"))
    moving, other = TenantId("moving"), TenantId("other")
    plane = PlaneId("moving")
    desk.core.add_plane(plane, moving)
    desk.core.observe(SchedulerEvent(plane, moving, ObjectKind.POD, pod("p")))
    desk.pod("q", other)
    desk.core.tracker.pods[other] = _NotRead(desk.core.tracker.pods[other])
    desk.core.remove_plane(plane)
    assert not desk.core.tracker.pods[moving]
    assert len(desk.core.tracker.pods[other]) == 1


def test_a_pod_that_ends_asks_only_whether_its_own_tenant_was_deleted() -> None:
    desk = Desk(node("n"))
    leaving, other = TenantId("leaving"), TenantId("other")
    last = _live(desk, leaving)
    ending = desk.pod("p", other)
    desk.see(ObjectKind.TENANT, _tenant(leaving), SYSTEM, gone=True)
    observer = desk.core._observer
    observer._deleted_tenants = _NotReadSet(observer._deleted_tenants)
    desk.see(ObjectKind.POD, ending, other, gone=True)
    for each in last:
        desk.see(ObjectKind.POD, each, leaving, gone=True)
    assert leaving not in desk.core.tracker.pods
