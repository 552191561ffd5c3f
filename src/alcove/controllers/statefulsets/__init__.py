"""StatefulSets: pods with stable names and volume claims, created and updated in order."""

from alcove.controllers.statefulsets.controller import StatefulSetController

__all__ = ["StatefulSetController"]
