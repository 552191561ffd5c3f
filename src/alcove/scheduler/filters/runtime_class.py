"""A pod that names a RuntimeClass runs only where the node has proven its handler.

Kubernetes leaves this to node labels. Here different tenants share nodes, so the sandbox must be proven. A handler that
no node has, and that nodes do not try to prove, would keep the pod waiting for good: as in Kubernetes, such a pod is
placed, and the node says in an event that it has no such handler.
"""

from alcove.api.runtime_handlers import HANDLERS
from alcove.scheduler.arrays import Bools, Rows
from alcove.scheduler.causes import WakeCause
from alcove.scheduler.filters.base import Filter, FilterScope
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.scheduler_cache import SchedulerCache


class RuntimeHandler(Filter):
    name = "RuntimeHandler"
    scope = FilterScope.WORLD
    reason = "node(s) didn't have the pod's runtime handler"
    cured_by = (
        WakeCause.NODE_ADDED | WakeCause.NODE_REMOVED | WakeCause.NODE_HANDLERS | WakeCause.RUNTIME_CLASS
    )

    def applies(self, cache: SchedulerCache, pod: SchedulerPod) -> bool:
        return bool(pod.shape.runtime_class)

    def fault(self, cache: SchedulerCache, pod: SchedulerPod) -> str:
        desired = pod.shape.runtime_class
        if desired in cache.handlers.get(pod.tenant, {}):
            return ""
        return f'runtimeclass.node.k8s.io "{desired}" not found'

    def passes(self, cache: SchedulerCache, pod: SchedulerPod, rows: Rows) -> Bools:
        handler = cache.handlers[pod.tenant][pod.shape.runtime_class]
        nodes = cache.nodes.handlers
        if handler not in HANDLERS and not nodes.any(lambda handlers: handler in handlers):
            return nodes.test(lambda _handlers: True, rows)
        return nodes.test(lambda handlers: handler in handlers, rows)
