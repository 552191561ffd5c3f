"""ReplicaSets and ReplicationControllers: so many pods of a template, no more, no fewer."""

from alcove.controllers.replicasets.controller import ReplicaSetController, ReplicationControllerController

__all__ = ["ReplicaSetController", "ReplicationControllerController"]
