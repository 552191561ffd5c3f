"""A pod that names a RuntimeClass runs only where the node has proven its handler.

Kubernetes leaves this to labels; here strangers share nodes, so a sandbox that a node merely might
have is none.
"""

from alcove.scheduler.arrays import Bools, Rows
from alcove.scheduler.causes import Cause
from alcove.scheduler.filters.base import Filter, Scope
from alcove.scheduler.pods import Pod
from alcove.scheduler.world import World


class RuntimeHandler(Filter):
    name = "RuntimeHandler"
    scope = Scope.NODE
    reason = "node(s) didn't have the pod's runtime handler"
    cured_by = Cause.NODE_ADDED | Cause.NODE_HANDLERS | Cause.RUNTIME_CLASS

    def applies(self, world: World, pod: Pod) -> bool:
        return bool(pod.shape.runtime_class)

    def fault(self, world: World, pod: Pod) -> str:
        wanted = pod.shape.runtime_class
        if wanted in world.handlers.get(pod.tenant, {}):
            return ""
        return f'runtimeclass.node.k8s.io "{wanted}" not found'

    def passes(self, world: World, pod: Pod, rows: Rows) -> Bools:
        handler = world.handlers[pod.tenant][pod.shape.runtime_class]
        return world.nodes.handlers.test(lambda handlers: handler in handlers, rows)
