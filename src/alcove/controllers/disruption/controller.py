"""The PodDisruptionBudget controller: finds a budget's pods and their controllers, and updates its status."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from alcove.api.objects import Object, get, labels
from alcove.api.selectors import EVERYTHING, LabelSelector
from alcove.client.changes import ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.mirror import Mirror
from alcove.client.resources import (
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result, controller_of
from alcove.controllers.disruption import budget as budgets
from alcove.controllers.disruption.budget import ExpectedPods
from alcove.controllers.workloads import pods
from alcove.controllers.workloads.selector_index import SelectorIndex


class DisruptionController(Controller):
    name = "disruption"
    resource = POD_DISRUPTION_BUDGETS
    workers = 8

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._budgets = self.mirror(POD_DISRUPTION_BUDGETS)
        self._pods = self.mirror(PODS)
        self._scalable = {
            each.kind: self.mirror(each)
            for each in (DEPLOYMENTS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS)
        }
        self._selectors = SelectorIndex(self._budgets)
        self.on(self._budgets)
        self.on(self._pods, self._budgets_of_pod)
        for mirror in self._scalable.values():
            self.on(mirror, self._budgets_of_template)

    def _budgets_of_pod(self, change: ObjectChange) -> Iterable[ObjectKey]:
        yield from self._selectors.matching(change.key, change.obj)
        old = change.old
        if old is not None and labels(old) != labels(change.obj):
            yield from self._selectors.matching(change.key, old)

    def _budgets_of_template(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """Budgets that select the pods of the changed workload, whose size may have changed."""
        template: Object = get(change.obj, "spec", "template", default={})
        return self._selectors.matching(change.key, template)

    async def reconcile(self, key: ObjectKey) -> Result:
        budget = self._budgets.get(key)
        if budget is None or "deletionTimestamp" in budget["metadata"]:
            return DONE
        covered = self._selected_pods(key, self._selectors.get(key))
        count = self._count(key, covered) if budgets.needs_scale(budget) else ExpectedPods(len(covered))
        if count.problem:
            self.events.warning(key.plane, budget, "CalculateExpectedPodCountFailed", count.problem)
        elif not covered:
            self.events.normal(key.plane, budget, "NoPods", "No matching pods found")
        now = self.clock()
        status = budgets.status(budget, covered, count, now)
        if status != budget.get("status"):
            budget["status"] = status
            # Includes the resourceVersion: an eviction in between must not be overwritten.
            await self.client(key).update(key.tenant, POD_DISRUPTION_BUDGETS, budget, subresource="status")
        return Result(budgets.next_check_seconds(status.get("disruptedPods") or {}, now))

    def _selected_pods(self, key: ObjectKey, selector: LabelSelector) -> list[Object]:
        selected = self._pods.list(key.plane, key.tenant, key.namespace)
        if selector is not EVERYTHING:
            selected = [pod for pod in selected if selector.matches(labels(pod))]
        return [pod for pod in selected if not pods.is_finished(pod)]

    def _count(self, key: ObjectKey, covered: Sequence[Object]) -> ExpectedPods:
        """The sum of the sizes of the pods' controllers, each counted once."""
        sizes: dict[str, int] = {}
        for pod in covered:
            top = self._top_controller(key, pod)
            if top is None:
                name = pod["metadata"]["name"]
                message = (
                    f'Failed to calculate the number of expected pods: found no controllers for pod "{name}"'
                )
                return ExpectedPods(0, message)
            sizes[top["metadata"]["uid"]] = get(top, "spec", "replicas", default=1)
        return ExpectedPods(sum(sizes.values()))

    def _top_controller(self, key: ObjectKey, obj: Object) -> Object | None:
        """The topmost controller of the object that has a size, such as the Deployment above a ReplicaSet."""
        top = None
        while (parent := self._controller(key, obj)) is not None:
            top = obj = parent
        return top

    def _controller(self, key: ObjectKey, obj: Object) -> Object | None:
        owner = controller_of(obj)
        mirror: Mirror | None = self._scalable.get(owner["kind"]) if owner is not None else None
        parent = mirror.get(key.of(owner["name"])) if mirror is not None and owner is not None else None
        return parent if parent is not None and owner and parent["metadata"]["uid"] == owner["uid"] else None
