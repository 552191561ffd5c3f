"""The scores with kube-scheduler's default weights. The best node has the largest sum."""

from alcove.scheduler.scores.balanced_allocation import BalancedAllocation
from alcove.scheduler.scores.base import Score
from alcove.scheduler.scores.image_locality import ImageLocality
from alcove.scheduler.scores.node_affinity import NodeAffinityScore
from alcove.scheduler.scores.node_resources import LeastAllocated
from alcove.scheduler.scores.pod_affinity import InterPodAffinityScore
from alcove.scheduler.scores.taint_toleration import TaintTolerationScore
from alcove.scheduler.scores.topology_spread import PodTopologySpreadScore

Weighted = tuple[tuple[Score, int], ...]

SCORES: Weighted = (
    (TaintTolerationScore(), 3),
    (NodeAffinityScore(), 2),
    (LeastAllocated(), 1),
    (PodTopologySpreadScore(), 2),
    (InterPodAffinityScore(), 2),
    (BalancedAllocation(), 1),
    (ImageLocality(), 1),
)
