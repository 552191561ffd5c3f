"""The scores and their weights, which are kube-scheduler's defaults. The best node has the greatest sum."""

from alcove.scheduler.scores.balanced_allocation import BalancedAllocation
from alcove.scheduler.scores.base import Score
from alcove.scheduler.scores.image_locality import ImageLocality
from alcove.scheduler.scores.node_affinity import NodePreference
from alcove.scheduler.scores.node_resources import LeastAllocated
from alcove.scheduler.scores.pod_affinity import AffinityWish
from alcove.scheduler.scores.taint_toleration import TaintPreference
from alcove.scheduler.scores.topology_spread import SpreadWish

Weighted = tuple[tuple[Score, int], ...]

SCORES: Weighted = (
    (TaintPreference(), 3),
    (NodePreference(), 2),
    (LeastAllocated(), 1),
    (SpreadWish(), 2),
    (AffinityWish(), 2),
    (BalancedAllocation(), 1),
    (ImageLocality(), 1),
)
