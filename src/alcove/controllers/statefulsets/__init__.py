"""StatefulSets: pods with names, claims and an order of their own."""

from alcove.controllers.statefulsets.controller import StatefulSetController

__all__ = ["StatefulSetController"]
