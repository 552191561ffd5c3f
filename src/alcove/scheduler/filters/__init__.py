"""The filters in order of evaluation: a node's first refusal is the reported reason.

The order is kube-scheduler's, with RuntimeHandler added before the volume filters.
"""

from alcove.scheduler.filters.base import Filter
from alcove.scheduler.filters.node_affinity import NodeAffinity
from alcove.scheduler.filters.node_ports import NodePorts
from alcove.scheduler.filters.node_resources import NodeResourcesFit
from alcove.scheduler.filters.pod_affinity import InterPodAffinity
from alcove.scheduler.filters.runtime_class import RuntimeHandler
from alcove.scheduler.filters.taint_toleration import TaintToleration
from alcove.scheduler.filters.topology_spread import PodTopologySpread
from alcove.scheduler.filters.unschedulable import NodeUnschedulable
from alcove.scheduler.filters.volume_binding import VolumeBinding
from alcove.scheduler.filters.volume_restrictions import VolumeRestrictions
from alcove.scheduler.filters.volume_zone import VolumeZone

FILTERS: tuple[Filter, ...] = (
    NodeUnschedulable(),
    TaintToleration(),
    NodeAffinity(),
    RuntimeHandler(),
    NodePorts(),
    NodeResourcesFit(),
    VolumeRestrictions(),
    VolumeBinding(),
    VolumeZone(),
    PodTopologySpread(),
    InterPodAffinity(),
)
