"""Causes: what can happen that may let a refused pod pass. Each filter names the ones that concern it."""

from enum import Flag, auto


class WakeCause(Flag):
    NODE_ADDED = auto()
    NODE_GREW = auto()
    """More of something is allocatable."""
    NODE_RELABELED = auto()
    NODE_RETAINTED = auto()
    """Taints or schedulability changed."""
    NODE_HANDLERS = auto()
    NODE_REMOVED = auto()
    ROOM = auto()
    """Something was given back on a node: resources, ports, disks."""
    POD_GONE = auto()
    """A pod of the tenant is no longer on its node."""
    POD_PLACED = auto()
    POD_RELABELED = auto()
    """A placed pod's labels changed, or a namespace's."""
    STORAGE = auto()
    """A claim, volume or storage class of the tenant changed."""
    RUNTIME_CLASS = auto()
    QUOTA = auto()
    """A tenant's limits or use changed."""
    NOTHING = 0
