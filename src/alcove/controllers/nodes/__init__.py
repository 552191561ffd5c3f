"""The life of nodes: who is heard of no more, what that keeps away, and what becomes of the pods there."""

from alcove.controllers.nodes.eviction import TaintEviction
from alcove.controllers.nodes.lifecycle import NodeLifecycle
from alcove.controllers.nodes.unready_pods import UnreadyPods

__all__ = ["NodeLifecycle", "TaintEviction", "UnreadyPods"]
