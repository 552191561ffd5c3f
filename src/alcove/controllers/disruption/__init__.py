"""PodDisruptionBudgets: how many pods of an application may be evicted now."""

from alcove.controllers.disruption.controller import DisruptionController

__all__ = ["DisruptionController"]
