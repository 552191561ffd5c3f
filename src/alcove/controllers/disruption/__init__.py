"""PodDisruptionBudgets: how many of an application's pods may be evicted now."""

from alcove.controllers.disruption.controller import DisruptionController

__all__ = ["DisruptionController"]
