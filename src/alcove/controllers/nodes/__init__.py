"""Node lifecycle: detects nodes that are lost, taints them, and evicts their pods."""

from alcove.controllers.nodes.eviction import TaintEviction
from alcove.controllers.nodes.lifecycle import NodeLifecycle
from alcove.controllers.nodes.unready_pods import UnreadyPods

__all__ = ["NodeLifecycle", "TaintEviction", "UnreadyPods"]
