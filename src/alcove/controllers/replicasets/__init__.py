"""ReplicaSets and ReplicationControllers: so many pods of a template, no more, no fewer."""

from alcove.controllers.replicasets.controller import ReplicaSets, ReplicationControllers

__all__ = ["ReplicaSets", "ReplicationControllers"]
