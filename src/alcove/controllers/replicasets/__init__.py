"""ReplicaSets and ReplicationControllers: keep a number of pods of a template running."""

from alcove.controllers.replicasets.controller import ReplicaSetController, ReplicationControllerController

__all__ = ["ReplicaSetController", "ReplicationControllerController"]
